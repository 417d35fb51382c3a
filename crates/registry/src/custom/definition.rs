//! A definition as it is served: its names and its versions.
//!
//! Kept true: a [`Definition`] never changes. It holds the JSON that it was read from, which it shares with the watch cache;
//! schemas are compiled from that when they are first needed, because most definitions of a cluster are hardly used.

use super::{
    columns::PrinterColumns,
    convert::Converted,
    expressions::Rules,
    schema::{Schema, Source, TooManyDefaults},
};
use crate::{
    kind::{FieldPath, by_preference, path},
    schema::{self, Problems},
};
use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::sync::OnceLock;

/// A definition as it is served.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) uid: String,
    /// Goes up with every change of the spec.
    generation: i64,
    pub(crate) group: String,
    /// The names that were accepted.
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    pub(crate) versions: Box<[Version]>,
    /// The number of the version in which objects are stored.
    pub(crate) storage: usize,
    /// The webhook that converts objects, if there is one.
    pub(crate) webhook: Option<Webhook>,
    /// Whether it is served: its names were accepted once.
    pub(crate) is_established: bool,
    /// Whether it is being deleted.
    pub(crate) is_terminating: bool,
    /// The objects that webhooks converted recently.
    pub(super) converted: Converted,
    value: Bytes,
}

/// A version of a definition.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    /// The warning for users of the version if it is deprecated.
    pub(crate) deprecation: Option<String>,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) selectable: Box<[String]>,
    pub(super) columns: PrinterColumns,
    schema: OnceLock<Option<Schema>>,
    rules: OnceLock<Option<Rules>>,
}

/// The names of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Names {
    #[serde(deserialize_with = "or_default")]
    pub(crate) plural: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) singular: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) short_names: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) list_kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) categories: Vec<String>,
}

/// The paths of the fields of a scale in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The path of the desired number of replicas.
    pub spec_replicas: FieldPath,
    /// The path of the current number of replicas.
    pub status_replicas: FieldPath,
    /// The path of the label selector, which is a string.
    pub selector: Option<FieldPath>,
}

/// A webhook that converts objects between versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Webhook {
    /// The address, unless it is a service.
    pub url: Option<String>,
    /// The service.
    pub service: Option<WebhookService>,
    /// The certificates, in PEM, that sign the server's; the system's if there are none.
    pub ca_bundle: Vec<u8>,
    /// The versions of `ConversionReview` that it takes, the one it likes best first.
    pub review_versions: Vec<String>,
}

/// A service that converts objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct WebhookService {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path of the requests.
    #[serde(default)]
    pub path: Option<String>,
    /// Its port; 443 if none is given.
    #[serde(default)]
    pub port: Option<u16>,
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// A definition as it is stored, as far as it is read to serve it.
#[derive(Deserialize)]
struct Stored {
    metadata: StoredMetadata,
    spec: StoredSpec,
    #[serde(default)]
    status: StoredStatus,
}

#[derive(Deserialize)]
struct StoredMetadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredStatus {
    accepted_names: Names,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<StoredCondition>,
}

#[derive(Deserialize)]
struct StoredCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize)]
struct StoredSpec {
    group: String,
    scope: String,
    versions: Vec<StoredVersion>,
    #[serde(default)]
    conversion: Option<StoredConversion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredVersion {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    #[serde(default)]
    deprecated: bool,
    #[serde(default)]
    deprecation_warning: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    subresources: StoredSubresources,
    #[serde(default, deserialize_with = "or_default")]
    additional_printer_columns: Vec<StoredColumn>,
    #[serde(default, deserialize_with = "or_default")]
    selectable_fields: Vec<StoredField>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredSubresources {
    status: Option<serde::de::IgnoredAny>,
    scale: Option<StoredScale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredScale {
    spec_replicas_path: String,
    status_replicas_path: String,
    #[serde(default)]
    label_selector_path: Option<String>,
}

/// A column as a definition has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredColumn {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) format: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) priority: i32,
    pub(super) json_path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredField {
    json_path: String,
}

#[derive(Deserialize)]
struct StoredConversion {
    strategy: String,
    #[serde(default)]
    webhook: Option<StoredWebhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredWebhook {
    #[serde(default)]
    client_config: Option<StoredClient>,
    #[serde(default, deserialize_with = "or_default")]
    conversion_review_versions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredClient {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    service: Option<WebhookService>,
    #[serde(default)]
    ca_bundle: Option<String>,
}

impl Definition {
    /// Reads a stored definition. None if it is not of the form that definitions have, or stores no version.
    pub(crate) fn read(value: &Bytes) -> Option<Definition> {
        let Stored { metadata, spec, status } = serde_json::from_slice(value).ok()?;
        let storage = spec.versions.iter().position(|version| version.storage)?;
        let names = status.accepted_names;
        let is_true =
            |kind: &str| status.conditions.iter().any(|own| own.kind == kind && own.status == "True");
        let deprecations: Vec<Option<String>> =
            spec.versions.iter().map(|version| deprecation(version, &spec, &names.kind)).collect();
        let webhook = spec.conversion.filter(|conversion| conversion.strategy == "Webhook");
        let versions = spec.versions.into_iter().zip(deprecations);
        Some(Definition {
            uid: metadata.uid,
            generation: metadata.generation,
            group: spec.group,
            namespaced: spec.scope == "Namespaced",
            versions: versions.map(|(version, deprecation)| Version::new(version, deprecation)).collect(),
            storage,
            webhook: webhook.and_then(|conversion| Webhook::new(conversion.webhook?)),
            is_established: is_true("Established"),
            is_terminating: is_true("Terminating"),
            names,
            converted: Converted::default(),
            value: value.clone(),
        })
    }

    /// Whether both definitions serve the same resource, apart from deletion.
    pub(crate) fn serves_the_same(&self, other: &Definition) -> bool {
        self.uid == other.uid && self.generation == other.generation && self.names == other.names
    }

    /// The schema of a version. None if it is not structural, which is possible in old definitions.
    pub(crate) fn schema(&self, version: usize) -> Option<&Schema> {
        let schema = self.versions[version].schema.get_or_init(|| {
            let parsed = Schema::parse(&self.schema_json(version));
            let (group, plural) = (&self.group, &self.names.plural);
            parsed.inspect_err(|why| tracing::warn!(%group, %plural, why, "a schema is not structural")).ok()
        });
        schema.as_ref()
    }

    /// The rules of a version, if its schema has any.
    pub(crate) fn rules(&self, version: usize) -> Option<&Rules> {
        let rules = &self.versions[version].rules;
        rules.get_or_init(|| self.schema(version).and_then(Rules::of_schema)).as_ref()
    }

    /// Gives a document the form that it has in a version, and returns the paths of the fields that it does not have there.
    /// The error is the reason why it cannot have that form; a document of storage always can.
    pub(crate) fn form(
        &self,
        version: usize,
        document: &mut Value,
        source: Source,
    ) -> Result<Vec<String>, String> {
        if let Some(schema) = self.schema(version) {
            return schema.decode(document, source);
        }
        let ty = schema::lookup(schema::CUSTOM_OBJECT).expect("the table of types has it");
        let formed = schema::normalize(document.take(), ty, &mut Problems::default());
        *document = formed.map_err(|error| error.to_string())?;
        Ok(Vec::new())
    }

    /// Sets the absent fields that have a default in a version.
    pub(crate) fn fill_defaults(&self, version: usize, document: &mut Value) -> Result<(), TooManyDefaults> {
        self.schema(version).map_or(Ok(()), |schema| schema.fill_defaults(document))
    }

    /// The schema of a version as the definition has it.
    pub(crate) fn schema_json(&self, version: usize) -> Value {
        #[derive(Deserialize)]
        struct Stored {
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Spec {
            versions: Vec<Versioned>,
        }
        #[derive(Deserialize)]
        struct Versioned {
            #[serde(default)]
            schema: Option<Holder>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Holder {
            #[serde(default, rename = "openAPIV3Schema")]
            open_api_v3_schema: Option<Value>,
        }
        let stored: Option<Stored> = serde_json::from_slice(&self.value).ok();
        let mut versions = stored.map(|stored| stored.spec.versions).unwrap_or_default();
        let own = (version < versions.len()).then(|| versions.swap_remove(version));
        own.and_then(|own| own.schema?.open_api_v3_schema).unwrap_or_else(open_schema)
    }

    /// The index of the version of a stored object, by its `apiVersion`. An object of an unknown version counts as one
    /// of the current storage version.
    pub(crate) fn version_of(&self, api_version: &str) -> usize {
        let named = api_version.strip_prefix(self.group.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let found = named.and_then(|name| self.versions.iter().position(|version| version.name == name));
        found.unwrap_or(self.storage)
    }

    /// The `apiVersion` of objects of a version.
    pub(crate) fn api_version(&self, version: usize) -> String {
        crate::kind::group_version(&self.group, &self.versions[version].name)
    }
}

/// A schema that accepts any object as it is.
fn open_schema() -> Value {
    serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The warning for users of a deprecated version.
fn deprecation(version: &StoredVersion, spec: &StoredSpec, kind: &str) -> Option<String> {
    if !version.deprecated {
        return None;
    }
    if let Some(warning) = &version.deprecation_warning {
        return Some(warning.clone());
    }
    let group = &spec.group;
    let message = format!("{group}/{} {kind} is deprecated", version.name);
    let better = spec.versions.iter().filter(|other| other.served && !other.deprecated);
    let better = better.map(|other| other.name.as_str());
    let best =
        better.filter(|other| by_preference(other, &version.name).is_lt()).min_by(|a, b| by_preference(a, b));
    Some(match best {
        Some(best) => format!("{message}; use {group}/{best} {kind}"),
        None => message,
    })
}

impl Version {
    fn new(stored: StoredVersion, deprecation: Option<String>) -> Version {
        let StoredSubresources { status, scale } = stored.subresources;
        Version {
            name: stored.name,
            served: stored.served,
            deprecation,
            has_status: status.is_some(),
            scale: scale.map(ScalePaths::new),
            selectable: stored
                .selectable_fields
                .into_iter()
                .map(|field| without_dot(&field.json_path))
                .collect(),
            columns: PrinterColumns::new(stored.additional_printer_columns),
            schema: OnceLock::new(),
            rules: OnceLock::new(),
        }
    }
}

impl ScalePaths {
    fn new(stored: StoredScale) -> ScalePaths {
        let selector = stored.label_selector_path.filter(|path| !path.is_empty());
        ScalePaths {
            spec_replicas: path(&without_dot(&stored.spec_replicas_path)),
            status_replicas: path(&without_dot(&stored.status_replicas_path)),
            selector: selector.map(|selector| path(&without_dot(&selector))),
        }
    }
}

impl Webhook {
    fn new(stored: StoredWebhook) -> Option<Webhook> {
        use base64::{Engine, prelude::BASE64_STANDARD};
        let client = stored.client_config?;
        Some(Webhook {
            url: client.url,
            service: client.service,
            ca_bundle: client
                .ca_bundle
                .and_then(|text| BASE64_STANDARD.decode(text).ok())
                .unwrap_or_default(),
            review_versions: stored.conversion_review_versions,
        })
    }
}

fn without_dot(path: &str) -> String {
    path.strip_prefix('.').unwrap_or(path).to_owned()
}
