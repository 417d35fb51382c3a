//! Strict decoding: reports unknown and duplicate fields of a text.
//!
//! It is called only for texts that have some: they are parsed once more, because the order of the reports is that of
//! the text, which a document does not have.

use super::{
    Problems, Shape, TypeRef, ValueKind, lenient, normalize::is_type_meta, path::Path, read::yaml_options,
    types::FieldSet,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;
use std::{collections::HashSet, fmt};

/// The unknown and the duplicate fields of a JSON text that was read as a document of this type, in the order of the text.
pub(crate) fn field_problems(text: &[u8], ty: TypeRef) -> Problems {
    problems(text, Expected::Message(ty))
}

/// The same of a JSON text that was read as the operations of a JSON patch.
pub(crate) fn operation_problems(text: &[u8]) -> Problems {
    problems(text, Expected::Operations)
}

fn problems(text: &[u8], expected: Expected) -> Problems {
    let mut problems = Problems::default();
    if check(text, expected, &mut problems).is_err()
        && let Some(text) = lenient::rewritten(text)
    {
        problems = Problems::default();
        let _ = check(&text, expected, &mut problems);
    }
    problems
}

fn check(text: &[u8], expected: Expected, problems: &mut Problems) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    StrictReader { path: &Path::Top, problems, expected }.deserialize(&mut deserializer)
}

/// The expected type of a value.
#[derive(Clone, Copy)]
enum Expected {
    Message(TypeRef),
    List(ValueKind),
    Map(ValueKind),
    /// A JSON patch.
    Operations,
    /// One operation of it.
    Operation,
    /// Anything, in which no field is unknown.
    Any,
    /// A leaf, or a value that Go decodes separately and reports nothing about.
    Other,
}

impl Expected {
    fn one(kind: ValueKind) -> Expected {
        match kind {
            ValueKind::Message(ty) => Expected::Message(ty),
            _ => Expected::Other,
        }
    }

    fn new(shape: Shape, kind: ValueKind) -> Expected {
        match shape {
            Shape::One => Expected::one(kind),
            Shape::List => Expected::List(kind),
            Shape::Map => Expected::Map(kind),
        }
    }
}

struct StrictReader<'a> {
    path: &'a Path<'a>,
    problems: &'a mut Problems,
    expected: Expected,
}

impl<'de> DeserializeSeed<'de> for StrictReader<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.expected {
            Expected::Other => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for StrictReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let expected = match self.expected {
            Expected::List(kind) => Expected::one(kind),
            Expected::Operations => Expected::Operation,
            Expected::Any => Expected::Any,
            _ => Expected::Other,
        };
        let mut at = 0;
        loop {
            let path = &Path::Item(self.path, at);
            let item = StrictReader { path, problems: &mut *self.problems, expected };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (mut given, mut names) = (FieldSet::default(), HashSet::new());
        while let Some(name) = fields.next_key::<String>()? {
            let path = &Path::Field(self.path, &name);
            let (expected, is_known, is_duplicate) = match self.expected {
                Expected::Message(ty) => match ty.field_index(&name) {
                    Some(number) => {
                        let is_duplicate = given.contains(number);
                        given.insert(number);
                        let field = ty.json_fields()[number];
                        (Expected::new(field.shape, field.kind), true, is_duplicate)
                    }
                    None if is_type_meta(&name, ty) => (Expected::Other, true, !names.insert(name.clone())),
                    None if ty.open => (Expected::Any, true, !names.insert(name.clone())),
                    None => (Expected::Other, false, false),
                },
                Expected::Map(kind) => (Expected::one(kind), true, !names.insert(name.clone())),
                Expected::Operation => match name.as_str() {
                    "value" => (Expected::Any, true, !names.insert(name.clone())),
                    "op" | "path" | "from" => (Expected::Other, true, !names.insert(name.clone())),
                    _ => (Expected::Other, false, false),
                },
                Expected::Any => (Expected::Any, true, !names.insert(name.clone())),
                Expected::List(_) | Expected::Operations | Expected::Other => (Expected::Other, true, false),
            };
            if !is_known {
                self.problems.add(format!("unknown field \"{path}\""));
            } else if is_duplicate {
                self.problems.add(format!("duplicate field \"{path}\""));
            }
            fields.next_value_seed(StrictReader { path, problems: &mut *self.problems, expected })?;
        }
        Ok(())
    }
}

/// The stack for finding the lines of values. They are no deeper than the reader allows, but the parser needs several
/// times as much stack for each level when it reports positions.
const STACK_BYTES: usize = 32 << 20;

/// The duplicate fields of a YAML text that was read and has some, in the words of Go's parser, which names the lines of
/// their values.
pub(crate) fn yaml_duplicates(text: &str) -> Problems {
    let find = || {
        let mut problems = Problems::default();
        let read = serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |yaml| {
            Node::deserialize(yaml)
        });
        if let Ok(node) = read {
            node.report_duplicates(&mut problems);
        }
        problems
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, find);
        thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_default()
    })
}

/// The contents of a YAML text, reduced to the names of fields.
enum Node {
    Leaf,
    List(Vec<Node>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl Node {
    fn report_duplicates(&self, problems: &mut Problems) {
        match self {
            Node::Leaf => {}
            Node::List(items) => items.iter().for_each(|item| item.report_duplicates(problems)),
            Node::Map(fields) => {
                let mut names = HashSet::new();
                for (name, value) in fields {
                    value.value.report_duplicates(problems);
                    if !names.insert(name) {
                        let line = value.referenced.line();
                        problems.add(format!("line {line}: key {name:?} already set in map"));
                    }
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
    fn visit_str<E: de::Error>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(field) = fields.next_entry()? {
            map.push(field);
        }
        Ok(Node::Map(map))
    }
}
