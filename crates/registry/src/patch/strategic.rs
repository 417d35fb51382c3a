//! Strategic merge patches: merge patches that know the type, so that lists merge as well.
//!
//! Objects merge, null removes, scalars replace. A list is replaced unless its field says that it merges: by a key of its
//! items, or as a set of plain values. What cannot be said so is a directive, a field or item of a name of its own:
//!
//! - `$patch: replace` in an object makes the rest of it the whole; in an item of its own, the rest of the list.
//! - `$patch: delete` empties an object; in an item with a key it removes that item.
//! - `$retainKeys` drops every key of the object that it does not list.
//! - `$setElementOrder/<field>` says in which order the items of a list come.
//! - `$deleteFromPrimitiveList/<field>` removes plain values from a list.
//!
//! Kept true: after a merge, the items that the patch is about are in its order, the others in theirs, and where the one
//! order meets the other the place in the live list decides; items that were not there come as early as they can.
//!
//! A value without a type (in a field that holds any JSON, say) is merged all the same, its lists replaced. Texts and
//! codes of errors are those of Kubernetes, odd as some are.

use super::shown::{ShownItems, go_type};
use super::{NESTING_LEVELS_MAX, PatchError, Shown, nesting, read_object};
use crate::schema::{Merge, Problems, Shape, TypeRef, ValueKind};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::mem;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

const LIST: &str = "[]interface {}";
const OBJECT: &str = "map[string]interface {}";

type Fields = Map<String, Value>;

/// Reads a patch from a request's body. Fields that are given twice are told.
pub fn parse(body: &[u8], problems: &mut Problems) -> Result<Value, PatchError> {
    let fields = read_object(body, problems)?;
    Ok(Value::Object(fields.unwrap_or_default()))
}

/// The document, which is of this type, as the patch makes it.
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

/// How a field of a type merges, and the type of its value or of its items.
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

    /// The rule of a field that is said to be a list.
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
    PatchError::Unforeseen(format!("map: {} does not contain declared merge key: {key}", Shown(item)))
}

fn unknown_directive(directive: &Value, object: &Value) -> PatchError {
    PatchError::Unforeseen(format!("unknown patch type: {} in map: {}", Shown(directive), Shown(object)))
}

fn merge_objects(mut live: Fields, mut patch: Fields, ty: Option<TypeRef>) -> Result<Fields, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            patch.remove(PATCH);
            return Ok(patch);
        }
        Some(Some("delete")) => return Ok(Fields::new()),
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

/// Carries out `$retainKeys`, which has to list all that the patch itself gives.
fn retain_keys(live: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
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

fn merge_field(live: &mut Fields, name: String, value: Value, ty: Option<TypeRef>) -> Result<(), PatchError> {
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

/// Carries out `$deleteFromPrimitiveList`.
fn delete_from_list(live: &mut Fields, name: &str, value: Value) -> Result<(), PatchError> {
    match (live.get_mut(name), value) {
        (_, Value::Null) => drop(live.remove(name)),
        (Some(Value::Array(items)), Value::Array(deleted)) => {
            items_are_objects([items, &deleted])?;
            let deleted: HashSet<Value> = deleted.into_iter().collect();
            items.retain(|item| !deleted.contains(item));
        }
        _ => {}
    }
    Ok(())
}

/// A value that has nothing to be merged with: without nulls, and without the objects that hold a `$patch`.
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

/// Merges the lists of the patch for which it says an order, and takes both out of it.
fn merge_ordered_lists(live: &mut Fields, patch: &mut Fields, ty: Option<TypeRef>) -> Result<(), PatchError> {
    let orders: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in orders {
        let order = patch.remove(&directive).map(list).transpose()?.unwrap_or_default();
        let name = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or_else(|| malformed("invalid patch format of setElementOrder list"))?;
        let old = live.get_mut(name).filter(|value| !value.is_null()).map(mem::take).map(list).transpose()?;
        let new = patch.remove(name).map(list).transpose()?;
        if let Some(merged) = merge_in_order(old, new, &order, Rule::of_list(ty, name)?)? {
            live.insert(name.to_owned(), Value::Array(merged));
        }
    }
    Ok(())
}

fn list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(not_a(LIST, &other)),
    }
}

fn merge_in_order(
    live: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    rule: Rule,
) -> Result<Option<Vec<Value>>, PatchError> {
    let key = rule.merge.key;
    check_order(patch.as_deref().unwrap_or_default(), order, key)?;
    let kinds =
        items_are_objects([live.as_deref().unwrap_or_default(), patch.as_deref().unwrap_or_default()]);
    let live_ranks = live.as_deref().map(|live| ranks(live, key)).unwrap_or_default();
    let merged = match (live, patch) {
        (None, None) => return Ok(None),
        (Some(live), None) => live,
        (None, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (Some(live), Some(patch)) if rule.merge.merged => merge_lists(live, patch, rule)?,
        (Some(_), Some(patch)) => patch,
    };
    if kinds?.is_none() {
        return unforeseen("no elements in any of the given slices".to_owned());
    }
    in_order(merged, &ranks(order, key), &live_ranks, key).map(Some)
}

/// The patch gives no item that the order does not have, and gives them in that order. Items to delete are not counted.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut given = patch.iter().peekable();
    let mut ordered = order.iter().peekable();
    while let (Some(item), Some(next)) = (given.peek(), ordered.peek()) {
        if key.is_some() && !item.is_object() {
            return Err(not_a(OBJECT, item));
        }
        if item.get(PATCH).is_some() {
            given.next();
            continue;
        }
        if identity(item, key)? == identity(next, key)? {
            given.next();
        }
        ordered.next();
    }
    if given.any(|item| key.is_none() || item.get(PATCH).is_none_or(|directive| directive != "delete")) {
        return unforeseen(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            ShownItems(patch),
            ShownItems(order)
        ));
    }
    Ok(())
}

/// What tells an item from the others: the value of its key, or itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, PatchError> {
    match (key, item) {
        (None, item) => Ok(item),
        (Some(key), Value::Object(fields)) => fields.get(key).ok_or_else(|| no_merge_key(item, key)),
        (Some(_), other) => Err(not_a(OBJECT, other)),
    }
}

/// Where in a list each item is; the first place counts. An item without its key has none.
type Ranks = HashMap<Value, usize>;

fn ranks(items: &[Value], key: Option<&str>) -> Ranks {
    let mut ranks = Ranks::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let identity = match key {
            None => Some(item),
            Some(key) => item.get(key),
        };
        if let Some(identity) = identity {
            ranks.entry(identity.clone()).or_insert(at);
        }
    }
    ranks
}

/// Whether the items of some lists are objects; unknown if there is no item. All have to be of one type.
fn items_are_objects<const N: usize>(lists: [&[Value]; N]) -> Result<Option<bool>, PatchError> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else { return Ok(None) };
    if first.is_array() {
        return Err(PatchError::DoesNotFit("lists of lists are not supported"));
    }
    if first.is_null() || items.any(|item| go_type(item) != go_type(first)) {
        let lists = lists.map(|items| ShownItems(items).to_string()).join(" ");
        return unforeseen(format!("list element types are not identical: [{lists}]"));
    }
    Ok(Some(first.is_object()))
}

fn merge_lists(live: Vec<Value>, patch: Vec<Value>, rule: Rule) -> Result<Vec<Value>, PatchError> {
    match (items_are_objects([&live, &patch])?, rule.merge.key) {
        (None, _) => Ok(live),
        (Some(false), key) => merge_values(live, patch, key),
        (Some(true), Some(key)) => merge_items(live, patch, key, rule.inside),
        (Some(true), None) => {
            let kind = if rule.inside.is_some() { "struct" } else { "string" };
            unforeseen(format!("cannot merge lists without merge key for {kind}"))
        }
    }
}

fn merge_values(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (live_ranks, order) = (ranks(&live, None), ranks(&patch, None));
    live.extend(patch);
    let mut seen = HashSet::with_capacity(live.len());
    live.retain(|value| seen.insert(value.clone()));
    in_order(live, &order, &live_ranks, key)
}

fn merge_items(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    ty: Option<TypeRef>,
) -> Result<Vec<Value>, PatchError> {
    let Split { items: patch, deleted, replaces } = split_directives(patch, key)?;
    if replaces {
        return in_order(patch, &Ranks::new(), &Ranks::new(), Some(key));
    }
    if !deleted.is_empty() {
        live.retain(|item| item.get(key).is_none_or(|identity| !deleted.contains(identity)));
    }
    let order = ranks(&patch, Some(key));
    let mut places = ranks(&live, Some(key));
    let live_count = live.len();
    for item in patch {
        let identity = identity(&item, Some(key))?;
        match places.get(identity).copied() {
            Some(at) => live[at] = merge_item(mem::take(&mut live[at]), item, ty)?,
            None => {
                places.insert(identity.clone(), live.len());
                live.push(item);
            }
        }
    }
    places.retain(|_, at| *at < live_count);
    in_order(live, &order, &places, Some(key))
}

fn merge_item(live: Value, patch: Value, ty: Option<TypeRef>) -> Result<Value, PatchError> {
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => merge_objects(live, patch, ty).map(Value::Object),
        (_, other) => Err(not_a(OBJECT, &other)),
    }
}

/// A list of a patch, taken apart.
struct Split {
    /// Those that are merged.
    items: Vec<Value>,
    /// The keys of those that go.
    deleted: HashSet<Value>,
    /// Whether `items` is the whole list.
    replaces: bool,
}

fn split_directives(patch: Vec<Value>, key: &str) -> Result<Split, PatchError> {
    let mut split =
        Split { items: Vec::with_capacity(patch.len()), deleted: HashSet::new(), replaces: false };
    for item in patch {
        match item.get(PATCH).map(|directive| (directive, directive.as_str())) {
            None => split.items.push(item),
            Some((_, Some("delete"))) => {
                split.deleted.insert(identity(&item, Some(key))?.clone());
            }
            Some((_, Some("replace"))) => split.replaces = true,
            Some((_, Some("merge"))) => {
                return unforeseen("merging lists cannot yet be specified in the patch".to_owned());
            }
            Some((directive, _)) => return Err(unknown_directive(directive, &item)),
        }
    }
    Ok(split)
}

/// Brings items into order: those in `order` as it says, the others as they stand, each as early as `live` has it.
fn in_order(
    items: Vec<Value>,
    order: &Ranks,
    live: &Ranks,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (mut ordered, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let identity = identity(&item, key)?;
        let place = live.get(identity).copied();
        match order.get(identity) {
            Some(rank) => ordered.push((*rank, place, item)),
            None => others.push((place, item)),
        }
    }
    ordered.sort_by_key(|(rank, ..)| *rank);
    let mut result = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in ordered {
        let is_before =
            |other: &(Option<usize>, Value)| matches!((other.0, place), (Some(a), Some(b)) if a < b);
        while let Some((_, other)) = others.next_if(is_before) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others.map(|(_, other)| other));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use serde_json::json;

    fn patched(ty: &str, live: &Value, patch: &Value) -> Result<Value, PatchError> {
        apply(live.clone(), patch.clone(), schema::lookup(ty).unwrap())
    }

    fn check(ty: &str, cases: impl IntoIterator<Item = (Value, Value, Value)>) {
        for (live, patch, result) in cases {
            assert_eq!(patched(ty, &live, &patch), Ok(result), "{live} + {patch}");
        }
    }

    fn check_refused<'a>(ty: &str, live: &Value, cases: impl IntoIterator<Item = (Value, u16, &'a str)>) {
        for (patch, code, message) in cases {
            let refused = patched(ty, live, &patch).expect_err(&patch.to_string());
            let wanted = match code {
                400 => PatchError::Malformed(message.to_owned()),
                _ => PatchError::Unforeseen(message.to_owned()),
            };
            assert_eq!(refused, wanted, "{patch}");
        }
    }

    /// Containers named by one letter each.
    fn containers(names: &str) -> Value {
        names.chars().map(|name| json!({"name": name})).collect()
    }

    fn names(of: &Value) -> String {
        of.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
    }

    /// The recorded scenario `patch.strategic-order`, and what follows from the rule.
    #[test]
    fn items_land_where_patch_and_live_list_have_them() {
        for (live, patch, order, result) in [
            ("abc", "bd", None, "abdc"),
            ("abc", "de", None, "deabc"),
            ("abc", "ca", None, "bca"),
            ("abcd", "e", Some("aebd"), "aebcd"),
            ("abcd", "x", Some("xba"), "xbacd"),
            ("abc", "", None, "abc"),
            ("", "ba", None, "ba"),
            ("abc", "", Some("cba"), "cba"),
            ("abc", "", Some("ca"), "bca"),
            ("abc", "", Some(""), "abc"),
            ("abc", "b", Some("zb"), "abc"),
        ] {
            let mut patch = json!({"containers": containers(patch)});
            if let Some(order) = order {
                patch["$setElementOrder/containers"] = containers(order);
            }
            let merged =
                patched("core.v1.PodSpec", &json!({"containers": containers(live)}), &patch).unwrap();
            assert_eq!(names(&merged["containers"]), result, "{live} + {patch}");
        }
    }

    /// The recorded scenario `patch.strategic`, one step after the other.
    #[test]
    fn a_deployment_changes_as_it_did_upstream() {
        let spec = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
        let mut live = spec(json!({"containers": [{"name": "c", "image": "app:1"}]}));
        live["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
        let c = |env: Value| json!({"name": "c", "image": "app:1", "env": env});
        let side = json!({"name": "side", "image": "side:1"});
        for (patch, containers, strategy) in [
            (
                spec(json!({"containers": [side, {"name": "c", "env": [{"name": "A", "value": "1"}]}]})),
                json!([side, c(json!([{"name": "A", "value": "1"}]))]),
                "RollingUpdate",
            ),
            (
                spec(json!({"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]})),
                json!([side, c(json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]))]),
                "RollingUpdate",
            ),
            (
                spec(json!({"containers": [{"name": "side", "$patch": "delete"}]})),
                json!([c(json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]))]),
                "RollingUpdate",
            ),
            (
                spec(
                    json!({"containers": [{"name": "c", "env": [{"$patch": "replace"}, {"name": "Z", "value": "9"}]}]}),
                ),
                json!([c(json!([{"name": "Z", "value": "9"}]))]),
                "RollingUpdate",
            ),
            (
                json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
                json!([c(json!([{"name": "Z", "value": "9"}]))]),
                "Recreate",
            ),
            (
                spec(
                    json!({"$setElementOrder/containers": [{"name": "x"}, {"name": "c"}], "containers": [{"name": "x", "image": "x:1"}]}),
                ),
                json!([{"name": "x", "image": "x:1"}, c(json!([{"name": "Z", "value": "9"}]))]),
                "Recreate",
            ),
        ] {
            live = patched("apps.v1.Deployment", &live, &patch).unwrap();
            assert_eq!(live["spec"]["template"]["spec"]["containers"], containers);
            assert_eq!(live["spec"]["strategy"]["type"], strategy);
        }
        assert_eq!(live["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    /// The recorded scenario `patch.strategic-primitive`.
    #[test]
    fn plain_values_merge_as_a_set_and_a_directive_alone_adds_nothing() {
        let with = |finalizers: Value| json!({"metadata": {"name": "a", "finalizers": finalizers}});
        check(
            "core.v1.ConfigMap",
            [
                (with(json!(["a"])), json!({"metadata": {"finalizers": ["b"]}}), with(json!(["b", "a"]))),
                (
                    with(json!(["b", "a"])),
                    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "zzz"]}}),
                    with(json!(["b"])),
                ),
                (with(json!(["b"])), json!({"data": {"$patch": "replace", "k": "1"}}), with(json!(["b"]))),
                (with(json!(["b"])), json!({"$patch": "delete"}), json!({})),
            ],
        );
    }

    #[test]
    fn objects_merge_null_removes_and_scalars_replace() {
        check(
            "core.v1.ConfigMap",
            [
                (
                    json!({"data": {"a": "1", "b": "2"}, "immutable": false}),
                    json!({"data": {"a": null, "c": "3"}, "immutable": true}),
                    json!({"data": {"b": "2", "c": "3"}, "immutable": true}),
                ),
                (
                    json!({"metadata": null}),
                    json!({"metadata": {"labels": {"a": null}}}),
                    json!({"metadata": {"labels": {}}}),
                ),
                (json!({"data": {"a": "1"}}), json!({"data": "text"}), json!({"data": "text"})),
                (json!({}), json!({"extra": {"a": [1]}}), json!({"extra": {"a": [1]}})),
                (
                    json!({"extra": {"a": {"b": [1], "c": 2}}}),
                    json!({"extra": {"a": {"b": [3]}}}),
                    json!({"extra": {"a": {"b": [3], "c": 2}}}),
                ),
            ],
        );
    }

    #[test]
    fn an_object_is_replaced_or_emptied_where_the_patch_or_the_type_says_so() {
        check(
            "core.v1.ConfigMap",
            [
                (
                    json!({"data": {"a": "1"}}),
                    json!({"data": {"$patch": "replace", "b": "2"}}),
                    json!({"data": {"b": "2"}}),
                ),
                (json!({"data": {"a": "1"}}), json!({"data": {"$patch": "delete"}}), json!({"data": {}})),
                (
                    json!({"data": {"a": "1"}}),
                    json!({"$patch": "replace", "kind": "x"}),
                    json!({"kind": "x"}),
                ),
            ],
        );
        check(
            "policy.v1.PodDisruptionBudgetSpec",
            [(
                json!({"selector": {"matchLabels": {"a": "1"}}}),
                json!({"selector": {"matchLabels": {"b": "2"}}}),
                json!({"selector": {"matchLabels": {"b": "2"}}}),
            )],
        );
    }

    #[test]
    fn lists_merge_by_their_key_or_are_replaced() {
        check(
            "core.v1.PodSpec",
            [
                (
                    json!({"tolerations": [{"key": "a"}]}),
                    json!({"tolerations": [{"key": "b"}]}),
                    json!({"tolerations": [{"key": "b"}]}),
                ),
                (
                    json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]}]}),
                    json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "web"}]}]}),
                    json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}, {"containerPort": 80, "protocol": "UDP"}]}]}),
                ),
                (
                    json!({"containers": [{"name": "c", "args": ["a"], "image": "i"}]}),
                    json!({"containers": [{"name": "c", "args": ["b"], "image": null}]}),
                    json!({"containers": [{"name": "c", "args": ["b"]}]}),
                ),
                (
                    json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}]}),
                    json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}),
                    json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w"}]}),
                ),
                // Two patch items with one key are one item.
                (
                    json!({"containers": [{"name": "a"}]}),
                    json!({"containers": [{"name": "b", "image": "i"}, {"name": "b", "tty": true}]}),
                    json!({"containers": [{"name": "b", "image": "i", "tty": true}, {"name": "a"}]}),
                ),
                // All of that name go, and one that is not there is fine.
                (
                    json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
                    json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "z", "$patch": "delete"}]}),
                    json!({"containers": [{"name": "b"}]}),
                ),
                (
                    json!({"containers": [{"name": "a"}]}),
                    json!({"containers": [{"name": "b"}, {"$patch": "replace"}, {"name": "a", "$patch": "delete"}]}),
                    json!({"containers": [{"name": "b"}]}),
                ),
                // Nothing to merge with.
                (
                    json!({"containers": null}),
                    json!({"containers": [{"name": "a", "image": null}, {"name": "b", "$patch": "delete"}]}),
                    json!({"containers": [{"name": "a"}]}),
                ),
                (json!({"containers": []}), json!({"containers": []}), json!({"containers": []})),
            ],
        );
    }

    #[test]
    fn an_order_alone_moves_what_is_there_and_creates_nothing() {
        check(
            "core.v1.PodSpec",
            [
                (json!({}), json!({"$setElementOrder/volumes": [{"name": "a"}]}), json!({})),
                (
                    json!({"containers": null}),
                    json!({"containers": [{"name": "b"}, {"name": "a"}, {"$patch": "delete", "name": "c"}], "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
                    json!({"containers": [{"name": "b"}, {"name": "a"}]}),
                ),
            ],
        );
        check(
            "meta.v1.ObjectMeta",
            [(
                json!({"finalizers": ["a", "b", "c"]}),
                json!({"finalizers": ["d"], "$setElementOrder/finalizers": ["d", "c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}),
                json!({"finalizers": ["d", "c", "a"]}),
            )],
        );
    }

    #[test]
    fn what_cannot_be_merged_is_refused_as_upstream_does() {
        let live = json!({
            "containers": [{"name": "c"}],
            "imagePullSecrets": [{}],
            "nodeSelector": {"a": "1"},
            "tolerations": [{"key": "a"}],
            "nodeName": "n",
        });
        check_refused(
            "core.v1.PodSpec",
            &live,
            [
                (
                    json!({"containers": [{"image": "z"}]}),
                    500,
                    "map: map[image:z] does not contain declared merge key: name",
                ),
                (
                    json!({"containers": [{"$patch": "delete"}]}),
                    500,
                    "map: map[$patch:delete] does not contain declared merge key: name",
                ),
                (
                    json!({"imagePullSecrets": [{"name": "s"}]}),
                    500,
                    "map: map[] does not contain declared merge key: name",
                ),
                (
                    json!({"nodeSelector": {"$patch": "foo"}}),
                    500,
                    "unknown patch type: foo in map: map[$patch:foo]",
                ),
                (
                    json!({"nodeSelector": {"$patch": "merge"}}),
                    500,
                    "unknown patch type: merge in map: map[$patch:merge]",
                ),
                (
                    json!({"containers": [{"name": "c", "$patch": "foo"}]}),
                    500,
                    "unknown patch type: foo in map: map[$patch:foo name:c]",
                ),
                (
                    json!({"containers": [{"name": "c", "$patch": "merge"}]}),
                    500,
                    "merging lists cannot yet be specified in the patch",
                ),
                (
                    json!({"containers": ["c"]}),
                    500,
                    "list element types are not identical: [[map[name:c]] [c]]",
                ),
                (json!({"nodeSelector": {"$retainKeys": "a"}}), 400, "invalid patch format of retainKeys"),
                (
                    json!({"nodeSelector": {"$retainKeys": ["a"], "b": "1"}}),
                    400,
                    "invalid patch format of retainKeys",
                ),
                (json!({"$deleteFromPrimitiveList": ["a"]}), 400, "invalid patch format of primitive list"),
                (
                    json!({"$setElementOrderX/containers": []}),
                    400,
                    "invalid patch format of setElementOrder list",
                ),
                (
                    json!({"$setElementOrder/containers": "a"}),
                    500,
                    "expected a []interface {}, but received a string",
                ),
                (
                    json!({"$setElementOrder/nodeName": []}),
                    500,
                    "expected a []interface {}, but received a string",
                ),
                (
                    json!({"$setElementOrder/containers": [], "containers": null}),
                    500,
                    "expected a []interface {}, but received a %!s(<nil>)",
                ),
                (
                    json!({"$setElementOrder/zzz": []}),
                    500,
                    "unable to find api field in struct PodSpec for the json field \"zzz\"",
                ),
                (
                    json!({"$setElementOrder/hostNetwork": []}),
                    500,
                    "expected slice or array type, but got: struct",
                ),
                (
                    json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
                    500,
                    "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
                ),
                (
                    json!({"$setElementOrder/volumes": [], "volumes": []}),
                    500,
                    "no elements in any of the given slices",
                ),
                (
                    json!({"$setElementOrder/containers": ["c"], "containers": [{"name": "c"}]}),
                    500,
                    "expected a map[string]interface {}, but received a string",
                ),
                (
                    json!({"containers": [[1]]}),
                    500,
                    "list element types are not identical: [[map[name:c]] [[1]]]",
                ),
            ],
        );
        let finalizers = json!({"finalizers": []});
        check_refused(
            "meta.v1.ObjectMeta",
            &finalizers,
            [
                (
                    json!({"finalizers": [["a"]]}),
                    422,
                    "the server rejected our request due to an error in our request",
                ),
                (json!({"finalizers": [{"a": 1}]}), 500, "cannot merge lists without merge key for string"),
            ],
        );
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        let parse = |body: &str| parse(body.as_bytes(), &mut Problems::default());
        assert_eq!(parse("null"), Ok(json!({})));
        let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(parse("[]"), Err(PatchError::Malformed(message.to_owned())));
        assert!(matches!(parse("{not json"), Err(PatchError::Malformed(_))));
    }

    #[test]
    fn long_lists_merge_in_little_time() {
        let items = |from: usize| -> Value {
            (from..from + 20_000).map(|at| json!({"name": at.to_string()})).collect()
        };
        let (live, patch) = (json!({"containers": items(0)}), json!({"containers": items(10_000)}));
        let merged = patched("core.v1.PodSpec", &live, &patch).unwrap();
        assert_eq!(merged["containers"].as_array().map(Vec::len), Some(30_000));
    }
}
