//! Drops from documents the fields that a kind does not have, and nulls that the schema does not allow.

use serde_json::{Map, Value};

use super::{
    node::{Additional, Node},
    path::Path,
};

/// Prunes a whole object by its schema: fields that the schema does not have are dropped and reported, in no particular
/// order. The type and the metadata of the object are ignored.
pub(super) fn object(node: &Node, document: &mut Value, dropped_fields: &mut DroppedFields) {
    if let Value::Object(fields) = document {
        Pruning { dropped_fields, drops_nulls: true }.object(Some(node), fields, &Path::Root, true);
    }
}

/// Drops from a default the fields that its schema does not have. `is_resource` is true for a Kubernetes object.
pub(super) fn default(node: &Node, default: &mut Value, is_resource: bool) {
    let dropped_fields = &mut DroppedFields::default();
    let mut pruning = Pruning { dropped_fields, drops_nulls: false };
    match default {
        Value::Object(fields) if is_resource => pruning.object(Some(node), fields, &Path::Root, true),
        default => pruning.value(Some(node), default, &Path::Root),
    }
}

/// The paths of the dropped fields, if the caller needs them.
#[derive(Default)]
pub(super) struct DroppedFields(pub(super) Option<Vec<String>>);

struct Pruning<'a> {
    dropped_fields: &'a mut DroppedFields,
    drops_nulls: bool,
}

impl Pruning<'_> {
    fn value(&mut self, node: Option<&Node>, value: &mut Value, path: &Path<'_>) {
        match value {
            Value::Object(fields) => {
                self.object(node, fields, path, node.is_some_and(|node| node.embedded));
            }
            Value::Array(items) => {
                let is_kept = node.is_some_and(|node| node.preserves_unknown);
                let schema = node.and_then(|node| node.items.as_deref());
                if is_kept && schema.is_none() {
                    return;
                }
                for (at, item) in items.iter_mut().enumerate() {
                    let path = &Path::Item(path, at);
                    match schema {
                        // If a list preserves unknown fields, so do its items.
                        Some(schema) if is_kept => self.kept(schema, item, path),
                        schema => self.value(schema, item, path),
                    }
                }
            }
            _ => {}
        }
    }

    /// A value inside of one whose unknown fields are kept: they are kept here too.
    fn kept(&mut self, node: &Node, value: &mut Value, path: &Path<'_>) {
        match value {
            Value::Object(fields) => {
                self.fields(node, fields, path, node.embedded, true);
            }
            Value::Array(items) => {
                let Some(schema) = node.items.as_deref() else { return };
                for (at, item) in items.iter_mut().enumerate() {
                    self.kept(schema, item, &Path::Item(path, at));
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        node: Option<&Node>,
        fields: &mut Map<String, Value>,
        path: &Path<'_>,
        is_resource: bool,
    ) {
        match node {
            Some(node) => self.fields(node, fields, path, is_resource, node.preserves_unknown),
            None => {
                for name in fields.keys() {
                    self.report(&Path::Field(path, name));
                }
                fields.clear();
            }
        }
    }

    fn fields(
        &mut self,
        node: &Node,
        fields: &mut Map<String, Value>,
        path: &Path<'_>,
        is_resource: bool,
        keeps_unknown: bool,
    ) {
        let mut dropped = Vec::new();
        for (name, value) in fields.iter_mut() {
            let schema = node.property(name);
            if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                if schema.is_some_and(|schema| self.is_unwanted(schema, value)) {
                    dropped.push(name.clone());
                }
                continue;
            }
            let path = &Path::Field(path, name);
            match (schema, &node.additional) {
                (Some(schema), _) => self.value(Some(schema), value, path),
                (None, Additional::Schema(schema)) => self.value(Some(schema), value, path),
                (None, Additional::Allowed(_)) => self.value(None, value, path),
                (None, Additional::Unset) if keeps_unknown => {}
                (None, Additional::Unset) => {
                    self.report(path);
                    dropped.push(name.clone());
                    continue;
                }
            }
            if schema.or(node.additional_schema()).is_some_and(|schema| self.is_unwanted(schema, value)) {
                dropped.push(name.clone());
            }
        }
        for name in dropped {
            fields.remove(&name);
        }
    }

    fn report(&mut self, path: &Path<'_>) {
        if let Some(dropped_fields) = &mut self.dropped_fields.0 {
            dropped_fields.push(path.to_string());
        }
    }

    /// Whether a value is a null that is not allowed. Those that have a default get it later.
    fn is_unwanted(&self, node: &Node, value: &Value) -> bool {
        self.drops_nulls && value.is_null() && !node.nullable && node.default.is_none()
    }
}
