//! What the built-in kinds look like, and the one way from what clients send to what is stored.
//!
//! [`read`] makes a document of JSON text and tells of fields given twice; [`normalize`] gives it the form that its type
//! has when Kubernetes writes it: unknown fields dropped and told, nulls and zeros that are not written removed, zeros
//! that always are put in, quantities and times spelled as usual; [`write()`] puts fields in the order of the table. So
//! two documents that mean the same are stored as the same bytes.

mod types;
mod document;
mod lenient;
mod strict;
mod write;
mod quantity;
mod time;

pub(crate) use document::{
    Decoder, OBJECT_VALUES, absent, count_values, double, is_unwritten, json_schema, normalize_some,
    read_some, zero_value,
};
pub use document::{Problems, ReadError, TypeError, VALUES_MAX, normalize, read, read_yaml, zero};
pub(crate) use lenient::lossy;
pub use quantity::{InvalidQuantity, Quantity};
pub(crate) use strict::{field_problems, operation_problems, yaml_duplicates};
pub use time::{Timestamp, micro_time, parse_time, time};
pub use types::{Field, ListType, Merge, Presence, Shape, Type, TypeRef, ValueKind, all, lookup};
pub use write::write;
pub(crate) use write::{ObjectWriter, write_any, write_list, write_stored, write_text};
