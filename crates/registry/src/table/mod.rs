//! Objects as rows for people: what `kubectl get` shows of every built-in kind.
//!
//! Kept true: an object has as many cells as its kind has columns, the wide ones included; a document of any shape gives
//! a row, with what is absent or of another type shown as not set. A kind without a form of its own shows its name and
//! when it was created.
//!
//! Not here: the Table around the rows, and what a row can only show by knowing the other rows of a list.

mod read;
mod words;
mod pods;
mod workloads;
mod autoscaling;
mod cluster;
mod network;
mod storage;
mod control;
#[cfg(test)]
mod tests;

pub use words::{age, duration};

use crate::schema::Timestamp;
use read::Read;
use serde_json::Value;
use std::{collections::HashMap, sync::LazyLock};

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// The type that it is announced with: `string`, `integer`, `boolean` or `date`. A cell may hold another.
    pub kind: &'static str,
    /// More about the type: `name` if the cells name the objects, else empty.
    pub format: &'static str,
    /// What the cells say.
    pub description: &'static str,
    /// 0 if it is always shown, 1 if it is shown when there is room.
    pub priority: i32,
}

/// What a row shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// A cell for every column.
    pub cells: Vec<Value>,
    /// What the row says of the object besides its cells, as a list.
    pub conditions: Option<Value>,
}

/// The columns of the objects of a type, such as `core.v1.Pod`.
pub fn columns(ty: &str) -> &'static [Column] {
    form(ty).columns
}

/// The row of an object.
pub fn cells(ty: &str, document: &Value, now: Timestamp) -> Cells {
    let conditions = if ty == pods::POD { pods::completed(document) } else { None };
    Cells { cells: (form(ty).cells)(document, now), conditions }
}

/// How the objects of a type are shown.
struct Form {
    ty: &'static str,
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

static FORMS: LazyLock<HashMap<&str, &'static Form>> = LazyLock::new(|| {
    let areas = [
        pods::FORMS,
        workloads::FORMS,
        autoscaling::FORMS,
        cluster::FORMS,
        network::FORMS,
        storage::FORMS,
        control::FORMS,
    ];
    areas.into_iter().flatten().map(|form| (form.ty, form)).collect()
});

static DEFAULT: Form = Form {
    ty: "",
    columns: &[NAME, Column { kind: "date", ..text("Created At", "When the object was created") }],
    cells: |document, _| row![document.name(), created_at(document)],
};

fn form(ty: &str) -> &'static Form {
    FORMS.get(ty).copied().unwrap_or(&DEFAULT)
}

/// When an object was created; for one that was not, the time that Go takes for none.
fn created_at(document: &Value) -> &str {
    document.set("metadata.creationTimestamp").and_then(Value::as_str).unwrap_or("0001-01-01T00:00:00Z")
}

const NAME: Column = Column { format: "name", ..text("Name", "The name of the object") };
const AGE: Column = text("Age", "How long ago the object was created");
const CONTAINERS: Column = text("Containers", "The names of the containers of a pod").wide();
const IMAGES: Column = text("Images", "The images of the containers of a pod").wide();
const SELECTOR: Column = text("Selector", "The labels of the pods that belong to it").wide();

const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

const fn text(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

const fn integer(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

const fn boolean(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

impl Column {
    const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }
}

/// The cells of a row, from texts, numbers and flags.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(serde_json::Value::from($cell)),*] };
}
use row;
