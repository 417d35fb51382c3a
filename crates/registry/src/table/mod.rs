//! Objects as table rows: the columns and cells of `kubectl get` for every built-in kind.
//!
//! Kept true: an object has as many cells as its kind has columns, the wide ones included; a document of any shape has
//! a row, in which fields that are absent or of another type count as not set. A kind without columns of its own has
//! its name and creation time.
//!
//! Not here: the Table around the rows, and cells that depend on the other rows of a list.

pub(crate) mod words;
pub(crate) mod workloads;
pub(crate) mod cluster;
pub(crate) mod network;
mod scale;
#[cfg(test)]
pub(crate) mod tests;

/// The description of the column with the name, for kinds that have no other.
pub(crate) const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
    may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// The description of the column with the age, for kinds that have no other.
pub(crate) const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
    guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

pub use scale::{scale_cells, scale_columns};
pub use words::{age, duration};

use crate::{document::Fields, kind::Kind, schema::Timestamp};
use serde_json::Value;
use std::borrow::Cow;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: Cow<'static, str>,
    /// The type that it is announced with: `string`, `integer`, `boolean` or `date`. A cell may hold another.
    pub kind: &'static str,
    /// More about the type: `name` if the cells name the objects, else empty.
    pub format: &'static str,
    /// The description of the column.
    pub description: Cow<'static, str>,
    /// 0 if it is always shown, 1 if it is shown in wide output only.
    pub priority: i32,
}

/// The contents of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// A cell for every column.
    pub cells: Vec<Value>,
    /// The conditions of the row, as a list.
    pub conditions: Option<Value>,
}

/// The columns of the objects of a kind.
pub fn columns(kind: &Kind) -> &[Column] {
    kind.strategy.columns()
}

/// The row of an object.
pub fn cells(kind: &Kind, document: &Value, now: Timestamp) -> Cells {
    Cells { cells: kind.strategy.cells(document, now), conditions: kind.strategy.row_conditions(document) }
}

/// The columns of a kind without columns of its own.
pub(crate) const NAME_AND_CREATION: &[Column] =
    &[NAME, column("Created At", "date", "When the object was created")];

/// The cells for [`NAME_AND_CREATION`].
pub(crate) fn name_and_creation(document: &Value) -> Vec<Value> {
    row![document.name(), created_at(document)]
}

/// The creation time of an object; Go's zero time if there is none.
pub(crate) fn created_at(document: &Value) -> &str {
    document.field("metadata.creationTimestamp").and_then(Value::as_str).unwrap_or("0001-01-01T00:00:00Z")
}

pub(crate) const NAME: Column = text("Name", "The name of the object").formatted("name");
pub(crate) const AGE: Column = text("Age", "How long ago the object was created");
pub(crate) const CONTAINERS: Column = text("Containers", "The names of the containers of a pod").wide();
pub(crate) const IMAGES: Column = text("Images", "The images of the containers of a pod").wide();
pub(crate) const SELECTOR: Column = text("Selector", "The labels of the pods that belong to it").wide();

pub(crate) const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    let (name, description) = (Cow::Borrowed(name), Cow::Borrowed(description));
    Column { name, kind, format: "", description, priority: 0 }
}

pub(crate) const fn text(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

pub(crate) const fn integer(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

pub(crate) const fn boolean(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

impl Column {
    pub(crate) const fn wide(mut self) -> Column {
        self.priority = 1;
        self
    }

    /// Sets the format of its type.
    pub(crate) const fn formatted(mut self, format: &'static str) -> Column {
        self.format = format;
        self
    }
}

/// The cells of a row, from texts, numbers and flags.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(serde_json::Value::from($cell)),*] };
}
pub(crate) use row;
