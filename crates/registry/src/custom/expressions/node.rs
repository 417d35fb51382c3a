//! Schemas in memory, as the CEL library reads them.

use super::super::schema::{self, Node, type_name};
use keepwatch_cel::schema::{ListType, SchemaNode};
use serde_json::Value;

impl SchemaNode for Node {
    fn schema_type(&self) -> &str {
        type_name(self.ty)
    }

    fn format(&self) -> &str {
        let format = self.checks.as_deref().and_then(|checks| checks.format.as_ref());
        format.map_or("", |format| &format.name)
    }

    fn is_nullable(&self) -> bool {
        self.nullable
    }

    fn is_int_or_string(&self) -> bool {
        self.int_or_string
    }

    fn is_embedded_resource(&self) -> bool {
        self.embedded
    }

    fn max_length(&self) -> Option<i64> {
        self.checks.as_deref()?.max_length
    }

    fn max_items(&self) -> Option<i64> {
        self.checks.as_deref()?.max_items
    }

    fn max_properties(&self) -> Option<i64> {
        self.checks.as_deref()?.max_properties
    }

    fn enumeration(&self) -> &[Value] {
        self.checks.as_deref().map_or(&[], |checks| &checks.enumeration)
    }

    fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    fn additional_properties(&self) -> Option<&Self> {
        self.additional_schema()
    }

    fn properties(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.properties.iter().map(|(name, property)| (&**name, property))
    }

    fn requires(&self, property: &str) -> bool {
        self.required().iter().any(|required| **required == *property)
    }

    fn has_default(&self) -> bool {
        self.default.is_some()
    }

    fn list_type(&self) -> ListType {
        match self.list_type.as_deref() {
            Some(schema::ListType::Set) => ListType::Set,
            Some(schema::ListType::Map(keys)) => ListType::Map(keys.clone()),
            Some(schema::ListType::Atomic) | None => ListType::Atomic,
        }
    }

    fn property(&self, name: &str) -> Option<&Self> {
        self.property(name)
    }
}
