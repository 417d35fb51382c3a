//! The versions of an object in the history: the current version in full, older ones as the difference to the next
//! version.
//!
//! Most updates change a few bytes of an object. So the history of an object takes little more memory than the object
//! itself, and reading an old version costs one copy.
//!
//! Kept true: a version that is read equals the version that was stored, and is the same `Object` as long as another
//! reader holds it; a full version is at most [`DELTA_CHAIN_MAX`] versions away; locks are taken from older to newer
//! versions only, and none twice.

use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Attributes, Key, Object, Predicate, Version, WeakObject};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// The number of versions in a row that may be deltas.
const DELTA_CHAIN_MAX: u8 = 15;

/// One version of an object.
pub(crate) struct HistoryObject {
    pub(crate) key: Key,
    pub(crate) revision: ResourceVersion,
    /// The size of the value.
    pub(crate) value_bytes: usize,
    /// The number of versions since the last one that stays full.
    chain_position: u8,
    content: RwLock<Content>,
}

enum Content {
    Full(Object),
    Delta(Delta),
}

/// The difference of a version to the next one.
struct Delta {
    next: Arc<HistoryObject>,
    /// Absent if both versions have the same attributes.
    attributes: Option<Arc<Attributes>>,
    /// The lengths of the common prefix and suffix of the two values, and this version's bytes between them.
    prefix_len: usize,
    suffix_len: usize,
    changed_bytes: Box<[u8]>,
    /// The last object that was rebuilt, as long as a reader holds it.
    rebuilt: Mutex<WeakObject>,
}

impl HistoryObject {
    /// The version after `before`, if that one is in the history.
    pub(crate) fn new(object: Object, before: Option<&HistoryObject>) -> Self {
        let chain_position = before.map_or(0, |before| {
            if before.chain_position < DELTA_CHAIN_MAX { before.chain_position + 1 } else { 0 }
        });
        Self {
            key: object.key.clone(),
            revision: object.revision,
            value_bytes: object.value.len(),
            chain_position,
            content: RwLock::new(Content::Full(object)),
        }
    }

    /// Whether this is the same `Object`, and stored in full.
    pub(crate) fn is(&self, object: &Object) -> bool {
        matches!(&*self.content.read(), Content::Full(stored) if stored.is(object))
    }

    /// Stores this version as a delta to the next one, if that saves much.
    pub(crate) fn supersede(&self, next: &Arc<HistoryObject>) {
        if self.chain_position == DELTA_CHAIN_MAX {
            return;
        }
        let delta = match (&*self.content.read(), &*next.content.read()) {
            (Content::Full(older), Content::Full(newer)) => Delta::of(older, newer, next),
            _ => None,
        };
        if let Some(delta) = delta {
            *self.content.write() = Content::Delta(delta);
        }
    }

    pub(crate) fn object(&self) -> Object {
        let content = self.content.read();
        let delta = match &*content {
            Content::Full(object) => return object.clone(),
            Content::Delta(delta) => delta,
        };
        let mut rebuilt = delta.rebuilt.lock();
        rebuilt.upgrade().unwrap_or_else(|| {
            let object = Object::from(Version {
                key: self.key.clone(),
                value: delta.value().into(),
                revision: self.revision,
                attributes: delta.with_attributes(Arc::clone),
            });
            *rebuilt = object.downgrade();
            object
        })
    }

    pub(crate) fn matches(&self, predicate: &Predicate) -> bool {
        predicate.is_everything() || self.with_attributes(|attributes| predicate.matches(attributes))
    }

    /// The memory that this version takes once it is not current any more.
    pub(crate) fn bytes(&self) -> usize {
        match &*self.content.read() {
            Content::Full(object) => object.value.len() + object.attributes.bytes(),
            Content::Delta(delta) => {
                delta.changed_bytes.len()
                    + delta.attributes.as_ref().map_or(0, |attributes| attributes.bytes())
            }
        }
    }

    fn with_attributes<T>(&self, read: impl FnOnce(&Arc<Attributes>) -> T) -> T {
        match &*self.content.read() {
            Content::Full(object) => read(&object.attributes),
            Content::Delta(delta) => delta.with_attributes(read),
        }
    }

    fn value(&self) -> Vec<u8> {
        match &*self.content.read() {
            Content::Full(object) => object.value.to_vec(),
            Content::Delta(delta) => delta.value(),
        }
    }
}

impl Delta {
    fn of(older: &Object, newer: &Object, next: &Arc<HistoryObject>) -> Option<Self> {
        let prefix_len = common_prefix_len(&older.value, &newer.value);
        let suffix_len = common_suffix_len(&older.value[prefix_len..], &newer.value[prefix_len..]);
        let changed_bytes = &older.value[prefix_len..older.value.len() - suffix_len];
        (changed_bytes.len() < older.value.len() / 2).then(|| Self {
            next: Arc::clone(next),
            attributes: (older.attributes != newer.attributes).then(|| older.attributes.clone()),
            prefix_len,
            suffix_len,
            changed_bytes: changed_bytes.into(),
            rebuilt: Mutex::new(older.downgrade()),
        })
    }

    fn with_attributes<T>(&self, read: impl FnOnce(&Arc<Attributes>) -> T) -> T {
        match &self.attributes {
            Some(attributes) => read(attributes),
            None => self.next.with_attributes(read),
        }
    }

    fn value(&self) -> Vec<u8> {
        let mut value = self.next.value();
        let end = value.len() - self.suffix_len;
        value.splice(self.prefix_len..end, self.changed_bytes.iter().copied());
        value
    }
}

/// The number of bytes that are compared at a time while they are equal.
const COMPARED_BYTES: usize = 128;

fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.chunks(COMPARED_BYTES).zip(b.chunks(COMPARED_BYTES));
    let same = chunks.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

fn common_suffix_len(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.rchunks(COMPARED_BYTES).zip(b.rchunks(COMPARED_BYTES));
    let same: usize = chunks.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
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
        Version {
            key: Key::from_backend("/r/a"),
            value: value.to_vec().into(),
            revision,
            attributes: attributes.into(),
        }
        .into()
    }

    /// Records all versions, each superseded by the next.
    fn record_all(objects: &[Object]) -> Vec<Arc<HistoryObject>> {
        let mut all: Vec<Arc<HistoryObject>> = Vec::new();
        for object in objects {
            let version = Arc::new(HistoryObject::new(object.clone(), all.last().map(|before| &**before)));
            if let Some(before) = all.last() {
                before.supersede(&version);
            }
            all.push(version);
        }
        all
    }

    fn is_full(version: &Arc<HistoryObject>) -> bool {
        matches!(&*version.content.read(), Content::Full(_))
    }

    proptest! {
        /// Every version is returned as it was stored, even if no reader holds it any more.
        #[test]
        fn every_version_is_returned_unchanged(
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
            let recorded = record_all(&objects.collect::<Vec<_>>());
            for ((version, (value, label)), n) in recorded.iter().zip(&expected).zip(1..) {
                prop_assert_eq!(version.object(), object(n, value, label));
            }
        }

        #[test]
        fn common_prefixes_and_suffixes_are_found(a in vec(0_u8..2, 0..400), b in vec(0_u8..2, 0..400), same in vec(0_u8..2, 0..400)) {
            let (front, back) = ([&same[..], &a].concat(), [&same[..], &b].concat());
            let plain = front.iter().zip(&back).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_prefix_len(&front, &back), plain);
            let (front, back) = ([&a[..], &same].concat(), [&b[..], &same].concat());
            let plain = front.iter().rev().zip(back.iter().rev()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_suffix_len(&front, &back), plain);
        }
    }

    /// Objects of a thousand bytes, of which one byte differs between versions.
    fn updates(count: u64) -> Vec<Object> {
        let value = |n: u64| [&[b'x'; 500][..], &[n as u8], &[b'y'; 500]].concat();
        (1..=count).map(|n| object(n, &value(n), "same")).collect()
    }

    #[test]
    fn an_update_takes_only_the_bytes_that_it_changed() {
        let recorded = record_all(&updates(100));
        let full = recorded.iter().filter(|version| is_full(version)).count();
        assert_eq!(full, 100 / (usize::from(DELTA_CHAIN_MAX) + 1) + 1);
        assert!(recorded.iter().filter(|version| !is_full(version)).all(|version| version.bytes() == 1));
    }

    #[test]
    fn a_version_still_in_use_is_shared_with_later_readers() {
        let objects = updates(3);
        let recorded = record_all(&objects);
        assert!(!is_full(&recorded[0]) && recorded[0].object().is(&objects[0]));
        drop(objects);
        let rebuilt = recorded[0].object();
        assert!(recorded[0].object().is(&rebuilt));
    }

    #[test]
    fn a_version_with_little_in_common_with_the_next_stays_full() {
        let recorded = record_all(&[object(1, &[1; 100], ""), object(2, &[2; 100], ""), object(3, b"", "")]);
        assert!(recorded.iter().all(is_full));
    }

    #[test]
    fn a_selector_matches_the_attributes_of_the_version() {
        let recorded =
            record_all(&[object(1, &[1; 100], "a"), object(2, &[1; 100], "b"), object(3, &[1; 100], "b")]);
        let labels = LabelSelector::parse("l=b").unwrap();
        let predicate = Predicate { labels, ..Predicate::default() };
        assert_eq!([0, 1, 2].map(|n: usize| recorded[n].matches(&predicate)), [false, true, true]);
    }
}
