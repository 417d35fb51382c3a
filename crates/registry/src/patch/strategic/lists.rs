//! Merging lists: by a key of their items, or as sets of plain values, and their order.

use super::{
    LIST, OBJECT, PATCH, Rule, SET_ORDER, malformed, merge_objects, no_merge_key, not_a, unforeseen,
    unknown_directive, without_directives,
};
use crate::{
    document::Object,
    patch::{
        PatchError,
        go_format::{GoFormatItems, go_type},
    },
    schema::TypeRef,
};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::mem;

/// Executes `$deleteFromPrimitiveList`.
pub(super) fn delete_from_list(live: &mut Object, name: &str, value: Value) -> Result<(), PatchError> {
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

/// Merges the lists for which the patch has an order, and removes both from the patch.
pub(super) fn merge_ordered_lists(
    live: &mut Object,
    patch: &mut Object,
    ty: Option<TypeRef>,
) -> Result<(), PatchError> {
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

/// Checks that the items of the patch occur in its `$setElementOrder`, in the same order. Items to delete need not.
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
            GoFormatItems(patch),
            GoFormatItems(order)
        ));
    }
    Ok(())
}

/// The identity of an item: the value of its key, or the item itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, PatchError> {
    match (key, item) {
        (None, item) => Ok(item),
        (Some(key), Value::Object(fields)) => fields.get(key).ok_or_else(|| no_merge_key(item, key)),
        (Some(_), other) => Err(not_a(OBJECT, other)),
    }
}

/// The position of each item in a list; the first if it is there twice. An item without its key has none.
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
        let lists = lists.map(|items| GoFormatItems(items).to_string()).join(" ");
        return unforeseen(format!("list element types are not identical: [{lists}]"));
    }
    Ok(Some(first.is_object()))
}

pub(super) fn merge_lists(live: Vec<Value>, patch: Vec<Value>, rule: Rule) -> Result<Vec<Value>, PatchError> {
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
    let mut live_ranks = ranks(&live, Some(key));
    let live_count = live.len();
    for item in patch {
        let identity = identity(&item, Some(key))?;
        match live_ranks.get(identity).copied() {
            Some(at) => live[at] = merge_item(mem::take(&mut live[at]), item, ty)?,
            None => {
                live_ranks.insert(identity.clone(), live.len());
                live.push(item);
            }
        }
    }
    live_ranks.retain(|_, at| *at < live_count);
    in_order(live, &order, &live_ranks, Some(key))
}

fn merge_item(live: Value, patch: Value, ty: Option<TypeRef>) -> Result<Value, PatchError> {
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => merge_objects(live, patch, ty).map(Value::Object),
        (_, other) => Err(not_a(OBJECT, &other)),
    }
}

/// A list of a patch, split by what is done with its items.
struct Split {
    /// The items to merge.
    items: Vec<Value>,
    /// The keys of the items to delete.
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

/// Sorts items: those in `order` by it, the others as they are, each as early as `live` has it.
fn in_order(
    items: Vec<Value>,
    order: &Ranks,
    live: &Ranks,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (mut ordered, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let identity = identity(&item, key)?;
        let live_rank = live.get(identity).copied();
        match order.get(identity) {
            Some(rank) => ordered.push((*rank, live_rank, item)),
            None => others.push((live_rank, item)),
        }
    }
    ordered.sort_by_key(|(rank, ..)| *rank);
    let mut result = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, live_rank, item) in ordered {
        let is_before =
            |other: &(Option<usize>, Value)| matches!((other.0, live_rank), (Some(a), Some(b)) if a < b);
        while let Some((_, other)) = others.next_if(is_before) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others.map(|(_, other)| other));
    Ok(result)
}
