//! Lists: arrays of a document, and lists that expressions make.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Value, json};
use crate::declarations::Outcome;
use crate::schema::{Declared, ListType};

/// A list. Cheap to clone.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// An array of a document.
    Json {
        /// The items.
        items: &'a [Json],
        /// The schema of the list; `None`: there is none.
        declared: Option<&'a Declared>,
    },
    /// A list that an expression made.
    Values(Arc<Vec<Value<'a>>>),
}

impl<'a> List<'a> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Values(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The list type, which decides how equality and `+` treat the list.
    pub(crate) fn list_type(&self) -> &'a ListType {
        match self {
            Self::Json { declared: Some(declared), .. } => declared.list_type(),
            _ => &ListType::Atomic,
        }
    }

    /// An element. `None`: there are not so many.
    pub(crate) fn get(&self, index: usize) -> Option<Outcome<'a>> {
        match self {
            Self::Json { items, declared } => {
                Some(json::read(items.get(index)?, declared.and_then(Declared::items)))
            }
            Self::Values(values) => values.get(index).cloned().map(Ok),
        }
    }

    /// The elements.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The elements, or the first error in reading them.
    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>, crate::declarations::Failure> {
        self.iter().collect()
    }
}
