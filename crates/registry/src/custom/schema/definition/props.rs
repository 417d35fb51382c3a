//! The schema of a definition, and its position in the definition.

use std::{fmt, sync::LazyLock};

use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// The fields of a schema. Absent fields are empty, as in Go.
#[derive(Clone, Copy)]
pub(super) struct Props<'a>(pub(super) &'a Fields);

impl<'a> Props<'a> {
    /// A value that is no object counts as an empty schema.
    pub(super) fn of(schema: &'a Value) -> Props<'a> {
        static NOTHING: LazyLock<Fields> = LazyLock::new(Map::new);
        Props(schema.as_object().unwrap_or(&NOTHING))
    }

    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The text, if it is given; it may be empty.
    pub(super) fn given(self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }

    pub(super) fn flag(self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }

    pub(super) fn list(self, name: &str) -> &'a [Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    pub(super) fn map(self, name: &str) -> Option<&'a Fields> {
        self.get(name).and_then(Value::as_object)
    }

    /// The schema in that field, if one is there.
    pub(super) fn schema(self, name: &str) -> Option<Props<'a>> {
        self.map(name).map(Props)
    }

    /// The schemas in that list.
    pub(super) fn schemas(self, name: &str) -> impl Iterator<Item = Props<'a>> {
        self.list(name).iter().map(Props::of)
    }

    /// The schemas in that map, by their keys.
    pub(super) fn keyed(self, name: &str) -> impl Iterator<Item = (&'a str, Props<'a>)> {
        self.map(name).into_iter().flatten().map(|(key, schema)| (key.as_str(), Props::of(schema)))
    }

    pub(super) fn property(self, name: &str) -> Option<Props<'a>> {
        self.map("properties")?.get(name).map(Props::of)
    }
}

/// One step after another from the definition to a part of it.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Root(&'a str),
    Child(&'a At<'a>, &'a str),
    Key(&'a At<'a>, &'a str, &'a str),
    Index(&'a At<'a>, &'a str, usize),
}

impl<'a> At<'a> {
    pub(super) fn child(&'a self, name: &'a str) -> At<'a> {
        At::Child(self, name)
    }

    pub(super) fn key(&'a self, name: &'a str, key: &'a str) -> At<'a> {
        At::Key(self, name, key)
    }

    pub(super) fn index(&'a self, name: &'a str, at: usize) -> At<'a> {
        At::Index(self, name, at)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root(path) => f.write_str(path),
            At::Child(parent, name) => write!(f, "{parent}.{name}"),
            At::Key(parent, name, key) => write!(f, "{parent}.{name}[{key}]"),
            At::Index(parent, name, at) => write!(f, "{parent}.{name}[{at}]"),
        }
    }
}
