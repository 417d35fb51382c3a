//! Where a watch starts, what it delivers first, and when it has to wait.

use super::{
    controlled_backend::{Call, ControlledBackend},
    test_cache::{TestCache, after, initial_events, no_leader, sleep_for, timed, version},
};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    ListRequest, Storage, StorageError, WatchRequest,
    testing::{Watching, labels, pod},
};

const FROM_STATE_UNMARKED: WatchStart =
    WatchStart::InitialEvents { position: Position::Any, end_bookmark: false };
const FROM_ANYWHERE: WatchStart = WatchStart::Changes { position: Position::Any };

/// Opens a watch of a cache with `a`, `b` and `c`, and compares its events; then creates `d`, which it receives too.
async fn check(start: WatchStart, received: &str) {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        let (mut client, took) = timed(cache.client(start)).await;
        assert_eq!(took, 0.0, "{start:?} waits");
        if !received.is_empty() {
            client.receives(received).await;
        }
        cache.create(&pod("d")).await;
        client.receives("ADDED d@5").await;
        client.receives_nothing_for(10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_outside_the_resource_is_refused_before_the_stream() {
    let cache = TestCache::abc().await;
    for key in ["/pods/../secrets", "/secrets", ""] {
        match cache.cacher.watch(key, WatchRequest::from(after(2))).await {
            Err(StorageError::InvalidKey(_)) => {}
            other => panic!("{key}: {:?}", other.map(|_| "a stream")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_a_revision_delivers_the_changes_since() {
    check(after(3), "ADDED c@4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_the_newest_revision_delivers_the_next_changes() {
    check(after(4), "").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_any_state_delivers_the_state_and_then_the_changes() {
    check(FROM_STATE_UNMARKED, "ADDED a@2; ADDED b@3; ADDED c@4").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_state_is_marked_when_the_client_allows_it() {
    check(initial_events(Position::Any), "ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_state_not_older_than_a_revision_may_start_with_a_newer_one() {
    check(initial_events(Position::At(version(2))), "ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_most_recent_state_starts_with_everything_committed() {
    check(initial_events(Position::MostRecent), "ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_initial_events_delivers_only_later_changes() {
    check(WatchStart::now(), "").await;
    check(FROM_ANYWHERE, "").await;
}

#[tokio::test(start_paused = true)]
async fn the_state_is_delivered_in_the_order_of_the_keys() {
    let cache = TestCache::empty().await;
    for name in ["c", "a", "b"] {
        cache.create(&pod(name)).await;
    }
    let mut client = cache.client(initial_events(Position::MostRecent)).await;
    client.receives("ADDED a@3; ADDED b@4; ADDED c@2; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_empty_state_is_marked_once() {
    let cache = TestCache::abc().await;
    let start = initial_events(Position::MostRecent);
    let nothing = WatchRequest { predicate: labels("no=such"), ..WatchRequest::from(start) };
    for (key, request) in [("/pods/empty", WatchRequest::from(start)), ("/pods", nothing)] {
        let mut client = cache.client_of(key, request).await;
        client.receives("STATE END @4").await;
        client.receives_nothing_for(10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_state_includes_writes_to_other_resources() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        cache.write_elsewhere().await;
        let mut client = cache.client(initial_events(Position::MostRecent)).await;
        client.receives("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @5").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_future_state_waits_and_then_fails_in_the_stream() {
    let cache = TestCache::abc().await;
    let (mut client, took) = timed(cache.client(initial_events(Position::At(version(1_000_004))))).await;
    assert_eq!(took, 3.0);
    client.receives("ERROR Timeout: Too large resource version: 1000004, current: 4; END").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_a_state_in_the_near_future() {
    let cache = TestCache::abc().await;
    let opening = async {
        let mut client = cache.client(initial_events(Position::At(version(5)))).await;
        client.receives("ADDED a@2; ADDED b@3; ADDED c@4; ADDED d@5; STATE END @5").await;
    };
    let writing = async {
        sleep_for(2.0).await;
        cache.create(&pod("d")).await;
    };
    let (_, took) = timed(async { tokio::join!(opening, writing) }).await;
    assert_eq!(took, 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_most_recent_state_fails_in_the_stream_of_a_lagging_cache() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        cache.backend.pause_watches();
        cache.create(&pod("d")).await;
        let (mut client, took) = timed(cache.client(initial_events(Position::MostRecent))).await;
        assert_eq!(took, 3.0);
        client.receives("ERROR Timeout: Too large resource version: 5, current: 4; END").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_too_large_revision_has_a_retry_delay() {
    let cache = TestCache::abc().await;
    let request = WatchRequest::from(initial_events(Position::At(version(9))));
    let mut watch = Watching::new(cache.cacher.watch("/pods", request).await.unwrap());
    match watch.last_error().await {
        StorageError::TooLarge { retry_after_seconds: Some(1), .. } => {}
        error => panic!("{error:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn any_state_comes_from_a_lagging_cache_too() {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache.create(&pod("d")).await;
    let (mut client, took) = timed(cache.client(initial_events(Position::Any))).await;
    assert_eq!(took, 0.0);
    client.receives("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
    cache.backend.resume_watches();
    client.receives("ADDED d@5").await;
}

#[tokio::test(start_paused = true)]
async fn changes_from_any_position_start_at_the_cache_and_the_most_recent_at_storage() {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache.create(&pod("d")).await;
    let (mut anywhere, mut now) = (cache.client(FROM_ANYWHERE).await, cache.client(WatchStart::now()).await);
    cache.backend.resume_watches();
    anywhere.receives("ADDED d@5").await;
    now.receives_nothing_for(10).await;
    cache.create(&pod("e")).await;
    now.receives("ADDED e@6").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_future_revision_delivers_only_later_changes() {
    let cache = TestCache::abc().await;
    let mut client = cache.client(after(6)).await;
    for name in ["d", "e", "f"] {
        cache.create(&pod(name)).await;
    }
    client.receives("ADDED f@7").await;
}

#[tokio::test(start_paused = true)]
async fn a_compacted_start_is_an_error_in_the_stream() {
    let cache = TestCache::abc().await;
    cache.client(after(1)).await.receives("ADDED a@2").await;
    let backend = cache.backend.clone();
    drop(cache);
    backend.inner.compact(version(4)).await.unwrap();
    let cache = TestCache::ready(backend, Default::default()).await;
    cache.client(after(3)).await.receives("ERROR too old resource version: 3 (4); END").await;
    cache.client(after(4)).await.receives_nothing_for(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_for_the_revision_is_an_error_in_the_stream() {
    let cache = TestCache::abc_without_frontier().await;
    cache.backend.fail(Call::Revision, no_leader);
    for start in [initial_events(Position::MostRecent), WatchStart::now()] {
        cache.client(start).await.receives("ERROR etcdserver: no leader; END").await;
    }
    cache.client(initial_events(Position::Any)).await.receives("ADDED a@2").await;
}

/// The watch receives each concurrent write either in its initial state or as a change.
#[tokio::test(start_paused = true)]
async fn a_watch_that_starts_during_writes_misses_and_repeats_nothing() {
    let cache = TestCache::abc().await;
    let mut clients = Vec::new();
    for data in 1..=150 {
        cache.put(&pod("a").data(data)).await;
        clients.push((data, cache.client(FROM_STATE_UNMARKED).await));
    }
    for (begun, mut client) in clients {
        let first = client.next().await;
        client.receives("ADDED b@3; ADDED c@4").await;
        let (data, _) =
            first.strip_prefix("ADDED a=").and_then(|rest| rest.split_once('@')).unwrap_or(("0", ""));
        for data in data.parse::<i64>().unwrap() + 1..=150 {
            assert_eq!(client.next().await, format!("MODIFIED a={data}@{}", data + 4), "begun at {begun}");
        }
        client.receives_nothing_for(1).await;
    }
}

/// An etcd before 3.4.31 or 3.5.13 can report the end of a state too early, and a list of the newest state can be too
/// old.
#[tokio::test(start_paused = true)]
async fn storage_without_progress_notifications_is_not_trusted_for_the_newest_state() {
    let cache = TestCache::ready(ControlledBackend::without_progress(), CacherOptions::default()).await;
    let mut client = cache.client(initial_events(Position::MostRecent)).await;
    client.receives("ERROR storage failed: finding the end of the initial state; END").await;
    let (list, calls) = cache.calls_during(cache.list_names(ListRequest::all())).await;
    assert_eq!((list.as_str(), calls.as_str()), (" @1", "Range 1"));
}
