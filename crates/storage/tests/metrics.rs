//! A metered storage counts its requests under the names that kube-apiserver uses, and passes the answers through.

#![allow(clippy::unwrap_used, reason = "this is test code: a panic is how it says that something is wrong")]

use futures::StreamExt;
use keepwatch_apimachinery::{
    list_options::{Position, WatchStart},
    meta::Qualified,
};
use keepwatch_storage::{
    CacheSource, ListRequest, Storage, Store, StoreOptions, Update, UpdateOptions, WatchRequest,
    metrics::{MeteredStorage, StorageMetrics},
    testing::{
        Fixture, PodInspector,
        faulty::{Fault, Faulty, Plan},
        labels, pod, pods_prefix,
        reference::Reference,
    },
};
use prometheus::{Registry, proto::MetricType};
use std::sync::Arc;

const DEPLOYMENTS: Qualified<'static> = Qualified::new("apps", "deployments");

/// A metered storage over a backend that can be made to fail.
fn metered() -> (MeteredStorage, Faulty, Registry) {
    let backend = Faulty::new(Arc::new(Reference::default()), Plan::none());
    let options = StoreOptions::new(pods_prefix(), Arc::new(PodInspector));
    let store = Store::new(Arc::new(backend.clone()), options);
    let registry = Registry::new();
    let metrics = StorageMetrics::register(&registry).unwrap();
    (MeteredStorage::new(Arc::new(store), DEPLOYMENTS, &metrics), backend, registry)
}

/// The value of a counter, or the number of observations of a histogram. All are of the one resource.
fn count(registry: &Registry, name: &str, operation: Option<&str>) -> u64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name).unwrap_or_else(|| panic!("no {name}"));
    let metric = family.get_metric().iter().find(|metric| {
        let label = |name: &str| {
            metric.get_label().iter().find(|label| label.name() == name).map(|label| label.value())
        };
        assert_eq!((label("group"), label("resource")), (Some("apps"), Some("deployments")));
        label("operation") == operation
    });
    let metric = metric.unwrap_or_else(|| panic!("no {name} of {operation:?}"));
    match family.get_field_type() {
        MetricType::HISTOGRAM => metric.get_histogram().get_sample_count(),
        _ => metric.get_counter().get_value() as u64,
    }
}

#[tokio::test]
async fn every_request_is_counted_and_timed() {
    let (storage, _, registry) = metered();
    let a = pod("a");
    storage.create(&a.key(), a.value(), None).await.unwrap();
    storage.create(&a.key(), a.value(), None).await.unwrap_err();
    storage.get(&a.key(), Position::MostRecent).await.unwrap();
    let mut change = |_: Option<&_>| Ok(Update::new(pod("a").data(1).value()));
    storage.guaranteed_update(&a.key(), UpdateOptions::default(), &mut change).await.unwrap();
    storage.get_list("/pods", ListRequest::all()).await.unwrap();
    storage.delete(&a.key(), Default::default(), &mut |_| Ok(())).await.unwrap();
    for (operation, due) in [("create", 2), ("get", 1), ("update", 1), ("list", 1), ("delete", 1)] {
        assert_eq!(count(&registry, "etcd_requests_total", Some(operation)), due, "{operation}");
        assert_eq!(count(&registry, "etcd_request_duration_seconds", Some(operation)), due, "{operation}");
        // AlreadyExists is an answer, not a failure.
        assert_eq!(count(&registry, "etcd_request_errors_total", Some(operation)), 0, "{operation}");
    }
}

#[tokio::test]
async fn failures_of_storage_are_counted_and_returned() {
    let (storage, backend, registry) = metered();
    backend.follow(Plan::none().calls([Some(Fault::Unreachable), Some(Fault::Timeout)]));
    storage.get(&pod("a").key(), Position::MostRecent).await.unwrap_err();
    storage.get(&pod("a").key(), Position::MostRecent).await.unwrap_err();
    storage.get(&pod("a").key(), Position::MostRecent).await.unwrap();
    assert_eq!(count(&registry, "etcd_request_errors_total", Some("get")), 2);
    assert_eq!(count(&registry, "etcd_requests_total", Some("get")), 3);
}

#[tokio::test]
async fn lists_count_the_objects_they_fetched_and_returned() {
    let (storage, _, registry) = metered();
    for name in ["a", "b", "c"] {
        let pod = pod(name).label("app", if name == "b" { "web" } else { "db" });
        storage.create(&pod.key(), pod.value(), None).await.unwrap();
    }
    let list = ListRequest { predicate: labels("app=web"), ..ListRequest::all() };
    assert_eq!(storage.get_list("/pods", list).await.unwrap().items.len(), 1);
    for (what, due) in [("", 1), ("_fetched_objects", 3), ("_evaluated_objects", 3), ("_returned_objects", 1)]
    {
        assert_eq!(count(&registry, &format!("apiserver_storage_list{what}_total"), None), due, "{what}");
    }
}

#[tokio::test]
async fn events_bookmarks_and_decode_errors_are_counted() {
    let (storage, backend, registry) = metered();
    let request = WatchRequest { progress: true, ..WatchRequest::from(WatchStart::now()) };
    let mut watch = storage.watch("/pods", request).await.unwrap();
    storage.create(&pod("a").key(), pod("a").value(), None).await.unwrap();
    watch.next().await.unwrap().unwrap();
    storage.request_progress().await.unwrap();
    watch.next().await.unwrap().unwrap();
    let fixture = Fixture::new(Arc::new(backend));
    fixture.put_raw(&fixture.full_key(&pod("b")), "nonsense").await;
    watch.next().await.unwrap().unwrap_err();
    storage.get(&pod("b").key(), Position::MostRecent).await.unwrap_err();
    assert_eq!(count(&registry, "apiserver_storage_events_received_total", None), 1);
    assert_eq!(count(&registry, "etcd_bookmark_total", None), 1);
    assert_eq!(count(&registry, "apiserver_storage_decode_errors_total", None), 2);
}
