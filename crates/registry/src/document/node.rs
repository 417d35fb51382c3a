//! A value with its path, for rules that read it and report errors.
//!
//! A path is a chain of borrowed steps: it costs nothing until an error is reported, and then becomes text as
//! `spec.containers[0].name`.

use super::Fields;
use serde_json::Value;
use std::fmt;

static NULL: Value = Value::Null;

/// One step of a path.
#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Item(&'a str, usize),
    Entry(&'a str, &'a str),
}

#[derive(Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
            if !matches!(parent.step, Step::Root)
                && !matches!(self.step, Step::Item("", _) | Step::Entry("", _))
            {
                f.write_str(".")?;
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => f.write_str(name),
            Step::Item(name, at) => write!(f, "{name}[{at}]"),
            Step::Entry(name, key) => write!(f, "{name}[{key}]"),
        }
    }
}

/// A value in a document `'d` with its path `'p`. What is not set is `null`.
#[derive(Clone, Copy)]
pub(crate) struct Node<'d, 'p> {
    /// The value.
    pub(crate) value: &'d Value,
    path: Path<'p>,
}

impl<'d, 'p> Node<'d, 'p> {
    /// The whole document.
    pub(crate) fn root(value: &'d Value) -> Node<'d, 'p> {
        Node { value, path: Path { parent: None, step: Step::Root } }
    }

    fn step<'q>(&'q self, value: &'d Value, step: Step<'q>) -> Node<'d, 'q> {
        Node { value, path: Path { parent: Some(&self.path), step } }
    }

    /// The path of the value, as errors name it.
    pub(super) fn path(&self) -> String {
        self.path.to_string()
    }

    /// A field.
    pub(crate) fn at<'q>(&'q self, path: &'q str) -> Node<'d, 'q> {
        self.step(self.field(path).unwrap_or(&NULL), Step::Field(path))
    }

    /// A field that errors call by another name.
    pub(crate) fn at_as<'q>(&'q self, path: &str, name: &'q str) -> Node<'d, 'q> {
        self.step(self.field(path).unwrap_or(&NULL), Step::Field(name))
    }

    /// Another value with the path of this one.
    pub(crate) fn with<'e>(&self, value: &'e Value) -> Node<'e, 'p> {
        Node { value, path: self.path }
    }

    /// The items of a list.
    pub(crate) fn items<'q>(&'q self, path: &'q str) -> impl Iterator<Item = Node<'d, 'q>> + use<'d, 'p, 'q> {
        let items = self.list(path).iter().enumerate();
        items.map(move |(index, item)| self.step(item, Step::Item(path, index)))
    }

    /// An item of a list.
    pub(crate) fn item<'q>(&'q self, path: &'q str, index: usize) -> Node<'d, 'q> {
        self.step(self.list(path).get(index).unwrap_or(&NULL), Step::Item(path, index))
    }

    /// The entries of a map.
    pub(crate) fn entries<'q>(
        &'q self,
        path: &'q str,
    ) -> impl Iterator<Item = (&'d str, Node<'d, 'q>)> + use<'d, 'p, 'q>
    where
        'd: 'q,
    {
        let entries = self.object(path).into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), self.step(value, Step::Entry(path, key))))
    }

    /// The entries of this value, which is a map.
    pub(crate) fn own_entries<'q>(&'q self) -> impl Iterator<Item = (&'d str, Node<'d, 'q>)> + use<'d, 'p, 'q>
    where
        'd: 'q,
    {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), self.step(value, Step::Entry("", key))))
    }

    /// An entry of a map.
    pub(crate) fn entry<'q>(&'q self, path: &'q str, key: &'q str) -> Node<'d, 'q> {
        let value = self.object(path).and_then(|map| map.get(key)).unwrap_or(&NULL);
        self.step(value, Step::Entry(path, key))
    }

    /// Whether the value is set.
    pub(crate) fn exists(&self) -> bool {
        !self.value.is_null()
    }

    /// The value as a text; empty if it is none.
    pub(crate) fn as_text(&self) -> &'d str {
        self.value.as_str().unwrap_or_default()
    }

    /// The value as a whole number, if it is one.
    pub(crate) fn as_number(&self) -> Option<i64> {
        self.value.as_i64()
    }
}

impl<'d> Fields<'d> for Node<'d, '_> {
    fn field(self, path: &str) -> Option<&'d Value> {
        self.value.field(path)
    }
}
