//! Merge patches (RFC 7386): a document in which null removes.
//!
//! Objects merge; all other values, lists too, are replaced. Kept true: no null of the patch gets into an object.

use super::{NESTING_LEVELS_MAX, PatchError, read_object};
use crate::schema::Problems;
use serde_json::{Map, Value};

/// Reads a patch from a request's body. Duplicate fields are reported.
pub fn parse(body: &[u8], problems: &mut Problems) -> Result<Value, PatchError> {
    match read_object(body, problems) {
        Ok(Some(fields)) => Ok(Value::Object(fields)),
        Ok(None) => Err(PatchError::Malformed("Invalid JSON Patch".to_owned())),
        Err(error) => Err(error.map_message(|why| format!("error decoding patch: {why}")).into()),
    }
}

/// Applies the patch to a document.
///
/// ```
/// use keepwatch_registry::patch::merge;
/// use serde_json::json;
///
/// let merged = merge::apply(json!({"a": 1, "b": {"c": 2, "d": 3}}), json!({"a": null, "b": {"c": 4}}));
/// assert_eq!(merged, json!({"b": {"c": 4, "d": 3}}));
/// ```
pub fn apply(mut document: Value, patch: Value) -> Value {
    merge(&mut document, patch, NESTING_LEVELS_MAX);
    document
}

/// Below `levels`, deeper than any decoded document, the patch replaces.
fn merge(document: &mut Value, patch: Value, levels: usize) {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) if levels > 0 => {
            merge_fields(document, patch, levels - 1);
        }
        (document, mut patch) => {
            drop_nulls(&mut patch, levels);
            *document = patch;
        }
    }
}

fn merge_fields(document: &mut Map<String, Value>, patch: Map<String, Value>, levels: usize) {
    for (name, value) in patch {
        if value.is_null() {
            document.remove(&name);
        } else {
            merge(document.entry(name).or_insert(Value::Null), value, levels);
        }
    }
}

/// Removes nulls from objects. In a list null is an item like others, so it stays.
fn drop_nulls(value: &mut Value, levels: usize) {
    let Some(levels) = levels.checked_sub(1) else { return };
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, levels)),
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(|value| drop_nulls(value, levels));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(cases: impl IntoIterator<Item = (Value, Value, Value)>) {
        for (document, patch, merged) in cases {
            assert_eq!(apply(document.clone(), patch.clone()), merged, "{document} + {patch}");
        }
    }

    /// The table of RFC 7386, appendix A.
    #[test]
    fn the_examples_of_the_rfc_come_out_as_it_says() {
        check([
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ]);
    }

    #[test]
    fn nulls_in_lists_stay_and_those_in_their_objects_go() {
        check([
            (json!({}), json!({"a": [null, {"b": null, "c": 1}]}), json!({"a": [null, {"c": 1}]})),
            (json!({"a": null}), json!({"a": {"b": null}}), json!({"a": {}})),
        ]);
    }

    /// The documents of the recorded scenario `patch.merge`.
    #[test]
    fn maps_merge_and_lists_are_replaced() {
        let live = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "finalizers": ["example.com/a", "example.com/b"]}, "data": {"k": "1", "m": "2"}});
        let patched = json!({"metadata": {"name": "a", "labels": {"y": "2", "z": "3"}, "finalizers": ["example.com/b"]}, "data": {"k": "1", "n": "3"}});
        let without = json!({"metadata": {"name": "a", "labels": {"y": "2", "z": "3"}, "finalizers": ["example.com/b"]}});
        check([
            (
                live,
                json!({"metadata": {"labels": {"x": null, "z": "3"}, "finalizers": ["example.com/b"]}, "data": {"m": null, "n": "3"}}),
                patched.clone(),
            ),
            (patched.clone(), json!({"data": null}), without),
            (patched.clone(), json!({}), patched),
        ]);
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        for (body, message) in [
            (
                "[]",
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            ("null", "Invalid JSON Patch"),
        ] {
            let refused = parse(body.as_bytes(), &mut Problems::default());
            assert_eq!(refused, Err(PatchError::Malformed(message.to_owned())));
        }
        let error = parse(b"{not json", &mut Problems::default()).unwrap_err();
        assert!(error.to_string().starts_with("error decoding patch: "));
    }

    #[test]
    fn a_duplicate_field_is_reported() {
        let mut problems = Problems::default();
        let patch = parse(br#"{"data":{"k":"2","k":"3"}}"#, &mut problems);
        assert_eq!(patch, Ok(json!({"data": {"k": "3"}})));
        assert_eq!(problems.0, ["duplicate field \"data.k\""]);
    }
}
