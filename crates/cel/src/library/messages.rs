//! Messages of protocol buffers that expressions can make: times, wrappers of primitive types, and JSON.
//!
//! A wrapper is the value in it, and JSON is a map, a list or a value, so nothing of a message is left once it is made. Not
//! here: `google.protobuf.Any` and `google.protobuf.Empty`, whose values stay messages; no object has them.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::leaf;
use crate::declarations::{Failure, Outcome};
use crate::types::Type;
use crate::value::{Duration, Map, MapValues, Opaque, Value};

/// The only constant of an enumeration.
pub(crate) const NULL_VALUE: &str = "google.protobuf.NullValue.NULL_VALUE";

/// The largest integer up to which all have a float of their own. Others become text in JSON.
const EXACT_INTEGER_MAX: u64 = 1 << 53;

/// A message that expressions can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Timestamp,
    Duration,
    Wrapper(Wrapper),
    Struct,
    ListValue,
    Value,
}

/// A message around a value of a primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper {
    Bool,
    Bytes,
    Double,
    Float,
    Int32,
    Int64,
    String,
    Uint32,
    Uint64,
}

impl Message {
    /// The message of a name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix('.').unwrap_or(name).strip_prefix("google.protobuf.")?;
        Some(match name {
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "Struct" => Self::Struct,
            "ListValue" => Self::ListValue,
            "Value" => Self::Value,
            name => Self::Wrapper(Wrapper::by_name(name.strip_suffix("Value")?)?),
        })
    }

    /// The type of an expression that makes it.
    pub(crate) fn cel_type(self) -> Type {
        match self {
            Self::Timestamp => Type::Timestamp,
            Self::Duration => Type::Duration,
            Self::Wrapper(wrapper) => Type::Wrapper(Arc::new(wrapper.wrapped())),
            Self::Struct => Type::map(Type::String, Type::Dyn),
            Self::ListValue => Type::list(Type::Dyn),
            Self::Value => Type::Dyn,
        }
    }

    /// Whether its name stands for a type only where a message is made.
    pub(crate) fn is_only_made(self) -> bool {
        !matches!(self, Self::Timestamp | Self::Duration)
    }

    /// The type of a field.
    pub(crate) fn field(self, name: &str) -> Option<Type> {
        Some(match (self, name) {
            (Self::Timestamp | Self::Duration, "seconds" | "nanos") => Type::Int,
            (Self::Wrapper(wrapper), "value") => wrapper.wrapped(),
            (Self::Struct, "fields") | (Self::Value, "struct_value") => Self::Struct.cel_type(),
            (Self::ListValue, "values") | (Self::Value, "list_value") => Self::ListValue.cel_type(),
            (Self::Value, "null_value") => Type::Int,
            (Self::Value, "number_value") => Type::Double,
            (Self::Value, "string_value") => Type::String,
            (Self::Value, "bool_value") => Type::Bool,
            _ => return None,
        })
    }

    /// The value of a message with these fields. Of a field that is given twice, the last value counts.
    pub(crate) fn make<'a>(self, fields: &[(&'a str, Value<'a>)]) -> Outcome<'a> {
        let last = fields.last();
        match self {
            Self::Timestamp => {
                let (seconds, nanos) = seconds_and_nanos(fields)?;
                let time = leaf::timestamp::from_unix(seconds)?;
                Ok(Value::Timestamp(leaf::timestamp::add(time, nanos)?))
            }
            Self::Duration => {
                let (seconds, nanos) = seconds_and_nanos(fields)?;
                let whole = seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos));
                Ok(Value::Duration(Duration { nanos: whole.ok_or("duration overflow")? }))
            }
            Self::Wrapper(wrapper) => {
                last.map_or_else(|| Ok(wrapper.default()), |(_, value)| wrapper.narrow(value))
            }
            Self::Struct => {
                let empty = || Ok(Value::Map(Map::Values(Arc::default())));
                last.map_or_else(empty, |(name, value)| json_field("Struct", name, value))
            }
            Self::ListValue => last.map_or_else(
                || Ok(Value::list(Vec::new())),
                |(name, value)| json_field("ListValue", name, value),
            ),
            Self::Value => match last {
                None | Some(("null_value", _)) => Ok(Value::Null),
                Some((name, value)) => match primitive_field(name) {
                    Some(primitive) if !primitive.takes(value) => {
                        let why = mismatch(value, primitive.native_name());
                        Err(conversion_error(&format!("google.protobuf.Value.{name}"), &why))
                    }
                    _ => json_field("Value", name, value),
                },
            },
        }
    }
}

fn seconds_and_nanos(fields: &[(&str, Value<'_>)]) -> Result<(i64, i64), Failure> {
    let (mut seconds, mut nanos) = (0, 0);
    for (name, value) in fields {
        let Value::Int(number) = value else { return Err(Failure::NoSuchOverload) };
        match *name {
            "seconds" => seconds = *number,
            _ => nanos = *number,
        }
    }
    Ok((seconds, nanos))
}

impl Wrapper {
    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "Bool" => Self::Bool,
            "Bytes" => Self::Bytes,
            "Double" => Self::Double,
            "Float" => Self::Float,
            "Int32" => Self::Int32,
            "Int64" => Self::Int64,
            "String" => Self::String,
            "UInt32" => Self::Uint32,
            "UInt64" => Self::Uint64,
            _ => return None,
        })
    }

    fn wrapped(self) -> Type {
        match self {
            Self::Bool => Type::Bool,
            Self::Bytes => Type::Bytes,
            Self::Double | Self::Float => Type::Double,
            Self::Int32 | Self::Int64 => Type::Int,
            Self::String => Type::String,
            Self::Uint32 | Self::Uint64 => Type::Uint,
        }
    }

    fn default(self) -> Value<'static> {
        match self {
            Self::Bool => Value::Bool(false),
            Self::Bytes => Value::Bytes(Arc::from([])),
            Self::Double | Self::Float => Value::Double(0.0),
            Self::Int32 | Self::Int64 => Value::Int(0),
            Self::String => Value::text(""),
            Self::Uint32 | Self::Uint64 => Value::Uint(0),
        }
    }

    /// The value as the field has room for it.
    fn narrow<'a>(self, value: &Value<'a>) -> Outcome<'a> {
        let failed = |why: &str| conversion_error(&format!("{}.value", self.name()), why);
        match (self, value) {
            (Self::Float, Value::Double(number)) => Ok(Value::Double(f64::from(*number as f32))),
            (Self::Int32, Value::Int(number)) if i32::try_from(*number).is_err() => {
                Err(failed("integer overflow"))
            }
            (Self::Uint32, Value::Uint(number)) if u32::try_from(*number).is_err() => {
                Err(failed("unsigned integer overflow"))
            }
            _ if self.takes(value) => Ok(value.clone()),
            _ => Err(failed(&mismatch(value, self.native_name()))),
        }
    }

    fn takes(self, value: &Value<'_>) -> bool {
        matches!(
            (self, value),
            (Self::Bool, Value::Bool(_))
                | (Self::Bytes, Value::Bytes(_))
                | (Self::Double | Self::Float, Value::Double(_))
                | (Self::Int32 | Self::Int64, Value::Int(_))
                | (Self::String, Value::String(_))
                | (Self::Uint32 | Self::Uint64, Value::Uint(_))
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bool => "google.protobuf.BoolValue",
            Self::Bytes => "google.protobuf.BytesValue",
            Self::Double => "google.protobuf.DoubleValue",
            Self::Float => "google.protobuf.FloatValue",
            Self::Int32 => "google.protobuf.Int32Value",
            Self::Int64 => "google.protobuf.Int64Value",
            Self::String => "google.protobuf.StringValue",
            Self::Uint32 => "google.protobuf.UInt32Value",
            Self::Uint64 => "google.protobuf.UInt64Value",
        }
    }

    /// Go's name of the wrapped type.
    fn native_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Bytes => "[]uint8",
            Self::Double => "float64",
            Self::Float => "float32",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::String => "string",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }
}

/// The primitive type of a field of `google.protobuf.Value`, if it has one.
fn primitive_field(name: &str) -> Option<Wrapper> {
    match name {
        "number_value" => Some(Wrapper::Double),
        "string_value" => Some(Wrapper::String),
        "bool_value" => Some(Wrapper::Bool),
        _ => None,
    }
}

fn conversion_error(field: &str, why: &str) -> Failure {
    Failure::Error(format!("field type conversion error for {field} value type: {why}"))
}

/// Go's error for a value that is not of the type of a field.
fn mismatch(value: &Value<'_>, native: &str) -> String {
    match value {
        Value::Null => format!("type conversion error from 'null_type' to '{native}'"),
        other => format!("unsupported native conversion from {} to '{native}'", other.type_name()),
    }
}

/// The value of a field that holds JSON.
fn json_field<'a>(message: &str, field: &str, value: &Value<'a>) -> Outcome<'a> {
    json(value).map_err(|failure| match failure {
        Failure::Error(why) => conversion_error(&format!("google.protobuf.{message}.{field}"), &why),
        other => other,
    })
}

/// A value as it is in JSON: numbers are floats, and values that JSON does not have are text.
fn json<'a>(value: &Value<'a>) -> Outcome<'a> {
    let integer = |is_exact: bool, number: f64, text: String| {
        if is_exact { Value::Double(number) } else { Value::text(text) }
    };
    Ok(match value {
        Value::Int(number) => {
            integer(number.unsigned_abs() <= EXACT_INTEGER_MAX, *number as f64, number.to_string())
        }
        Value::Uint(number) => integer(*number <= EXACT_INTEGER_MAX, *number as f64, number.to_string()),
        Value::Bytes(bytes) => Value::text(BASE64_STANDARD.encode(bytes)),
        Value::Timestamp(time) => Value::text(leaf::timestamp::text(*time)),
        Value::Duration(span) => Value::text(leaf::duration::text(span.nanos)),
        Value::List(list) => Value::list(list.values()?.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            let entries = map.keys().into_iter().filter_map(|key| Some((map.find(&key)?, key)));
            json_object(entries.map(|(value, key)| (key, value)))?
        }
        Value::Object(object) => {
            let find = |name: &Value<'_>| match name {
                Value::String(name) => object.find(name),
                _ => None,
            };
            let entries = object.keys().into_iter().filter_map(|name| Some((find(&name)?, name)));
            json_object(entries.map(|(value, name)| (name, value)))?
        }
        Value::Null | Value::Bool(_) | Value::Double(_) | Value::String(_) => value.clone(),
        other => {
            let name = match other {
                Value::Opaque(Opaque::Format(_)) => "Format",
                other => other.type_name().rsplit('.').next().unwrap_or_default(),
            };
            let message = format!("type conversion error from '{name}' to '*structpb.Value'");
            return Err(Failure::Error(message));
        }
    })
}

fn json_object<'a>(entries: impl Iterator<Item = (Value<'a>, Outcome<'a>)>) -> Outcome<'a> {
    let mut made = MapValues::default();
    for (key, value) in entries {
        let key = match key {
            Value::String(_) => key,
            other => Value::text(other.message_text()),
        };
        made.put(key, json(&value?)?);
    }
    Ok(Value::Map(Map::Values(Arc::new(made))))
}
