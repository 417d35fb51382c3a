//! Reading fields by their path.

use super::{Object, is_zero};
use crate::schema::{Timestamp, parse_time};
use serde_json::Value;

/// The fields of a [`Value`], of an [`Object`] and of a [`Node`](super::Node), by their path.
pub(crate) trait Fields<'d>: Copy {
    /// The value of a field, if it is set.
    fn field(self, path: &str) -> Option<&'d Value>;

    /// Whether a field is set.
    fn has(self, path: &str) -> bool {
        self.field(path).is_some()
    }

    /// A text.
    fn text(self, path: &str) -> &'d str {
        self.field(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// A whole number.
    fn number(self, path: &str) -> i64 {
        self.number_if_set(path).unwrap_or_default()
    }

    /// A whole number, where zero and not set differ.
    fn number_if_set(self, path: &str) -> Option<i64> {
        self.field(path).and_then(Value::as_i64)
    }

    /// A boolean.
    fn flag(self, path: &str) -> bool {
        self.field(path).and_then(Value::as_bool).unwrap_or_default()
    }

    /// The items of a list.
    fn list(self, path: &str) -> &'d [Value] {
        self.field(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The texts of a list.
    fn texts(self, path: &str) -> impl Iterator<Item = &'d str> + use<'d, Self> {
        self.list(path).iter().filter_map(Value::as_str)
    }

    /// The fields of an object, or the entries of a map.
    fn object(self, path: &str) -> Option<&'d Object> {
        self.field(path).and_then(Value::as_object)
    }

    /// A text in a map.
    fn entry_text(self, path: &str, key: &str) -> &'d str {
        self.object(path).and_then(|map| map.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number of items in a list, or of entries in a map.
    fn length(self, path: &str) -> usize {
        match self.field(path) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(entries)) => entries.len(),
            _ => 0,
        }
    }

    /// Whether a field is neither zero nor empty.
    fn is_filled(self, path: &str) -> bool {
        self.field(path).is_some_and(|value| !is_zero(value))
    }

    /// A time.
    fn time(self, path: &str) -> Option<Timestamp> {
        parse_time(self.field(path)?.as_str()?)
    }

    /// The name of an object.
    fn name(self) -> &'d str {
        self.text("metadata.name")
    }

    /// An annotation of an object.
    fn annotation(self, name: &str) -> &'d str {
        self.entry_text("metadata.annotations", name)
    }

    /// The finalizers of an object.
    fn finalizers(self) -> &'d [Value] {
        self.list("metadata.finalizers")
    }

    /// Whether an object is marked for deletion.
    fn is_deleting(self) -> bool {
        self.has("metadata.deletionTimestamp")
    }

    /// The condition of a type in an object's status.
    fn condition(self, ty: &str) -> Option<&'d Value> {
        self.list("status.conditions").iter().find(|condition| condition.text("type") == ty)
    }

    /// Whether an object has a condition, and its status is `True`.
    fn is_condition_true(self, ty: &str) -> bool {
        self.condition(ty).is_some_and(|condition| condition.text("status") == "True")
    }
}

impl<'d> Fields<'d> for &'d Value {
    fn field(self, path: &str) -> Option<&'d Value> {
        follow(path, |name| self.get(name))
    }
}

/// An absent value has no fields.
impl<'d, T: Fields<'d>> Fields<'d> for Option<T> {
    fn field(self, path: &str) -> Option<&'d Value> {
        self.and_then(|fields| fields.field(path))
    }
}

impl<'d> Fields<'d> for &'d Object {
    fn field(self, path: &str) -> Option<&'d Value> {
        follow(path, |name| self.get(name))
    }
}

/// Whether a path has several names. Nearly all have one, which is not worth splitting.
#[inline]
pub(super) fn is_nested(path: &str) -> bool {
    path.as_bytes().contains(&b'.')
}

/// Follows a path from where `first` finds the field of its first name.
#[inline]
fn follow<'d>(path: &str, first: impl FnOnce(&str) -> Option<&'d Value>) -> Option<&'d Value> {
    let found = if is_nested(path) {
        let mut names = path.split('.');
        let value = names.next().and_then(first)?;
        names.try_fold(value, |value, name| value.get(name))
    } else {
        first(path)
    };
    found.filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Node;
    use serde_json::json;

    #[test]
    fn a_value_an_object_and_a_node_read_alike() {
        let document = json!({
            "a": {"b": {"text": "x", "number": 7, "flag": true, "list": ["p", 1, "q"], "null": null, "zero": 0}},
        });
        let object = document.as_object().unwrap();
        fn check<'d>(fields: impl Fields<'d>) {
            assert_eq!(
                (fields.text("a.b.text"), fields.text("a.b.number"), fields.text("a.c.text")),
                ("x", "", "")
            );
            assert_eq!(
                (fields.number("a.b.number"), fields.number("a.b.text"), fields.number("z")),
                (7, 0, 0)
            );
            assert_eq!((fields.number_if_set("a.b.zero"), fields.number_if_set("a.b.null")), (Some(0), None));
            assert_eq!((fields.flag("a.b.flag"), fields.flag("a.b.text")), (true, false));
            assert_eq!(
                (fields.has("a.b"), fields.has("a.b.null"), fields.has("a.b.text.c")),
                (true, false, false)
            );
            assert_eq!(fields.texts("a.b.list").collect::<Vec<_>>(), ["p", "q"]);
            assert_eq!(
                (fields.length("a.b.list"), fields.length("a.b"), fields.length("a.b.text")),
                (3, 6, 0)
            );
            assert_eq!((fields.is_filled("a.b.zero"), fields.is_filled("a.b.number")), (false, true));
        }
        check(&document);
        check(object);
        check(Node::root(&document));
    }

    #[test]
    fn keys_of_maps_are_no_paths() {
        let document = json!({"metadata": {"annotations": {"example.com/a.b": "x"}}});
        assert_eq!(document.annotation("example.com/a.b"), "x");
        assert_eq!(document.text("metadata.annotations.example.com/a.b"), "");
    }
}
