//! The declarations that a schema makes about a document: the types of its values, their bounds, and how equality
//! and `+` treat its lists.
//!
//! A [`Declared`] is made once from a schema. The checker takes its types, the cost estimator its
//! bounds, and the evaluator reads a JSON document through it.

mod bounds;
mod escape;
mod from_openapi;

pub(crate) use escape::is_reserved;
pub use escape::{escape, unescape};
pub use from_openapi::SchemaNode;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::{ObjectType, Type};

/// A place in a schema, as expressions see it.
#[derive(Debug)]
pub struct Declared {
    /// The kind of the values there.
    pub kind: Kind,
    /// The largest number of characters, items or properties of a value. 0 for kinds that have none.
    pub max_elements: u64,
    /// The smallest size of a value as JSON, in bytes.
    pub min_serialized_size: u64,
    /// Whether the value may be `null`.
    pub nullable: bool,
    /// The schema's `type` as it is written. Error messages show it in place of a value.
    pub schema_type: Box<str>,
}

/// The kind of the values at a place in a schema.
#[derive(Debug)]
pub enum Kind {
    /// Any JSON.
    Dyn,
    /// Values of a type that no schema declares: variables of policies.
    Typed(Type),
    /// An integer or a string.
    IntOrString,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A number, also when it is written as an integer.
    Double,
    /// A string.
    String,
    /// Base64 text, read as bytes.
    Bytes,
    /// A string in the format `duration`.
    Duration,
    /// A string in the format `date`.
    Date,
    /// A string in the format `date-time`.
    DateTime,
    /// An array.
    List {
        /// The items.
        items: Arc<Declared>,
        /// The list type, which decides how equality and `+` treat the list.
        list_type: ListType,
    },
    /// An object whose keys are data.
    Map {
        /// The values.
        values: Arc<Declared>,
    },
    /// An object with declared properties.
    Object {
        /// The fields by their escaped names.
        fields: BTreeMap<Box<str>, Field>,
    },
}

/// The list type, `x-kubernetes-list-type`, which decides how equality and `+` treat a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// Order matters.
    Atomic,
    /// Order does not matter.
    Set,
    /// Items are matched by the values of these properties.
    Map(Box<[Box<str>]>),
}

/// A declared property.
#[derive(Debug)]
pub struct Field {
    /// The property's name in the document.
    pub property: Box<str>,
    /// The property's values.
    pub declared: Arc<Declared>,
}

impl Declared {
    /// Values of which nothing is known.
    pub fn any() -> Self {
        Self {
            kind: Kind::Dyn,
            max_elements: 0,
            min_serialized_size: 1,
            nullable: true,
            schema_type: Box::from(""),
        }
    }

    /// Values of a type that is known without a schema.
    pub fn typed(of: Type) -> Self {
        Self { kind: Kind::Typed(of), ..Self::any() }
    }

    /// An object with these fields.
    pub fn object<'n>(fields: impl IntoIterator<Item = (&'n str, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, declared)| {
            (Box::from(name), Field { property: Box::from(name), declared: Arc::new(declared) })
        });
        Self {
            kind: Kind::Object { fields: fields.collect() },
            schema_type: Box::from("object"),
            ..Self::any()
        }
    }

    /// The type of values here. `name` is the name of the place, which object types take theirs from.
    pub fn cel_type(self: &Arc<Self>, name: &str) -> Type {
        match &self.kind {
            Kind::Dyn | Kind::IntOrString => Type::Dyn,
            Kind::Typed(of) => of.clone(),
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::String => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Duration => Type::Duration,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::List { items, .. } => Type::list(items.cel_type(&format!("{name}.@idx"))),
            Kind::Map { values } => Type::map(Type::String, values.cel_type(&format!("{name}.@elem"))),
            Kind::Object { .. } => {
                Type::Object(ObjectType { name: Arc::from(name), declared: Arc::clone(self) })
            }
        }
    }

    /// The field that an expression names. A reserved word may be written as it is, or escaped.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.named_field(name).map(|(_, field)| field)
    }

    /// The field that an expression names, with its escaped name.
    pub(crate) fn named_field(&self, name: &str) -> Option<(&str, &Field)> {
        let Kind::Object { fields } = &self.kind else { return None };
        let found = match fields.get_key_value(name) {
            None if escape::is_reserved(name) => fields.get_key_value(format!("__{name}__").as_str()),
            found => found,
        };
        found.map(|(name, field)| (&**name, field))
    }

    /// The field of a property.
    pub(crate) fn property(&self, property: &str) -> Option<&Field> {
        let Kind::Object { fields } = &self.kind else { return None };
        // Most properties need no escapes.
        match fields.get(property) {
            Some(field) if *field.property == *property => Some(field),
            _ => fields.get(escape(property)?.as_str()),
        }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Option<&Declared> {
        match &self.kind {
            Kind::List { items, .. } => Some(items),
            _ => None,
        }
    }

    /// The values of a map.
    pub(crate) fn values(&self) -> Option<&Declared> {
        match &self.kind {
            Kind::Map { values } => Some(values),
            _ => None,
        }
    }

    /// The list type, which decides how equality and `+` treat a list.
    pub(crate) fn list_type(&self) -> &ListType {
        match &self.kind {
            Kind::List { list_type, .. } => list_type,
            _ => &ListType::Atomic,
        }
    }
}
