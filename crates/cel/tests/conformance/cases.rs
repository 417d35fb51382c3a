//! The cases of the conformance data, in terms of this crate.

use std::fmt;
use std::sync::Arc;

use keepwatch_cel::types::Type;
use keepwatch_cel::value::{Duration, List, Map, Timestamp, Value};

use super::textproto::{Message, Node};

/// One test.
pub(crate) struct Case {
    /// File, section and name.
    pub(crate) path: String,
    pub(crate) expression: String,
    pub(crate) container: String,
    /// Whether it is to run without types.
    pub(crate) unchecked: bool,
    pub(crate) macros_are_disabled: bool,
    /// The declared variables and functions: an error names the one that cannot be declared here.
    pub(crate) variables: Vec<(String, Result<Type, &'static str>)>,
    pub(crate) bindings: Vec<(String, Result<Shown, &'static str>)>,
    pub(crate) expected: Expected,
}

/// The expected result.
pub(crate) enum Expected {
    Value(Result<Shown, &'static str>),
    /// Any error.
    Error,
    /// A type, and a value unless only types are checked.
    Typed(Result<Type, &'static str>, Option<Result<Shown, &'static str>>),
}

/// A value as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(Exact),
    String(String),
    Bytes(Vec<u8>),
    Timestamp(i64, u32),
    Duration(i64),
    List(Vec<Shown>),
    /// Sorted by how the keys are printed.
    Map(Vec<(Shown, Shown)>),
    Type(String),
    Optional(Option<Box<Shown>>),
    Other(String),
}

/// A double of which every NaN is the same.
#[derive(Clone, Copy)]
pub(crate) struct Exact(pub(crate) f64);

impl PartialEq for Exact {
    fn eq(&self, other: &Exact) -> bool {
        self.0 == other.0 || (self.0.is_nan() && other.0.is_nan())
    }
}

impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Shown {
    /// The result of an evaluation.
    pub(crate) fn of(value: &Value<'_>) -> Shown {
        match value {
            Value::Null => Shown::Null,
            Value::Bool(value) => Shown::Bool(*value),
            Value::Int(value) => Shown::Int(*value),
            Value::Uint(value) => Shown::Uint(*value),
            Value::Double(value) => Shown::Double(Exact(*value)),
            Value::String(text) => Shown::String(text.to_string()),
            Value::Bytes(bytes) => Shown::Bytes(bytes.to_vec()),
            Value::Timestamp(time) => Shown::Timestamp(time.seconds, time.nanos),
            Value::Duration(span) => Shown::Duration(span.nanos),
            Value::Type(name) => Shown::Type(name.to_string()),
            Value::Optional(inner) => {
                Shown::Optional(inner.as_deref().map(|inner| Box::new(Shown::of(inner))))
            }
            Value::List(List::Values(values)) => Shown::List(values.iter().map(Shown::of).collect()),
            Value::List(List::Json { items, .. }) => {
                Shown::of_json(&serde_json::Value::Array(items.to_vec()))
            }
            Value::Map(Map::Values(values)) => Shown::map(
                values.entries().iter().map(|(key, value)| (Shown::of(key), Shown::of(value))).collect(),
            ),
            Value::Map(Map::Json { entries, .. }) => {
                Shown::of_json(&serde_json::Value::Object((*entries).clone()))
            }
            other => Shown::Other(other.type_name().to_owned()),
        }
    }

    fn of_json(json: &serde_json::Value) -> Shown {
        match json {
            serde_json::Value::Array(items) => Shown::List(items.iter().map(Shown::of_json).collect()),
            serde_json::Value::Object(entries) => Shown::map(
                entries
                    .iter()
                    .map(|(key, value)| (Shown::String(key.clone()), Shown::of_json(value)))
                    .collect(),
            ),
            scalar => Shown::of(&Value::from_json(scalar)),
        }
    }

    fn map(mut entries: Vec<(Shown, Shown)>) -> Shown {
        entries.sort_by_cached_key(|(key, _)| format!("{key:?}"));
        Shown::Map(entries)
    }

    /// The value of a variable. Maps must have text as keys, because a document is made of them.
    pub(crate) fn value(&self) -> Option<Value<'static>> {
        Some(match self {
            Shown::Null => Value::Null,
            Shown::Bool(value) => Value::Bool(*value),
            Shown::Int(value) => Value::Int(*value),
            Shown::Uint(value) => Value::Uint(*value),
            Shown::Double(value) => Value::Double(value.0),
            Shown::String(text) => Value::String(text.clone().into()),
            Shown::Bytes(bytes) => Value::Bytes(Arc::from(bytes.as_slice())),
            Shown::Timestamp(seconds, nanos) => {
                Value::Timestamp(Timestamp { seconds: *seconds, nanos: *nanos, offset_seconds: 0 })
            }
            Shown::Duration(nanos) => Value::Duration(Duration { nanos: *nanos }),
            Shown::List(values) => {
                let values: Option<Vec<_>> = values.iter().map(Shown::value).collect();
                Value::List(List::Values(Arc::new(values?)))
            }
            Shown::Map(_) => Value::from_json(Box::leak(Box::new(self.json()?))),
            Shown::Type(_) | Shown::Optional(_) | Shown::Other(_) => return None,
        })
    }

    fn json(&self) -> Option<serde_json::Value> {
        Some(match self {
            Shown::Null => serde_json::Value::Null,
            Shown::Bool(value) => (*value).into(),
            Shown::Int(value) => (*value).into(),
            Shown::Double(value) => value.0.into(),
            Shown::String(text) => text.clone().into(),
            Shown::List(values) => {
                serde_json::Value::Array(values.iter().map(Shown::json).collect::<Option<_>>()?)
            }
            Shown::Map(entries) => {
                let entry = |(key, value): &(Shown, Shown)| match key {
                    Shown::String(key) => Some((key.clone(), value.json()?)),
                    _ => None,
                };
                serde_json::Value::Object(entries.iter().map(entry).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// The cases of a file.
pub(crate) fn cases(file: &str, source: &str) -> Result<Vec<Case>, String> {
    let root = Message::parse(source)?;
    let mut cases = Vec::new();
    for section in root.messages("section") {
        for test in section.messages("test") {
            cases.push(case(format!("{file}/{}/{}", section.text("name"), test.text("name")), test));
        }
    }
    Ok(cases)
}

fn case(path: String, test: &Message) -> Case {
    let expected = if let Some(value) = test.message("value") {
        Expected::Value(shown(value))
    } else if let Some(typed) = test.message("typed_result") {
        let deduced = typed.message("deduced_type").map_or(Ok(Type::Dyn), deduced_type);
        Expected::Typed(deduced, typed.message("result").filter(|_| !test.flag("check_only")).map(shown))
    } else if test.all("eval_error").next().is_some() || test.all("any_eval_errors").next().is_some() {
        Expected::Error
    } else {
        // The format says so.
        Expected::Value(Ok(Shown::Bool(true)))
    };
    let variable = |declaration: &Message| {
        let declared = match declaration.message("ident") {
            Some(ident) => ident.message("type").map_or(Ok(Type::Dyn), deduced_type),
            None => Err("functions of the test suite's own"),
        };
        (declaration.text("name"), declared)
    };
    let binding = |binding: &Message| {
        let value = binding
            .message("value")
            .and_then(|value| value.message("value"))
            .map_or(Err("values that are unknown"), shown);
        (binding.text("key"), value)
    };
    Case {
        path,
        expression: test.text("expr"),
        container: test.text("container"),
        unchecked: test.flag("disable_check"),
        macros_are_disabled: test.flag("disable_macros"),
        variables: test.messages("type_env").map(variable).collect(),
        bindings: test.messages("bindings").map(binding).collect(),
        expected,
    }
}

const MESSAGES: &str = "messages of protocol buffers";

/// A value as the data writes it.
fn shown(message: &Message) -> Result<Shown, &'static str> {
    let Some((field, node)) = message.0.first() else { return Err("values without a kind") };
    Ok(match (field.as_str(), node) {
        ("null_value", _) => Shown::Null,
        ("bool_value", Node::Word(word)) => Shown::Bool(word == "true"),
        ("int64_value", Node::Word(word)) => Shown::Int(integer(word).ok_or("numbers")?),
        ("uint64_value", Node::Word(word)) => Shown::Uint(
            word.parse()
                .or_else(|_| u64::from_str_radix(word.trim_start_matches("0x"), 16))
                .map_err(|_| "numbers")?,
        ),
        ("double_value", Node::Word(word)) => Shown::Double(Exact(word.parse().map_err(|_| "numbers")?)),
        ("string_value", Node::Text(text)) => Shown::String(String::from_utf8_lossy(text).into_owned()),
        ("bytes_value", Node::Text(text)) => Shown::Bytes(text.clone()),
        ("type_value", Node::Text(text)) => Shown::Type(String::from_utf8_lossy(text).into_owned()),
        ("list_value", Node::Message(list)) => {
            Shown::List(list.messages("values").map(shown).collect::<Result<_, _>>()?)
        }
        ("map_value", Node::Message(map)) => {
            let part = |entry: &Message, name: &str| entry.message(name).map_or(Err("entries"), shown);
            let entry = |entry: &Message| Ok((part(entry, "key")?, part(entry, "value")?));
            let entries: Result<Vec<(Shown, Shown)>, &'static str> =
                map.messages("entries").map(entry).collect();
            Shown::map(entries?)
        }
        ("object_value", Node::Message(object)) => return well_known(object),
        ("enum_value", _) => return Err("enumerations of protocol buffers"),
        _ => return Err("values of another kind"),
    })
}

fn integer(word: &str) -> Option<i64> {
    match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Times and spans of time are messages that the language knows.
fn well_known(object: &Message) -> Result<Shown, &'static str> {
    let (name, Node::Message(fields)) = object.0.first().ok_or(MESSAGES)? else { return Err(MESSAGES) };
    let number = |field: &str| match fields.all(field).next() {
        Some(Node::Word(word)) => word.parse::<i64>().unwrap_or_default(),
        _ => 0,
    };
    match name.as_str() {
        "[type.googleapis.com/google.protobuf.Timestamp]" => {
            Ok(Shown::Timestamp(number("seconds"), number("nanos") as u32))
        }
        "[type.googleapis.com/google.protobuf.Duration]" => {
            Ok(Shown::Duration(number("seconds") * 1_000_000_000 + number("nanos")))
        }
        _ => Err(MESSAGES),
    }
}

/// A type as the data writes it.
fn deduced_type(message: &Message) -> Result<Type, &'static str> {
    let Some((kind, node)) = message.0.first() else { return Ok(Type::Dyn) };
    let part = |inner: &Message, name: &str| inner.message(name).map_or(Ok(Type::Dyn), deduced_type);
    Ok(match (kind.as_str(), node) {
        ("dyn", _) => Type::Dyn,
        ("null", _) => Type::Null,
        ("primitive", Node::Word(name)) => match name.as_str() {
            "BOOL" => Type::Bool,
            "INT64" => Type::Int,
            "UINT64" => Type::Uint,
            "DOUBLE" => Type::Double,
            "STRING" => Type::String,
            "BYTES" => Type::Bytes,
            _ => return Err("types of another kind"),
        },
        ("well_known", Node::Word(name)) => match name.as_str() {
            "TIMESTAMP" => Type::Timestamp,
            "DURATION" => Type::Duration,
            _ => return Err(MESSAGES),
        },
        ("list_type", Node::Message(list)) => Type::list(part(list, "elem_type")?),
        ("map_type", Node::Message(map)) => Type::map(part(map, "key_type")?, part(map, "value_type")?),
        ("type", Node::Message(inner)) => Type::type_of(deduced_type(inner)?),
        ("abstract_type", Node::Message(inner)) if inner.text("name") == "optional_type" => {
            Type::optional(part(inner, "parameter_types")?)
        }
        ("message_type" | "wrapper", _) => return Err(MESSAGES),
        _ => return Err("types of another kind"),
    })
}
