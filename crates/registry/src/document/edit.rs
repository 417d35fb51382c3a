//! Changing fields.

use super::{Fields, Object, is_zero, read::is_nested};
use serde_json::{Value, json};

/// Changes fields of a [`Value`] or of an [`Object`]. A value that is no object becomes one when a field is set in it.
pub(crate) trait Edit {
    /// The object whose fields are set; a value that is none becomes one.
    fn make_object(&mut self) -> &mut Object;

    /// The object, if the value is one.
    fn existing_object(&mut self) -> Option<&mut Object>;

    /// The value of a field; absent if it is not there.
    fn field_mut(&mut self, path: &str) -> Option<&mut Value> {
        let object = self.existing_object()?;
        if !is_nested(path) {
            return object.get_mut(path);
        }
        let mut names = path.split('.');
        let first = object.get_mut(names.next()?)?;
        names.try_fold(first, |value, name| value.get_mut(name))
    }

    /// The object in a field.
    fn object_mut(&mut self, path: &str) -> Option<&mut Object> {
        self.field_mut(path)?.as_object_mut()
    }

    /// The object in a field; an empty one is inserted if there is none.
    fn object_or_new(&mut self, path: &str) -> &mut Object {
        let object = self.make_object();
        if is_nested(path) { path.split('.').fold(object, child_or_new) } else { child_or_new(object, path) }
    }

    /// The items of a list.
    fn list_mut(&mut self, path: &str) -> impl Iterator<Item = &mut Value> {
        self.field_mut(path).and_then(Value::as_array_mut).into_iter().flatten()
    }

    /// The objects in a list.
    fn objects_mut(&mut self, path: &str) -> impl Iterator<Item = &mut Object> {
        self.list_mut(path).filter_map(Value::as_object_mut)
    }

    /// Sets a field, or removes it.
    fn set(&mut self, name: &str, value: Option<Value>) {
        let object = self.make_object();
        match value {
            Some(value) => drop(object.insert(name.to_owned(), value)),
            None => drop(object.remove(name)),
        }
    }

    /// Sets a text, or removes the field if the text is empty.
    fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, (!text.is_empty()).then(|| text.into()));
    }

    /// Sets a field that is not set.
    fn set_default(&mut self, name: &str, value: impl Into<Value>) {
        let object = self.make_object();
        if object.get(name).is_none_or(Value::is_null) {
            object.insert(name.to_owned(), value.into());
        }
    }

    /// Sets a field that is not set, or is zero or empty, which is the same for this field.
    fn set_if_zero(&mut self, name: &str, value: impl Into<Value>) {
        let object = self.make_object();
        if object.get(name).is_none_or(is_zero) {
            object.insert(name.to_owned(), value.into());
        }
    }

    /// Copies entries of one map to another where that one lacks them.
    fn fill_from(&mut self, target: &str, source: &str) {
        let object = self.make_object();
        let Some(from) = object.object(source) else { return };
        let known = object.object(target);
        let lacking = from.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
        let lacking: Vec<(String, Value)> =
            lacking.map(|(name, value)| (name.clone(), value.clone())).collect();
        if !lacking.is_empty() {
            object.object_or_new(target).extend(lacking);
        }
    }

    /// Sets one condition in an object's status.
    fn set_condition(&mut self, condition: Value) {
        let status = self.object_or_new("status");
        if !status.get("conditions").is_some_and(Value::is_array) {
            status.insert("conditions".to_owned(), json!([]));
        }
        let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
        match conditions.iter_mut().find(|other| other.text("type") == condition.text("type")) {
            Some(own) => *own = condition,
            None => conditions.push(condition),
        }
    }
}

impl Edit for Value {
    fn make_object(&mut self) -> &mut Object {
        if !self.is_object() {
            *self = Value::Object(Object::new());
        }
        self.as_object_mut().expect("it was made an object above")
    }

    fn existing_object(&mut self) -> Option<&mut Object> {
        self.as_object_mut()
    }
}

impl Edit for Object {
    fn make_object(&mut self) -> &mut Object {
        self
    }

    fn existing_object(&mut self) -> Option<&mut Object> {
        Some(self)
    }
}

fn child_or_new<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    if !object.contains_key(name) {
        object.insert(name.to_owned(), Value::Null);
    }
    object.get_mut(name).expect("it was inserted if it was not there").make_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edited(mut value: Value, edit: impl FnOnce(&mut Value)) -> Value {
        edit(&mut value);
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
            assert_eq!(edited(given.clone(), |object| object.set_default("a", "x")), default, "{given}");
            assert_eq!(edited(given.clone(), |object| object.set_if_zero("a", "x")), zero, "{given}");
        }
    }

    #[test]
    fn objects_are_made_on_the_way_to_a_field() {
        for given in [json!({}), json!(null), json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {}})] {
            let wanted = json!({"a": {"b": {"c": 1}}});
            let edit = |value: &mut Value| value.object_or_new("a.b").set("c", Some(1.into()));
            assert_eq!(edited(given.clone(), edit), wanted, "{given}");
            let looked_at = edited(given.clone(), |value| assert!(value.object_mut("a.b.c").is_none()));
            assert_eq!(looked_at, given, "looking makes nothing");
        }
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
            assert_eq!(edited(given, |object| object.fill_from("to", "from")), wanted);
        }
    }
}
