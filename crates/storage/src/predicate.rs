//! What a reader wants to see: label and field selectors over what an [`Inspector`] finds in a value.
//!
//! Kept true: a value is inspected once per read of it, and its [`Attributes`] travel with the object.

use crate::key::Key;
use keepwatch_apimachinery::selector::{FieldSelector, LabelSelector};
use std::{collections::BTreeMap, error::Error, fmt};

/// What storage and its readers may know of an object without knowing its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// The fields that field selectors may name, with their values.
    pub fields: BTreeMap<String, String>,
    /// Whether the value carries a resourceVersion of its own, which a stored value must not.
    pub has_version: bool,
}

/// Reads [`Attributes`] out of a value. One per resource, from whoever knows the kind.
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
#[derive(Clone, Debug, Default)]
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
        self.labels.matches(&attributes.labels) && self.fields.matches(&attributes.fields)
    }
}
