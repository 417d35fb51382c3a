//! The objects that a client wants: by label ([`label`]) and by field ([`field`]).
//!
//! Both kinds of selector are lists of terms that must all hold, kept sorted by what they look at, so
//! that equal selectors print alike. Matching borrows and never allocates.

pub mod field;
pub mod label;
mod names;

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

pub use field::{Comparison, FieldSelector, FieldTerm, InvalidFieldSelector};
pub use label::{InvalidLabelSelector, LabelSelector, Operator, Requirement};
pub use names::{key_faults, value_faults};

/// A set of named texts that a selector can look into: the labels or the fields of one object.
pub trait Lookup {
    /// The text under `name`, if there is one.
    fn lookup(&self, name: &str) -> Option<&str>;
}

impl<T: Lookup + ?Sized> Lookup for &T {
    fn lookup(&self, name: &str) -> Option<&str> {
        (**self).lookup(name)
    }
}

impl<K: Borrow<str> + Ord, V: AsRef<str>> Lookup for BTreeMap<K, V> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name).map(AsRef::as_ref)
    }
}

impl<K: Borrow<str> + Eq + Hash, V: AsRef<str>> Lookup for HashMap<K, V> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name).map(AsRef::as_ref)
    }
}

/// In any order; the first entry of a name counts.
impl<K: AsRef<str>, V: AsRef<str>> Lookup for [(K, V)] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| key.as_ref() == name).map(|(_, value)| value.as_ref())
    }
}

/// In any order; the first entry of a name counts.
impl<K: AsRef<str>, V: AsRef<str>, const N: usize> Lookup for [(K, V); N] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.as_slice().lookup(name)
    }
}
