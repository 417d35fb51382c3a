//! The schema of a kind in OpenAPI, made from the JSON of its definition whenever it is requested.
//!
//! Version 3 has the schema as it is. Version 2 leaves out everything that its clients do not understand or would
//! misread.

use serde_json::{Map, Value, json};

use super::numbers;

type Fields = Map<String, Value>;

/// The kind that a schema is published for.
pub(crate) struct Published<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// The `selectableFields` of the version, or null.
    pub(crate) selectable_fields: &'a Value,
}

/// A version of OpenAPI.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
    recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
    endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST_ITEMS: &str =
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schema for `components.schemas` of OpenAPI v3, made of an `openAPIV3Schema`.
pub(crate) fn v3(schema: &Value, kind: &Published<'_>) -> Value {
    publish(schema, kind, Version::V3)
}

/// The schema for `definitions` of OpenAPI v2.
pub(crate) fn v2(schema: &Value, kind: &Published<'_>) -> Value {
    publish(schema, kind, Version::V2)
}

/// The schema of a list for OpenAPI v3. `kind` is that of the items.
pub(crate) fn list_v3(kind: &Published<'_>, list_kind: &str, plural: &str) -> Value {
    list(kind, list_kind, plural, Version::V3)
}

/// The schema of a list for OpenAPI v2.
pub(crate) fn list_v2(kind: &Published<'_>, list_kind: &str, plural: &str) -> Value {
    list(kind, list_kind, plural, Version::V2)
}

/// The name of a schema in OpenAPI, as `com.example.v1.Widget`.
pub(crate) fn name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

fn publish(schema: &Value, kind: &Published<'_>, version: Version) -> Value {
    let mut schema = schema.clone();
    numbers::settle(&mut schema);
    let Value::Object(mut fields) = schema else { return Value::Null };
    if version == Version::V2 && is_true(&fields, "x-kubernetes-preserve-unknown-fields") {
        fields = Map::from_iter([("type".to_owned(), "object".into())]);
    } else {
        unfold(&mut fields);
        if version == Version::V2 {
            simplify(&mut fields);
        }
        embed(&mut fields, version, true);
        let properties = properties(&mut fields);
        properties.insert("metadata".to_owned(), reference("ObjectMeta", METADATA, version));
        type_meta(properties, API_VERSION, KIND);
    }
    about(&mut fields, kind, kind.kind);
    Value::Object(fields)
}

fn list(kind: &Published<'_>, list_kind: &str, plural: &str, version: Version) -> Value {
    let item = format!("{}{}", prefix(version), name(kind.group, kind.version, kind.kind));
    let mut properties = Map::new();
    properties.insert(
        "items".to_owned(),
        json!({"type": "array", "description": format!("List of {plural}. {LIST_ITEMS}"), "items": {"$ref": item}}),
    );
    properties.insert("metadata".to_owned(), reference("ListMeta", LIST_METADATA, version));
    type_meta(&mut properties, API_VERSION, KIND);
    let mut fields = Map::new();
    fields.insert("type".to_owned(), "object".into());
    fields.insert("description".to_owned(), format!("{list_kind} is a list of {}", kind.kind).into());
    fields.insert("required".to_owned(), json!(["items"]));
    fields.insert("properties".to_owned(), Value::Object(properties));
    about(&mut fields, kind, list_kind);
    Value::Object(fields)
}

/// Adds the kind, and the fields by which its objects can be selected.
fn about(fields: &mut Fields, kind: &Published<'_>, name: &str) {
    let own = json!([{"group": kind.group, "version": kind.version, "kind": name}]);
    fields.insert("x-kubernetes-group-version-kind".to_owned(), own);
    let selectable = kind.selectable_fields.as_array().into_iter().flatten();
    let path = |field: &Value| {
        let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)})
    };
    let selectable: Vec<Value> = selectable.map(path).collect();
    if !selectable.is_empty() {
        fields.insert("x-kubernetes-selectable-fields".to_owned(), Value::Array(selectable));
    }
}

fn prefix(version: Version) -> &'static str {
    match version {
        Version::V2 => "#/definitions/",
        Version::V3 => "#/components/schemas/",
    }
}

/// A reference with a description, which version 3 does not allow beside one.
fn reference(name: &str, description: &str, version: Version) -> Value {
    let target = json!({"$ref": format!("{}{META}.{name}", prefix(version))});
    match version {
        Version::V2 => json!({"description": description, "$ref": target["$ref"]}),
        Version::V3 => json!({"description": description, "allOf": [target]}),
    }
}

fn type_meta(properties: &mut Fields, api_version: &str, kind: &str) {
    for (name, description) in [("apiVersion", api_version), ("kind", kind)] {
        properties.insert(name.to_owned(), json!({"type": "string", "description": description}));
    }
}

fn is_true(fields: &Fields, name: &str) -> bool {
    fields.get(name) == Some(&Value::Bool(true))
}

fn properties(fields: &mut Fields) -> &mut Fields {
    let properties = fields.entry("properties").or_insert(Value::Null);
    if !properties.is_object() {
        *properties = Value::Object(Map::new());
    }
    properties.as_object_mut().expect("it was made one just now")
}

/// The schemas directly inside a schema.
fn children(fields: &mut Fields) -> impl Iterator<Item = &mut Fields> {
    fields.iter_mut().flat_map(|(name, value)| {
        let (one, many) = match (name.as_str(), value) {
            ("items" | "additionalProperties", Value::Object(schema)) => (Some(schema), None),
            ("properties", Value::Object(schemas)) => (None, Some(schemas)),
            _ => (None, None),
        };
        one.into_iter().chain(many.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut))
    })
}

/// Expresses `x-kubernetes-int-or-string` in plain OpenAPI.
fn unfold(fields: &mut Fields) {
    if is_true(fields, "x-kubernetes-int-or-string") {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let first = fields.get("allOf").and_then(|all| all.get(0)?.get("anyOf"));
        match fields.get("anyOf") {
            any_of if any_of == Some(&either) || first == Some(&either) => {}
            None => {
                fields.insert("anyOf".to_owned(), either);
            }
            Some(_) => {
                let mut all = vec![json!({"anyOf": either})];
                if let Some(Value::Array(more)) = fields.remove("allOf") {
                    all.extend(more);
                }
                fields.insert("allOf".to_owned(), Value::Array(all));
            }
        }
    }
    children(fields).for_each(unfold);
}

/// Drops the fields that clients of version 2 do not understand.
fn simplify(fields: &mut Fields) {
    for name in ["allOf", "oneOf", "anyOf", "not", "default"] {
        fields.remove(name);
    }
    let is_nullable = is_true(fields, "nullable");
    fields.remove("nullable");
    let keeps_unknown = is_true(fields, "x-kubernetes-preserve-unknown-fields");
    if is_nullable || keeps_unknown {
        fields.remove("items");
        fields.remove("properties");
    }
    let ty = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let says_too_little = ty == "array" && !fields.contains_key("items");
    if is_nullable || says_too_little || (keeps_unknown && ty == "object") {
        fields.remove("type");
    }
    drop_required(fields);
    children(fields).for_each(simplify);
}

/// Removes nullable fields from `required`.
fn drop_required(fields: &mut Fields) {
    let nullable = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    if fields.get("additionalProperties").is_some_and(nullable) {
        fields.remove("required");
    }
    let Some(Value::Array(mut required)) = fields.remove("required") else { return };
    let property = |name: &Value| fields.get("properties")?.get(name.as_str()?);
    required.retain(|name| !property(name).is_some_and(nullable));
    if !required.is_empty() {
        fields.insert("required".to_owned(), Value::Array(required));
    }
}

/// Adds the fields that every embedded resource has.
fn embed(fields: &mut Fields, version: Version, is_root: bool) {
    children(fields).for_each(|child| embed(child, version, false));
    let is_free = version == Version::V2 && is_true(fields, "x-kubernetes-preserve-unknown-fields");
    if is_free || !is_true(fields, "x-kubernetes-embedded-resource") {
        return;
    }
    let properties = properties(fields);
    properties.insert("metadata".to_owned(), reference("ObjectMeta", METADATA, version));
    if !is_root {
        type_meta(properties, EMBEDDED_API_VERSION, EMBEDDED_KIND);
    }
    let mut required = match fields.remove("required") {
        Some(Value::Array(required)) => required,
        _ => Vec::new(),
    };
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|own| own == name) {
            required.push(name.into());
        }
    }
    fields.insert("required".to_owned(), Value::Array(required));
}
