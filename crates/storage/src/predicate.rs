//! What a reader wants to see: label and field selectors over what an [`Inspector`] finds in a value.
//!
//! Kept true: the [`Attributes`] of an object are those of its value, found by the inspector of its own store.

use crate::key::Key;
use keepwatch_apimachinery::selector::{FieldSelector, LabelSelector, Lookup};
use std::{
    collections::HashMap,
    error::Error,
    fmt,
    sync::atomic::{AtomicU8, AtomicU32, Ordering},
};

/// What storage and its readers may know of an object without knowing its kind.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// `metadata.uid`.
    pub uid: Option<Box<str>>,
    /// `metadata.labels`.
    pub labels: Pairs,
    /// The fields that field selectors may name, with their values.
    pub fields: Pairs,
    /// Where in the value a reader may put the object's version, if the kind has a place for it.
    pub version_at: Option<u32>,
    /// Whether the value carries a resourceVersion of its own, which a stored value must not.
    pub has_version: bool,
    /// Whose inspector found them. The store sets it; an [`Inspector`] leaves the default.
    pub found_by: StoreId,
    /// What readers have found out about the value since.
    pub marks: Marks,
}

/// What readers have found out about a value, so that none of them has to look again: eight flags. What each means is for
/// the owner of the inspector to say.
#[derive(Debug, Default)]
pub struct Marks(AtomicU8);

impl Marks {
    /// How many flags there are.
    pub const COUNT: usize = 8;

    /// Whether a flag is set. One that does not exist never is.
    pub fn is_set(&self, flag: usize) -> bool {
        flag < Self::COUNT && self.0.load(Ordering::Relaxed) & (1 << flag) != 0
    }

    /// Sets a flag, if it exists.
    pub fn set(&self, flag: usize) {
        if flag < Self::COUNT {
            self.0.fetch_or(1 << flag, Ordering::Relaxed);
        }
    }
}

impl Clone for Marks {
    fn clone(&self) -> Self {
        Self(AtomicU8::new(self.0.load(Ordering::Relaxed)))
    }
}

/// Equal if the same attributes were found, by whichever inspector.
impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        let Self { uid, labels, fields, version_at, has_version, found_by: _, marks: _ } = self;
        (uid, labels, fields) == (&other.uid, &other.labels, &other.fields)
            && (version_at, has_version) == (&other.version_at, &other.has_version)
    }
}

impl Eq for Attributes {}

/// Identifies a store, because another one may inspect the same value for other attributes: those of a kind that was defined
/// anew, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreId(u32);

impl StoreId {
    /// One that no other store of this process has.
    pub(crate) fn unique() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Attributes {
    /// How much memory they take beyond themselves.
    pub fn bytes(&self) -> usize {
        self.uid.as_ref().map_or(0, |uid| uid.len()) + self.labels.0.len() + self.fields.0.len()
    }
}

/// Names and texts, in one piece of memory: many objects are kept, and most have only a few short ones.
///
/// ```
/// use keepwatch_storage::Pairs;
///
/// let labels: Pairs = [("app", "web"), ("tier", "")].into_iter().collect();
/// assert_eq!((labels.get("app"), labels.get("tier"), labels.get("x")), (Some("web"), Some(""), None));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<[u8]>);

/// How many bytes of pairs are many. Those of an ordinary object have a few hundred.
const MANY_PAIRS_BYTES: usize = 2 << 10;
/// How many requirements are so many that it pays to sort an object's labels by name for one evaluation.
const MANY_REQUIREMENTS: usize = 32;

/// Before each pair: how long its name and its text are.
type Lengths = [u8; 8];

impl Pairs {
    /// The text of a name. Of two pairs with one name the first counts.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw().find(|(own, _)| *own == name.as_bytes()).map(|(_, value)| text(value))
    }

    /// All pairs in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.raw().map(|(name, value)| (text(name), text(value)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The texts by name, if there are so many that finding one takes long: an object may have thousands of labels, and a
    /// selector thousands of requirements.
    pub fn by_name_if_many(&self) -> Option<HashMap<&str, &str>> {
        if self.0.len() < MANY_PAIRS_BYTES {
            return None;
        }
        let mut by_name = HashMap::new();
        for (name, value) in self.iter() {
            by_name.entry(name).or_insert(value);
        }
        Some(by_name)
    }

    fn raw(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (lengths, more) = rest.split_first_chunk::<8>()?;
            let [a, b, c, d, e, f, g, h] = *lengths;
            let (name, more) = more.split_at(u32::from_le_bytes([a, b, c, d]) as usize);
            let (value, more) = more.split_at(u32::from_le_bytes([e, f, g, h]) as usize);
            rest = more;
            Some((name, value))
        })
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("only text was put in, and it comes out where it was put in")
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            let (name, value) = (name.as_ref(), value.as_ref());
            let length = |text: &str| u32::try_from(text.len()).expect("texts are short").to_le_bytes();
            let mut lengths = Lengths::default();
            lengths[..4].copy_from_slice(&length(name));
            lengths[4..].copy_from_slice(&length(value));
            bytes.extend_from_slice(&lengths);
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        Self(bytes.into())
    }
}

impl Lookup for Pairs {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name)
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Reads [`Attributes`] out of a value. Each resource has one, which knows its kind.
pub trait Inspector: Send + Sync {
    /// Fails if the value is not an object of the kind at all: such a value is never handed out.
    fn inspect(&self, key: &Key, value: &[u8]) -> Result<Attributes, Undecodable>;
}

/// A value is not what its kind needs.
#[derive(Debug)]
pub struct Undecodable(pub String);

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Undecodable {}

/// The selectors of a list or watch. The default lets everything pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Predicate {
    /// Over the object's labels.
    pub labels: LabelSelector,
    /// Over the object's selectable fields.
    pub fields: FieldSelector,
}

impl Predicate {
    /// Lets everything pass.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Whether it lets everything pass.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object passes. A field that the object lacks has the value "".
    pub fn matches(&self, attributes: &Attributes) -> bool {
        let is_long = self.labels.requirements().len() >= MANY_REQUIREMENTS;
        match is_long.then(|| attributes.labels.by_name_if_many()).flatten() {
            Some(labels) => self.matches_labels(&labels, attributes),
            None => self.matches_labels(&attributes.labels, attributes),
        }
    }

    /// The same for attributes whose labels are in `labels`, too, where they are found faster.
    pub fn matches_labels<L: Lookup>(&self, labels: &L, attributes: &Attributes) -> bool {
        self.labels.matches(labels) && self.fields.matches(&attributes.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stays_set_and_others_do_not_follow() {
        let marks = Marks::default();
        marks.set(0);
        marks.set(7);
        marks.set(8);
        let set: Vec<usize> = (0..10).filter(|flag| marks.clone().is_set(*flag)).collect();
        assert_eq!(set, [0, 7]);
    }

    /// A selector of 4,000 requirements was compared with an object of 10,000 labels for 0.2 s.
    #[test]
    fn many_labels_are_matched_as_few_are() {
        let names: Vec<_> = (0..1000).map(|number| format!("a{number}")).collect();
        let labels: Pairs = names.iter().map(|name| (name, "x")).chain([(&names[7], "second")]).collect();
        assert_eq!(labels.by_name_if_many().map(|labels| labels.len()), Some(1000));
        let attributes = Attributes { labels, ..Attributes::default() };
        let many = |last: &str| {
            let selector: String = (0..100).map(|number| format!("a{number}=x,!b{number},")).collect();
            LabelSelector::parse(&(selector + last)).unwrap()
        };
        for (last, matches) in [("a7=x", true), ("a7=second", false), ("b=x", false), ("c notin (x)", true)] {
            for labels in [many(last), LabelSelector::parse(last).unwrap()] {
                let predicate = Predicate { labels, ..Predicate::default() };
                assert_eq!(predicate.matches(&attributes), matches, "{last}");
            }
        }
        assert!([("app", "web")].into_iter().collect::<Pairs>().by_name_if_many().is_none());
    }

    /// There is one for each object in memory. With the two counters of an `Arc` they take a size class of 80 bytes.
    #[test]
    fn attributes_take_64_bytes() {
        assert_eq!(size_of::<Attributes>(), 64);
    }
}
