//! Reading, comparing and changing documents: the JSON of objects.
//!
//! A path is the names of fields with dots between them (`spec.template.metadata`). A `null` counts as not set, and a
//! field that is not set or has another type reads as the zero value of the requested type: normalised documents have
//! the right types. Keys of maps can have dots in them, so they are never part of a path: [`Fields::entry_text`] and
//! [`Node::entry`] take them as an argument of their own.

mod read;
mod edit;
mod compare;
mod node;
mod field_errors;

pub(crate) use self::{
    compare::{is_zero, same, same_except},
    edit::Edit,
    field_errors::FieldErrors,
    node::Node,
    read::Fields,
};

use serde_json::{Map, Value};

/// An object in a document.
pub(crate) type Object = Map<String, Value>;
