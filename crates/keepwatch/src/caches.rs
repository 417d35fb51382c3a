//! The storage of each resource: a store over the backend, and a watch cache before it.

use crate::{builder::Builder, error::StartError};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_registry::{inspect::ResourceInspector, kind::Kind};
use keepwatch_storage::{
    Backend, ResourcePrefix, Storage, Store, StoreOptions,
    metrics::{MeteredStorage, StorageMetrics},
};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Opens the storage of resources, and keeps a list of the watch caches that it made.
pub(crate) struct Caches {
    backend: Arc<dyn Backend>,
    key_prefix: String,
    /// Whether there are watch caches at all.
    is_caching: bool,
    options: CacherOptions,
    cache_metrics: CacheMetrics,
    storage_metrics: StorageMetrics,
    caches: Mutex<Vec<Weak<Cacher>>>,
}

impl Caches {
    pub(crate) fn new(
        builder: &Builder,
        backend: Arc<dyn Backend>,
        metrics: &prometheus::Registry,
    ) -> Result<Arc<Caches>, StartError> {
        let fault = |error| StartError::Internal(Box::new(error));
        ResourcePrefix::new(&builder.key_prefix, "pods").map_err(fault)?;
        let history_bytes_max = builder.watch_cache_history_bytes;
        Ok(Arc::new(Caches {
            backend,
            key_prefix: builder.key_prefix.clone(),
            is_caching: builder.watch_cache,
            options: CacherOptions { history_bytes_max, ..CacherOptions::default() },
            cache_metrics: CacheMetrics::register(metrics)?,
            storage_metrics: StorageMetrics::register(metrics)?,
            caches: Mutex::default(),
        }))
    }

    /// The storage of a resource.
    pub(crate) fn open(&self, kind: &Kind, inspector: Arc<ResourceInspector>) -> Arc<dyn Storage> {
        let what = kind.qualified();
        let prefix = ResourcePrefix::new(&self.key_prefix, kind.storage.as_ref().unwrap_or(&kind.plural));
        let prefix = prefix.expect("the names of resources can be keys, and the first part was tried");
        let is_cached = self.is_caching && kind.is_cached;
        let options =
            StoreOptions { shares_attributes: is_cached, ..StoreOptions::new(prefix.clone(), inspector) };
        let store = Store::new(Arc::clone(&self.backend), options);
        let store = Arc::new(MeteredStorage::new(Arc::new(store), what, &self.storage_metrics));
        if !is_cached {
            return store;
        }
        let indexed_fields = kind.indexed_fields.iter().map(|field| field.as_str().into()).collect();
        let options = CacherOptions { indexed_fields, ..self.options.clone() };
        let cache = Arc::new(Cacher::new(store, prefix, what, options, &self.cache_metrics));
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(&cache));
        cache
    }

    /// The watch caches of the resources that are served.
    pub(crate) fn all(&self) -> Vec<Arc<Cacher>> {
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.iter().filter_map(Weak::upgrade).collect()
    }
}
