//! Short ways to what is inside a document. What is null counts as absent.

use serde_json::{Map, Value, json};

/// What is at a path.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// The text at a path, or none.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path.
pub(crate) fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// The list at a path; empty if there is none.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The items of a list, by its JSON pointer; none if there is no list.
pub(crate) fn list_mut<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The fields of an object inside a document, which is made if it is not there.
pub(crate) fn fields<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut value = value;
    for name in path {
        value = own(value).entry(*name).or_insert(Value::Null);
    }
    own(value)
}

fn own(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made one just now")
}

/// Sets a text, or removes the field if the text is empty.
pub(crate) fn set_text(fields: &mut Map<String, Value>, name: &str, text: &str) {
    set(fields, name, (!text.is_empty()).then(|| text.into()));
}

/// Sets a field, or removes it.
pub(crate) fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            fields.insert(name.to_owned(), value);
        }
        None => {
            fields.remove(name);
        }
    }
}

/// The object's name, as `metadata` has it.
pub(crate) fn name(document: &Value) -> &str {
    text(document, &["metadata", "name"])
}

/// The finalizers of an object.
pub(crate) fn finalizers(document: &Value) -> &[Value] {
    list(document, &["metadata", "finalizers"])
}

/// Whether an object is marked for deletion.
pub(crate) fn is_deleting(document: &Value) -> bool {
    at(document, &["metadata", "deletionTimestamp"]).is_some()
}

/// Whether two values mean the same: a list without items is as good as none.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(name, value)| b.get(name).map_or(nothing(value), |other| same(value, other)))
                && b.iter().all(|(name, value)| a.contains_key(name) || nothing(value))
        }
        (a, b) => a == b || (nothing(a) && nothing(b)),
    }
}

/// Sets one condition among those of an object's status.
pub(crate) fn set_condition(document: &mut Value, condition: Value) {
    let conditions = fields(document, &["status"]).entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let same = |other: &&mut Value| text(other, &["type"]) == text(&condition, &["type"]);
    match conditions.iter_mut().find(same) {
        Some(own) => *own = condition,
        None => conditions.push(condition),
    }
}
