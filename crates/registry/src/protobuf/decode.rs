//! From a message to a document.
//!
//! Kept true: the document has the form in which [`normalize`](crate::schema::normalize) leaves one, and no more
//! nesting and values than JSON may have, so what is accepted here can be stored and read again. As in Kubernetes,
//! unknown fields are ignored: older and newer clients write such fields, even unset ones.

use super::{
    ProtobufError, bytes_of, text_of,
    wire::{Fields, Wire, unpack},
};
use crate::schema::{
    Field, OBJECT_VALUES, Presence, Problems, Quantity, ReadError, Shape, Timestamp, TypeRef, VALUES_MAX,
    ValueKind, absent, double, is_unwritten, json_schema, micro_time, read_some, time, zero_value,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};
use std::cell::Cell;

/// The maximum depth of nested objects and lists; the same as for JSON.
pub(super) const LEVELS_MAX: usize = 127;
/// Years that have four digits.
const MICROS_MIN: i64 = -62_167_219_200 * MICROS_PER_SECOND;
const MICROS_PER_SECOND: i64 = 1_000_000;

type Decoded<T = Value> = Result<T, ProtobufError>;

/// Decodes a message of a type. The document has no kind and apiVersion, which the envelope has.
pub fn decode(raw: &[u8], ty: TypeRef) -> Result<Value, ProtobufError> {
    object(raw, ty, Limits { levels: LEVELS_MAX, values: &Cell::new(VALUES_MAX) })
}

/// The remaining limits.
#[derive(Clone, Copy)]
struct Limits<'a> {
    levels: usize,
    values: &'a Cell<usize>,
}

impl Limits<'_> {
    /// One level less, inside an object or a list.
    fn inside(self) -> Decoded<Self> {
        let levels = self.levels.checked_sub(1).ok_or(ProtobufError::TooDeep)?;
        Ok(Limits { levels, ..self })
    }

    fn take(self, values: usize) -> Decoded<()> {
        let left = self.values.get().checked_sub(values).ok_or(ProtobufError::TooManyValues)?;
        self.values.set(left);
        Ok(())
    }
}

fn object(message: &[u8], ty: TypeRef, limits: Limits<'_>) -> Decoded {
    let mut own = Map::new();
    merge_object(&mut own, message, ty, limits)?;
    Ok(Value::Object(own))
}

/// Sets the fields of a message, and those that are always written. A message may come in pieces.
fn merge_object(
    own: &mut Map<String, Value>,
    message: &[u8],
    ty: TypeRef,
    limits: Limits<'_>,
) -> Decoded<()> {
    limits.take(OBJECT_VALUES)?;
    merge_fields(own, message, ty, limits.inside()?)?;
    for field in ty.json_fields() {
        if matches!(field.presence, Presence::Always | Presence::OrNull)
            && !own.contains_key(field.name)
            && let Some(value) = absent(field)
        {
            own.insert(field.name.to_owned(), value);
        }
    }
    Ok(())
}

fn merge_fields(
    own: &mut Map<String, Value>,
    message: &[u8],
    ty: TypeRef,
    limits: Limits<'_>,
) -> Decoded<()> {
    let fields = &ty.get().fields;
    // Fields are mostly in the order in which they are declared, so the search continues from the last one.
    let mut at = 0;
    for field in Fields::of(message) {
        let (number, wire) = field?;
        let (behind, before) = (at..fields.len(), 0..at);
        if let Some(found) = behind.chain(before).find(|at| fields[*at].number == number) {
            at = found;
            merge_field(own, wire, &fields[at], limits)?;
        }
    }
    Ok(())
}

fn merge_field(
    own: &mut Map<String, Value>,
    wire: Wire<'_>,
    field: &'static Field,
    limits: Limits<'_>,
) -> Decoded<()> {
    match (field.shape, field.kind) {
        (Shape::One, ValueKind::Message(inline)) if field.name.is_empty() => {
            merge_fields(own, bytes_of(wire, inline.get().name)?, inline, limits)
        }
        (Shape::One, ValueKind::Message(ty)) => {
            let message = bytes_of(wire, field.name)?;
            if let Some(Value::Object(begun)) = own.get_mut(field.name) {
                return merge_object(begun, message, ty, limits);
            }
            set(own, field, object(message, ty, limits)?);
            Ok(())
        }
        (Shape::One, kind) => {
            set(own, field, value(wire, kind, field.name, limits)?);
            Ok(())
        }
        (Shape::List, _) => append(own, wire, field, limits.inside()?),
        (Shape::Map, _) => {
            let (key, value) = entry(bytes_of(wire, field.name)?, field, limits.inside()?)?;
            match own.get_mut(field.name) {
                Some(Value::Object(entries)) => drop(entries.insert(key, value)),
                _ => drop(own.insert(field.name.to_owned(), Value::Object(Map::from_iter([(key, value)])))),
            }
            Ok(())
        }
    }
}

fn set(own: &mut Map<String, Value>, field: &Field, value: Value) {
    if is_unwritten(&value, field.presence) {
        own.remove(field.name);
    } else {
        own.insert(field.name.to_owned(), value);
    }
}

fn append(
    own: &mut Map<String, Value>,
    wire: Wire<'_>,
    field: &'static Field,
    limits: Limits<'_>,
) -> Decoded<()> {
    let mut push = |item| match own.get_mut(field.name) {
        Some(Value::Array(items)) => items.push(item),
        _ => drop(own.insert(field.name.to_owned(), Value::Array(vec![item]))),
    };
    match (wire, field.kind) {
        (Wire::Bytes(packed), ValueKind::Bool | ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double) => {
            for item in unpack(packed, field.kind == ValueKind::Double) {
                push(value(item?, field.kind, field.name, limits)?);
            }
        }
        (wire, kind) => push(value(wire, kind, field.name, limits)?),
    }
    Ok(())
}

/// One entry of a map: a message with a key and a value, either of which may be missing.
fn entry(message: &[u8], field: &'static Field, limits: Limits<'_>) -> Decoded<(String, Value)> {
    limits.take(1)?;
    let (mut key, mut found) = ("", None);
    for part in Fields::of(message) {
        match part? {
            (1, wire) => key = text_of(wire, field.name)?,
            (2, wire) => found = Some(value(wire, field.kind, field.name, limits)?),
            _ => {}
        }
    }
    // Bytes that are missing are none here, and null in JSON.
    let missing = || if field.kind == ValueKind::Bytes { "".into() } else { zero_value(field.kind) };
    Ok((key.to_owned(), found.unwrap_or_else(missing)))
}

fn value(wire: Wire<'_>, kind: ValueKind, field: &'static str, limits: Limits<'_>) -> Decoded {
    limits.take(1)?;
    let invalid =
        |problem: &dyn std::fmt::Display| ProtobufError::Value { field, problem: problem.to_string() };
    match kind {
        ValueKind::String => Ok(text_of(wire, field)?.into()),
        ValueKind::Bool => Ok((number_of(wire, field)? != 0).into()),
        ValueKind::Int32 => Ok((number_of(wire, field)? as i32).into()),
        ValueKind::Int64 => Ok((number_of(wire, field)? as i64).into()),
        ValueKind::Double => match wire {
            Wire::Fixed64(bits) => double(f64::from_bits(bits)).ok_or_else(|| invalid(&"not a number")),
            _ => Err(ProtobufError::WireType { field }),
        },
        ValueKind::Bytes => Ok(BASE64_STANDARD.encode(bytes_of(wire, field)?).into()),
        ValueKind::Time => Ok(moment(bytes_of(wire, field)?, field)?.map(time).into()),
        ValueKind::MicroTime => Ok(moment(bytes_of(wire, field)?, field)?.map(micro_time).into()),
        ValueKind::Quantity => {
            let mut amount = Quantity::ZERO;
            for part in Fields::of(bytes_of(wire, field)?) {
                if let (1, wire) = part? {
                    amount = text_of(wire, field)?.parse().map_err(|error| invalid(&error))?;
                }
            }
            Ok(amount.to_string().into())
        }
        ValueKind::IntOrString => int_or_string(bytes_of(wire, field)?, field),
        ValueKind::Raw | ValueKind::Fields | ValueKind::Json => {
            let value = json(bytes_of(wire, field)?, field, limits)?;
            let fits = kind == ValueKind::Json || matches!(value, Value::Null | Value::Object(_));
            if fits { Ok(value) } else { Err(invalid(&"not a JSON object")) }
        }
        ValueKind::Strings => strings(bytes_of(wire, field)?, field, limits),
        ValueKind::SchemaOrArray | ValueKind::SchemaOrBool | ValueKind::SchemaOrStrings => {
            schema_or(bytes_of(wire, field)?, kind, field, limits)
        }
        ValueKind::Message(ty) => object(bytes_of(wire, field)?, ty, limits),
    }
}

fn number_of(wire: Wire<'_>, field: &'static str) -> Decoded<u64> {
    match wire {
        Wire::Varint(number) => Ok(number),
        _ => Err(ProtobufError::WireType { field }),
    }
}

/// A time, which is not set if its message is empty.
fn moment(message: &[u8], field: &'static str) -> Decoded<Option<Timestamp>> {
    if message.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for part in Fields::of(message) {
        match part? {
            (1, wire) => seconds = number_of(wire, field)? as i64,
            (2, wire) => nanos = number_of(wire, field)? as i32,
            _ => {}
        }
    }
    let micros = seconds.checked_mul(MICROS_PER_SECOND);
    let micros = micros.and_then(|micros| micros.checked_add(i64::from(nanos / 1000)));
    let at = micros.filter(|micros| *micros >= MICROS_MIN);
    let at = at.and_then(|micros| Timestamp::from_microsecond(micros).ok());
    let invalid = || ProtobufError::Value { field, problem: "the year is outside of 0 to 9999".to_owned() };
    at.map(Some).ok_or_else(invalid)
}

fn int_or_string(message: &[u8], field: &'static str) -> Decoded {
    let (mut which, mut number, mut text) = (0, 0, "");
    for part in Fields::of(message) {
        match part? {
            (1, wire) => which = number_of(wire, field)?,
            (2, wire) => number = number_of(wire, field)? as i32,
            (3, wire) => text = text_of(wire, field)?,
            _ => {}
        }
    }
    match which {
        0 => Ok(number.into()),
        1 => Ok(text.into()),
        _ => Err(ProtobufError::Value { field, problem: "neither a number nor a text".to_owned() }),
    }
}

/// JSON that is a message of its own; null if there is none.
fn json(message: &[u8], field: &'static str, limits: Limits<'_>) -> Decoded {
    let mut raw: &[u8] = &[];
    for part in Fields::of(message) {
        if let (1, wire) = part? {
            raw = bytes_of(wire, field)?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let mut values = limits.values.get();
    let read = read_some(raw, &mut Problems::default(), &mut values);
    limits.values.set(values);
    let value = read.map_err(|error| match error {
        ReadError::Malformed(problem) => ProtobufError::Value { field, problem },
        ReadError::TooManyValues => ProtobufError::TooManyValues,
    })?;
    if fits(&value, limits.levels) { Ok(value) } else { Err(ProtobufError::TooDeep) }
}

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|value| fits(value, levels - 1)),
        _ => true,
    }
}

fn strings(message: &[u8], field: &'static str, limits: Limits<'_>) -> Decoded {
    let mut items = Vec::new();
    for part in Fields::of(message) {
        if let (1, wire) = part? {
            limits.inside()?.take(1)?;
            items.push(text_of(wire, field)?.into());
        }
    }
    Ok(if items.is_empty() { Value::Null } else { Value::Array(items) })
}

/// A JSON schema, or its alternative: a list if there is one, a boolean if there is no schema.
fn schema_or(message: &[u8], kind: ValueKind, field: &'static str, limits: Limits<'_>) -> Decoded {
    let schema_number = if kind == ValueKind::SchemaOrBool { 2 } else { 1 };
    let (mut schema, mut items, mut allowed) = (None, Vec::new(), false);
    for part in Fields::of(message) {
        match part? {
            (number, wire) if number == schema_number => {
                let schema = schema.get_or_insert_with(Map::new);
                merge_object(schema, bytes_of(wire, field)?, json_schema(), limits)?;
            }
            (1 | 2, wire) => match kind {
                ValueKind::SchemaOrBool => allowed = number_of(wire, field)? != 0,
                ValueKind::SchemaOrArray => {
                    items.push(value(wire, ValueKind::Message(json_schema()), field, limits.inside()?)?)
                }
                _ => items.push(value(wire, ValueKind::String, field, limits.inside()?)?),
            },
            _ => {}
        }
    }
    Ok(match schema {
        _ if !items.is_empty() => Value::Array(items),
        Some(schema) => Value::Object(schema),
        None if kind == ValueKind::SchemaOrBool => Value::Bool(allowed),
        None => Value::Null,
    })
}
