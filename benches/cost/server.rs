//! The parts of a server that a request passes, assembled as by `keepwatch serve --storage memory`.

use crate::objects;
use bytes::Bytes;
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_endpoints::{
    negotiation::Form,
    render::{IncludeObject, Renderer},
};
use keepwatch_registry::{
    Error, ObjectView, Registry, RegistryOptions,
    codec::{self, Body, Expected, Media},
    kind::Kind,
    kinds,
    options::WriteOptions,
    rest::Target,
    strategy::Requester,
};
use keepwatch_storage::{
    Backend, ResourcePrefix, Store, StoreOptions,
    metrics::{MeteredStorage, StorageMetrics},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
};

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "default";
/// The same in every run.
pub(crate) const SEED: u64 = 3;

/// A registry with its own objects in it, on a store in memory with caches in front.
pub(crate) async fn registry() -> Registry {
    let backend: Arc<dyn Backend> = Arc::new(Embedded::memory(EmbeddedOptions::default()));
    let metrics = prometheus::Registry::new();
    let cache_metrics = CacheMetrics::register(&metrics).expect("it is the first");
    let storage_metrics = StorageMetrics::register(&metrics).expect("it is the first");
    let caches: Arc<Mutex<Vec<Arc<Cacher>>>> = Arc::default();
    let made = Arc::clone(&caches);
    let registry = Registry::new(RegistryOptions::default(), move |kind, inspector| {
        let what = kind.qualified();
        let prefix = ResourcePrefix::new("/registry", kind.storage.as_ref().unwrap_or(&kind.plural));
        let prefix = prefix.expect("the names of resources can be keys");
        let store = Store::new(Arc::clone(&backend), StoreOptions::new(prefix.clone(), inspector));
        let store = Arc::new(MeteredStorage::new(Arc::new(store), what, &storage_metrics));
        if !kind.is_cached {
            return store;
        }
        let options = CacherOptions { seed: Some(SEED), ..CacherOptions::default() };
        let cache = Arc::new(Cacher::new(store, prefix, what, options, &cache_metrics));
        made.lock().expect("nobody panics").push(Arc::clone(&cache));
        cache
    });
    let caches = std::mem::take(&mut *caches.lock().expect("nobody panics"));
    for cache in caches {
        cache.until_ready().await;
    }
    registry.bootstrap((IpAddr::V4(Ipv4Addr::LOCALHOST), 6443)).await.expect("nobody else writes");
    registry
}

/// The same, with a kind that may be a custom one.
pub(crate) async fn registry_serving(kind: &Arc<Kind>) -> Registry {
    let registry = registry().await;
    if registry.catalog().find(&kind.group, &kind.version, &kind.plural).is_none() {
        registry.serve(vec![Arc::clone(kind)]);
    }
    registry
}

/// A resource of the core group.
pub(crate) fn resource(plural: &str) -> &'static Arc<Kind> {
    kinds::find("", "v1", plural).expect("it is built in")
}

/// The target of requests for a whole resource.
pub(crate) fn collection(resource: &'static Arc<Kind>) -> Target<'static> {
    Target { kind: resource, namespace: NAMESPACE, name: "" }
}

/// The renderer for objects of a resource.
pub(crate) fn renderer(resource: &'static Arc<Kind>, form: Form) -> Renderer {
    Renderer { kind: Arc::clone(resource), form, pretty: false, include_object: IncludeObject::default() }
}

/// Creates an object as a POST of this body does.
pub(crate) async fn create(
    registry: &Registry,
    resource: &'static Arc<Kind>,
    body: &[u8],
) -> Result<ObjectView, Error> {
    let options = WriteOptions::default();
    let body = Body { bytes: body, media: Media::Json };
    let decoded = codec::decode(&body, Expected::of(resource), options.field_validation)?;
    let who = Requester { name: "kubernetes-admin".to_owned(), ..Requester::default() };
    let written = registry.create(collection(resource), decoded, &options, &who).await;
    written.map(|written| written.object).map_err(|failed| failed.error)
}

/// The stored pods with the numbers up to `count`.
pub(crate) async fn stored_pods(registry: &Registry, count: usize) -> Vec<Bytes> {
    let first = create(registry, resource("pods"), objects::pod(0).as_bytes()).await;
    let first = first.expect("nobody else has created it").value;
    objects::must_be_about(objects::POD_BYTES, &first);
    let text = std::str::from_utf8(&first).expect("it is JSON");
    let named = |number| text.replacen(&objects::pod_name(0), &objects::pod_name(number), 1).into();
    (0..count).map(named).collect()
}
