//! From a document to a message.
//!
//! It takes documents in the form in which [`normalize`](crate::schema::normalize) leaves them: absent fields are not
//! written, and null is written only as an item. Values of another type are left out.

use super::wire::{FIXED64, put_bytes, put_nested, put_number, put_tag};
use crate::schema::{Field, Shape, TypeRef, ValueKind, json_schema, parse_time};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

/// Appends the message for a document of a type, without its kind and apiVersion, which the envelope has.
pub fn encode(out: &mut Vec<u8>, document: &Value, ty: TypeRef) {
    if let Value::Object(own) = document {
        put_fields(out, own, ty);
    }
}

fn put_fields(out: &mut Vec<u8>, own: &Map<String, Value>, ty: TypeRef) {
    for field in ty.get().fields {
        match field.kind {
            ValueKind::Message(inline) if field.name.is_empty() => {
                put_nested(out, field.number, |out| put_fields(out, own, inline));
            }
            _ => match own.get(field.name) {
                None | Some(Value::Null) => {}
                Some(value) => put_field(out, value, field),
            },
        }
    }
}

fn put_field(out: &mut Vec<u8>, value: &Value, field: &Field) {
    match (field.shape, value) {
        (Shape::One, value) => put_value(out, field.number, value, field.kind),
        (Shape::List, Value::Array(items)) => put_items(out, field.number, items, field.kind),
        (Shape::Map, Value::Object(entries)) => {
            for (key, value) in entries {
                put_nested(out, field.number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    put_value(out, 2, value, field.kind);
                });
            }
        }
        _ => {}
    }
}

fn put_value(out: &mut Vec<u8>, number: u32, value: &Value, kind: ValueKind) {
    match (kind, value) {
        (ValueKind::String, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
        (ValueKind::Bool, Value::Bool(value)) => put_number(out, number, u64::from(*value)),
        (ValueKind::Int32 | ValueKind::Int64, Value::Number(value)) => {
            put_number(out, number, value.as_i64().unwrap_or_default() as u64);
        }
        (ValueKind::Double, Value::Number(value)) => {
            put_tag(out, number, FIXED64);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        (ValueKind::Bytes, Value::String(text)) => put_nested(out, number, |out| {
            let start = out.len();
            if BASE64_STANDARD.decode_vec(text, out).is_err() {
                out.truncate(start);
            }
        }),
        (
            ValueKind::String
            | ValueKind::Bool
            | ValueKind::Int32
            | ValueKind::Int64
            | ValueKind::Double
            | ValueKind::Bytes,
            _,
        ) => {}
        _ => put_nested(out, number, |out| put_message(out, value, kind)),
    }
}

/// Encodes a value whose type is a message.
fn put_message(out: &mut Vec<u8>, value: &Value, kind: ValueKind) {
    match (kind, value) {
        (ValueKind::Message(ty), Value::Object(own)) => put_fields(out, own, ty),
        (ValueKind::Time | ValueKind::MicroTime, Value::String(text)) => put_time(out, text),
        (ValueKind::Quantity, Value::String(text)) => put_bytes(out, 1, text.as_bytes()),
        (ValueKind::IntOrString, Value::Number(value)) => {
            put_number(out, 1, 0);
            put_number(out, 2, value.as_i64().unwrap_or_default() as u64);
        }
        (ValueKind::IntOrString, Value::String(text)) => {
            put_number(out, 1, 1);
            put_bytes(out, 3, text.as_bytes());
        }
        (ValueKind::Raw | ValueKind::Fields | ValueKind::Json, value) if !value.is_null() => {
            put_nested(out, 1, |out| {
                serde_json::to_writer(out, value)
                    .expect("writing to memory does not fail, and keys are text");
            })
        }
        (ValueKind::Strings, Value::Array(items)) => put_items(out, 1, items, ValueKind::String),
        (ValueKind::SchemaOrStrings, Value::Array(items)) => put_items(out, 2, items, ValueKind::String),
        (ValueKind::SchemaOrArray, Value::Array(items)) => {
            put_items(out, 2, items, ValueKind::Message(json_schema()))
        }
        (ValueKind::SchemaOrBool, Value::Bool(allowed)) => put_number(out, 1, u64::from(*allowed)),
        (ValueKind::SchemaOrBool, schema @ Value::Object(_)) => {
            put_number(out, 1, 1);
            put_value(out, 2, schema, ValueKind::Message(json_schema()));
        }
        (ValueKind::SchemaOrArray | ValueKind::SchemaOrStrings, schema @ Value::Object(_)) => {
            put_value(out, 1, schema, ValueKind::Message(json_schema()));
        }
        _ => {}
    }
}

fn put_items(out: &mut Vec<u8>, number: u32, items: &[Value], kind: ValueKind) {
    for item in items {
        put_value(out, number, item, kind);
    }
}

/// Encodes a time as seconds, rounded down, and the nanoseconds after them.
fn put_time(out: &mut Vec<u8>, text: &str) {
    if let Some(at) = parse_time(text) {
        let nanos = at.as_nanosecond();
        put_number(out, 1, nanos.div_euclid(1_000_000_000) as u64);
        put_number(out, 2, nanos.rem_euclid(1_000_000_000) as u64);
    }
}
