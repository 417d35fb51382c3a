//! Strategic merge patches: merge patches that use the type, so that lists merge as well.
//!
//! Objects merge, null removes, scalars replace. A list is replaced unless its field has the merge strategy: by a key
//! of its items, or as a set of plain values. Everything else is a directive, a field or item with a special name:
//!
//! - `$patch: replace` in an object makes the rest of it replace the whole; in an item of its own, the rest of the
//!   list.
//! - `$patch: delete` empties an object; in an item with a key it removes that item.
//! - `$retainKeys` drops every key of the object that it does not list.
//! - `$setElementOrder/<field>` is the order of the items of a list.
//! - `$deleteFromPrimitiveList/<field>` removes plain values from a list.
//!
//! Kept true: after a merge, the items of the patch are in its order, the others in theirs, and the position in the
//! live list decides between the two; new items come as early as they can.
//!
//! A value without a type (in a field that holds any JSON, for example) is merged too, its lists replaced. Texts and
//! codes of errors are those of Kubernetes, even odd ones.

mod lists;

use super::go_format::go_type;
use super::{GoFormat, NESTING_LEVELS_MAX, PatchError, nesting, read_object};
use crate::{
    document::Object,
    schema::{Merge, Problems, Shape, TypeRef, ValueKind},
};
use lists::{delete_from_list, merge_lists, merge_ordered_lists};
use serde_json::Value;
use std::{collections::HashSet, mem};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

const LIST: &str = "[]interface {}";
const OBJECT: &str = "map[string]interface {}";

/// Reads a patch from a request's body. Duplicate fields are reported.
pub fn parse(body: &[u8], problems: &mut Problems) -> Result<Value, PatchError> {
    let fields = read_object(body, problems)?;
    Ok(Value::Object(fields.unwrap_or_default()))
}

/// Applies the patch to a document of this type.
///
/// ```
/// use keepwatch_registry::{patch::strategic, schema};
/// use serde_json::json;
///
/// let spec = schema::lookup("core.v1.PodSpec").expect("a type of the API");
/// let live = json!({"containers": [{"name": "a", "image": "i:1"}, {"name": "b"}]});
/// let patch = json!({"containers": [{"name": "a", "image": "i:2"}]});
/// let patched = strategic::apply(live, patch, spec).expect("it fits");
/// assert_eq!(patched, json!({"containers": [{"name": "a", "image": "i:2"}, {"name": "b"}]}));
/// ```
pub fn apply(document: Value, patch: Value, ty: TypeRef) -> Result<Value, PatchError> {
    if [&document, &patch].into_iter().any(|value| nesting(value, NESTING_LEVELS_MAX).is_none()) {
        return Err(PatchError::DoesNotFit("it is nested too deep"));
    }
    match (document, patch) {
        (Value::Object(live), Value::Object(patch)) => {
            merge_objects(live, patch, Some(ty)).map(Value::Object)
        }
        (Value::Object(_), other) | (other, _) => Err(not_a(OBJECT, &other)),
    }
}

/// The patch strategy of a field, and the type of its value or of its items.
#[derive(Clone, Copy, Default)]
struct Rule {
    merge: Merge,
    inside: Option<TypeRef>,
}

impl Rule {
    /// The rule of a field. Without a type, lists are replaced and objects merge.
    fn of(ty: Option<TypeRef>, name: &str) -> Rule {
        let Some(field) = ty.and_then(|ty| ty.get().json_field(name)) else { return Rule::default() };
        let inside = match field.kind {
            ValueKind::Message(inside) if field.shape != Shape::Map => Some(inside),
            _ => None,
        };
        Rule { merge: field.merge, inside }
    }

    /// The rule of a field that the patch treats as a list.
    fn of_list(ty: Option<TypeRef>, name: &str) -> Result<Rule, PatchError> {
        let Some(owner) = ty else { return Ok(Rule::default()) };
        match owner.get().json_field(name) {
            Some(field) if field.shape == Shape::List => Ok(Rule::of(ty, name)),
            Some(_) => unforeseen("expected slice or array type, but got: struct".to_owned()),
            None => unforeseen(format!(
                "unable to find api field in struct {} for the json field {name:?}",
                owner.short_name()
            )),
        }
    }
}

fn unforeseen<T>(why: String) -> Result<T, PatchError> {
    Err(PatchError::Unforeseen(why))
}

fn malformed(why: &str) -> PatchError {
    PatchError::Malformed(why.to_owned())
}

fn not_a(wanted: &str, found: &Value) -> PatchError {
    PatchError::Unforeseen(format!("expected a {wanted}, but received a {}", go_type(found)))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Unforeseen(format!("map: {} does not contain declared merge key: {key}", GoFormat(item)))
}

fn unknown_directive(directive: &Value, object: &Value) -> PatchError {
    PatchError::Unforeseen(format!(
        "unknown patch type: {} in map: {}",
        GoFormat(directive),
        GoFormat(object)
    ))
}

fn merge_objects(mut live: Object, mut patch: Object, ty: Option<TypeRef>) -> Result<Object, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some(Some("delete")) => return Ok(Object::new()),
        Some(_) => return Err(unknown_directive(&patch[PATCH].clone(), &Value::Object(patch))),
    }
    retain_keys(&mut live, &mut patch)?;
    merge_ordered_lists(&mut live, &mut patch, ty)?;
    for (name, value) in patch {
        match name.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => {
                let list = rest.strip_prefix('/');
                let list = list.ok_or_else(|| malformed("invalid patch format of primitive list"))?;
                delete_from_list(&mut live, list, value)?;
            }
            None => merge_field(&mut live, name, value, ty)?,
        }
    }
    Ok(live)
}

/// Executes `$retainKeys`, which has to list all keys that the patch itself has.
fn retain_keys(live: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let wrong = || malformed("invalid patch format of retainKeys");
    let kept: HashSet<&str> = kept.as_array().ok_or_else(wrong)?.iter().filter_map(Value::as_str).collect();
    let is_directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !is_directive(name) && !kept.contains(name.as_str()))
    {
        return Err(wrong());
    }
    live.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

fn merge_field(live: &mut Object, name: String, value: Value, ty: Option<TypeRef>) -> Result<(), PatchError> {
    match (live.get_mut(&name), value) {
        (_, Value::Null) => {
            live.remove(&name);
        }
        (Some(Value::Object(old)), Value::Object(new)) => {
            let rule = Rule::of(ty, &name);
            *old = if rule.merge.replace { new } else { merge_objects(mem::take(old), new, rule.inside)? };
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let rule = Rule::of(ty, &name);
            *old = if rule.merge.merged { merge_lists(mem::take(old), new, rule)? } else { new };
        }
        (_, value) => match without_directives(value) {
            Some(value) => drop(live.insert(name, value)),
            None => drop(live.remove(&name)),
        },
    }
    Ok(())
}

/// A value that has nothing to merge with: without nulls, and without the objects that hold a `$patch`.
fn without_directives(mut value: Value) -> Option<Value> {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            if fields.contains_key(PATCH) {
                return None;
            }
            let inside = mem::take(fields).into_iter();
            *fields = inside.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect();
        }
        Value::Array(items) => {
            *items = mem::take(items).into_iter().filter_map(without_directives).collect();
        }
        _ => {}
    }
    Some(value)
}

#[cfg(test)]
mod tests;
