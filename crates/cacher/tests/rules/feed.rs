//! The cache follows storage, and its clients notice little when that fails.

use super::{
    controlled_backend::{Call, ControlledBackend},
    test_cache::{
        Client, TestCache, after, initial_events, list_at, no_leader, sleep_for, timed, unreachable, version,
        wait_until,
    },
};
use keepwatch_apimachinery::list_options::{ListAt, Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    Backend, ExpiredRead, ListRequest, Storage, StorageError, WatchRequest,
    testing::{Fixture, pod},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions, OpenError};
use std::{path::Path, sync::Arc, time::Duration};

fn expired() -> StorageError {
    StorageError::Expired(ExpiredRead::Watch)
}

fn unready() -> StorageError {
    StorageError::Unready { message: "too many requests".to_owned(), retry_after_seconds: 1 }
}

#[tokio::test(start_paused = true)]
async fn the_cache_lists_once_and_watches_from_the_revision_of_the_list() {
    let backend = ControlledBackend::in_memory();
    Fixture::new(backend.inner.clone()).create(&pod("a")).await;
    let cache = TestCache::ready(backend, CacherOptions::default()).await;
    assert_eq!((cache.backend.calls(Call::Range), cache.backend.watched_after()), (1, vec![2]));
    assert_eq!(cache.list_names(ListRequest::all()).await, "a @2");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_cleanly_is_resumed_unnoticed_by_clients() {
    let cache = TestCache::abc().await;
    let mut client = cache.client(after(4)).await;
    for (data, delivered) in [(1, "MODIFIED a=1@5"), (2, "MODIFIED a=2@6"), (3, "MODIFIED a=3@7")] {
        cache.backend.end_watch(None);
        cache.put(&pod("a").data(data)).await;
        client.receives(delivered).await;
    }
    client.receives_nothing_for(60).await;
    assert_eq!((cache.backend.calls(Call::Range), cache.backend.watched_after()), (1, vec![1, 4, 5, 6]));
    assert!(cache.cacher.is_ready());
}

/// Many stores close idle watches after a while. That is no reason to back off.
#[tokio::test(start_paused = true)]
async fn idle_watches_that_end_cleanly_are_resumed_at_once() {
    let cache = TestCache::abc().await;
    for _ in 0..8 {
        sleep_for(600.0).await;
        cache.backend.end_watch(None);
        sleep_for(0.001).await;
    }
    cache.put(&pod("a").data(1)).await;
    let (list, calls) = cache.calls_during(timed(cache.list_names(ListRequest::all()))).await;
    assert_eq!((list, calls.as_str()), (("a b c @5".to_owned(), 0.0), ""));
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_of_the_watch_is_tolerated_for_thirty_seconds() {
    let cache = TestCache::abc().await;
    let mut client = cache.client(after(4)).await;
    cache.backend.fail(Call::Watch, no_leader);
    cache.backend.end_watch(Some(no_leader()));
    cache.put(&pod("a").data(1)).await;
    sleep_for(29.0).await;
    assert!(cache.cacher.is_ready());
    cache.backend.recover(Call::Watch);
    client.receives("MODIFIED a=1@5").await;
    client.receives_nothing_for(60).await;
    assert_eq!((cache.initializations(), cache.backend.calls(Call::Range)), (1.0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_longer_internal_error_makes_the_cache_relist() {
    let cache = TestCache::abc().await;
    let mut client = cache.client(after(4)).await;
    cache.backend.fail(Call::Watch, no_leader);
    cache.backend.end_watch(Some(no_leader()));
    let ((), took) = timed(wait_until("the cache gives up", || !cache.cacher.is_ready())).await;
    // The cache notices at its next attempt, which it makes at least every thirty seconds.
    assert!((30.0..=60.0).contains(&took), "after {took} seconds");
    client.receives("END").await;
    cache.backend.recover(Call::Watch);
    cache.cacher.until_ready().await;
    assert_eq!((cache.initializations(), cache.backend.calls(Call::Range)), (2.0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_of_long_ago_does_not_count() {
    let cache = TestCache::abc().await;
    for _ in 0..5 {
        cache.backend.end_watch(Some(no_leader()));
        sleep_for(600.0).await;
        assert!(cache.cacher.is_ready());
    }
    assert_eq!(cache.initializations(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_cache_waits_for_storage_that_is_unreachable_or_busy() {
    for error in [unreachable, unready] {
        let cache = TestCache::abc().await;
        let mut client = cache.client(after(4)).await;
        cache.backend.fail(Call::Watch, error);
        cache.backend.end_watch(Some(error()));
        cache.put(&pod("a").data(1)).await;
        let before = cache.backend.calls(Call::Watch);
        client.receives_nothing_for(300).await;
        let attempts = cache.backend.calls(Call::Watch) - before;
        assert!((10..=20).contains(&attempts), "{attempts} attempts in five minutes");
        cache.backend.recover(Call::Watch);
        client.receives("MODIFIED a=1@5").await;
        assert_eq!((cache.cacher.is_ready(), cache.initializations()), (true, 1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_cache_relists_when_the_watch_expires_or_fails_otherwise() {
    let too_large =
        || StorageError::TooLarge { requested: version(9), current: version(4), retry_after_seconds: None };
    for error in [expired, too_large] {
        let cache = TestCache::abc().await;
        let mut client = cache.client(after(4)).await;
        cache.backend.pause_watches();
        cache.put(&pod("d")).await;
        cache.backend.end_watch(Some(error()));
        cache.backend.resume_watches();
        wait_until("the cache is not ready, at once", || !cache.cacher.is_ready()).await;
        // The watch ends without an error, and not before a second has passed.
        assert_eq!(client.receives_within(60).await, "1s END");
        cache.cacher.until_ready().await;
        assert_eq!(
            (cache.initializations(), cache.list_names(ListRequest::all()).await),
            (2.0, "a b c d @5".to_owned())
        );
        // Pod d comes from the list, so the changes before it come from storage.
        for (start, received) in [(3, "ADDED c@4; ADDED d@5"), (4, "ADDED d@5")] {
            cache.client(after(start)).await.receives(received).await;
        }
        let mut resumed = cache.client(after(5)).await;
        cache.put(&pod("d").data(1)).await;
        resumed.receives("MODIFIED d=1@6").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_during_a_relist_ends_at_once() {
    let cache = TestCache::abc().await;
    let request = WatchRequest::from(initial_events(Position::At(version(5))));
    let opening = tokio::spawn({
        let cacher = cache.cacher.clone();
        async move { cacher.watch("/pods", request).await }
    });
    sleep_for(0.1).await;
    // The list reaches the revision that the watch waits for, but the cache does not become ready.
    cache.backend.stall(Call::Watch);
    cache.backend.end_watch(Some(expired()));
    cache.bypass().put(&pod("d")).await;
    let watch = opening.await.unwrap().expect("the stream begins");
    assert!(!cache.cacher.is_ready());
    Client::new(watch).receives("END").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_waits_during_a_relist_gets_the_new_state() {
    for at in [ListAt::NotOlderThan(version(5)), ListAt::MostRecent] {
        let cache = TestCache::abc().await;
        cache.backend.pause_watches();
        cache.put(&pod("d")).await;
        let relisting = async {
            cache.backend.end_watch(Some(expired()));
            cache.backend.resume_watches();
        };
        let (list, ()) = tokio::join!(timed(cache.list_names(list_at(at))), relisting);
        assert_eq!(list, ("a b c d @5".to_owned(), 0.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_retried_and_counted_once_it_succeeds() {
    let backend = ControlledBackend::in_memory();
    backend.fail(Call::Range, unreachable);
    let cache = TestCache::start(backend, CacherOptions::default());
    sleep_for(300.0).await;
    let attempts = cache.backend.calls(Call::Range);
    assert!((10..=20).contains(&attempts), "{attempts} attempts in five minutes");
    assert_eq!(cache.initializations(), 0.0);
    cache.backend.recover(Call::Range);
    cache.cacher.until_ready().await;
    assert_eq!(cache.initializations(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_storage_advance_the_cache_and_are_not_delivered() {
    let cache = TestCache::abc_without_frontier().await;
    let progress = WatchRequest { progress: true, ..WatchRequest::from(after(4)) };
    let mut delivered = cache.client_of("/pods", progress).await;
    let mut idle = cache.client(after(4)).await;
    cache.write_elsewhere().await;
    cache.backend.inner.request_progress().await.unwrap();
    let reached = || cache.metric("apiserver_watch_cache_resource_version", &[]);
    wait_until("the cache is where storage is", || reached() == 5.0).await;
    assert_eq!(cache.list_names(list_at(ListAt::Any)).await, "a b c @5");
    delivered.receives_nothing_for(50).await;
    idle.receives_nothing_for(1).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_cache_ends_its_watches() {
    let cache = TestCache::abc().await;
    let (mut live, mut idle) = (cache.client(after(4)).await, cache.client(after(4)).await);
    cache.put(&pod("a").data(1)).await;
    idle.receives("MODIFIED a=1@5").await;
    drop(cache);
    live.receives("MODIFIED a=1@5; END").await;
    idle.receives("END").await;
}

/// Opens a store. The tasks of an earlier cache may not have released it yet.
async fn open(directory: &Path) -> Arc<dyn Backend> {
    loop {
        match Embedded::open(directory, EmbeddedOptions::default()) {
            Ok(store) => return Arc::new(store),
            Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("the store opens: {error}"),
        }
    }
}

/// In real time, because the disk takes some.
#[tokio::test]
async fn watches_resume_from_storage_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    {
        let before = Fixture::new(open(directory.path()).await);
        for name in ["a", "b"] {
            before.create(&pod(name)).await;
        }
        before.put(&pod("a").data(1)).await;
        before.delete(&pod("b")).await;
    }
    let backend = open(directory.path()).await;
    let cache = TestCache::ready(ControlledBackend::new(backend), CacherOptions::default()).await;
    let mut resumed = cache.client(after(2)).await;
    resumed.receives("ADDED b@3; MODIFIED a=1@4; DELETED b@5").await;
    cache.put(&pod("a").data(2)).await;
    resumed.receives("MODIFIED a=2@6").await;
    assert_eq!(cache.list_names(list_at(ListAt::Exact(version(3)))).await, "a b @3");
    let now = WatchStart::InitialEvents { position: Position::Any, end_bookmark: true };
    cache.client(now).await.receives("ADDED a=2@6; STATE END @6").await;
}
