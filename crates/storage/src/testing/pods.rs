//! The objects the cases work with: small JSON documents shaped like pods.

use crate::{Attributes, Inspector, Key, List, Pairs, Predicate, ResourcePrefix, Undecodable};
use bytes::Bytes;
use keepwatch_apimachinery::{
    meta::Peek,
    selector::{FieldSelector, LabelSelector},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A pod to be written. Its namespace is `ns` and its uid `uid-<name>` unless set otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    namespace: String,
    name: String,
    uid: String,
    labels: BTreeMap<String, String>,
    node: String,
    data: i64,
}

/// A pod without labels in namespace `ns`.
pub fn pod(name: &str) -> Pod {
    Pod {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labels: BTreeMap::new(),
        node: String::new(),
        data: 0,
    }
}

impl Pod {
    /// In another namespace.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// With this uid.
    pub fn uid(self, uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..self }
    }

    /// With one more label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// On this node (`spec.nodeName`).
    pub fn node(self, node: &str) -> Self {
        Self { node: node.to_owned(), ..self }
    }

    /// With this content, which no selector sees.
    pub fn data(self, data: i64) -> Self {
        Self { data, ..self }
    }

    /// The key callers name it by.
    pub fn key(&self) -> String {
        format!("/pods/{}/{}", self.namespace, self.name)
    }

    /// Its value.
    pub fn value(&self) -> Bytes {
        self.document().to_string().into()
    }

    /// Its value with a version, as a client might send it although storage alone assigns versions.
    pub fn value_with_version(&self, version: &str) -> Bytes {
        let mut document = self.document();
        document["metadata"]["resourceVersion"] = json!(version);
        document.to_string().into()
    }

    /// The data that [`Pod::data`] put into a value.
    pub fn data_of(value: &[u8]) -> i64 {
        let document: Value = serde_json::from_slice(value).expect("a pod's value is JSON");
        document["data"].as_i64().expect("a pod has data")
    }

    fn document(&self) -> Value {
        json!({
            "metadata": {
                "name": self.name, "namespace": self.namespace, "uid": self.uid, "labels": self.labels,
            },
            "spec": { "nodeName": self.node },
            "data": self.data,
        })
    }
}

/// The place of the pods: `/registry` and `pods`.
pub fn pods_prefix() -> ResourcePrefix {
    ResourcePrefix::new("/registry", "pods").expect("a good prefix")
}

/// Reads a [`Pod`]'s uid, labels, version, and the fields `metadata.name`, `metadata.namespace` and
/// `spec.nodeName`. Anything but a JSON object with metadata is undecodable.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodInspector;

impl Inspector for PodInspector {
    fn inspect(&self, _: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        let document: Value =
            serde_json::from_slice(value).map_err(|error| Undecodable(error.to_string()))?;
        let Some(metadata) = document["metadata"].as_object() else {
            return Err(Undecodable("no metadata".to_owned()));
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = metadata.get("labels").and_then(Value::as_object).map(texts).unwrap_or_default();
        let has_version = metadata.contains_key("resourceVersion");
        let fields = [
            ("metadata.name", &document["metadata"]["name"]),
            ("metadata.namespace", &document["metadata"]["namespace"]),
            ("spec.nodeName", &document["spec"]["nodeName"]),
        ];
        Ok(Attributes {
            uid: metadata.get("uid").map(|uid| text(uid).into()),
            labels,
            fields: fields.map(|(name, value)| (name, text(value))).into_iter().collect(),
            version_at: Peek::at(value).ok().and_then(|peek| peek.version_at),
            has_version,
            ..Attributes::default()
        })
    }
}

fn texts(map: &Map<String, Value>) -> Pairs {
    map.iter().map(|(key, value)| (key, value.as_str().unwrap_or_default())).collect()
}

/// The predicate of a label selector.
pub fn labels(selector: &str) -> Predicate {
    let labels = LabelSelector::parse(selector).expect("a good label selector");
    Predicate { labels, ..Predicate::default() }
}

/// The predicate of a field selector.
pub fn fields(selector: &str) -> Predicate {
    let fields = FieldSelector::parse(selector).expect("a good field selector");
    Predicate { fields, ..Predicate::default() }
}

/// The names in a list, in its order, separated by blanks: `a b c`.
pub fn names(list: &List) -> String {
    let last = |key: &Key| key.rsplit('/').next().unwrap_or_default().to_owned();
    list.items.iter().map(|object| last(&object.key)).collect::<Vec<_>>().join(" ")
}
