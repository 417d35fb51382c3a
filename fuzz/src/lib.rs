//! The parts that targets share: documents made of a fuzzer's bytes that look like those of clients.
//!
//! Bytes alone would hardly ever be a Pod, so the table of types guides them: most values have the type of their field,
//! some have another, and texts are mostly those that the server treats specially.

pub mod checks;
pub mod custom;

use keepwatch_registry::{
    kind::Kind,
    kinds::built_in,
    schema::{Field, Shape, TypeRef, ValueKind, lookup},
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use serde_json::{Map, Value, json};

/// The depth of a document; deeper ones are for the targets of the readers, which have raw bytes.
const DEPTH_MAX: u32 = 9;
/// The maximum number of items or fields in one place.
const WIDTH_MAX: usize = 5;

const TEXTS: [&str; 40] = [
    "",
    "a",
    "b",
    "default",
    "n1",
    "TCP",
    "Always",
    "Never",
    "OnFailure",
    "ClusterIP",
    "LoadBalancer",
    "ExternalName",
    "NodePort",
    "None",
    "nginx",
    "nginx:latest",
    "registry.k8s.io/pause@sha256:0",
    "http",
    "80",
    "50%",
    "-1",
    "1Gi",
    "500m",
    "cpu",
    "memory",
    "storage",
    "0.0.0.0/0",
    "10.0.0.1",
    "::1",
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.123456Z",
    "0001-01-01T00:00:00Z",
    "Pod",
    "v1",
    "apps/v1",
    "Running",
    "True",
    "RollingUpdate",
    "kubernetes.io/service-account-token",
    "\u{2028}<&>\"\\\u{0}é\u{1f600}",
];

const QUANTITIES: [&str; 12] = [
    "0",
    "1",
    "0.5",
    "1024Mi",
    "1e3",
    "-7n",
    "100m",
    "9223372036854775807",
    "1E",
    "1.5Gi",
    "0.000000001",
    "1Ki",
];

/// Any of the resources.
pub fn resource(bytes: &mut Unstructured<'_>) -> Result<&'static Kind> {
    bytes.choose(built_in()).map(|kind| &**kind)
}

/// A document of a type, mostly.
pub fn document(bytes: &mut Unstructured<'_>, ty: TypeRef) -> Result<Value> {
    message(bytes, ty, 0)
}

fn message(bytes: &mut Unstructured<'_>, ty: TypeRef, depth: u32) -> Result<Value> {
    let mut own = Map::new();
    let fields = ty.json_fields();
    if !fields.is_empty() && depth < DEPTH_MAX {
        for _ in 0..bytes.int_in_range(0..=WIDTH_MAX)? {
            let field = bytes.choose(fields)?;
            own.insert(field.name.to_owned(), self::field(bytes, field, depth + 1)?);
        }
    }
    if bytes.ratio(1, 40)? {
        own.insert(text(bytes)?, any(bytes, depth + 1)?);
    }
    Ok(Value::Object(own))
}

fn field(bytes: &mut Unstructured<'_>, field: &Field, depth: u32) -> Result<Value> {
    if bytes.ratio(1, 60)? {
        return any(bytes, depth);
    }
    let count = bytes.int_in_range(0..=3)?;
    match field.shape {
        Shape::One => value(bytes, field.kind, depth),
        Shape::List => (0..count).map(|_| value(bytes, field.kind, depth)).collect(),
        Shape::Map => (0..count).map(|_| Ok((text(bytes)?, value(bytes, field.kind, depth)?))).collect(),
    }
}

fn value(bytes: &mut Unstructured<'_>, kind: ValueKind, depth: u32) -> Result<Value> {
    let schema = lookup("apiextensions.v1.JSONSchemaProps").expect("the table has the type of JSON schemas");
    Ok(match kind {
        _ if bytes.ratio(1, 60)? => any(bytes, depth)?,
        ValueKind::String => text(bytes)?.into(),
        ValueKind::Bool => bytes.arbitrary::<bool>()?.into(),
        ValueKind::Int32 => match bytes.ratio(1, 4)? {
            true => bytes.arbitrary::<i32>()?.into(),
            false => bytes.arbitrary::<i8>()?.into(),
        },
        ValueKind::Int64 => match bytes.ratio(1, 4)? {
            true => bytes.arbitrary::<i64>()?.into(),
            false => bytes.arbitrary::<i8>()?.into(),
        },
        ValueKind::Double => number(bytes)?,
        ValueKind::Bytes => {
            bytes.choose(&["", "AA==", "aGVsbG8=", "aGVs\nbG8=", "eyJhIjoxfQ=="])?.to_owned().into()
        }
        ValueKind::Time | ValueKind::MicroTime => time(bytes)?.into(),
        ValueKind::Quantity if bytes.ratio(1, 4)? => number(bytes)?,
        ValueKind::Quantity => bytes.choose(&QUANTITIES)?.to_owned().into(),
        ValueKind::IntOrString => match bytes.arbitrary()? {
            true => text(bytes)?.into(),
            false => bytes.arbitrary::<i32>()?.into(),
        },
        ValueKind::Raw | ValueKind::Fields => json!({ text(bytes)?: any(bytes, depth + 1)? }),
        ValueKind::Json => any(bytes, depth)?,
        ValueKind::Strings => Value::Array(vec![text(bytes)?.into(), text(bytes)?.into()]),
        ValueKind::SchemaOrArray if bytes.arbitrary()? => Value::Array(vec![message(bytes, schema, depth)?]),
        ValueKind::SchemaOrBool if bytes.arbitrary()? => bytes.arbitrary::<bool>()?.into(),
        ValueKind::SchemaOrStrings if bytes.arbitrary()? => Value::Array(vec![text(bytes)?.into()]),
        ValueKind::SchemaOrArray | ValueKind::SchemaOrBool | ValueKind::SchemaOrStrings => {
            message(bytes, schema, depth)?
        }
        ValueKind::Message(ty) => message(bytes, ty, depth)?,
    })
}

/// Any JSON.
pub fn any(bytes: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    let most = if depth < DEPTH_MAX { 6 } else { 4 };
    let count = bytes.int_in_range(0..=3)?;
    Ok(match bytes.int_in_range(0..=most)? {
        0 => Value::Null,
        1 => bytes.arbitrary::<bool>()?.into(),
        2 => number(bytes)?,
        3 | 4 => text(bytes)?.into(),
        5 => (0..count).map(|_| any(bytes, depth + 1)).collect::<Result<_>>()?,
        _ => (0..count).map(|_| Ok((text(bytes)?, any(bytes, depth + 1)?))).collect::<Result<_>>()?,
    })
}

/// A text: one with a meaning, or any.
pub fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    match bytes.ratio(1, 6)? {
        true => bytes.arbitrary(),
        false => bytes.choose(&TEXTS).map(|text| (*text).to_owned()),
    }
}

fn number(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=3)? {
        0 => bytes.arbitrary::<i64>()?.into(),
        1 => bytes.arbitrary::<u64>()?.into(),
        2 => bytes.arbitrary::<f64>()?.into(),
        _ => bytes.arbitrary::<i8>()?.into(),
    })
}

fn time(bytes: &mut Unstructured<'_>) -> Result<String> {
    let mut number = |most: u32| bytes.int_in_range(0..=most);
    let (year, month, day) = (number(9999)?, number(13)?, number(32)?);
    let (hour, minute, second, micros) = (number(24)?, number(60)?, number(61)?, number(2_000_000)?);
    let end = *bytes.choose(&["Z", "+02:00", "-11:30", ".5Z", ""])?;
    Ok(match end {
        ".5Z" => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros}Z"),
        end => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{end}"),
    })
}

/// A value without the fields in it that are null or empty, which Protobuf does not always distinguish.
pub fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
            fields.filter(|(_, value)| !is_empty(value)).collect()
        }
        other => other,
    }
}
