//! From JSON to values, as the schema declares them.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Duration, List, Map, Object, Text, Value};
use crate::declarations::{Failure, Outcome};
use crate::library::leaf;
use crate::schema::{Declared, Kind};

impl<'a> Value<'a> {
    /// A JSON value of which no schema is known.
    pub fn from_json(json: &'a Json) -> Self {
        undeclared(json)
    }

    /// A JSON value as its schema declares it.
    ///
    /// # Errors
    ///
    /// It is not of the declared type.
    pub fn from_declared(json: &'a Json, declared: &'a Declared) -> Result<Self, crate::eval::EvalError> {
        read(json, Some(declared)).map_err(crate::eval::EvalError::from)
    }
}

fn undeclared(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Json { items, declared: None }),
        Json::Object(entries) => Value::Map(Map::Json { entries, declared: None }),
    }
}

/// Reads one value and nothing below it.
pub(crate) fn read<'a>(json: &'a Json, declared: Option<&'a Declared>) -> Outcome<'a> {
    let Some(declared) = declared else { return Ok(undeclared(json)) };
    if json.is_null() {
        return if declared.nullable {
            Ok(Value::Null)
        } else {
            Err("invalid data, got null for schema with nullable=false".into())
        };
    }
    match (&declared.kind, json) {
        (Kind::Dyn | Kind::Typed(_), json) => Ok(undeclared(json)),
        (Kind::String, Json::String(text)) => Ok(Value::String(Text::Borrowed(text))),
        (Kind::Object { .. }, Json::Object(properties)) => {
            Ok(Value::Object(Object::Json { properties, declared }))
        }
        (Kind::Map { .. }, Json::Object(entries)) => {
            Ok(Value::Map(Map::Json { entries, declared: Some(declared) }))
        }
        (Kind::List { .. }, Json::Array(items)) => {
            Ok(Value::List(List::Json { items, declared: Some(declared) }))
        }
        (Kind::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (Kind::Int | Kind::IntOrString, Json::Number(number)) if number.is_i64() => {
            Ok(Value::Int(number.as_i64().unwrap_or_default()))
        }
        (Kind::Double, Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or(f64::NAN))),
        (Kind::IntOrString, Json::String(text)) => Ok(Value::String(Text::Borrowed(text))),
        (kind, Json::String(text)) => formatted(kind, text),
        (kind, json) => Err(mismatch(kind, json)),
    }
}

/// Text in a format that makes it a value of another type.
fn formatted<'a>(kind: &Kind, text: &'a str) -> Outcome<'a> {
    match kind {
        Kind::Bytes => match leaf::openapi_format::parse_bytes(text) {
            Ok(bytes) => Ok(Value::Bytes(Arc::from(bytes))),
            Err(error) => Err(Failure::Error(format!("Invalid byte formatted string {text}: {error}"))),
        },
        Kind::Duration => match leaf::openapi_format::parse_duration(text) {
            Ok(nanos) => Ok(Value::Duration(Duration { nanos })),
            Err(error) => Err(Failure::Error(format!("Invalid duration {text}: {error}"))),
        },
        Kind::Date => match leaf::openapi_format::parse_date(text) {
            Ok(time) => Ok(Value::Timestamp(time)),
            Err(error) => Err(Failure::Error(format!("Invalid date formatted string {text}: {error}"))),
        },
        Kind::DateTime => match leaf::openapi_format::parse_date_time(text) {
            Ok(time) => Ok(Value::Timestamp(time)),
            Err(error) => Err(Failure::Error(format!("Invalid date-time formatted string {text}: {error}"))),
        },
        _ => Err(mismatch(kind, &Json::String(text.to_owned()))),
    }
}

/// The error of a value that is not of the declared type.
fn mismatch(kind: &Kind, json: &Json) -> Failure {
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    Failure::Error(match kind {
        Kind::IntOrString => {
            "invalid data, expected XIntOrString value to be either a string or integer".into()
        }
        Kind::Object { .. } | Kind::Map { .. } => {
            "invalid data, expected a map for the provided schema with type=object".into()
        }
        Kind::List { .. } => "invalid data, expected an array for the provided schema with type=array".into(),
        Kind::Bool => format!("invalid data, expected bool, got {found}"),
        Kind::Int => format!("invalid data, expected int, got {found}"),
        Kind::Double => format!("invalid data, expected float, got {found}"),
        _ => format!("invalid data, expected string, got {found}"),
    })
}
