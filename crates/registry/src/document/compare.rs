//! Comparing values.

use serde_json::Value;

/// Whether a value is zero or empty. A boolean never is, because callers pass only optional ones.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) => false,
    }
}

/// Whether two values mean the same: `null` and an empty list count as not set.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(name, value)| b.get(name).map_or(is_nothing(value), |other| same(value, other)))
                && b.iter().all(|(name, value)| a.contains_key(name) || is_nothing(value))
        }
        (a, b) => a == b || (is_nothing(a) && is_nothing(b)),
    }
}

/// Whether two objects mean the same but for some of their fields.
pub(crate) fn same_except(a: &Value, b: &Value, except: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return same(a, b) };
    let mut keys = a.keys().chain(b.keys()).filter(|key| !except.contains(&key.as_str()));
    keys.all(|key| same(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null)))
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}
