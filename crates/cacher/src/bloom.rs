//! Bloom filters that skip most of the objects that a selector does not match.
//!
//! Each object has a few bits for each of its labels and fields. An exact value in a selector has the same bits, so an
//! object that lacks one of them cannot match. Evaluating a selector would have to fetch the object and its labels into
//! the processor's caches, and those cache misses are most of the cost of a list that returns little.
//!
//! Kept true: the filter matches every object that the predicate matches. A false positive costs time only, because the
//! predicate is evaluated afterwards.

use keepwatch_apimachinery::selector::Comparison;
use keepwatch_storage::{Attributes, Object, Predicate};

/// The bits of an object's labels and of its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BloomBits {
    labels: u64,
    fields: u64,
}

impl BloomBits {
    pub(crate) fn of(attributes: &Attributes) -> Self {
        let all = |bits, (name, value)| bits | bits_of(name, value);
        Self { labels: attributes.labels.iter().fold(0, all), fields: attributes.fields.iter().fold(0, all) }
    }
}

/// A predicate, prepared for many objects.
pub(crate) struct PredicateFilter<'a> {
    predicate: &'a Predicate,
    is_everything: bool,
    fields: u64,
    labels: u64,
    /// One entry for each label that may have one of several values.
    labels_any: Vec<Vec<u64>>,
}

impl<'a> PredicateFilter<'a> {
    pub(crate) fn new(predicate: &'a Predicate) -> Self {
        let mut filter = Self {
            predicate,
            is_everything: predicate.is_everything(),
            fields: 0,
            labels: 0,
            labels_any: Vec::new(),
        };
        for term in predicate.fields.terms() {
            // A field that is absent has the value "", so this value needs no bits.
            if term.comparison == Comparison::Equal && !term.value.is_empty() {
                filter.fields |= bits_of(&term.field, &term.value);
            }
        }
        for requirement in predicate.labels.requirements() {
            match requirement.accepted() {
                Some([only]) => filter.labels |= bits_of(requirement.key(), only),
                Some(several) => {
                    let bits = several.iter().map(|value| bits_of(requirement.key(), value));
                    filter.labels_any.push(bits.collect());
                }
                None => {}
            }
        }
        filter
    }

    /// The number of objects that may be examined where `max` may be with a short selector: the cost of an object grows
    /// with the number of terms, of which a client may send thousands.
    pub(crate) fn examined_max(&self, max: usize) -> usize {
        const TERMS_OF_A_SHORT_SELECTOR: usize = 64;
        let terms = self.predicate.labels.requirements().len() + self.predicate.fields.terms().len();
        max.div_ceil(1 + terms / TERMS_OF_A_SHORT_SELECTOR)
    }

    /// Whether the predicate matches an object with these bits.
    pub(crate) fn matches(&self, bits: BloomBits, object: &Object) -> bool {
        self.is_everything || (self.may_match(bits) && self.predicate.matches(&object.attributes))
    }

    fn may_match(&self, bits: BloomBits) -> bool {
        let has = |wanted: &u64| bits.labels & wanted == *wanted;
        bits.fields & self.fields == self.fields
            && has(&self.labels)
            && self.labels_any.iter().all(|values| values.iter().any(has))
    }
}

/// Sets three bits for a name with a value. A collision costs one evaluation of the predicate.
fn bits_of(name: &str, value: &str) -> u64 {
    let hash = mix(mix(0, name.as_bytes()), value.as_bytes());
    (1 << (hash & 63)) | (1 << ((hash >> 6) & 63)) | (1 << ((hash >> 12) & 63))
}

/// Multiplies eight bytes at a time into a number whose high bits depend on all of them.
fn mix(seed: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = seed ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(ODD).rotate_left(29);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepwatch_apimachinery::{
        ResourceVersion,
        selector::{FieldSelector, LabelSelector},
    };
    use keepwatch_storage::{Key, Version};

    fn object(labels: &[(&str, &str)], fields: &[(&str, &str)]) -> Object {
        let attributes = Attributes {
            labels: labels.iter().copied().collect(),
            fields: fields.iter().copied().collect(),
            ..Attributes::default()
        };
        let revision = ResourceVersion::new(2).unwrap();
        Version { key: Key::from_backend("/a"), value: "{}".into(), revision, attributes: attributes.into() }
            .into()
    }

    fn predicate(labels: &str, fields: &str) -> Predicate {
        Predicate {
            labels: LabelSelector::parse(labels).unwrap(),
            fields: FieldSelector::parse(fields).unwrap(),
        }
    }

    #[test]
    fn the_filter_passes_every_object_that_a_predicate_matches() {
        let apps = [None, Some("web"), Some("db"), Some("")];
        let nodes = [None, Some("n1"), Some("")];
        for labels in ["", "app=web", "app in (web,db)", "app=", "app!=web", "app", "!app", "app notin (db)"]
        {
            for fields in ["", "spec.nodeName=n1", "spec.nodeName=", "spec.nodeName!=n1"] {
                let predicate = predicate(labels, fields);
                let filter = PredicateFilter::new(&predicate);
                for (app, node) in apps.iter().flat_map(|app| nodes.iter().map(move |node| (app, node))) {
                    let labels: Vec<_> = app.map(|app| ("app", app)).into_iter().collect();
                    let fields: Vec<_> = node.map(|node| ("spec.nodeName", node)).into_iter().collect();
                    let object = object(&labels, &fields);
                    let matches = filter.matches(BloomBits::of(&object.attributes), &object);
                    assert_eq!(matches, predicate.matches(&object.attributes), "{predicate:?} {object:?}");
                }
            }
        }
    }

    #[test]
    fn false_positives_are_rare() {
        let predicate = predicate("app=nothing", "");
        let filter = PredicateFilter::new(&predicate);
        let false_positives = (0..10_000).filter(|number| {
            let app = format!("app-{}", number % 500);
            let pod = format!("pod-{number}");
            let object = object(&[("app", &app), ("tier", "backend"), ("pod", &pod), ("zone", "a")], &[]);
            filter.may_match(BloomBits::of(&object.attributes))
        });
        let false_positives = false_positives.count();
        assert!(false_positives < 300, "{false_positives} of 10,000");
    }
}
