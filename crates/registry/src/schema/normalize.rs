//! The conversion of a document to the form of its type.
//!
//! Kept true by [`normalize`]: its result has only fields of its type, none that Kubernetes would not write and all
//! that it always writes; so a field that may be missing is absent or, if it is always written, null.

use super::{
    Field, Presence, Problems, Quantity, Shape, TypeRef, ValueKind, path::Path, time, types::FieldSet,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Number, Value};
use std::{fmt, ops::RangeInclusive};

/// A field has a value of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError(pub String);

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TypeError {}

/// Converts a document to the form of its type, and reports fields that the type does not have.
pub fn normalize(document: Value, ty: TypeRef, problems: &mut Problems) -> Result<Value, TypeError> {
    normalize_some(document, ty, Decoder::Text, problems, |_| true)
}

/// The rules by which values are converted to a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// The rules of Go's JSON decoder.
    Text,
    /// The rules by which Kubernetes converts a document without a type, such as the result of a strategic merge patch.
    /// Numbers that are too large wrap around.
    Untyped,
}

/// The same for a document of which only these fields may have another form.
pub(crate) fn normalize_some(
    mut document: Value,
    ty: TypeRef,
    decoder: Decoder,
    problems: &mut Problems,
    may_differ: impl Fn(&str) -> bool,
) -> Result<Value, TypeError> {
    let context = Context { owner: ty, path: &Path::Top, decoder };
    match &mut document {
        Value::Object(fields) => Normalizer { problems }.message(fields, ty, context, &may_differ)?,
        other => return Err(context.mismatch(other, Shape::One, ValueKind::Message(ty))),
    }
    Ok(document)
}

/// A document of a type in which nothing is set.
pub fn zero(ty: TypeRef) -> Value {
    let fields = ty.json_fields().iter().filter_map(|field| Some((field.name.to_owned(), absent(field)?)));
    Value::Object(fields.collect())
}

/// The value that is written for a field that is not set, if one is.
pub(crate) fn absent(field: &Field) -> Option<Value> {
    match field.presence {
        Presence::IfSet | Presence::UnlessZero | Presence::UnlessEmpty => None,
        Presence::OrNull => Some(Value::Null),
        // In Go, the zero value of a list, a map or bytes is nil, not empty.
        Presence::Always if field.shape != Shape::One || field.kind == ValueKind::Bytes => Some(Value::Null),
        Presence::Always => Some(zero_value(field.kind)),
    }
}

/// The value of a field that is not set.
pub(crate) fn zero_value(kind: ValueKind) -> Value {
    match kind {
        ValueKind::String | ValueKind::Bytes => Value::String(String::new()),
        ValueKind::Bool => Value::Bool(false),
        ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double | ValueKind::IntOrString => 0.into(),
        ValueKind::Quantity => "0".into(),
        ValueKind::Message(ty) => zero(ty),
        _ => Value::Null,
    }
}

/// Whether a value is not written although the field has it.
pub(crate) fn is_unwritten(value: &Value, presence: Presence) -> bool {
    match presence {
        Presence::IfSet => value.is_null(),
        Presence::UnlessZero => is_zero(value),
        Presence::UnlessEmpty => value.is_null() || value.as_object().is_some_and(Map::is_empty),
        Presence::OrNull | Presence::Always => false,
    }
}

/// A number as Go writes it: without a point if it is whole. Absent if JSON cannot express it.
pub(crate) fn double(number: f64) -> Option<Value> {
    let text = number.to_string();
    let whole = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
    whole.ok().or_else(|| Number::from_f64(number).map(Value::Number))
}

/// The field that is normalised: the type that has it, and its path.
#[derive(Clone, Copy)]
struct Context<'a> {
    owner: TypeRef,
    path: &'a Path<'a>,
    decoder: Decoder,
}

/// In place: most values have the right form already, and copying them would take most of the time.
struct Normalizer<'a> {
    problems: &'a mut Problems,
}

type Normalized = Result<(), TypeError>;

impl Normalizer<'_> {
    fn message(
        &mut self,
        fields: &mut Map<String, Value>,
        ty: TypeRef,
        context: Context<'_>,
        may_differ: &dyn Fn(&str) -> bool,
    ) -> Normalized {
        let (mut given, mut all_stay) = (FieldSet::default(), true);
        // In the order of the document, which is the order of the reported problems.
        for (name, slot) in fields.iter_mut() {
            let Some(number) = ty.field_index(name) else {
                if is_type_meta(name, ty) {
                    all_stay &= is_set_type_meta(name, slot, context)?;
                } else if !ty.open {
                    let path = Path::Field(context.path, name);
                    self.problems.add(format!("unknown field \"{path}\""));
                    all_stay = false;
                }
                continue;
            };
            given.insert(number);
            let field = ty.json_fields()[number];
            if !may_differ(field.name) {
                continue;
            }
            let path = &Path::Field(context.path, field.name);
            let is_written = !slot.is_null() && self.field(slot, field, Context { path, ..context })?;
            if !is_written {
                *slot = absent(field).unwrap_or_default();
                all_stay &= ty.always().contains(number);
            }
        }
        if !all_stay {
            fields.retain(|name, value| match ty.field_index(name) {
                Some(number) => !value.is_null() || ty.always().contains(number),
                None if is_type_meta(name, ty) => !value.is_null(),
                None => ty.open,
            });
        }
        for field in ty.always().without(given).map(|number| ty.json_fields()[number]) {
            fields.extend(absent(field).map(|value| (field.name.to_owned(), value)));
        }
        Ok(())
    }

    /// The value of a field; returns whether it is written at all.
    fn field(&mut self, value: &mut Value, field: &Field, context: Context<'_>) -> Result<bool, TypeError> {
        match (field.shape, &mut *value) {
            (Shape::One, value) => self.value(value, field.kind, context)?,
            (Shape::List, Value::Array(items)) => self.items(items, field.kind, context)?,
            (Shape::Map, Value::Object(entries)) => {
                for (name, value) in entries.iter_mut() {
                    let path = &Path::Entry(context.path, name);
                    self.item(value, field.kind, Context { path, ..context })?;
                }
            }
            (shape, other) => return Err(context.mismatch(other, shape, field.kind)),
        }
        Ok(!is_unwritten(value, field.presence))
    }

    fn items(&mut self, items: &mut [Value], kind: ValueKind, context: Context<'_>) -> Normalized {
        items.iter_mut().enumerate().try_for_each(|(at, item)| {
            let path = &Path::Item(context.path, at);
            self.item(item, kind, Context { path, ..context })
        })
    }

    /// A value in a list or map, where null reads as the zero value.
    fn item(&mut self, value: &mut Value, kind: ValueKind, context: Context<'_>) -> Normalized {
        if value.is_null() {
            *value = zero_value(kind);
            return Ok(());
        }
        self.value(value, kind, context)
    }

    fn value(&mut self, value: &mut Value, kind: ValueKind, context: Context<'_>) -> Normalized {
        match (kind, &mut *value) {
            (ValueKind::Message(ty), Value::Object(fields)) => {
                self.message(fields, ty, Context { owner: ty, ..context }, &|_| true)
            }
            (ValueKind::String | ValueKind::IntOrString, Value::String(_))
            | (ValueKind::Bool | ValueKind::SchemaOrBool, Value::Bool(_))
            | (ValueKind::Raw | ValueKind::Fields, Value::Object(_))
            | (ValueKind::Json, _) => Ok(()),
            (ValueKind::Int32 | ValueKind::Int64, Value::Number(number))
                if context.decoder == Decoder::Untyped =>
            {
                *value = wrapped(number, kind)?.into();
                Ok(())
            }
            (ValueKind::Int32 | ValueKind::IntOrString, Value::Number(number)) => {
                context.must_be_within(number, i64::from(i32::MIN)..=i64::from(i32::MAX), kind)
            }
            (ValueKind::Int64, Value::Number(number)) => {
                context.must_be_within(number, i64::MIN..=i64::MAX, kind)
            }
            (ValueKind::Double, Value::Number(number)) => {
                if let Some(spelled) = number.as_f64().and_then(double) {
                    *value = spelled;
                }
                Ok(())
            }
            (ValueKind::Bytes, Value::String(text)) => {
                text.retain(|c| !matches!(c, '\r' | '\n'));
                match BASE64_STANDARD.decode(text) {
                    Ok(_) => Ok(()),
                    Err(_) => {
                        let from = if context.decoder == Decoder::Untyped {
                            "error decoding from json: "
                        } else {
                            ""
                        };
                        Err(TypeError(format!("{from}illegal base64 data at input byte 0")))
                    }
                }
            }
            (ValueKind::Time, Value::String(text)) => spell_time(text, time::time).map(|at| *value = at),
            (ValueKind::MicroTime, Value::String(text)) => {
                must_have_micros(text)?;
                spell_time(text, time::micro_time).map(|at| *value = at)
            }
            (ValueKind::Quantity, Value::String(text)) => quantity(text).map(|amount| *value = amount),
            (ValueKind::Quantity, Value::Number(number)) => {
                quantity(&number.to_string()).map(|amount| *value = amount)
            }
            (ValueKind::Strings | ValueKind::SchemaOrStrings, Value::Array(items)) => {
                items.iter_mut().try_for_each(|item| self.item(item, ValueKind::String, context))
            }
            (ValueKind::SchemaOrArray, Value::Array(items)) => items
                .iter_mut()
                .try_for_each(|item| self.value(item, ValueKind::Message(json_schema()), context)),
            (
                ValueKind::SchemaOrArray | ValueKind::SchemaOrBool | ValueKind::SchemaOrStrings,
                Value::Object(_),
            ) => self.value(value, ValueKind::Message(json_schema()), context),
            (ValueKind::Quantity, Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                quantity("?").map(drop)
            }
            (kind, other) => Err(context.mismatch(other, Shape::One, kind)),
        }
    }
}

/// A whole number; the minimum if it is out of range, as on most processors.
fn low_bits(float: f64) -> i64 {
    if float < i64::MAX as f64 { float as i64 } else { i64::MIN }
}

/// A number as a whole number of a kind; of one that is too large, its lowest bits.
fn wrapped(number: &Number, kind: ValueKind) -> Result<i64, TypeError> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0).map(low_bits);
    let whole = number.as_i64().or_else(float);
    let whole = whole.ok_or_else(|| TypeError(format!("cannot convert float64 to {}", name_of(kind))))?;
    Ok(if kind == ValueKind::Int32 { i64::from(whole as i32) } else { whole })
}

/// Whether a name is `kind` or `apiVersion` in a type that has them.
pub(super) fn is_type_meta(name: &str, ty: TypeRef) -> bool {
    ty.typed && matches!(name, "kind" | "apiVersion")
}

/// Whether `kind` or `apiVersion` is set; an empty one becomes null.
fn is_set_type_meta(name: &str, value: &mut Value, context: Context<'_>) -> Result<bool, TypeError> {
    match value {
        Value::String(text) if !text.is_empty() => return Ok(true),
        Value::Null | Value::String(_) => *value = Value::Null,
        other => {
            let path = &Path::Field(context.path, name);
            return Err(Context { path, ..context }.mismatch(other, Shape::One, ValueKind::String));
        }
    }
    Ok(false)
}

impl Context<'_> {
    fn must_be_within(&self, number: &Number, range: RangeInclusive<i64>, kind: ValueKind) -> Normalized {
        match number.as_i64() {
            Some(whole) if range.contains(&whole) => Ok(()),
            _ => Err(self.cannot_unmarshal(&format!("number {number}"), Shape::One, kind)),
        }
    }

    fn mismatch(&self, found: &Value, shape: Shape, kind: ValueKind) -> TypeError {
        if let Some(error) =
            (self.decoder == Decoder::Untyped).then(|| not_converted(found, shape, kind)).flatten()
        {
            return error;
        }
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.cannot_unmarshal(found, shape, kind)
    }

    /// The words of Go's decoder: the type that has the field, and the names of the fields on the path.
    fn cannot_unmarshal(&self, found: &str, shape: Shape, kind: ValueKind) -> TypeError {
        let wanted = match shape {
            Shape::One => name_of(kind),
            Shape::List => format!("[]{}", name_of(kind)),
            Shape::Map => format!("map[string]{}", name_of(kind)),
        };
        let into = match self.path.fields().as_str() {
            "" => format!("Go value of type {wanted}"),
            path => format!("Go struct field {}.{path} of type {wanted}", self.owner.short_name()),
        };
        TypeError(format!("json: cannot unmarshal {found} into {into}"))
    }
}

/// Kubernetes' error for a value that its conversion from unstructured data rejects; absent if the type's own decoder
/// reports the error.
fn not_converted(found: &Value, shape: Shape, kind: ValueKind) -> Option<TypeError> {
    let given = match found {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    let why = match (shape, kind) {
        (Shape::List, _) | (Shape::One, ValueKind::Bytes | ValueKind::Strings) => {
            format!("cannot restore slice from {given}")
        }
        (Shape::Map, _) => format!("cannot restore map from {given}"),
        (_, ValueKind::Message(_)) => format!("cannot restore struct from: {given}"),
        (_, ValueKind::String) if given == "int64" => "cannot convert int64 to string".to_owned(),
        (
            _,
            ValueKind::String | ValueKind::Bool | ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double,
        ) => {
            format!("unrecognized type: {}", name_of(kind))
        }
        _ => return None,
    };
    Some(TypeError(why))
}

/// Rejects a time without six decimals.
fn must_have_micros(text: &str) -> Normalized {
    let decimals = text.get(19..).unwrap_or_default();
    let digits =
        decimals.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if time::parse_time(text).is_none() || digits == 6 {
        return Ok(());
    }
    let (rest, wanted) = match digits {
        7.. => (&decimals[7..], "Z07:00"),
        _ => (decimals, ".000000"),
    };
    Err(TypeError(format!(
        "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \"{wanted}\""
    )))
}

fn spell_time(text: &str, spell: fn(time::Timestamp) -> String) -> Result<Value, TypeError> {
    let at = time::parse_time(text);
    at.map(|at| Value::String(spell(at))).ok_or_else(|| {
        TypeError(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
        ))
    })
}

/// The type of JSON schemas, which is one of several types that some values may have.
pub(crate) fn json_schema() -> TypeRef {
    super::lookup("apiextensions.v1.JSONSchemaProps").expect("the table has the type of JSON schemas")
}

fn quantity(text: &str) -> Result<Value, TypeError> {
    let quantity: Quantity = text.parse().map_err(|error| TypeError(format!("{error}")))?;
    Ok(Value::String(quantity.to_string()))
}

/// The name of the Go type.
fn name_of(kind: ValueKind) -> String {
    let name = match kind {
        ValueKind::String
        | ValueKind::Bytes
        | ValueKind::Time
        | ValueKind::MicroTime
        | ValueKind::Quantity => "string",
        ValueKind::Bool => "bool",
        ValueKind::Int32 | ValueKind::IntOrString => "int32",
        ValueKind::Int64 => "int64",
        ValueKind::Double => "float64",
        ValueKind::Strings => "[]string",
        // Without the group of `core.v1.Pod`.
        ValueKind::Message(ty) => ty.get().name.split_once('.').map_or("object", |(_, name)| name),
        _ => "object",
    };
    name.to_owned()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
