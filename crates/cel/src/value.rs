//! Values of expressions.
//!
//! A value borrows the JSON document it came from. Reading a property or an item converts that one
//! value and nothing below it, so a rule costs what it reads and not what the document holds.

mod compare;
mod equality;
mod json;
mod list;
mod map;
mod opaque;
mod text;

pub(crate) use compare::compare;
pub(crate) use equality::{contains, equal, same_keys};
pub(crate) use json::read;
pub use list::List;
pub use map::{Map, MapValues, Object};

pub use opaque::{
    Authorizer, AuthorizerOf, Check, CheckTarget, Decision, Fields, Opaque, ResourceAttributes,
};
pub use text::Text;

use std::sync::Arc;

use crate::library::leaf;
use crate::limits;
use crate::schema::ListType;

/// A point in time, with the offset from UTC it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, below a thousand million.
    pub nanos: u32,
    /// Seconds that the local time is ahead of UTC.
    pub offset_seconds: i32,
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// The whole span in nanoseconds.
    pub nanos: i64,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time.
    Duration(Duration),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// An object with declared fields.
    Object(Object<'a>),
    /// A type, by its name.
    Type(Text<'a>),
    /// A value, or none.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library's type.
    Opaque(Opaque<'a>),
}

impl<'a> Value<'a> {
    /// Text that an expression made.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::String(Text::from(text.into()))
    }

    /// A list that an expression made.
    pub(crate) fn list(values: Vec<Value<'a>>) -> Self {
        Self::List(List::Values(Arc::new(values)))
    }

    /// An optional value that is there.
    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// An object whose fields are found when they are read.
    pub fn fields(fields: &'a (dyn Fields + 'a)) -> Self {
        Self::Object(Object::Lazy(fields))
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            // An object of a document is a map at run time.
            Self::Map(_) | Self::Object(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
        }
    }

    /// The name that messages have for the value's type in the implementation of the API server.
    pub(crate) fn implementation_name(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Duration(_) => "types.Duration",
            Self::Type(_) => "*types.Type",
            Self::Optional(_) => "*types.Optional",
            Self::List(List::Json { declared: Some(declared), .. }) => match declared.list_type() {
                ListType::Atomic => "*common.unstructuredList",
                ListType::Set => "*common.unstructuredSetList",
                ListType::Map(_) => "*common.unstructuredMapList",
            },
            Self::List(_) => "*types.baseList",
            Self::Map(Map::Json { declared: Some(_), .. }) | Self::Object(_) => "*common.unstructuredMap",
            Self::Map(_) => "*types.baseMap",
            Self::Opaque(opaque) => opaque.implementation_name(),
        }
    }

    /// The number of characters, bytes or elements of the value, as costs count them.
    pub(crate) fn size(&self) -> u64 {
        let count = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Object(object) => object.len(),
            Self::Optional(Some(inner)) => return inner.size(),
            Self::Opaque(opaque) => opaque.size(),
            _ => 1,
        };
        count as u64
    }

    /// The value as messages print it.
    pub(crate) fn message_text(&self) -> String {
        match self {
            // Go prints its null as a number.
            Self::Null => "0".into(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => leaf::number::double_text(*value),
            Self::String(text) | Self::Type(text) => text.to_string(),
            Self::Timestamp(time) => leaf::timestamp::go_text(*time),
            Self::Duration(span) => leaf::duration::go_text(span.nanos),
            Self::Bytes(bytes) => {
                let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
                format!("[{}]", numbers.join(" "))
            }
            Self::List(_) if limits::visit(1).is_err() => "...".into(),
            Self::List(list) => {
                let elements = list.iter().filter_map(Result::ok).map(|element| element.message_text());
                format!("[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            Self::Optional(None) => "optional.none()".into(),
            Self::Optional(Some(inner)) => format!("optional({})", inner.message_text()),
            Self::Opaque(Opaque::Ip(ip)) => ip.to_string(),
            Self::Opaque(Opaque::Cidr(cidr)) => cidr.to_string(),
            Self::Map(map) => {
                let entries = map.keys().into_iter().filter_map(|key| {
                    let value = map.find(&key)?.ok()?;
                    Some(format!("{}: {}", key.message_text(), value.message_text()))
                });
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Self::Object(object) => {
                let fields = object.keys().into_iter().filter_map(|name| {
                    let value = object.find(&name.message_text())?.ok()?;
                    Some(format!("{}: {}", name.message_text(), value.message_text()))
                });
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            other => other.type_name().into(),
        }
    }
}
