//! Reading documents: a field that is absent, null or of another type reads as the zero of the type asked for.

use crate::schema::{Timestamp, parse_time};
use serde_json::{Map, Value};

/// Reads fields by their path, such as `status.phase`.
pub(crate) trait Read {
    /// What is there, if it is set.
    fn set(&self, path: &str) -> Option<&Value>;
    /// A text.
    fn text(&self, path: &str) -> &str;
    /// A whole number.
    fn number(&self, path: &str) -> i64;
    /// A yes or no.
    fn flag(&self, path: &str) -> bool;
    /// The items of a list.
    fn list(&self, path: &str) -> &[Value];
    /// The entries of a map.
    fn map(&self, path: &str) -> Option<&Map<String, Value>>;
    /// A time.
    fn time(&self, path: &str) -> Option<Timestamp>;

    /// The name of an object.
    fn name(&self) -> &str {
        self.text("metadata.name")
    }

    /// Whether an object is being deleted.
    fn deleting(&self) -> bool {
        self.set("metadata.deletionTimestamp").is_some()
    }

    /// An annotation of an object. Their names have dots and are no paths.
    fn annotation(&self, name: &str) -> &str {
        entry(self.map("metadata.annotations"), name)
    }

    /// The texts of a list.
    fn texts(&self, path: &str) -> impl Iterator<Item = &str> {
        self.list(path).iter().filter_map(Value::as_str)
    }

    /// How many items a list has.
    fn length(&self, path: &str) -> i64 {
        self.list(path).len() as i64
    }

    /// The condition of a type, among those of an object's status.
    fn condition(&self, ty: &str) -> Option<&Value> {
        self.list("status.conditions").iter().find(|condition| condition.text("type") == ty)
    }

    /// Whether an object has a condition, and it is true.
    fn is(&self, condition: &str) -> bool {
        self.condition(condition).is_some_and(|condition| condition.text("status") == "True")
    }
}

impl Read for Value {
    fn set(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, field| value.get(field)).filter(|value| !value.is_null())
    }

    fn text(&self, path: &str) -> &str {
        self.set(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, path: &str) -> i64 {
        self.set(path).and_then(Value::as_i64).unwrap_or_default()
    }

    fn flag(&self, path: &str) -> bool {
        self.set(path).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, path: &str) -> &[Value] {
        self.set(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn map(&self, path: &str) -> Option<&Map<String, Value>> {
        self.set(path).and_then(Value::as_object)
    }

    fn time(&self, path: &str) -> Option<Timestamp> {
        self.set(path).and_then(Value::as_str).and_then(parse_time)
    }
}

/// A text of a map.
pub(crate) fn entry<'a>(map: Option<&'a Map<String, Value>>, key: &str) -> &'a str {
    map.and_then(|map| map.get(key)).and_then(Value::as_str).unwrap_or_default()
}
