//! What an informer keeps, and what it has to know of it.

use crate::{ObjectKey, sized};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{ClusterResourceScope, Resource};
use serde::de::DeserializeOwned;
use std::{any::TypeId, borrow::Cow, collections::BTreeMap};

/// Something that an informer can keep: every [`Resource`], and `Lean` ones.
///
/// Names differ from those of `kube::ResourceExt`, so that both can be in scope.
pub trait Object: Send + Sync + 'static {
    /// Its name among those of its resource.
    fn key(&self) -> ObjectKey;

    /// Its resourceVersion; empty if it has none.
    fn revision(&self) -> &str;

    /// Its uid; empty if it has none.
    fn identity(&self) -> &str;

    /// Its labels.
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>>;

    /// Whether this is the very same state of the very same object.
    fn is_same(&self, other: &Self) -> bool {
        !self.revision().is_empty()
            && self.revision() == other.revision()
            && self.identity() == other.identity()
    }
}

/// Something that can be asked for at an API server and read from its answers.
pub trait Fetch: Object + Sized {
    /// What is asked for.
    type Resource: Resource<DynamicType: Clone + Send + Sync, Scope: 'static> + 'static;

    /// Whether the JSON has to say of which kind an object is even where a server leaves that out, as in lists.
    const NEEDS_KIND: bool;

    /// Reads one object.
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error>;
}

/// Whether objects of this kind are in no namespace. Of kinds that are known only when the program runs one cannot say.
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

    /// Only those whose kind is not known to the compiler.
    const NEEDS_KIND: bool = size_of::<K::DynamicType>() > 0;

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        // Looking once at all bytes is cheaper than once at each string; the other way words the error.
        match std::str::from_utf8(json) {
            Ok(text) => sized::from_str(text),
            Err(_) => serde_json::from_slice(json),
        }
    }
}
