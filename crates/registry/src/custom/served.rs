//! The kinds of the catalog that are made of a definition.

use super::{
    Definition,
    object::CustomObject,
    schema::{Schema, openapi},
};
use crate::{
    kind::{Generation, Kind, SelectableField, Subresource, UnknownField},
    schema::CUSTOM_OBJECT,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{borrow::Cow, fmt, sync::Arc};

/// The verbs of custom resources, in the order of discovery.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs while the definition is being deleted.
pub(crate) const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// A version of a definition, of which a kind is made.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) definition: Arc<Definition>,
    /// The number of the version.
    pub(crate) version: usize,
}

impl Served {
    /// Whether the definition is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.definition.is_terminating
    }

    /// The version in which objects are stored.
    pub(crate) fn storage_version(&self) -> &str {
        &self.definition.versions[self.definition.storage].name
    }

    /// Whether a version of the definition may have a default for an object at a path.
    pub(crate) fn has_default_at(&self, path: &[String]) -> bool {
        let is_given = |version| {
            let mut node = self.definition.schema(version).map(Schema::root);
            path.iter().any(|name| {
                node = node.and_then(|node| node.property(name));
                node.is_some_and(|node| node.default.is_some())
            })
        };
        (0..self.definition.versions.len()).any(is_given)
    }

    /// A stored document with the defaults of its version.
    pub(crate) fn stored_document(&self, value: &[u8]) -> Value {
        self.definition.stored_document(value).0
    }

    pub(crate) fn version(&self) -> &super::definition::Version {
        &self.definition.versions[self.version]
    }

    pub(crate) fn schema(&self) -> Option<&super::schema::Schema> {
        self.definition.schema(self.version)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.definition.api_version(self.version), self.definition.names.plural)
    }
}

/// The kinds that a definition makes.
pub(crate) struct Kinds {
    /// The kinds that are served.
    pub(crate) served: Vec<Arc<Kind>>,
    /// The kind of the stored version, whether it is served or not. It has the selectable fields of all versions.
    pub(crate) stored: Arc<Kind>,
}

/// The kinds that a definition serves, made of its stored form. Empty if the document does not have the form of a
/// definition. [`Registry::serve`](crate::Registry::serve) serves them.
pub fn kinds_of(stored: &Bytes) -> Vec<Arc<Kind>> {
    Definition::read(stored).map_or_else(Vec::new, |definition| kinds(&Arc::new(definition)).served)
}

/// Makes the kinds of a definition.
pub(crate) fn kinds(definition: &Arc<Definition>) -> Kinds {
    let numbers = 0..definition.versions.len();
    let served = numbers.filter(|version| definition.versions[*version].served);
    let served = served.map(|version| Arc::new(kind(definition, version))).collect();
    let mut stored = kind(definition, definition.storage);
    let all = definition.versions.iter().filter(|version| version.served);
    for path in all.flat_map(|version| &version.selectable) {
        if stored.fields.iter().all(|known| known.name != *path) {
            stored.fields.push(SelectableField::new(path));
        }
    }
    stored.indexed_fields = stored
        .fields
        .iter()
        .map(|field| field.name.clone())
        .filter(|name| name != "metadata.namespace")
        .collect();
    Kinds { served, stored: Arc::new(stored) }
}

fn kind(definition: &Arc<Definition>, number: usize) -> Kind {
    let (names, version) = (&definition.names, &definition.versions[number]);
    let mut kind = Kind::of_type(&definition.group, CUSTOM_OBJECT, &names.plural)
        .version(&version.name)
        .named(&names.singular, &names.kind)
        .verbs(VERBS)
        .stored_at(&format!("{}/{}", definition.group, names.plural))
        .requires_version()
        .status_keeps_metadata()
        .takes_any_finalizer()
        .generation(if version.has_status { Generation::Content } else { Generation::ContentOrStatus });
    kind.list_name = names.list_kind.clone();
    kind.namespaced = definition.namespaced;
    kind.short_names = names.short_names.clone();
    kind.categories = names.categories.clone();
    let scale = version.scale.is_some().then(Subresource::scale);
    kind.subresources = scale.into_iter().chain(version.has_status.then(Subresource::status)).collect();
    let namespace = definition.namespaced.then(SelectableField::namespace);
    let selectable = version.selectable.iter().map(|path| SelectableField::new(path));
    kind.fields = namespace.into_iter().chain(selectable).collect();
    kind.unknown_field = UnknownField::NotSupported;
    kind.deprecation = version.deprecation.clone().map(Cow::Owned);
    kind.scale_paths = version.scale.clone();
    let served = Served { definition: Arc::clone(definition), version: number };
    kind.strategy = Arc::new(CustomObject::new(served.clone()));
    kind.custom = Some(served);
    kind
}

/// The schemas of a custom kind in OpenAPI documents: the name of its schema, the schema, and that of its lists.
#[derive(Clone, Debug)]
pub struct PublishedSchemas {
    /// The name, such as `com.example.v1.Widget`.
    pub name: String,
    /// The schema of an object.
    pub object: Value,
    /// The schema of a list.
    pub list: Value,
}

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiVersion {
    /// Version 2, which cannot express all of a schema.
    V2,
    /// Version 3, which can.
    V3,
}

impl Kind {
    /// The name of the schema of a custom kind in documents about the API.
    pub fn published_name(&self) -> Option<String> {
        self.custom.as_ref().map(|_| openapi::name(&self.group, &self.version, &self.name))
    }

    /// The schemas of a custom kind, made of its definition.
    pub fn published_schemas(&self, version: OpenApiVersion) -> Option<PublishedSchemas> {
        let served = self.custom.as_ref()?;
        let paths = served.version().selectable.iter();
        let fields: Vec<Value> = paths.map(|path| json!({"jsonPath": format!(".{path}")})).collect();
        let selectable_fields = if fields.is_empty() { Value::Null } else { fields.into() };
        let (group, api_version, kind) = (&self.group, &self.version, &self.name);
        let published =
            openapi::Published { group, version: api_version, kind, selectable_fields: &selectable_fields };
        let schema = served.definition.schema_json(served.version);
        let (object, list) = match version {
            OpenApiVersion::V2 => (
                openapi::v2(&schema, &published),
                openapi::list_v2(&published, &self.list_name, &self.plural),
            ),
            OpenApiVersion::V3 => (
                openapi::v3(&schema, &published),
                openapi::list_v3(&published, &self.list_name, &self.plural),
            ),
        };
        Some(PublishedSchemas { name: openapi::name(group, api_version, kind), object, list })
    }
}
