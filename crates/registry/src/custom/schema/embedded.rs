//! Kubernetes objects: the whole one, and those that a schema embeds in it.
//!
//! Their metadata has a type of its own, which no schema changes. Metadata that does not fit the type is an error, or
//! is dropped if it comes from storage.

use keepwatch_apimachinery::status::Cause;
use serde_json::{Map, Value};

use super::{
    node::{Node, Schema},
    numbers,
    path::Path,
    prune::{self, DroppedFields},
    shown,
};
use crate::{
    document::{self, FieldErrors},
    kind::NameRule,
    schema::{self, Problems, TypeRef},
    validation::{
        metadata::{self, Form},
        names,
    },
};

/// The origin of a document that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A client: metadata of another form is an error.
    Client,
    /// Storage, or a conversion: such metadata is dropped, and a missing generation becomes 1.
    Storage,
}

impl Schema {
    /// Gives a document the form of its kind and returns the paths of the fields that it does not have, in the order in
    /// which strict decoding reports them. The error is in Kubernetes' words.
    pub(crate) fn decode(&self, document: &mut Value, source: Source) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        numbers::read(document);
        let Value::Object(fields) = document else { return Ok(unknown) };
        if let Some(meta) = fields.get_mut("metadata") {
            unknown.extend(object_meta(meta, source)?.into_iter().map(|path| format!("metadata.{path}")));
            // A missing generation in storage becomes 1. A document without metadata gets none.
            if source == Source::Storage && meta.get("generation").is_none() {
                meta["generation"] = 1.into();
            }
        }
        let mut dropped_fields = DroppedFields((source == Source::Client).then(Vec::new));
        prune::object(self.root(), document, &mut dropped_fields);
        let mut pruned = dropped_fields.0.unwrap_or_default();
        pruned.sort_unstable();
        unknown.append(&mut pruned);
        if self.root().below.embedded {
            let mut coercing = Coercing { source, unknown: Vec::new() };
            coercing.value(self.root(), document, &Path::Root).map_err(|cause| cause.to_string())?;
            coercing.unknown.sort_unstable();
            unknown.append(&mut coercing.unknown);
        }
        Ok(unknown)
    }

    /// The errors of resources inside the object. Not called when the status is written.
    pub(crate) fn check_embedded(&self, new: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        check(self.root(), new, false, "", &mut causes);
        causes
    }
}

fn meta_type() -> TypeRef {
    schema::lookup("meta.v1.ObjectMeta").expect("the table has the type of metadata")
}

/// Gives metadata its form, and returns the paths of the fields that it does not have.
fn object_meta(meta: &mut Value, source: Source) -> Result<Vec<String>, String> {
    let mut problems = Problems::default();
    let given = std::mem::take(meta);
    let normalized = match (source, given) {
        (_, Value::Null) => Ok(Value::Object(Map::new())),
        (Source::Client, given) => {
            schema::normalize(given, meta_type(), &mut problems).map_err(|error| error.0)
        }
        (Source::Storage, Value::Object(fields)) => Ok(lenient(fields)),
        (Source::Storage, other) => {
            Err(format!("invalid metadata: expected object, got {}", go_type(&other)))
        }
    };
    *meta = normalized?;
    let path = |text: &String| Some(text.strip_prefix("unknown field \"")?.strip_suffix('"')?.to_owned());
    Ok(problems.0.iter().filter_map(path).collect())
}

/// The fields that have the form of metadata.
fn lenient(fields: Map<String, Value>) -> Value {
    let normalize = |fields| schema::normalize(Value::Object(fields), meta_type(), &mut Problems::default());
    if let Ok(meta) = normalize(fields.clone()) {
        return meta;
    }
    let fits =
        |(name, value): &(String, Value)| normalize(Map::from_iter([(name.clone(), value.clone())])).is_ok();
    normalize(fields.into_iter().filter(fits).collect()).unwrap_or_default()
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Gives the resources inside a value their form. `is_resource` is true if the value is a resource itself.
pub(super) fn coerce(node: &Node, value: &mut Value, is_resource: bool, source: Source) -> Result<(), Cause> {
    let mut coercing = Coercing { source, unknown: Vec::new() };
    match value {
        Value::Object(fields) if is_resource => coercing.object(node, fields, &Path::Root, true),
        value => coercing.value(node, value, &Path::Root),
    }
}

struct Coercing {
    source: Source,
    /// The paths of the fields that metadata does not have.
    unknown: Vec<String>,
}

impl Coercing {
    fn value(&mut self, node: &Node, value: &mut Value, path: &Path<'_>) -> Result<(), Cause> {
        if !node.below.embedded {
            return Ok(());
        }
        match value {
            Value::Object(fields) => self.object(node, fields, path, node.embedded),
            Value::Array(items) => {
                let Some(schema) = node.items.as_deref() else { return Ok(()) };
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(at, item)| self.value(schema, item, &Path::Item(path, at)))
            }
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        node: &Node,
        fields: &mut Map<String, Value>,
        path: &Path<'_>,
        is_resource: bool,
    ) -> Result<(), Cause> {
        if is_resource {
            self.resource(fields, path)?;
        }
        if !node.below.embedded {
            return Ok(());
        }
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = node.property(name) {
                self.value(schema, value, &Path::Field(path, name))?;
            } else if let Some(schema) = node.additional_schema() {
                self.value(schema, value, &Path::Entry(path, name))?;
            }
        }
        Ok(())
    }

    fn resource(&mut self, fields: &mut Map<String, Value>, path: &Path<'_>) -> Result<(), Cause> {
        for name in ["apiVersion", "kind"] {
            let Some(value) = fields.get(name).filter(|value| !value.is_string()) else { continue };
            if self.source == Source::Client {
                let field = Path::Field(path, name).keyed();
                return Err(shown::invalid(field, value, "must be a string"));
            }
            fields.remove(name);
        }
        let Some(meta) = fields.get_mut("metadata") else { return Ok(()) };
        let field = Path::Field(path, "metadata").keyed();
        let given = meta.clone();
        match object_meta(meta, self.source) {
            Ok(unknown) => {
                self.unknown.extend(unknown.into_iter().map(|unknown| format!("{field}.{unknown}")));
                Ok(())
            }
            Err(why) if self.source == Source::Client => Err(shown::invalid(field, &given, &why)),
            Err(_) => {
                *meta = given;
                Ok(())
            }
        }
    }
}

/// Finds the errors of the resources inside a value, which is at `path`. `is_resource` is true if the value is a
/// resource itself.
pub(super) fn check(node: &Node, value: &Value, is_resource: bool, path: &str, causes: &mut Vec<Cause>) {
    let is_resource = is_resource || node.embedded;
    if !is_resource && !node.below.embedded {
        return;
    }
    match value {
        Value::Object(fields) => {
            if is_resource {
                resource(fields, path, causes);
            }
            for (name, value) in fields {
                let has_some = |schema: &&Node| schema.below.embedded;
                if let Some(schema) = node.property(name) {
                    if has_some(&schema) {
                        check(schema, value, false, &child(path, name), causes);
                    }
                } else if let Some(schema) = node.additional_schema().filter(has_some) {
                    check(schema, value, false, &format!("{path}[{name}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.items.as_deref().filter(|schema| schema.below.embedded) else { return };
            for (at, item) in items.iter().enumerate() {
                check(schema, item, false, &format!("{path}[{at}]"), causes);
            }
        }
        _ => {}
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn resource(fields: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            causes.push(Cause::required(child(path, name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        let Some(value) = fields.get(name) else { continue };
        let fault = match value {
            Value::String(text) if text.is_empty() => Some("must not be empty".to_owned()),
            Value::String(text) if name == "kind" => kind_fault(text),
            Value::String(text) => version_fault(text),
            _ => Some("must be a string".to_owned()),
        };
        causes.extend(fault.map(|fault| shown::invalid(child(path, name), value, &fault)));
    }
    if let Some(meta) = fields.get("metadata") {
        check_meta(meta, &child(path, "metadata"), causes);
    }
}

fn version_fault(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind_fault(text: &str) -> Option<String> {
    let faults = names::label_1035(&text.to_lowercase());
    let prefix = "may have mixed case, but should otherwise match: ";
    (!faults.is_empty()).then(|| format!("{prefix}{}", faults.join(",")))
}

fn check_meta(given: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut meta = given.clone();
    if let Err(why) = object_meta(&mut meta, Source::Client) {
        causes.push(shown::invalid(path, given, &why));
        return;
    }
    // A name is not required here.
    if let Some(fields) = meta.as_object_mut().filter(|fields| !fields.contains_key("name")) {
        fields.insert("name".to_owned(), "fakename".into());
    }
    let namespaced = meta.get("namespace").is_some();
    let form = Form { names: NameRule::PathSegment, namespaced, known_finalizers: false };
    let mut faults = FieldErrors::default();
    let object = Map::from_iter([("metadata".to_owned(), meta)]);
    let object = Value::Object(object);
    metadata::check(&document::Node::root(&object).at_as("metadata", path), form, &mut faults);
    causes.append(&mut faults.0);
}
