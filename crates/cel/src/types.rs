//! Types of expressions, and how error messages print them.
//!
//! A type is cheap to clone. Object types are nominal: two of them are equal when their names are,
//! and a name says where in a schema the type stands (`selfType.spec.@idx`).

use std::fmt;
use std::sync::Arc;

use crate::schema::Declared;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any value; its type is found out at run time.
    Dyn,
    /// The type of an expression that did not check.
    Error,
    /// The type of `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    Uint,
    /// An IEEE 754 double.
    Double,
    /// Unicode text.
    String,
    /// Bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list of elements.
    List(Arc<Type>),
    /// A map of keys to values.
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A primitive type in a message of its own, as `google.protobuf.Int32Value`. Its values are those of the primitive type.
    Wrapper(Arc<Type>),
    /// A type of a library, with its name.
    Opaque(&'static str),
    /// An object with declared fields.
    Object(ObjectType),
    /// A type parameter in a declaration.
    Param(&'static str),
    /// A type that the checker has not yet found out.
    Variable(u32),
}

/// An object type: a place in a schema.
#[derive(Clone, Debug)]
pub struct ObjectType {
    /// The path of the object in the schema, from the name of the root type.
    pub name: Arc<str>,
    /// The fields.
    pub declared: Arc<Declared>,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.name, &other.name) || self.name == other.name
    }
}

impl Eq for ObjectType {}

impl std::hash::Hash for ObjectType {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Type {
    /// `list(element)`.
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// `optional_type(inner)`.
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// `type(of)`.
    pub fn type_of(of: Type) -> Self {
        Self::Type(Arc::new(of))
    }

    /// The primitive type in a wrapper; any other type as it is.
    pub(crate) fn unwrapped(&self) -> &Self {
        match self {
            Self::Wrapper(inner) => inner,
            other => other,
        }
    }

    /// Whether values of both types have the same type when an expression runs.
    pub(crate) fn is_exactly(&self, other: &Self) -> bool {
        match (self.unwrapped(), other.unwrapped()) {
            (Self::List(own), Self::List(other)) | (Self::Optional(own), Self::Optional(other)) => {
                own.is_exactly(other)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.is_exactly(other_key) && value.is_exactly(other_value)
            }
            (own, other) => own == other,
        }
    }

    /// The long name, as in messages about the type that an expression must evaluate to.
    pub fn long_name(&self) -> String {
        match self {
            Self::Timestamp => "google.protobuf.Timestamp".into(),
            Self::Duration => "google.protobuf.Duration".into(),
            Self::Null => "null_type".into(),
            Self::List(element) => format!("list({})", element.long_name()),
            Self::Map(key, value) => format!("map({}, {})", key.long_name(), value.long_name()),
            Self::Type(of) => format!("type({})", of.long_name()),
            Self::Optional(inner) => format!("optional_type({})", inner.long_name()),
            Self::Wrapper(inner) => format!("wrapper({})", inner.long_name()),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Wrapper(inner) => write!(f, "wrapper({inner})"),
            Self::Opaque(name) | Self::Param(name) => f.write_str(name),
            Self::Object(object) => f.write_str(&object.name),
            Self::Variable(number) => write!(f, "_var{number}"),
        }
    }
}
