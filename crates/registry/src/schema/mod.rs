//! The types of the built-in kinds, and the form in which documents are stored.
//!
//! [`read`] parses JSON and reports duplicate fields; [`normalize`] converts a document to the form in which Kubernetes
//! writes its type: unknown fields are reported and removed, nulls and zeros that are not written are removed, zeros
//! that are always written are added, quantities and times get their canonical form; [`write()`] writes fields in the
//! order of the table. So two documents that mean the same are stored as the same bytes.

mod types;
mod path;
mod read;
mod normalize;
mod lenient;
mod strict;
mod write;
mod quantity;
mod time;

pub(crate) use lenient::lossy;
pub(crate) use normalize::{Decoder, absent, double, is_unwritten, json_schema, normalize_some, zero_value};
pub use normalize::{TypeError, normalize, zero};
pub use quantity::{InvalidQuantity, Quantity};
pub(crate) use read::{OBJECT_VALUES, count_values, read_some, read_untyped};
pub use read::{Problems, ReadError, VALUES_MAX, read, read_yaml};
pub(crate) use strict::{field_problems, operation_problems, yaml_duplicates};
pub use time::{Timestamp, micro_time, parse_time, time};
pub use types::{
    CUSTOM_OBJECT, Field, ListType, Merge, Presence, Shape, Type, TypeRef, ValueKind, all, lookup,
};
pub use write::write;
pub(crate) use write::{EmptyLists, ObjectWriter, write_any, write_list, write_stored, write_text};
