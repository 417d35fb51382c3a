//! The value before an update, so that values that did not change have no errors.
//!
//! Fields and entries of maps are identified by their names, items of lists that are maps by their keys. Items of other
//! lists have no old values of their own: such a list changed as a whole or not at all.

use std::{cell::OnceCell, collections::HashMap};

use serde_json::Value;

use super::node::Node;

/// The old value, and its schema; none if it is not known.
#[derive(Clone, Copy, Default)]
pub(in crate::custom) struct Old<'a>(Option<(&'a Node, &'a Value)>);

impl<'a> Old<'a> {
    pub(in crate::custom) fn at_root(node: &'a Node, old: Option<&'a Value>) -> Old<'a> {
        Old(old.map(|old| (node, old)))
    }

    /// The old value of that field, as yet without a schema.
    pub(in crate::custom) fn field(self, name: &str) -> Found<'a> {
        Found(self.0.and_then(|(_, old)| old.as_object()?.get(name)))
    }

    /// The old values of the items of a list.
    pub(in crate::custom) fn items(self, node: &'a Node, new: &[Value]) -> Items<'a> {
        let old = self.0.and_then(|(_, old)| old.as_array()).filter(|_| !new.is_empty());
        Items::new(node, old)
    }

    /// The value, if it is known.
    pub(in crate::custom) fn value(self) -> Option<&'a Value> {
        self.0.map(|(_, old)| old)
    }

    /// Whether it is known.
    pub(in crate::custom) fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Whether the value is equal to the old one.
    pub(in crate::custom) fn is_same(self, new: &Value) -> bool {
        self.0.is_some_and(|(node, old)| is_same(node, new, old))
    }
}

/// The old value of a field, if it was there.
#[derive(Clone, Copy)]
pub(in crate::custom) struct Found<'a>(Option<&'a Value>);

impl<'a> Found<'a> {
    pub(in crate::custom) fn of(self, node: &'a Node) -> Old<'a> {
        Old::at_root(node, self.0)
    }
}

/// The old items of a list.
pub(in crate::custom) struct Items<'a> {
    keys: &'a [Box<str>],
    old: &'a [Value],
    /// The index of each item by its keys; computed when an item has moved.
    places: OnceCell<HashMap<Vec<&'a Value>, usize>>,
}

impl<'a> Items<'a> {
    fn new(node: &'a Node, old: Option<&'a Vec<Value>>) -> Items<'a> {
        let (keys, old) = match (node.map_keys(), old) {
            (Some(keys), Some(old)) if !keys.is_empty() => (keys, old.as_slice()),
            _ => (&[][..], &[][..]),
        };
        Items { keys, old, places: OnceCell::new() }
    }

    /// Whether items are identified at all.
    fn is_map(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The old value of an item: the item with the same keys, which is most often at the same index.
    pub(in crate::custom) fn at(&self, node: &'a Node, place: usize, new: &Value) -> Old<'a> {
        Old::at_root(node, self.find(place, new))
    }

    fn find(&self, place: usize, new: &Value) -> Option<&'a Value> {
        if self.old.is_empty() {
            return None;
        }
        let wanted = keys_of(self.keys, new)?;
        // Most have not moved.
        if let Some(old) = self.old.get(place).filter(|old| keys_of(self.keys, old).as_ref() == Some(&wanted))
        {
            return Some(old);
        }
        let places = self.places.get_or_init(|| {
            let mut places = HashMap::with_capacity(self.old.len());
            for (place, old) in self.old.iter().enumerate() {
                if let Some(keys) = keys_of(self.keys, old) {
                    places.entry(keys).or_insert(place);
                }
            }
            places
        });
        places.get(&wanted).map(|place| &self.old[*place])
    }
}

/// The keys of an item; none if one is missing or could be no key.
fn keys_of<'v>(keys: &[Box<str>], item: &'v Value) -> Option<Vec<&'v Value>> {
    keys.iter().map(|key| item.get(&**key).filter(|value| is_scalar(value))).collect()
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

/// Whether a value is equal to the old one, except that items of a list that is a map may have moved.
pub(super) fn is_same(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(old_items)) => {
            if new.len() != old_items.len() {
                return false;
            }
            let items = Items::new(node, Some(old_items));
            match node.items.as_deref().filter(|_| items.is_map()) {
                Some(schema) => {
                    let is_same =
                        |(place, new)| items.find(place, new).is_some_and(|old| is_same(schema, new, old));
                    new.iter().enumerate().all(is_same)
                }
                None => new == old_items,
            }
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, new)| match (node.field(name), old.get(name)) {
                    (Some(schema), Some(old)) => is_same(schema, new, old),
                    // As in Kubernetes, a value without a schema counts as changed.
                    _ => false,
                })
        }
        (new, old) => new == old,
    }
}
