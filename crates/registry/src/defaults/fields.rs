//! Reading and filling the fields of a document.
//!
//! Nothing here fails: in a normalised document a field has the type that is asked for, and in any other it counts as
//! not set.

use crate::schema::Quantity;
use serde_json::{Map, Value};

/// An object in a document.
pub(crate) type Object = Map<String, Value>;

/// Sets a field that is not set.
pub(crate) fn set_default(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a field that is not set, or is zero or empty, which is the same for this field.
pub(crate) fn set_if_zero(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(is_zero) {
        object.insert(name.to_owned(), value.into());
    }
}

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

/// Whether a field is set.
pub(crate) fn is_set(object: &Object, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
}

/// The text of a field; empty if it is not set.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The object in a field, to read.
pub(crate) fn peek<'a>(object: &'a Object, name: &str) -> Option<&'a Object> {
    object.get(name)?.as_object()
}

/// The object in a field, to fill.
pub(crate) fn child<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name)?.as_object_mut()
}

/// The object in a field, to fill; an empty one is put there if there is none.
pub(crate) fn child_or_new<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let value = object.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// The objects in a list.
pub(crate) fn children<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Whether a list or map has anything in it.
pub(crate) fn has_any(object: &Object, name: &str) -> bool {
    object.get(name).is_some_and(|value| !is_zero(value))
}

/// Copies entries of one map to another where that one lacks them.
pub(crate) fn fill_from(object: &mut Object, target: &str, source: &str) {
    let Some(source) = peek(object, source) else { return };
    let known = peek(object, target);
    let lacking = source.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
    let lacking: Vec<(String, Value)> = lacking.map(|(name, value)| (name.clone(), value.clone())).collect();
    if !lacking.is_empty() {
        child_or_new(object, target).extend(lacking);
    }
}

/// Rounds the quantities in these maps up to thousandths; nothing finer is kept of a resource.
pub(crate) fn round_quantities(object: &mut Object, maps: &[&str]) {
    for name in maps {
        let Some(map) = child(object, name) else { continue };
        for value in map.values_mut() {
            if let Some(rounded) = value.as_str().and_then(rounded) {
                *value = rounded.into();
            }
        }
    }
}

/// The text of a quantity rounded up to thousandths, if it is finer than that.
fn rounded(text: &str) -> Option<String> {
    // Spelled as usual, only these are.
    let may_be_finer = text.ends_with(['n', 'u']) || text.contains("e-");
    let quantity: Quantity = may_be_finer.then(|| text.parse().ok())??;
    Some(quantity.rounded_to_milli().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filled(mut value: Value, fill: impl FnOnce(&mut Object)) -> Value {
        fill(value.as_object_mut().unwrap());
        value
    }

    #[test]
    fn zero_is_set_for_some_fields_and_not_for_others() {
        for (given, default, zero) in [
            (json!({}), json!({"a": "x"}), json!({"a": "x"})),
            (json!({"a": null}), json!({"a": "x"}), json!({"a": "x"})),
            (json!({"a": ""}), json!({"a": ""}), json!({"a": "x"})),
            (json!({"a": 0}), json!({"a": 0}), json!({"a": "x"})),
            (json!({"a": "y"}), json!({"a": "y"}), json!({"a": "y"})),
            (json!({"a": false}), json!({"a": false}), json!({"a": false})),
        ] {
            assert_eq!(filled(given.clone(), |object| set_default(object, "a", "x")), default, "{given}");
            assert_eq!(filled(given.clone(), |object| set_if_zero(object, "a", "x")), zero, "{given}");
        }
    }

    #[test]
    fn quantities_finer_than_a_thousandth_are_rounded_up() {
        let given =
            json!({"m": {"a": "1n", "b": "1001u", "c": "5", "d": "1500e-6", "e": "1200e-3", "f": "1Gi"}});
        let rounded = json!({"m": {"a": "1m", "b": "2m", "c": "5", "d": "2e-3", "e": "1200e-3", "f": "1Gi"}});
        assert_eq!(filled(given, |object| round_quantities(object, &["m", "absent"])), rounded);
    }

    #[test]
    fn only_entries_that_are_lacking_are_copied() {
        for (given, wanted) in [
            (
                json!({"from": {"a": 1, "b": 2}, "to": {"a": 0}}),
                json!({"from": {"a": 1, "b": 2}, "to": {"a": 0, "b": 2}}),
            ),
            (json!({"from": {"a": 1}}), json!({"from": {"a": 1}, "to": {"a": 1}})),
            (json!({"from": {}}), json!({"from": {}})),
            (json!({"to": {"a": 0}}), json!({"to": {"a": 0}})),
        ] {
            assert_eq!(filled(given, |object| fill_from(object, "to", "from")), wanted);
        }
    }
}
