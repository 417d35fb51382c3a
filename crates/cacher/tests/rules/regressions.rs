//! Bugs that reviews found, each with a test.

use super::{
    controlled_backend::ControlledBackend,
    test_cache::{TestCache, after, initial_events, sleep_for, timed, wait_until},
};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_storage::{
    Attributes, Inspector, Key, ListRequest, Storage, StorageError, Store, StoreOptions, Undecodable,
    WatchRequest,
    testing::{Fixture, PodInspector, names, pod, pods_prefix},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// An initial state that is delivered in several batches, because it has more objects than a batch.
#[tokio::test(start_paused = true)]
async fn a_long_initial_state_is_delivered_completely() {
    let cache = TestCache::empty().await;
    for number in 0..1000 {
        cache.create(&pod(&format!("pod-{number:04}"))).await;
    }
    cache.caught_up().await;
    let mut client = cache.client(initial_events(Position::MostRecent)).await;
    for number in 0..1000 {
        client.receives(&format!("ADDED pod-{number:04}@{}", number + 2)).await;
    }
    client.receives("STATE END @1001").await;
}

/// The state was reset to the start of the store's history. A watch that was still delivering the old state found no
/// more objects and reported the state as complete.
#[tokio::test(start_paused = true)]
async fn a_partial_initial_state_is_not_completed_after_a_relist() {
    let cache = TestCache::empty().await;
    for number in 0..150 {
        cache.create(&pod(&format!("pod-{number:03}"))).await;
    }
    cache.caught_up().await;
    let mut client = cache.client(initial_events(Position::MostRecent)).await;
    for number in 0..100 {
        client.receives(&format!("ADDED pod-{number:03}@{}", number + 2)).await;
    }
    cache.backend.pause_watches();
    cache.backend.end_watch(Some(StorageError::Rejected("out of order".into())));
    wait_until("the watches are ended", || !cache.cacher.is_ready()).await;
    sleep_for(5.0).await;
    client.receives("END").await;
    cache.backend.resume_watches();
}

/// Only the current value has to be readable. Watches that read the history meet the old one.
#[tokio::test(start_paused = true)]
async fn an_unreadable_old_value_ends_only_the_watches_that_read_it() {
    let backend = ControlledBackend::in_memory();
    let behind = Fixture::new(backend.inner.clone());
    behind.put_raw(&behind.full_key(&pod("a")), "nonsense").await;
    behind.put_raw(&behind.full_key(&pod("a")), pod("a").value()).await;
    let cache = TestCache::ready(backend, CacherOptions::default()).await;
    assert_eq!(cache.list_names(ListRequest::all()).await, "a @3");
    let received = cache.client(after(1)).await.next().await;
    assert!(received.starts_with("ERROR StorageError: corrupt object"), "{received}");
    cache.put(&pod("a").data(1)).await;
    cache.client(after(3)).await.receives("MODIFIED a=1@4").await;
}

/// An inspector that panics on some values while the flag is set.
struct PanickingInspector(Arc<AtomicBool>);

impl Inspector for PanickingInspector {
    fn inspect(&self, key: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        assert!(!(self.0.load(Ordering::Relaxed) && key.ends_with("bad")), "a bug in the inspector");
        PodInspector.inspect(key, value)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_a_value_causes_a_relist_and_leaves_no_reader_waiting() {
    let backend = ControlledBackend::in_memory();
    let is_fragile = Arc::new(AtomicBool::new(false));
    let options = StoreOptions::new(pods_prefix(), Arc::new(PanickingInspector(is_fragile.clone())));
    let store = Store::new(Arc::new(backend.clone()), options);
    let metrics = CacheMetrics::register(&prometheus::Registry::new()).unwrap();
    let resource = keepwatch_apimachinery::meta::Qualified::core("pods");
    let cacher = Cacher::new(Arc::new(store), pods_prefix(), resource, CacherOptions::default(), &metrics);
    cacher.until_ready().await;
    let mut watch = cacher.watch("/pods", WatchRequest::from(after(1))).await.unwrap();
    is_fragile.store(true, Ordering::Relaxed);
    let behind = Fixture::new(backend.inner.clone());
    behind.create(&pod("bad")).await;
    assert!(futures::StreamExt::next(&mut watch).await.is_none(), "the watch ends");
    let refused = cacher.get_list("/pods", ListRequest::all()).await.unwrap_err();
    assert!(matches!(refused, StorageError::Unready { .. }), "{refused:?}");
    is_fragile.store(false, Ordering::Relaxed);
    cacher.until_ready().await;
    assert_eq!(names(&cacher.get_list("/pods", ListRequest::all()).await.unwrap()), "bad");
}

#[tokio::test(start_paused = true)]
async fn no_timeout_is_too_long() {
    let cache = TestCache::abc().await;
    for seconds in [i64::MAX as u64, u64::MAX] {
        let timeout = Some(Duration::from_secs(seconds));
        let request = WatchRequest { timeout, progress: true, ..WatchRequest::from(after(3)) };
        cache.client_of("/pods", request).await.receives("ADDED c@4").await;
    }
}

/// The 129th event discarded the 128 queued ones, which the history no longer held.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_pauses_receives_its_queued_events_after_the_history_has_moved_on() {
    let options = CacherOptions { history_bytes_max: 20_000, ..CacherOptions::default() };
    let cache = TestCache::ready(ControlledBackend::in_memory(), options).await.create_abc().await;
    let mut client = cache.client(after(4)).await;
    for data in 1..=129 {
        cache.put(&pod("a").data(data)).await;
        cache.caught_up().await;
    }
    for data in 1..=129 {
        client.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_backs_off_from_storage_that_refuses_every_watch() {
    let backend = ControlledBackend::in_memory();
    backend.fail(super::controlled_backend::Call::Watch, || StorageError::Rejected("never".into()));
    let cache = TestCache::start(backend, CacherOptions::default());
    sleep_for(600.0).await;
    let fillings = cache.initializations();
    assert!((5.0..60.0).contains(&fillings), "{fillings} lists in 600 s");
}

/// A dropped watcher kept its memory until its next bookmark was due.
#[tokio::test(start_paused = true)]
async fn a_dropped_watch_frees_its_watcher() {
    let cache = TestCache::abc().await;
    for _ in 0..100 {
        let request = WatchRequest { progress: true, ..WatchRequest::from(WatchStart::now()) };
        drop(cache.client_of("/pods", request).await);
    }
    assert_eq!(cache.cacher.watcher_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_cache_ends_its_watches_and_releases_storage() {
    let backend = ControlledBackend::in_memory();
    let weak = Arc::downgrade(&backend.inner);
    let TestCache { cacher, .. } = TestCache::ready(backend, CacherOptions::default()).await;
    let mut watch = cacher.watch("/pods", WatchRequest::from(after(1))).await.unwrap();
    cacher.stop().await;
    assert!(futures::StreamExt::next(&mut watch).await.is_none());
    let refused = cacher.watch("/pods", WatchRequest::from(after(1))).await.err().unwrap();
    assert_eq!(refused.to_string(), "apiserver cacher is stopped");
    drop((watch, cacher));
    assert!(weak.upgrade().is_none(), "the store has been released");
}

#[tokio::test(start_paused = true)]
async fn stopping_the_cache_wakes_waiting_readers() {
    let backend = ControlledBackend::in_memory();
    backend.stall(super::controlled_backend::Call::Revision);
    let cache = TestCache::start(backend, CacherOptions::default());
    tokio::join!(cache.cacher.until_ready(), cache.cacher.stop());
    assert!(!cache.cacher.is_ready());
}

/// A list that fails late is not a healthy watch.
#[tokio::test(start_paused = true)]
async fn the_cache_backs_off_from_storage_that_breaks_every_watch() {
    let backend = ControlledBackend::in_memory();
    backend
        .fail(super::controlled_backend::Call::Watch, || StorageError::WatchFailed("no leader".to_owned()));
    let cache = TestCache::start(backend, CacherOptions::default());
    sleep_for(3600.0).await;
    let fillings = cache.initializations();
    assert!((2.0..80.0).contains(&fillings), "{fillings} lists in an hour");
}

/// If the last write was to another resource, no notification would mark the end of the history.
#[tokio::test(start_paused = true)]
async fn without_progress_notifications_no_watch_starts_before_the_cache() {
    let backend = ControlledBackend::without_progress();
    let behind = Fixture::new(backend.inner.clone());
    behind.create(&pod("a")).await;
    behind.write_elsewhere().await;
    let (cache, seconds) = timed(TestCache::ready(backend, CacherOptions::default())).await;
    assert_eq!(seconds, 0.0);
    cache.client(after(2)).await.receives("ERROR too old resource version: 2 (3)").await;
}
