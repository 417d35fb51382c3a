//! From a schema to [`Declared`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Declared, Field, Kind, ListType, bounds, escape};

/// A structural schema, in whatever form its owner keeps it. JSON, as it stands in definitions, is one.
pub trait SchemaNode: Sized {
    /// Its `type`; empty if it has none.
    fn schema_type(&self) -> &str;
    /// Its `format`; empty if it has none.
    fn format(&self) -> &str;
    /// `nullable`.
    fn is_nullable(&self) -> bool;
    /// `x-kubernetes-int-or-string`.
    fn is_int_or_string(&self) -> bool;
    /// `x-kubernetes-embedded-resource`.
    fn is_embedded_resource(&self) -> bool;
    /// `maxLength`.
    fn max_length(&self) -> Option<i64>;
    /// `maxItems`.
    fn max_items(&self) -> Option<i64>;
    /// `maxProperties`.
    fn max_properties(&self) -> Option<i64>;
    /// `enum`; empty if it has none.
    fn enumeration(&self) -> &[Json];
    /// `items`.
    fn items(&self) -> Option<&Self>;
    /// `additionalProperties`, if it is a schema.
    fn additional_properties(&self) -> Option<&Self>;
    /// `properties`.
    fn properties(&self) -> impl Iterator<Item = (&str, &Self)>;
    /// Whether `required` has a property.
    fn requires(&self, property: &str) -> bool;
    /// Whether it has a `default` other than null.
    fn has_default(&self) -> bool;
    /// `x-kubernetes-list-type` with `x-kubernetes-list-map-keys`.
    fn list_type(&self) -> ListType;

    /// The property of that name.
    fn property(&self, name: &str) -> Option<&Self> {
        self.properties().find(|(own, _)| *own == name).map(|(_, property)| property)
    }
}

impl Declared {
    /// The declarations of a structural schema. `resource_root`: the schema is that of a whole object, whose
    /// `apiVersion`, `kind` and `metadata` expressions see whatever the schema says.
    ///
    /// `None` when expressions cannot see such values at all.
    pub fn from_schema(schema: &impl SchemaNode, resource_root: bool) -> Option<Arc<Self>> {
        declared(schema, resource_root || schema.is_embedded_resource())
    }
}

fn declared(schema: &impl SchemaNode, resource_root: bool) -> Option<Arc<Declared>> {
    let new = |kind, max_elements, min_serialized_size| {
        Some(Arc::new(Declared {
            kind,
            max_elements,
            min_serialized_size,
            nullable: schema.is_nullable(),
            schema_type: Box::from(schema.schema_type()),
        }))
    };
    let max_length = schema.max_length();
    if schema.is_int_or_string() {
        let bytes_max = max_length.map_or(bounds::string_without_limit(), bounds::string);
        return new(Kind::IntOrString, bytes_max, 1);
    }
    match schema.schema_type() {
        "integer" => new(Kind::Int, 0, bounds::NUMBER_BYTES_MIN),
        "number" => new(Kind::Double, 0, bounds::NUMBER_BYTES_MIN),
        "boolean" => new(Kind::Bool, 0, bounds::BOOL_BYTES_MIN),
        "string" => match schema.format() {
            "byte" => {
                let max = max_length.map_or(bounds::string_without_limit(), bounds::limit);
                new(Kind::Bytes, max, bounds::EMPTY_BYTES)
            }
            "duration" => new(Kind::Duration, bounds::DATE_TIME_BYTES_MAX, bounds::DURATION_BYTES_MIN),
            "date" => new(Kind::Date, bounds::DATE_BYTES, bounds::DATE_BYTES),
            "date-time" => new(Kind::DateTime, bounds::DATE_TIME_BYTES_MAX, bounds::DATE_TIME_BYTES_MIN),
            _ => {
                let max = max_length
                    .map(bounds::string)
                    .or_else(|| longest_enum_value(schema))
                    .unwrap_or(bounds::string_without_limit());
                new(Kind::String, max, bounds::EMPTY_BYTES)
            }
        },
        "array" => {
            let items = Declared::from_schema(schema.items()?, false)?;
            let max =
                schema.max_items().map_or_else(|| bounds::items(items.min_serialized_size), bounds::limit);
            new(Kind::List { items, list_type: schema.list_type() }, max, bounds::EMPTY_BYTES)
        }
        "object" => {
            if let Some(values) = schema.additional_properties().filter(|_| !resource_root) {
                let values = Declared::from_schema(values, false)?;
                let max = schema
                    .max_properties()
                    .map_or_else(|| bounds::entries(values.min_serialized_size), bounds::limit);
                return new(Kind::Map { values }, max, bounds::EMPTY_BYTES);
            }
            let (fields, bytes_min) = fields(schema, resource_root);
            new(Kind::Object { fields }, 0, bytes_min)
        }
        _ => None,
    }
}

/// The fields of an object, and how many bytes an object with the required ones takes at least.
fn fields(schema: &impl SchemaNode, resource_root: bool) -> (BTreeMap<Box<str>, Field>, u64) {
    let mut fields = BTreeMap::new();
    let mut bytes_min = bounds::EMPTY_BYTES;
    let implicit = resource_root && !has_object_meta(schema);
    let mut add = |name: &str, declared: Arc<Declared>, has_default: bool| {
        if schema.requires(name) && !has_default {
            // Two quotation marks, a colon and a comma.
            bytes_min += name.len() as u64 + declared.min_serialized_size + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped.into(), Field { property: Box::from(name), declared });
        }
    };
    for (name, property) in schema.properties() {
        if implicit && matches!(name, "kind" | "apiVersion" | "metadata") {
            continue;
        }
        if let Some(declared) = Declared::from_schema(property, false) {
            add(name, declared, property.has_default());
        }
    }
    if implicit {
        add("kind", plain_string(), false);
        add("apiVersion", plain_string(), false);
        add("metadata", object_meta(), false);
    }
    (fields, bytes_min)
}

/// Whether the properties declare everything that expressions see of any object.
fn has_object_meta(schema: &impl SchemaNode) -> bool {
    fn is<S: SchemaNode>(of: Option<&S>, schema_type: &str) -> bool {
        of.is_some_and(|of| of.schema_type() == schema_type)
    }
    let metadata = schema.property("metadata");
    let of_metadata = |name: &str| metadata.and_then(|metadata| metadata.property(name));
    is(schema.property("kind"), "string")
        && is(schema.property("apiVersion"), "string")
        && is(metadata, "object")
        && is(of_metadata("name"), "string")
        && is(of_metadata("generateName"), "string")
}

fn plain_string() -> Arc<Declared> {
    Arc::new(Declared {
        kind: Kind::String,
        max_elements: bounds::string_without_limit(),
        min_serialized_size: bounds::EMPTY_BYTES,
        nullable: false,
        schema_type: Box::from("string"),
    })
}

fn object_meta() -> Arc<Declared> {
    let field = |name: &str| (Box::from(name), Field { property: Box::from(name), declared: plain_string() });
    Arc::new(Declared {
        kind: Kind::Object { fields: BTreeMap::from([field("name"), field("generateName")]) },
        max_elements: 0,
        min_serialized_size: bounds::EMPTY_BYTES,
        nullable: false,
        schema_type: Box::from("object"),
    })
}

fn longest_enum_value(schema: &impl SchemaNode) -> Option<u64> {
    let values = Some(schema.enumeration()).filter(|values| !values.is_empty())?;
    Some(values.iter().filter_map(Json::as_str).map(|value| value.len() as u64).max().unwrap_or(0))
}

impl SchemaNode for Json {
    fn schema_type(&self) -> &str {
        text(self, "type")
    }

    fn format(&self) -> &str {
        text(self, "format")
    }

    fn is_nullable(&self) -> bool {
        flag(self, "nullable")
    }

    fn is_int_or_string(&self) -> bool {
        flag(self, "x-kubernetes-int-or-string")
    }

    fn is_embedded_resource(&self) -> bool {
        flag(self, "x-kubernetes-embedded-resource")
    }

    fn max_length(&self) -> Option<i64> {
        self.get("maxLength")?.as_i64()
    }

    fn max_items(&self) -> Option<i64> {
        self.get("maxItems")?.as_i64()
    }

    fn max_properties(&self) -> Option<i64> {
        self.get("maxProperties")?.as_i64()
    }

    fn enumeration(&self) -> &[Json] {
        list(self, "enum")
    }

    fn items(&self) -> Option<&Self> {
        self.get("items")
    }

    fn additional_properties(&self) -> Option<&Self> {
        self.get("additionalProperties").filter(|values| values.is_object())
    }

    fn properties(&self) -> impl Iterator<Item = (&str, &Self)> {
        let properties = self.get("properties").and_then(Json::as_object).into_iter().flatten();
        properties.map(|(name, property)| (name.as_str(), property))
    }

    fn requires(&self, property: &str) -> bool {
        list(self, "required").iter().any(|required| required == property)
    }

    fn has_default(&self) -> bool {
        self.get("default").is_some_and(|default| !default.is_null())
    }

    fn list_type(&self) -> ListType {
        match text(self, "x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => {
                let keys = list(self, "x-kubernetes-list-map-keys").iter();
                ListType::Map(keys.filter_map(Json::as_str).map(Box::from).collect())
            }
            _ => ListType::Atomic,
        }
    }
}

fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool).unwrap_or(false)
}

fn text<'a>(schema: &'a Json, name: &str) -> &'a str {
    schema.get(name).and_then(Json::as_str).unwrap_or("")
}

fn list<'a>(schema: &'a Json, name: &str) -> &'a [Json] {
    schema.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}
