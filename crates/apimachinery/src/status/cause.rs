//! The single faults of a request, each about one field.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::go::Quoted;

/// One fault among those that made a request fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// For programs, as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field at fault, as `spec.containers[0].name`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    /// A cause with these three texts.
    pub fn new(reason: &str, message: impl Into<String>, field: impl Into<String>) -> Cause {
        Cause { reason: reason.to_owned(), message: message.into(), field: field.into() }
    }

    /// A field that has to be given. `detail` may be empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Cause {
        let colon = if detail.is_empty() { "" } else { ": " };
        Cause::new("FieldValueRequired", format!("Required value{colon}{detail}"), field)
    }

    /// A value that breaks a rule.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Cause {
        let value = match value {
            Value::String(text) => Quoted(text).to_string(),
            other => other.to_string(),
        };
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Cause::new("FieldValueInvalid", format!("Invalid value: {value}{detail}"), field)
    }

    /// A value that is not among those `supported`.
    pub fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Cause {
        let supported: Vec<_> = supported.iter().map(|value| Quoted(value).to_string()).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", Quoted(value), supported.join(", "));
        Cause::new("FieldValueNotSupported", message, field)
    }

    /// A value that occurs twice where it may occur once.
    pub fn duplicate(field: impl Into<String>, value: &str) -> Cause {
        Cause::new("FieldValueDuplicate", format!("Duplicate value: {}", Quoted(value)), field)
    }

    /// A field that must not be given here.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Cause {
        Cause::new("FieldValueForbidden", format!("Forbidden: {detail}"), field)
    }

    /// A value that refers to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: &str) -> Cause {
        Cause::new("FieldValueNotFound", format!("Not found: {}", Quoted(value)), field)
    }

    /// A text above its limit.
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Cause {
        Cause::new("FieldValueTooLong", format!("Too long: may not be more than {bytes_max} bytes"), field)
    }

    /// A list above its limit.
    pub fn too_many(field: impl Into<String>, items: usize, items_max: usize) -> Cause {
        let message = format!("Too many: {items}: must have at most {items_max} items");
        Cause::new("FieldValueTooMany", message, field)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
