//! When a watcher gets a bookmark.

use super::test_cache::{Client, TestCache, after, initial_events, sleep_for};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_storage::{WatchRequest, testing::pod};
use std::time::Duration;

/// A watch of the pods in `ns` that allows bookmarks, with an optional timeout in seconds.
async fn client(cache: &TestCache, start: WatchStart, seconds: Option<f64>) -> Client {
    let timeout = seconds.map(Duration::from_secs_f64);
    let request = WatchRequest { progress: true, timeout, ..WatchRequest::from(start) };
    cache.client_of("/pods/ns", request).await
}

/// Changes an object at revision 5 that the watch does not include.
async fn write_outside_the_watch(cache: &TestCache) {
    cache.create(&pod("x").in_namespace("ns2")).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_gets_a_bookmark_about_every_minute() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        let mut client = client(&cache, after(4), None).await;
        write_outside_the_watch(&cache).await;
        let received = client.receives_within(185).await;
        assert_eq!(received, "60s BOOKMARK @5; 120s BOOKMARK @5; 180s BOOKMARK @5");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_bookmark_comes_two_seconds_before_the_end() {
    for (seconds, received) in [
        (3.0, "1s BOOKMARK @5; 3s END"),
        (59.0, "57s BOOKMARK @5; 59s END"),
        (100.0, "60s BOOKMARK @5; 98s BOOKMARK @5; 100s END"),
    ] {
        let cache = TestCache::abc().await;
        let mut client = client(&cache, after(4), Some(seconds)).await;
        write_outside_the_watch(&cache).await;
        assert_eq!(client.receives_within(200).await, received);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_within_two_seconds_has_no_bookmark() {
    for seconds in [0.5, 1.9] {
        let cache = TestCache::abc().await;
        let mut client = client(&cache, after(4), Some(seconds)).await;
        write_outside_the_watch(&cache).await;
        client.receives("END").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_gets_none() {
    let cache = TestCache::abc().await;
    let request = WatchRequest { timeout: Some(Duration::from_secs(200)), ..WatchRequest::from(after(4)) };
    let mut client = cache.client_of("/pods/ns", request).await;
    write_outside_the_watch(&cache).await;
    assert_eq!(client.receives_within(300).await, "200s END");
}

#[tokio::test(start_paused = true)]
async fn there_is_no_bookmark_until_something_is_newer_than_the_start() {
    let cache = TestCache::abc().await;
    for start in [after(4), after(1000), initial_events(Position::Any)] {
        let mut client = client(&cache, start, Some(200.0)).await;
        let received = client.receives_within(300).await;
        assert!(!received.contains("BOOKMARK") && received.ends_with("200s END"), "{start:?}: {received}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_includes_writes_to_other_resources_when_storage_knows_them() {
    let cache = TestCache::abc().await;
    let mut client = client(&cache, after(4), None).await;
    cache.write_elsewhere().await;
    assert_eq!(client.receives_within(61).await, "60s BOOKMARK @5");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_includes_writes_to_other_resources_after_a_progress_notification() {
    let cache = TestCache::abc_without_frontier().await;
    let mut client = client(&cache, after(4), None).await;
    cache.write_elsewhere().await;
    assert_eq!(client.receives_within(70).await, "");
    cache.backend.inner.request_progress().await.unwrap();
    assert_eq!(client.receives_within(125).await, "120s BOOKMARK @5");
}

#[tokio::test(start_paused = true)]
async fn only_the_bookmark_after_the_initial_state_is_marked() {
    let cache = TestCache::abc().await;
    let mut client = client(&cache, initial_events(Position::Any), None).await;
    write_outside_the_watch(&cache).await;
    let received = client.receives_within(125).await;
    let state = "0s ADDED a@2; 0s ADDED b@3; 0s ADDED c@4; 0s STATE END @4";
    assert_eq!(received, format!("{state}; 60s BOOKMARK @5; 120s BOOKMARK @5"));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_follows_every_event_up_to_it() {
    let cache = TestCache::abc().await;
    let mut client = client(&cache, after(4), None).await;
    sleep_for(59.9).await;
    for data in 1..=3 {
        cache.put(&pod("a").data(data)).await;
    }
    sleep_for(0.2).await;
    cache.put(&pod("a").data(4)).await;
    client.receives("MODIFIED a=1@5; MODIFIED a=2@6; MODIFIED a=3@7; BOOKMARK @7; MODIFIED a=4@8").await;
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watcher_gets_bookmarks_while_it_catches_up() {
    let cache = TestCache::abc().await;
    let mut client = client(&cache, after(4), None).await;
    for data in 1..=300 {
        cache.put(&pod("a").data(data)).await;
    }
    sleep_for(200.0).await;
    let mut received = Vec::new();
    while received.last().is_none_or(|last| last != "BOOKMARK @304") {
        received.push(client.next().await);
    }
    // One bookmark that was due while the client was away, at the last delivered revision, and the next one on time.
    let (bookmarks, changes): (Vec<_>, Vec<_>) =
        received.iter().partition(|received| received.starts_with("BOOK"));
    assert_eq!((bookmarks.len(), changes.len()), (2, 300));
    let at = received.iter().position(|received| received == bookmarks[0]).unwrap();
    assert_eq!(*bookmarks[0], format!("BOOKMARK @{}", at + 4));
}
