//! The storage suite and the model test on the cacher, over each store.

use futures::FutureExt;
use keepwatch_apimachinery::meta::Qualified;
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_storage::{
    Backend, Store, StoreOptions,
    testing::{Built, Capabilities, Fixture, model},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions, OpenError};
use keepwatch_storage_etcd::{EtcdBackend, EtcdOptions, testing::EtcdServer};
use std::{path::Path, sync::Arc, time::Duration};

/// A cacher over a store, once it is ready.
async fn cacher(backend: Arc<dyn Backend>, options: StoreOptions, cacher_options: CacherOptions) -> Built {
    let metrics = CacheMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let keys = options.prefix.clone();
    let store = Arc::new(Store::new(backend, options));
    let cacher = Cacher::new(store, keys, Qualified::core("pods"), cacher_options, &metrics);
    // A cacher over unreadable values never becomes ready, and refuses lists and watches.
    let _ = tokio::time::timeout(Duration::from_secs(2), cacher.until_ready()).await;
    let cacher = Arc::new(cacher);
    let asked = cacher.clone();
    let request_progress = move || {
        let cacher = asked.clone();
        async move { cacher.request_progress().await }.boxed()
    };
    (cacher, Arc::new(request_progress))
}

async fn fixture(backend: Arc<dyn Backend>, cacher_options: CacherOptions) -> Fixture {
    let build = move |backend, options| cacher(backend, options, cacher_options.clone());
    Fixture::over(backend, build)
        .await
        .capabilities(Capabilities { shortest_ttl: Duration::from_millis(300), cached: true })
}

/// With an index.
fn indexed() -> CacherOptions {
    CacherOptions { indexed_fields: vec!["spec.nodeName".into()], ..CacherOptions::default() }
}

/// With a history of a few events, so that watchers that lag a little read storage's history.
fn short_history() -> CacherOptions {
    CacherOptions { history_bytes_max: 4000, ..indexed() }
}

async fn in_memory(options: CacherOptions) -> Fixture {
    fixture(Arc::new(Embedded::memory(EmbeddedOptions::default())), options).await
}

/// Opens a store. The tasks of an earlier cacher may not have released it yet.
async fn open(directory: &Path) -> Arc<dyn Backend> {
    loop {
        match Embedded::open(directory, EmbeddedOptions::default()) {
            Ok(store) => return Arc::new(store),
            Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("the store opens: {error}"),
        }
    }
}

async fn on_disk() -> Fixture {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    let reopen = move || {
        let path = path.clone();
        async move { open(&path).await }
    };
    fixture(open(directory.path()).await, short_history()).await.reopening(reopen).guard(directory)
}

async fn on_etcd() -> Fixture {
    let etcd = EtcdServer::start().await;
    let backend = EtcdBackend::connect(EtcdOptions::new([etcd.url()])).await.expect("connect to etcd");
    // etcd does not grant leases shorter than its election timeouts.
    let capabilities = Capabilities { shortest_ttl: Duration::from_secs(2), cached: true };
    fixture(Arc::new(backend), short_history()).await.capabilities(capabilities).guard(etcd)
}

mod memory {
    use super::*;
    keepwatch_storage::testing::conformance!(in_memory(indexed()).await);

    #[test]
    fn model_of_the_cache_over_memory() {
        model::check_model(64, || in_memory(indexed()));
    }
}

mod memory_with_a_short_history {
    use super::*;
    keepwatch_storage::testing::conformance!(in_memory(short_history()).await);

    #[test]
    fn model_of_the_cache_with_a_short_history() {
        model::check_model(64, || in_memory(short_history()));
    }
}

mod disk {
    use super::*;
    keepwatch_storage::testing::conformance!(on_disk().await);

    #[test]
    fn model_of_the_cache_over_a_disk() {
        model::check_model(32, on_disk);
    }
}

mod etcd {
    use super::*;
    keepwatch_storage::testing::conformance!(on_etcd().await);

    #[test]
    fn model_of_the_cache_over_etcd() {
        model::check_model(8, on_etcd);
    }
}
