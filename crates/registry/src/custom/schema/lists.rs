//! Items that occur twice in lists whose items must differ, in their keys or as a whole.

use std::collections::HashMap;

use keepwatch_apimachinery::status::Cause;
use serde_json::{Map, Value};

use super::{
    node::{ListType, Node, Schema},
    numbers,
    path::Path,
    shown,
};

impl Schema {
    /// Items that occur twice where they may occur once; none if the old object had some too.
    pub(crate) fn check_lists(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let find = |object: &Value| {
            let mut causes = Vec::new();
            check(self.root(), object, &Path::Root, &mut causes);
            causes
        };
        let causes = find(new);
        if !causes.is_empty() && old.is_some_and(|old| !find(old).is_empty()) {
            return Vec::new();
        }
        causes
    }
}

fn check(node: &Node, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if !node.below.unique_lists {
        return;
    }
    match value {
        Value::Object(fields) => {
            if let Some(schema) = node.additional_schema() {
                for (name, value) in fields {
                    check(schema, value, &Path::Entry(path, name), causes);
                }
            }
            for (name, value) in fields {
                if let Some(schema) = node.property(name) {
                    check(schema, value, &Path::Field(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type.as_deref() {
                Some(ListType::Set) => set(items, path, causes),
                Some(ListType::Map(keys)) => map(keys, items, path, causes),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = node.items.as_deref() {
                for (at, item) in items.iter().enumerate() {
                    check(schema, item, &Path::Item(path, at), causes);
                }
            }
        }
        _ => {}
    }
}

fn set(items: &[Value], path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut report = |at: usize, item: &Value| {
        causes.push(shown::duplicate(Path::Item(path, at).keyed(), item));
    };
    if items.iter().any(|item| item.is_object() || item.is_array()) {
        let items: Vec<Value> = items.iter().cloned().map(composite).collect();
        repeated(&items).into_iter().for_each(|at| report(at, &items[at]));
    } else {
        repeated(items).into_iter().for_each(|at| report(at, &items[at]));
    }
}

/// A value in the form in which it is compared with others: `2` and `2.0` are equal inside objects and lists, which
/// Kubernetes compares as text, but not by themselves.
fn composite(mut value: Value) -> Value {
    if value.is_object() || value.is_array() {
        numbers::settle(&mut value);
    }
    value
}

fn map(keys: &[Box<str>], items: &[Value], path: &Path<'_>, causes: &mut Vec<Cause>) {
    if let Some(at) = items.iter().position(|item| !item.is_null() && !item.is_object()) {
        let why = "must be an object for an array of list-type map";
        causes.push(shown::invalid(Path::Item(path, at).keyed(), &items[at], why));
        return;
    }
    // Most lists are short and have one key.
    if let [key] = keys {
        let values: Vec<Option<&Value>> = items.iter().map(|item| item.get(&**key)).collect();
        for at in repeated(&values) {
            let shown = values[at].map(|value| ((**key).to_owned(), value.clone()));
            causes.push(shown::duplicate(
                Path::Item(path, at).keyed(),
                &Value::Object(shown.into_iter().collect()),
            ));
        }
        return;
    }
    let key_of = |item: &Value| {
        let fields = keys.iter().filter_map(|key| Some(((**key).to_owned(), item.get(&**key)?.clone())));
        composite(Value::Object(fields.collect::<Map<_, _>>()))
    };
    let values: Vec<Value> = items.iter().map(key_of).collect();
    for at in repeated(&values) {
        causes.push(shown::duplicate(Path::Item(path, at).keyed(), &values[at]));
    }
}

/// The largest number of items that are compared one by one.
const COMPARED_MAX: usize = 16;

/// The indices at which a value occurs for the second time, each value once.
fn repeated<T: PartialEq + std::hash::Hash + Eq>(values: &[T]) -> Vec<usize> {
    if values.len() <= COMPARED_MAX {
        let times = |at: usize| values[..at].iter().filter(|value| **value == values[at]).count();
        return (1..values.len()).filter(|at| times(*at) == 1).collect();
    }
    let mut times = HashMap::with_capacity(values.len());
    let mut second = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let times: &mut u32 = times.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            second.push(at);
        }
    }
    second
}
