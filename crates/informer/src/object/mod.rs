//! The objects of an informer, and their keys and versions.

mod key;
mod version;
mod lean;
pub(crate) mod json_scanner;
mod sized_decoder;

pub use key::{InvalidKey, ObjectKey};
pub use lean::Lean;
pub use version::{compare_versions, oldest_version};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{ClusterResourceScope, Resource};
use serde::de::DeserializeOwned;
use std::{any::TypeId, borrow::Cow, collections::BTreeMap};

/// An object that an informer can hold: every [`Resource`], and `Lean` objects.
///
/// The method names differ from those of `kube::ResourceExt`, so that both traits can be in scope.
pub trait Object: Send + Sync + 'static {
    /// The key of the object.
    fn key(&self) -> ObjectKey;

    /// The resourceVersion; empty if there is none.
    fn revision(&self) -> &str;

    /// The uid; empty if there is none.
    fn identity(&self) -> &str;

    /// The labels.
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>>;

    /// Whether both are the same version of the same object.
    fn is_same(&self, other: &Self) -> bool {
        !self.revision().is_empty()
            && self.revision() == other.revision()
            && self.identity() == other.identity()
    }
}

/// An object that can be requested from an API server and decoded.
pub trait Fetch: Object + Sized {
    /// The resource to request.
    type Resource: Resource<DynamicType: Clone + Send + Sync, Scope: 'static> + 'static;

    /// Whether the JSON needs `kind` and `apiVersion`, which servers omit in list items.
    const NEEDS_KIND: bool;

    /// Decodes one object.
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error>;
}

/// Whether the kind is known to be cluster-scoped. For kinds that are known only at runtime this is false.
pub(crate) fn is_cluster_scoped<K: Resource<Scope: 'static>>() -> bool {
    TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>()
}

impl<K: Resource + Send + Sync + 'static> Object for K {
    fn key(&self) -> ObjectKey {
        let ObjectMeta { name, namespace, .. } = self.meta();
        ObjectKey::new(namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default())
    }

    fn revision(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }

    fn identity(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        match &self.meta().labels {
            Some(labels) => Cow::Borrowed(labels),
            None => Cow::Owned(BTreeMap::new()),
        }
    }
}

impl<K> Fetch for K
where
    K: Resource<DynamicType: Clone + Send + Sync, Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
{
    type Resource = K;

    /// Only dynamic types.
    const NEEDS_KIND: bool = size_of::<K::DynamicType>() > 0;

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        // Checking UTF-8 once for all bytes is cheaper than for each string. The other branch produces the error.
        match std::str::from_utf8(json) {
            Ok(text) => sized_decoder::from_str(text),
            Err(_) => serde_json::from_slice(json),
        }
    }
}
