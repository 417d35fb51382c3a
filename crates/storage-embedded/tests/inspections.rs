//! Values in memory are shared with their attributes, so that no value is inspected twice.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use bytes::Bytes;
use futures::StreamExt;
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_storage::{
    Attributes, Backend, DeleteOptions, Identity, Inspector, Key, ListRequest, Object, Plain, Rejection,
    Storage, Store, StoreOptions, Transformer, Undecodable, Update, UpdateOptions, WatchEvent, WatchRequest,
    testing::{PodInspector, pod, pods_prefix},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the values that it inspects.
#[derive(Default)]
struct CountingInspector(AtomicUsize);

impl CountingInspector {
    fn inspections(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Inspector for CountingInspector {
    fn inspect(&self, key: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        self.0.fetch_add(1, Ordering::Relaxed);
        PodInspector.inspect(key, value)
    }
}

/// Finds a field that [`PodInspector`] does not look for.
struct OtherInspector;

impl Inspector for OtherInspector {
    fn inspect(&self, _: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        let fields = [("length", value.len().to_string())].into_iter().collect();
        Ok(Attributes { fields, ..Attributes::default() })
    }
}

/// Stores values backwards.
struct Reversed;

fn reversed(value: &Bytes) -> Bytes {
    value.iter().rev().copied().collect()
}

impl Transformer for Reversed {
    fn seal(&self, _: &Key, value: Bytes) -> Result<Bytes, Rejection> {
        Ok(reversed(&value))
    }

    fn unseal(&self, _: &Key, stored: Bytes) -> Result<Plain, Rejection> {
        Ok(Plain { value: reversed(&stored), stale: false })
    }
}

fn memory() -> Arc<Embedded> {
    Arc::new(Embedded::memory(EmbeddedOptions::default()))
}

fn options(inspector: Arc<dyn Inspector>) -> StoreOptions {
    StoreOptions::new(pods_prefix(), inspector)
}

async fn update(store: &Store, data: i64) -> Object {
    let mut replace = |_: Option<&Object>| Ok(Update::new(pod("a").data(data).value()));
    store.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut replace).await.unwrap()
}

/// Writes and reads an object in every way. Returns how often a value was inspected.
async fn inspections_of_two_writes(backend: Arc<Embedded>, transformer: Arc<dyn Transformer>) -> usize {
    let inspector = Arc::new(CountingInspector::default());
    let store = Store::new(backend, StoreOptions { transformer, ..options(inspector.clone()) });
    let mut watch = store.watch("/pods", WatchRequest::from(WatchStart::now())).await.unwrap();

    let created = store.create("/pods/ns/a", pod("a").value(), None).await.unwrap();
    let updated = update(&store, 1).await;
    store.delete("/pods/ns/a", DeleteOptions::default(), &mut |_| Ok(())).await.unwrap();
    let WatchEvent::Added(added) = watch.next().await.unwrap().unwrap() else { panic!("a creation") };
    let WatchEvent::Modified(modified) = watch.next().await.unwrap().unwrap() else { panic!("an update") };
    let WatchEvent::Deleted(deleted) = watch.next().await.unwrap().unwrap() else { panic!("a deletion") };
    assert_eq!((&added, &modified), (&created, &updated));
    assert!(Arc::ptr_eq(&added.attributes, &created.attributes), "the same attributes, not equal ones");
    assert!(Arc::ptr_eq(&deleted.attributes, &updated.attributes));
    inspector.inspections()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_value_is_inspected_once() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap());
    for backend in [memory(), disk] {
        assert_eq!(inspections_of_two_writes(backend.clone(), Arc::new(Identity)).await, 2);
        assert_eq!(inspections_of_two_writes(backend, Arc::new(Reversed)).await, 2);
    }
}

#[tokio::test]
async fn a_value_in_memory_is_not_inspected_when_it_is_read() {
    let inspector = Arc::new(CountingInspector::default());
    let store = Store::new(memory(), options(inspector.clone()));
    let created = store.create("/pods/ns/a", pod("a").value(), None).await.unwrap();
    let read = store.get("/pods/ns/a", Position::MostRecent).await.unwrap().unwrap();
    let list = store.get_list("/pods", ListRequest::all()).await.unwrap();
    assert!([&read, &list.items[0]].iter().all(|found| Arc::ptr_eq(&found.attributes, &created.attributes)));
    assert_eq!(inspector.inspections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_from_disk_is_inspected_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap());
    let created = Store::new(open(), options(Arc::new(PodInspector)))
        .create("/pods/ns/a", pod("a").value(), None)
        .await
        .unwrap();
    let inspector = Arc::new(CountingInspector::default());
    let store = Store::new(open(), options(inspector.clone()));
    let read = store.get("/pods/ns/a", Position::MostRecent).await.unwrap().unwrap();
    assert_eq!((&read.value, &read.attributes.labels), (&created.value, &created.attributes.labels));
    assert_eq!(inspector.inspections(), 1);
}

/// A kind that is defined anew may have other selectable fields.
#[tokio::test]
async fn a_store_does_not_use_attributes_that_the_inspector_of_another_store_found() {
    let backend = memory();
    let old = Store::new(backend.clone(), options(Arc::new(PodInspector)));
    let new = Store::new(backend, options(Arc::new(OtherInspector)));
    let mut watch = new.watch("/pods", WatchRequest::from(WatchStart::now())).await.unwrap();
    let created = old.create("/pods/ns/a", pod("a").value(), None).await.unwrap();
    let WatchEvent::Added(added) = watch.next().await.unwrap().unwrap() else { panic!("a creation") };
    let read = new.get("/pods/ns/a", Position::MostRecent).await.unwrap().unwrap();
    let length = created.value.len().to_string();
    for object in [added, read] {
        assert_eq!(object.attributes.fields.get("length"), Some(&*length));
        assert_eq!(object.attributes.fields.get("metadata.name"), None);
    }
}

#[tokio::test]
async fn attributes_take_no_memory_in_a_backend_whose_store_does_not_share_them() {
    let (backend, key) = (memory(), pods_prefix().object("/pods/ns/a").unwrap());
    for shares_attributes in [false, true] {
        let options = StoreOptions { shares_attributes, ..options(Arc::new(PodInspector)) };
        let store = Store::new(backend.clone(), options);
        let _ = store.create("/pods/ns/a", pod("a").value(), None).await;
        update(&store, i64::from(shares_attributes) + 1).await;
        let stored = backend.get(&key).await.unwrap().1.unwrap();
        assert_eq!(stored.value.attributes.is_some(), shares_attributes);
    }
}
