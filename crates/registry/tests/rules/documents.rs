//! One small valid object of every kind that is stored.

use super::world::resource;
use keepwatch_registry::{kind::Kind, kinds::built_in};
use serde_json::Value;
use std::sync::Arc;

/// A sample object of a kind. The fields are those of `documents.yaml`.
pub(crate) struct Sample {
    pub(crate) resource: &'static Arc<Kind>,
    /// The resource, as request paths name it.
    pub(crate) name: String,
    pub(crate) object: Value,
    pub(crate) change: Option<Value>,
    pub(crate) status: Option<Value>,
    pub(crate) generation: Counting,
}

/// The expected changes of the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    Counted,
    /// The same, but a new object keeps the generation of the request.
    CountedOnceCreated,
    Once,
    Left,
}

impl Sample {
    /// The path of its collection.
    pub(crate) fn collection(&self) -> String {
        let namespace = if self.resource.namespaced { "default" } else { "" };
        format!("{} {namespace}", self.name)
    }

    /// The path of the object.
    pub(crate) fn place(&self) -> String {
        let namespace = if self.resource.namespaced { "default/" } else { "" };
        format!("{} {namespace}{}", self.name, self.object["metadata"]["name"].as_str().unwrap())
    }

    /// The path of its status.
    pub(crate) fn status_place(&self) -> String {
        format!("{}/status", self.place())
    }

    /// The object with other metadata added.
    pub(crate) fn with_metadata(&self, more: Value) -> Value {
        let mut object = self.object.clone();
        for (name, value) in more.as_object().unwrap() {
            object["metadata"][name] = value.clone();
        }
        object
    }
}

/// The kinds whose objects the server does not take yet.
const NOT_TAKEN: [&str; 1] = ["customresourcedefinitions"];

/// Every kind whose objects the server takes.
pub(crate) fn kinds() -> Vec<Sample> {
    documents().into_iter().filter(|kind| !NOT_TAKEN.contains(&kind.name.as_str())).collect()
}

/// Every kind that is stored.
pub(crate) fn documents() -> Vec<Sample> {
    // To old YAML a node of the name "n" would be a no.
    let options = serde_saphyr::options! { strict_booleans: true };
    let text = include_str!("documents.yaml");
    let documents: Vec<Value> =
        serde_saphyr::from_str_multiple_with_options(text, options).expect("the documents are YAML");
    let given = |value: &Value| (!value.is_null()).then(|| value.clone());
    documents
        .into_iter()
        .map(|document| {
            let name = document["resource"].as_str().unwrap().to_owned();
            let generation = match document["generation"].as_str() {
                Some("counted") => Counting::Counted,
                Some("counted once created") => Counting::CountedOnceCreated,
                Some("once") => Counting::Once,
                None => Counting::Left,
                Some(other) => panic!("{name}: generation is not {other}"),
            };
            Sample {
                resource: resource(&name),
                object: document["object"].clone(),
                change: given(&document["change"]),
                status: given(&document["status"]),
                name,
                generation,
            }
        })
        .collect()
}

#[test]
fn every_kind_that_is_stored_has_a_document() {
    let kinds = documents();
    let missing: Vec<_> = built_in()
        .iter()
        .filter(|resource| resource.storage.is_some())
        .filter(|resource| !kinds.iter().any(|kind| kind.resource.ty.name == resource.ty.name))
        .map(|resource| resource.ty.name)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for kind in kinds {
        let has_status = kind.resource.subresource("status").is_some();
        assert_eq!(kind.status.is_some(), has_status, "{}: status", kind.name);
    }
}
