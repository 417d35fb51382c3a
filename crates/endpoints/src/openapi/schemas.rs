//! The schemas of a document: the kinds of its resources and all that they consist of.
//!
//! The table of types says which fields there are, which are required and how they merge; descriptions are given. A
//! reference is only ever made to a schema that is then added, so every reference leads somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use keepwatch_registry::kind::{GroupVersionKind, Kind};
use keepwatch_registry::kinds;
use keepwatch_registry::schema::{self, Field, ListType, Presence, Shape, Type, TypeRef, ValueKind};
use serde_json::{Map, Value, json};

use super::Descriptions;
use super::dialect::Dialect;
use super::markers;
use super::paths::is_connection;

pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// The name under which a type of the table is published: `io.k8s.api.core.v1.Pod` for `core.v1.Pod`.
pub(super) fn published(name: &str) -> String {
    let parent = match name.split('.').next() {
        Some("meta") => "io.k8s.apimachinery.pkg.apis",
        Some("apiextensions") => "io.k8s.apiextensions-apiserver.pkg.apis",
        Some("apiregistration") => "io.k8s.kube-aggregator.pkg.apis",
        Some("version") => "io.k8s.apimachinery.pkg",
        _ => "io.k8s.api",
    };
    format!("{parent}.{name}")
}

/// The name under which the objects of a resource are published.
pub(super) fn published_kind(kind: &Kind) -> String {
    kind.published_name().unwrap_or_else(|| published(kind.ty.name))
}

/// The type of a kind: `rbac.v1.Role` for Role in `rbac.authorization.k8s.io/v1`.
pub(super) fn type_name(of: &GroupVersionKind) -> String {
    let package = match of.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("{package}.{}.{}", of.version, of.kind)
}

/// The schemas that the operations on some resources speak of, by their published names, and those of other types.
pub(super) fn of(
    dialect: Dialect,
    kinds: &[&Kind],
    others: &[&'static str],
    descriptions: &Descriptions,
) -> Map<String, Value> {
    let any_allows = |verb: &str| kinds.iter().any(|kind| kind.allows(verb));
    let mut roots: BTreeSet<String> = others.iter().map(|name| (*name).to_owned()).collect();
    if any_allows("delete") {
        roots.extend(["meta.v1.DeleteOptions".to_owned(), "meta.v1.Status".to_owned()]);
    }
    for kind in kinds {
        match kind.is_custom() {
            // What their schemas refer to.
            true => roots.extend(["meta.v1.ListMeta", "meta.v1.ObjectMeta"].map(str::to_owned)),
            false => drop(roots.insert(kind.ty.name.to_owned())),
        }
        let subresources = kind.subresources.iter().filter(|sub| !is_connection(sub));
        roots.extend(subresources.filter_map(|sub| sub.kind.as_ref()).map(type_name));
    }
    let versions = match dialect {
        Dialect::V2 => every_version(),
        Dialect::V3 => {
            let own = kinds.iter().map(|kind| (kind.group.as_str(), kind.version.as_str()));
            let all: BTreeSet<(&str, &str)> = own.chain([("", "v1")]).collect();
            all.into_iter().collect()
        }
    };
    let published: Vec<String> = roots.iter().map(|name| published(name)).collect();
    let published: Vec<&str> = published.iter().map(String::as_str).collect();
    let mut schemas = Schemas {
        dialect,
        versions,
        described: descriptions(&published),
        made: Map::new(),
        waiting: roots.iter().filter_map(|name| schema::lookup(name)).collect(),
    };
    if any_allows("patch") {
        let patch = json!({ "type": "object", "description": "A patch, in one of its forms." });
        schemas.made.insert(PATCH.to_owned(), patch);
    }
    if kinds.iter().any(|kind| kind.allows("watch") && !kind.is_custom()) {
        schemas.add_watch_event();
    }
    for kind in kinds {
        match kind.published_schemas(dialect.version()) {
            Some(own) => {
                schemas.made.insert(format!("{}List", own.name), own.list);
                schemas.made.insert(own.name, own.object);
            }
            None if kind.allows("list") => schemas.add_list(kind),
            None => {}
        }
    }
    schemas.finish()
}

struct Schemas<'a> {
    dialect: Dialect,
    /// The versions of groups in which there are kinds that every group has.
    versions: Vec<(&'a str, &'a str)>,
    /// Schemas whose descriptions are taken, by published names.
    described: Map<String, Value>,
    made: Map<String, Value>,
    /// Types that something refers to and that may not be made yet.
    waiting: Vec<TypeRef>,
}

impl Schemas<'_> {
    fn finish(mut self) -> Map<String, Value> {
        while let Some(ty) = self.waiting.pop() {
            let name = published(ty.name);
            if !self.made.contains_key(&name) {
                let schema = self.message(&ty, &name);
                self.made.insert(name, schema);
            }
        }
        self.made
    }

    /// The schema of a type with fields.
    fn message(&mut self, ty: &Type, name: &str) -> Value {
        let mut properties = Map::new();
        if ty.typed {
            self.put_type_meta(&mut properties, name);
        }
        for field in ty.json_fields() {
            let schema = self.field(ty.name, field, self.property_description(name, field.name));
            properties.insert(field.name.to_owned(), schema);
        }
        let mut schema = json!({ "type": "object" });
        if let Some(description) = self.description(name) {
            schema["description"] = description;
        }
        let required = ty.json_fields().iter().filter(|field| field.required);
        let required: Vec<Value> = required.map(|field| field.name.into()).collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if ty.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some(unions) = markers::unions_of(ty.name) {
            schema["x-kubernetes-unions"] = unions;
        }
        if ty.name == "meta.v1.DeleteOptions" {
            schema[GROUP_VERSION_KIND] = self.in_versions("DeleteOptions");
        } else if let Some(kinds) = KINDS.get(ty.name) {
            schema[GROUP_VERSION_KIND] = kinds.clone();
        }
        schema
    }

    fn field(&mut self, owner: &str, field: &Field, description: Option<Value>) -> Value {
        let mut value = self.value(field.kind);
        let allowed: Vec<&str> = field.values().collect();
        if !allowed.is_empty() {
            value["enum"] = json!(allowed);
        }
        if field.shape != Shape::One {
            value = self.dialect.with_default(value, zero_of(field.kind));
        }
        let schema = match field.shape {
            Shape::One => value,
            Shape::List => json!({ "type": "array", "items": value }),
            Shape::Map => json!({ "type": "object", "additionalProperties": value }),
        };
        let mut more = merging(field);
        more.extend(markers::topology_of(owner, field.name));
        let default = markers::default_of(owner, field.name).or_else(|| default_of(field));
        if let Some(default) = default.filter(|_| self.dialect == Dialect::V3) {
            more.insert("default".to_owned(), default);
        }
        let description = match description {
            Some(Value::String(words)) if field.shape == Shape::One => {
                Some(with_values(words, &allowed).into())
            }
            other => other,
        };
        more.extend(description.map(|description| ("description".to_owned(), description)));
        self.dialect.with(schema, more)
    }

    fn value(&mut self, kind: ValueKind) -> Value {
        let (name, schema) = match kind {
            ValueKind::String => return json!({ "type": "string" }),
            ValueKind::Bool => return json!({ "type": "boolean" }),
            ValueKind::Int32 => return json!({ "type": "integer", "format": "int32" }),
            ValueKind::Int64 => return json!({ "type": "integer", "format": "int64" }),
            ValueKind::Double => return json!({ "type": "number", "format": "double" }),
            ValueKind::Bytes => return json!({ "type": "string", "format": "byte" }),
            ValueKind::Strings => return self.texts(),
            ValueKind::Message(ty) => {
                self.waiting.push(ty);
                return self.dialect.reference(&published(ty.name));
            }
            ValueKind::Time => ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", date_time()),
            ValueKind::MicroTime => ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", date_time()),
            ValueKind::Quantity => ("io.k8s.apimachinery.pkg.api.resource.Quantity", self.dialect.quantity()),
            ValueKind::IntOrString => {
                ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", self.dialect.int_or_string())
            }
            ValueKind::Raw => ("io.k8s.apimachinery.pkg.runtime.RawExtension", json!({ "type": "object" })),
            ValueKind::Fields => {
                ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", json!({ "type": "object" }))
            }
            // What these may be cannot be said in OpenAPI 2, and a type that is one of several confuses clients.
            ValueKind::Json => ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", json!({})),
            ValueKind::SchemaOrArray => {
                ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", json!({}))
            }
            ValueKind::SchemaOrBool => {
                ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", json!({}))
            }
            ValueKind::SchemaOrStrings => (
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
                json!({}),
            ),
        };
        self.add_special(name, schema);
        self.dialect.reference(name)
    }

    /// Adds a type that is no message: how it is written does not follow from its fields.
    fn add_special(&mut self, name: &str, mut schema: Value) {
        if !self.made.contains_key(name) {
            if let Some(description) = self.description(name) {
                schema["description"] = description;
            }
            self.made.insert(name.to_owned(), schema);
        }
    }

    fn texts(&self) -> Value {
        let text = self.dialect.with_default(json!({ "type": "string" }), zero_of(ValueKind::String));
        json!({ "type": "array", "items": text })
    }

    fn in_versions(&self, name: &str) -> Value {
        self.versions.iter().map(|(group, version)| group_version_kind(group, version, name)).collect()
    }

    fn add_watch_event(&mut self) {
        let object = self.value(ValueKind::Raw);
        let words =
            "The object as it is after the change, or before it was deleted; a Status if the watch failed.";
        let words = Map::from_iter([("description".to_owned(), words.into())]);
        let object = self.dialect.with(object, words);
        let change = self.dialect.with_default(json!({ "type": "string" }), zero_of(ValueKind::String));
        let schema = json!({
            "type": "object",
            "description": "A change of one watched object.",
            "properties": { "object": object, "type": change },
            "required": ["type", "object"],
            GROUP_VERSION_KIND: self.in_versions("WatchEvent"),
        });
        self.made.insert(WATCH_EVENT.to_owned(), schema);
    }

    fn add_list(&mut self, kind: &Kind) {
        let item = published(kind.ty.name);
        let metadata = schema::lookup("meta.v1.ListMeta").expect("the table has it; a test makes every list");
        let metadata = self.value(ValueKind::Message(metadata));
        let words = "The version of the list, and where its next page begins.";
        let words = Map::from_iter([("description".to_owned(), words.into())]);
        let metadata = self.dialect.with_default(self.dialect.with(metadata, words), Some(json!({})));
        let items = json!({
            "type": "array",
            "items": self.dialect.with_default(self.dialect.reference(&item), Some(json!({}))),
            "description": format!("The objects: each is a {}.", kind.name),
        });
        let mut properties = Map::from_iter([("items".to_owned(), items), ("metadata".to_owned(), metadata)]);
        self.put_type_meta(&mut properties, &item);
        let schema = json!({
            "type": "object",
            "description": format!("{} is a list of {} objects.", kind.list_name, kind.name),
            "properties": properties,
            "required": ["items"],
            GROUP_VERSION_KIND: [group_version_kind(&kind.group, &kind.version, &kind.list_name)],
        });
        self.made.insert(format!("{item}List"), schema);
    }

    /// The two fields by which an object says what it is.
    fn put_type_meta(&self, properties: &mut Map<String, Value>, described_in: &str) {
        for field in ["apiVersion", "kind"] {
            let mut schema = json!({ "type": "string" });
            if let Some(description) = self.property_description(described_in, field) {
                schema["description"] = description;
            }
            properties.insert(field.to_owned(), schema);
        }
    }

    fn description(&self, name: &str) -> Option<Value> {
        self.described.get(name)?.get("description").cloned()
    }

    fn property_description(&self, name: &str, field: &str) -> Option<Value> {
        self.described.get(name)?.get("properties")?.get(field)?.get("description").cloned()
    }
}

/// The value of an element of a list or map that is null.
fn zero_of(kind: ValueKind) -> Option<Value> {
    match kind {
        ValueKind::Message(_) => Some(json!({})),
        ValueKind::String => Some("".into()),
        ValueKind::Bool => Some(false.into()),
        ValueKind::Int32 | ValueKind::Int64 => Some(0.into()),
        _ => None,
    }
}

/// The value of a field that is not given, if the object has it all the same.
fn default_of(field: &Field) -> Option<Value> {
    let is_there = match field.kind {
        ValueKind::Message(_) => matches!(field.presence, Presence::Always | Presence::UnlessEmpty),
        _ => field.presence == Presence::Always,
    };
    zero_of(field.kind).filter(|_| is_there && field.shape == Shape::One)
}

/// A description that also lists the values, for clients that show nothing else.
fn with_values(mut description: String, allowed: &[&str]) -> String {
    if !allowed.is_empty() {
        description.push_str("\n\nPossible enum values:");
    }
    for value in allowed {
        description.push_str("\n - `\"");
        description.push_str(value);
        description.push_str("\"`");
    }
    description
}

fn date_time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

/// The extensions for the merging of a field, by strategic merge patch and by server-side apply.
fn merging(field: &Field) -> Map<String, Value> {
    let mut said = Map::new();
    let merge = &field.merge;
    let strategies: Vec<&str> =
        [(merge.merged, "merge"), (merge.retain_keys, "retainKeys"), (merge.replace, "replace")]
            .into_iter()
            .filter_map(|(applies, strategy)| applies.then_some(strategy))
            .collect();
    if !strategies.is_empty() {
        said.insert("x-kubernetes-patch-strategy".to_owned(), strategies.join(",").into());
    }
    if let Some(key) = merge.key {
        said.insert("x-kubernetes-patch-merge-key".to_owned(), key.into());
    }
    if field.shape == Shape::List {
        let list_type = match &field.list {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map(keys) => {
                said.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
                "map"
            }
        };
        said.insert("x-kubernetes-list-type".to_owned(), list_type.into());
    }
    if field.atomic {
        said.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    said
}

/// Group, version and kind, as the extension of that name has them.
pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

/// The kinds that objects of a type may say that they are, by the name of the type.
static KINDS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let said = |group: &str, version: &str, name: &str| json!([group_version_kind(group, version, name)]);
    let mut kinds: BTreeMap<String, Value> =
        ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"]
            .map(|name| (format!("meta.v1.{name}"), said("", "v1", name)))
            .into();
    for kind in kinds::built_in() {
        kinds.insert(kind.ty.name.to_owned(), said(&kind.group, &kind.version, &kind.name));
        for own in kind.subresources.iter().filter_map(|sub| sub.kind.as_ref()) {
            kinds.insert(type_name(own), said(&own.group, &own.version, &own.kind));
        }
    }
    kinds
});

/// Every built-in group with each of its versions.
fn every_version() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for kind in kinds::built_in() {
        let own = (kind.group.as_str(), kind.version.as_str());
        if !all.contains(&own) {
            all.push(own);
        }
    }
    all
}
