//! An event is encoded once, for any number of watchers and for every way in which they receive it.

#![allow(clippy::unwrap_used, reason = "this is test code: a panic is how it says that something is wrong")]

use futures::StreamExt;
use keepwatch_apimachinery::{list_options::WatchStart, meta::Qualified, watch::EventType};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_endpoints::watch::{Encodings, Format};
use keepwatch_storage::{
    ListRequest, Object, Storage, Store, StoreOptions, Update, UpdateOptions, Watch, WatchEvent,
    WatchRequest,
    testing::{PodInspector, labels, pod, pods_prefix},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use std::sync::{
    Arc, Barrier,
    atomic::{AtomicUsize, Ordering},
};

async fn cacher() -> Cacher {
    let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
    let store = Store::new(backend, StoreOptions::new(pods_prefix(), Arc::new(PodInspector)));
    let metrics = CacheMetrics::register(&prometheus::Registry::new()).unwrap();
    let cacher = Cacher::new(
        Arc::new(store),
        pods_prefix(),
        Qualified::core("pods"),
        CacherOptions::default(),
        &metrics,
    );
    cacher.until_ready().await;
    cacher
}

async fn open(cacher: &Cacher, start: WatchStart, count: usize) -> Vec<Watch> {
    let mut watches = Vec::new();
    for _ in 0..count {
        watches.push(cacher.watch("/pods", WatchRequest::from(start)).await.unwrap());
    }
    watches
}

fn parts(event: WatchEvent) -> (EventType, Object) {
    match event {
        WatchEvent::Added(object) => (EventType::Added, object),
        WatchEvent::Modified(object) => (EventType::Modified, object),
        WatchEvent::Deleted(object) => (EventType::Deleted, object),
        WatchEvent::Bookmark { .. } => panic!("no bookmark was asked for"),
    }
}

#[tokio::test]
async fn a_thousand_watchers_of_one_event_share_one_encoding() {
    let cacher = cacher().await;
    let encodings = Encodings::new(1 << 20);
    let before = cacher.get_list("/pods", ListRequest::all()).await.unwrap().revision;
    let live = open(&cacher, WatchStart::after(before), 400).await;
    let created = cacher.create("/pods/ns/a", pod("a").value(), None).await.unwrap();
    let initial = open(&cacher, WatchStart::state(), 300).await;
    let replayed = open(&cacher, WatchStart::after(before), 300).await;
    let mut lines = Vec::new();
    for mut watch in live.into_iter().chain(initial).chain(replayed) {
        let (event, object) = parts(watch.next().await.unwrap().unwrap());
        lines.push(encodings.json(&object, event));
    }
    assert_eq!((lines.len(), encodings.encoded()), (1000, 1));
    assert!(lines.iter().all(|line| line.as_ptr() == lines[0].as_ptr()), "the same bytes, not equal ones");
    let version = format!(r#""uid":"uid-a","resourceVersion":"{}""#, created.revision);
    let line = std::str::from_utf8(&lines[0]).unwrap();
    assert!(line.starts_with(r#"{"type":"ADDED","object":{"#) && line.ends_with("}}\n"), "{line}");
    assert!(line.contains(&version), "{line}");
}

#[tokio::test]
async fn a_deleted_event_of_a_selector_is_encoded_once() {
    let cacher = cacher().await;
    let encodings = Encodings::new(1 << 20);
    let web = pod("a").label("app", "web");
    cacher.create("/pods/ns/a", web.value(), None).await.unwrap();
    let request = WatchRequest { predicate: labels("app=web"), ..WatchRequest::from(WatchStart::state()) };
    let mut watches = Vec::new();
    for _ in 0..100 {
        let mut watch = cacher.watch("/pods", request.clone()).await.unwrap();
        watch.next().await.unwrap().unwrap();
        watches.push(watch);
    }
    let mut relabel = |_: Option<&Object>| Ok(Update::new(pod("a").label("app", "db").value()));
    let left = cacher.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut relabel).await.unwrap();
    for watch in &mut watches {
        let (event, object) = parts(watch.next().await.unwrap().unwrap());
        assert_eq!((event, object.revision), (EventType::Deleted, left.revision));
        encodings.json(&object, event);
    }
    assert_eq!(encodings.encoded(), 1);
}

#[tokio::test]
async fn each_format_and_each_type_of_event_has_its_own_encoding() {
    let cacher = cacher().await;
    let encodings = Encodings::new(1 << 20);
    let object = cacher.create("/pods/ns/a", pod("a").value(), None).await.unwrap();
    let table = Format(7);
    for _ in 0..3 {
        for event in [EventType::Added, EventType::Modified] {
            assert_eq!(
                encodings.get(&object, event, table, |_| Ok::<_, ()>("a table".into())),
                Ok("a table".into())
            );
            assert_ne!(encodings.json(&object, event), "a table");
        }
    }
    assert_eq!(encodings.encoded(), 4);
}

#[tokio::test]
async fn concurrent_watchers_share_one_encoding() {
    let cacher = cacher().await;
    let encodings = Encodings::new(1 << 20);
    let object = cacher.create("/pods/ns/a", pod("a").value(), None).await.unwrap();
    let (encoded, all_started) = (AtomicUsize::new(0), Barrier::new(8));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                all_started.wait();
                let line = encodings.get(&object, EventType::Added, Format::JSON, |object| {
                    encoded.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Ok::<_, ()>(object.value.clone())
                });
                line.unwrap();
            });
        }
    });
    assert_eq!(encoded.into_inner(), 1);
}

#[tokio::test]
async fn the_cached_encodings_have_a_byte_limit() {
    let cacher = cacher().await;
    let encodings = Encodings::new(64 << 10);
    let mut lines = Vec::new();
    for number in 0..1000 {
        let pod = pod(&format!("pod-{number}"));
        let object = cacher.create(&pod.key(), pod.value(), None).await.unwrap();
        lines.push(encodings.json(&object, EventType::Added));
    }
    // A line that only this list holds was removed from the cache.
    let removed = lines.into_iter().filter(|line| line.is_unique()).count();
    assert!(removed > 800, "{removed} of 1000 were removed");
}

/// A cache whose shards were too small did not hold a large event, so that it was encoded again for each watcher.
#[tokio::test]
async fn an_event_of_the_largest_object_is_encoded_once() {
    let cacher = cacher().await;
    let encodings = Encodings::new(16 << 20);
    let mut large = pod("a");
    for number in 0..20_000 {
        large = large.label(&format!("label-{number}"), &"x".repeat(50));
    }
    let object = cacher.create("/pods/ns/a", large.value(), None).await.unwrap();
    assert!(object.value.len() > 1_300_000, "{}", object.value.len());
    for _ in 0..10 {
        encodings.json(&object, EventType::Added);
    }
    assert_eq!(encodings.encoded(), 1);
}
