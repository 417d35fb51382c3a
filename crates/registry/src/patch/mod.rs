//! Patches: requests that change a part of an object.
//!
//! Three forms, a module each; each reads a body ([`json::Patch::parse`], [`merge::parse`], [`strategic::parse`]) and
//! applies it to a document. Kept true by all of them: a patch takes effect as a whole or not at all; a document that
//! nests no deeper than the reader allows still does so afterwards; the work is bounded by the sizes of document and
//! patch, and for copies by a limit of their own.
//!
//! The result is plain JSON and may hold nulls and unknown fields: the caller normalises it. Not here: server-side apply.

pub mod json;
pub mod merge;
pub mod strategic;
mod go_format;

use crate::{
    codec::too_many_values,
    error::Error,
    schema::{self, Problems, ReadError},
};
use serde_json::{Map, Value};
use std::fmt;

pub use go_format::GoFormat;

/// The maximum depth of nested objects and lists; the reader of documents has the same limit.
const NESTING_LEVELS_MAX: usize = 127;

/// The reason for which a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// The body is no patch of its form. The client corrects it.
    Malformed(String),
    /// A JSON patch has this many operations, more than [`json::OPERATIONS_MAX`]. The client splits it.
    TooManyOperations(usize),
    /// The patch has more values than a document may have. The client splits it.
    TooManyValues,
    /// The patch does not apply to the document. The client reads it again; the reason is for the log alone.
    DoesNotFit(&'static str),
    /// The patch contradicts itself or the type in a way that Kubernetes answers with a message only.
    Unforeseen(String),
}

impl From<PatchError> for Error {
    fn from(error: PatchError) -> Error {
        match error {
            PatchError::Malformed(why) => Error::BadRequest(why),
            PatchError::TooManyOperations(count) => Error::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {}, got {count}",
                json::OPERATIONS_MAX
            )),
            PatchError::TooManyValues => too_many_values(),
            PatchError::DoesNotFit(_) => Error::DoesNotFit,
            PatchError::Unforeseen(why) => Error::Unexplained(why),
        }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::Malformed(why) | PatchError::Unforeseen(why) => f.write_str(why),
            PatchError::TooManyOperations(count) => write!(f, "the patch has {count} operations"),
            PatchError::TooManyValues => ReadError::TooManyValues.fmt(f),
            PatchError::DoesNotFit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PatchError {}

impl From<ReadError> for PatchError {
    fn from(error: ReadError) -> PatchError {
        match error {
            ReadError::Malformed(why) => PatchError::Malformed(why),
            ReadError::TooManyValues => PatchError::TooManyValues,
        }
    }
}

/// Reads a body that has to be an object; none if it is null.
fn read_object(body: &[u8], problems: &mut Problems) -> Result<Option<Map<String, Value>>, ReadError> {
    match schema::read(body, problems)? {
        Value::Object(fields) => Ok(Some(fields)),
        Value::Null => Ok(None),
        other => {
            let wanted = "Go value of type map[string]interface {}";
            Err(ReadError::Malformed(cannot_unmarshal(&other, wanted)))
        }
    }
}

/// Go's error for JSON of another type than the wanted one.
pub(crate) fn cannot_unmarshal(found: &Value, wanted: &str) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into {wanted}")
}

/// The depth of nested objects and lists in a value; none if it exceeds `levels_max`.
fn nesting(value: &Value, levels_max: usize) -> Option<usize> {
    fn deepest<'a>(mut inside: impl Iterator<Item = &'a Value>, levels_max: usize) -> Option<usize> {
        let levels_max = levels_max.checked_sub(1)?;
        let deepest = inside.try_fold(0, |deepest, value| Some(nesting(value, levels_max)?.max(deepest)))?;
        Some(deepest + 1)
    }
    match value {
        Value::Array(items) => deepest(items.iter(), levels_max),
        Value::Object(fields) => deepest(fields.values(), levels_max),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    fn name() -> impl Strategy<Value = String> {
        let names = vec![
            "$patch",
            "$retainKeys",
            "$setElementOrder",
            "$setElementOrder/containers",
            "$setElementOrder/finalizers",
            "$deleteFromPrimitiveList/finalizers",
            "metadata",
            "finalizers",
            "labels",
            "spec",
            "containers",
            "env",
            "name",
            "zzz",
        ];
        proptest::sample::select(names).prop_map(str::to_owned)
    }

    fn scalar() -> impl Strategy<Value = Value> {
        let texts = vec!["a", "b", "replace", "delete", "merge", "name"];
        prop_oneof![
            proptest::sample::select(texts).prop_map(Value::from),
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
        ]
    }

    /// Generates objects with few names, so that those of documents, patches and types are often the same.
    fn value() -> impl Strategy<Value = Value> {
        scalar().prop_recursive(5, 64, 5, |inside| {
            prop_oneof![
                vec(inside.clone(), 0..5).prop_map(Value::Array),
                vec((name(), inside), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        vec((name(), value()), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }

    /// A pod with some containers, and a patch that is about some of them.
    fn pod() -> impl Strategy<Value = Value> {
        let container = ("[a-e]", "[xy]").prop_map(|(name, image)| json!({"name": name, "image": image}));
        (vec(container, 0..6), vec("[a-e]", 0..5), vec("[a-e]", 0..4)).prop_map(
            |(containers, finalizers, order)| {
                let order: Value = order.into_iter().map(|name| json!({"name": name})).collect();
                json!({
                    "metadata": {"finalizers": finalizers},
                    "spec": {"containers": containers, "$setElementOrder/containers": order},
                })
            },
        )
    }

    fn pointer() -> impl Strategy<Value = String> {
        vec(prop_oneof![name(), "-?[0-3]", Just("-".to_owned())], 0..4)
            .prop_map(|steps| steps.iter().map(|step| format!("/{}", step.replace('/', "~1"))).collect())
    }

    fn operation() -> impl Strategy<Value = Value> {
        let op = proptest::sample::select(&["add", "remove", "replace", "move", "copy", "test"][..]);
        (op, pointer(), pointer(), value())
            .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
    }

    fn strategic(document: &Value, patch: &Value) -> Result<Value, PatchError> {
        strategic::apply(document.clone(), patch.clone(), schema::lookup("core.v1.Pod").unwrap())
    }

    proptest! {
        #[test]
        fn a_merge_patch_applied_twice_is_applied_once(document in value(), patch in value()) {
            let once = merge::apply(document, patch.clone());
            prop_assert_eq!(merge::apply(once.clone(), patch), once);
        }

        #[test]
        fn an_empty_patch_changes_nothing(document in object()) {
            prop_assert_eq!(strategic(&document, &json!({})), Ok(document.clone()));
            prop_assert_eq!(merge::apply(document.clone(), json!({})), document.clone());
            let none = json::Patch::parse(b"[]", &mut Problems::default()).unwrap();
            prop_assert_eq!(none.apply(document.clone()), Ok(document));
        }

        #[test]
        fn a_strategic_patch_never_panics(document in object(), patch in object()) {
            let _ = strategic(&document, &patch);
        }

        #[test]
        fn a_strategic_patch_of_a_pod_applied_twice_is_applied_once(document in pod(), mut patch in pod()) {
            let mut document = document;
            document["spec"].as_object_mut().unwrap().remove("$setElementOrder/containers");
            for with_order in [true, false] {
                if !with_order {
                    patch["spec"].as_object_mut().unwrap().remove("$setElementOrder/containers");
                }
                if let Ok(once) = strategic(&document, &patch) {
                    prop_assert_eq!(strategic(&once, &patch), Ok(once.clone()));
                }
            }
        }

        #[test]
        fn a_json_patch_never_panics(document in object(), operations in vec(operation(), 0..6)) {
            let body = Value::Array(operations).to_string();
            let _ = json::Patch::parse(body.as_bytes(), &mut Problems::default()).unwrap().apply(document);
        }
    }

    #[test]
    fn values_nested_too_deep_are_not_followed() {
        let deep = (0..600).fold(json!({}), |inside, _| json!({"a": inside, "b": [null, {"c": null}]}));
        assert_eq!(nesting(&deep, NESTING_LEVELS_MAX), None);
        merge::apply(json!({}), deep.clone());
        merge::apply(deep.clone(), deep.clone());
        assert_eq!(strategic(&deep, &json!({})), Err(PatchError::DoesNotFit("it is nested too deep")));
        assert!(strategic(&json!({}), &deep).is_err());
        let copy = json!([{"op": "copy", "from": "/a", "path": "/c"}]).to_string();
        let copy = json::Patch::parse(copy.as_bytes(), &mut Problems::default()).unwrap();
        assert!(copy.apply(deep).is_err());
    }
}
