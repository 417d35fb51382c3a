//! Objects as the history keeps them: whole while they are current, later only as what the next version has changed.
//!
//! Most updates change a few bytes of an object. So the history of an object costs little more than the object itself,
//! and reading it costs a copy.
//!
//! Kept true: what is handed out is what was put in, and the very same as long as somebody still has it; a whole version
//! is at most [`STEPS_MAX`] versions away; locks are taken from older to newer versions only, and none twice.

use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Attributes, Key, Object, Predicate, Version, WeakObject};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// How many versions in a row are not whole.
const STEPS_MAX: u8 = 15;

/// One version of an object.
pub(crate) struct Kept {
    pub(crate) key: Key,
    pub(crate) revision: ResourceVersion,
    /// How many bytes its value has.
    pub(crate) value_bytes: usize,
    /// How many versions after the last one that stays whole.
    step: u8,
    form: RwLock<Form>,
}

enum Form {
    Whole(Object),
    Changed(Changed),
}

/// How to make a version of the next one.
struct Changed {
    next: Arc<Kept>,
    /// Absent if they are the same.
    attributes: Option<Box<Attributes>>,
    /// How many bytes are the same at the beginning and at the end of the value, and those between.
    begin: usize,
    end: usize,
    between: Box<[u8]>,
    /// What was handed out last.
    made: Mutex<WeakObject>,
}

impl Kept {
    /// The version after another one, if that is kept, too.
    pub(crate) fn new(object: Object, before: Option<&Kept>) -> Self {
        let step = before.map_or(0, |before| if before.step < STEPS_MAX { before.step + 1 } else { 0 });
        Self {
            key: object.key.clone(),
            revision: object.revision,
            value_bytes: object.value.len(),
            step,
            form: RwLock::new(Form::Whole(object)),
        }
    }

    /// Whether it is that very object, and whole.
    pub(crate) fn is(&self, object: &Object) -> bool {
        matches!(&*self.form.read(), Form::Whole(own) if own.is(object))
    }

    /// From now on only what the next version has changed is kept, if that is much less.
    pub(crate) fn supersede(&self, next: &Arc<Kept>) {
        if self.step == STEPS_MAX {
            return;
        }
        let changed = match (&*self.form.read(), &*next.form.read()) {
            (Form::Whole(own), Form::Whole(newer)) => Changed::of(own, newer, next),
            _ => None,
        };
        if let Some(changed) = changed {
            *self.form.write() = Form::Changed(changed);
        }
    }

    pub(crate) fn object(&self) -> Object {
        let form = self.form.read();
        let changed = match &*form {
            Form::Whole(object) => return object.clone(),
            Form::Changed(changed) => changed,
        };
        let mut made = changed.made.lock();
        made.upgrade().unwrap_or_else(|| {
            let object = Object::from(Version {
                key: self.key.clone(),
                value: changed.value().into(),
                revision: self.revision,
                attributes: changed.with_attributes(Attributes::clone),
            });
            *made = object.downgrade();
            object
        })
    }

    pub(crate) fn matches(&self, predicate: &Predicate) -> bool {
        predicate.is_everything() || self.with_attributes(|attributes| predicate.matches(attributes))
    }

    /// What keeping it costs once it is not current.
    pub(crate) fn bytes(&self) -> usize {
        match &*self.form.read() {
            Form::Whole(object) => object.value.len() + object.attributes.bytes(),
            Form::Changed(changed) => {
                changed.between.len() + changed.attributes.as_ref().map_or(0, |attributes| attributes.bytes())
            }
        }
    }

    fn with_attributes<T>(&self, look: impl FnOnce(&Attributes) -> T) -> T {
        match &*self.form.read() {
            Form::Whole(object) => look(&object.attributes),
            Form::Changed(changed) => changed.with_attributes(look),
        }
    }

    fn value(&self) -> Vec<u8> {
        match &*self.form.read() {
            Form::Whole(object) => object.value.to_vec(),
            Form::Changed(changed) => changed.value(),
        }
    }
}

impl Changed {
    fn of(own: &Object, newer: &Object, next: &Arc<Kept>) -> Option<Self> {
        let begin = same_at_the_beginning(&own.value, &newer.value);
        let end = same_at_the_end(&own.value[begin..], &newer.value[begin..]);
        let between = &own.value[begin..own.value.len() - end];
        (between.len() < own.value.len() / 2).then(|| Self {
            next: Arc::clone(next),
            attributes: (own.attributes != newer.attributes).then(|| Box::new(own.attributes.clone())),
            begin,
            end,
            between: between.into(),
            made: Mutex::new(own.downgrade()),
        })
    }

    fn with_attributes<T>(&self, look: impl FnOnce(&Attributes) -> T) -> T {
        match &self.attributes {
            Some(attributes) => look(attributes),
            None => self.next.with_attributes(look),
        }
    }

    fn value(&self) -> Vec<u8> {
        let mut value = self.next.value();
        let end = value.len() - self.end;
        value.splice(self.begin..end, self.between.iter().copied());
        value
    }
}

/// How many bytes are compared at a time, as long as they are the same.
const COMPARED_BYTES: usize = 128;

fn same_at_the_beginning(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.chunks(COMPARED_BYTES).zip(b.chunks(COMPARED_BYTES));
    let same = pieces.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

fn same_at_the_end(a: &[u8], b: &[u8]) -> usize {
    let pieces = a.rchunks(COMPARED_BYTES).zip(b.rchunks(COMPARED_BYTES));
    let same: usize = pieces.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    let (a, b) = (&a[..a.len() - same], &b[..b.len() - same]);
    same + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepwatch_apimachinery::selector::LabelSelector;
    use proptest::{collection::vec, prelude::*};

    fn object(revision: u64, value: &[u8], label: &str) -> Object {
        let attributes = Attributes { labels: [("l", label)].into_iter().collect(), ..Attributes::default() };
        let revision = ResourceVersion::new(revision).unwrap();
        Version { key: Key::from_backend("/r/a"), value: value.to_vec().into(), revision, attributes }.into()
    }

    /// All versions, each superseded by the next.
    fn keep(objects: &[Object]) -> Vec<Arc<Kept>> {
        let mut all: Vec<Arc<Kept>> = Vec::new();
        for object in objects {
            let kept = Arc::new(Kept::new(object.clone(), all.last().map(|before| &**before)));
            if let Some(before) = all.last() {
                before.supersede(&kept);
            }
            all.push(kept);
        }
        all
    }

    fn is_whole(kept: &Arc<Kept>) -> bool {
        matches!(&*kept.form.read(), Form::Whole(_))
    }

    proptest! {
        /// Whatever the versions look like, each is handed out as it was put in, also when nobody has it any more.
        #[test]
        fn every_version_is_what_it_was(
            versions in vec((vec(0_u8..3, 0..600), 0_u8..2), 1..40),
            edits in vec((any::<prop::sample::Index>(), 0_u8..4), 40),
        ) {
            let mut value = vec![7; 300];
            let mut expected = Vec::new();
            for (number, (fresh, label)) in versions.iter().enumerate() {
                let (at, how) = &edits[number];
                match how {
                    0 => value = fresh.clone(),
                    1 if !value.is_empty() => drop(value.remove(at.index(value.len()))),
                    2 => value.insert(at.index(value.len() + 1), 9),
                    _ => {}
                }
                expected.push((value.clone(), label.to_string()));
            }
            let objects = expected.iter().zip(1..).map(|((value, label), n)| object(n, value, label));
            let kept = keep(&objects.collect::<Vec<_>>());
            for ((kept, (value, label)), n) in kept.iter().zip(&expected).zip(1..) {
                prop_assert_eq!(kept.object(), object(n, value, label));
            }
        }

        #[test]
        fn what_is_the_same_is_found(a in vec(0_u8..2, 0..400), b in vec(0_u8..2, 0..400), same in vec(0_u8..2, 0..400)) {
            let (front, back) = ([&same[..], &a].concat(), [&same[..], &b].concat());
            let plain = front.iter().zip(&back).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(same_at_the_beginning(&front, &back), plain);
            let (front, back) = ([&a[..], &same].concat(), [&b[..], &same].concat());
            let plain = front.iter().rev().zip(back.iter().rev()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(same_at_the_end(&front, &back), plain);
        }
    }

    /// A thousand bytes of which one differs from version to version.
    fn updates(count: u64) -> Vec<Object> {
        let value = |n: u64| [&[b'x'; 500][..], &[n as u8], &[b'y'; 500]].concat();
        (1..=count).map(|n| object(n, &value(n), "same")).collect()
    }

    #[test]
    fn an_update_costs_what_it_changed() {
        let kept = keep(&updates(100));
        let whole = kept.iter().filter(|kept| is_whole(kept)).count();
        assert_eq!(whole, 100 / (usize::from(STEPS_MAX) + 1) + 1);
        assert!(kept.iter().filter(|kept| !is_whole(kept)).all(|kept| kept.bytes() == 1));
    }

    #[test]
    fn who_still_has_a_version_has_the_one_that_others_are_given() {
        let objects = updates(3);
        let kept = keep(&objects);
        assert!(!is_whole(&kept[0]) && kept[0].object().is(&objects[0]));
        drop(objects);
        let made = kept[0].object();
        assert!(kept[0].object().is(&made));
    }

    #[test]
    fn a_version_that_has_little_in_common_with_the_next_stays_whole() {
        let kept = keep(&[object(1, &[1; 100], ""), object(2, &[2; 100], ""), object(3, b"", "")]);
        assert!(kept.iter().all(is_whole));
    }

    #[test]
    fn selectors_see_what_a_version_had() {
        let kept = keep(&[object(1, &[1; 100], "a"), object(2, &[1; 100], "b"), object(3, &[1; 100], "b")]);
        let labels = LabelSelector::parse("l=b").unwrap();
        let predicate = Predicate { labels, ..Predicate::default() };
        assert_eq!([0, 1, 2].map(|n: usize| kept[n].matches(&predicate)), [false, true, true]);
    }
}
