//! Watches that need older events than the cache's history holds: first from storage, then from the cache.

use super::{
    controlled_backend::{Call, ControlledBackend},
    test_cache::{
        Client, TestCache, after, initial_events, sleep_for, timed, unreachable, version, wait_until,
    },
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_cacher::{CacherOptions, HistoryReadLimits};
use keepwatch_storage::{
    StorageError, WatchRequest,
    testing::{Fixture, labels, pod},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions, Retention};
use std::{sync::Arc, time::Duration};

/// A cache whose history holds about ten updates.
fn short_history() -> CacherOptions {
    CacherOptions { history_bytes_max: 4000, ..CacherOptions::default() }
}

/// A cache that has seen `a`, `b` and `c` being created, at 2, 3 and 4, and this many updates of `a` since.
async fn updated(backend: ControlledBackend, updates: i64) -> TestCache {
    let cache = TestCache::ready(backend, short_history()).await.create_abc().await;
    for data in 1..=updates {
        cache.put(&pod("a").data(data)).await;
    }
    cache.caught_up().await;
    cache
}

/// Receives all updates from one on, and then a new one.
async fn receives_updates(cache: &TestCache, client: &mut Client, from: i64, last: i64) {
    for data in from..=last {
        client.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    let next = cache.put(&pod("c").data(1)).await;
    client.receives(&format!("MODIFIED c=1@{}", next.revision)).await;
    cache.put(&pod("c")).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_starts_before_the_history_receives_every_event_and_becomes_live() {
    for backend in [ControlledBackend::in_memory(), ControlledBackend::without_frontier()] {
        let cache = updated(backend, 2000).await;
        let mut client = cache.client(after(1)).await;
        client.receives("ADDED a@2; ADDED b@3; ADDED c@4").await;
        receives_updates(&cache, &mut client, 1, 2000).await;
    }
}

/// Nothing follows the list for a long time, so storage has to send its progress.
#[tokio::test(start_paused = true)]
async fn a_watch_that_starts_before_an_idle_cache_receives_every_event() {
    for backend in [ControlledBackend::in_memory(), ControlledBackend::without_frontier()] {
        let cache = updated(backend.clone(), 20).await;
        cache.write_elsewhere().await;
        drop(cache);
        let cache = TestCache::ready(backend, short_history()).await;
        let mut client = cache.client(after(20)).await;
        client.receives("MODIFIED a=17@21; MODIFIED a=18@22; MODIFIED a=19@23; MODIFIED a=20@24").await;
        client.receives_nothing_for(50).await;
        cache.put(&pod("a").data(21)).await;
        client.receives("MODIFIED a=21@26").await;
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_apply_to_old_history() {
    let cache = TestCache::ready(ControlledBackend::in_memory(), short_history()).await;
    for (data, label) in [(1, "web"), (2, "web"), (3, "db"), (4, "db"), (5, "web")] {
        cache.put(&pod("a").label("app", label).data(data)).await;
    }
    cache.delete(&pod("a")).await;
    for data in 1..=50 {
        cache.put(&pod("other").data(data)).await;
    }
    cache.caught_up().await;
    let request = WatchRequest { predicate: labels("app=web"), ..WatchRequest::from(after(1)) };
    let mut client = cache.client_of("/pods", request).await;
    client.receives("ADDED a=1@2; MODIFIED a=2@3; DELETED a=2@4; ADDED a=5@6; DELETED a=5@7").await;
    client.receives_nothing_for(50).await;
    cache.put(&pod("a").label("app", "web")).await;
    client.receives("ADDED a@58").await;
}

#[tokio::test(start_paused = true)]
async fn many_watchers_that_resume_at_once_share_one_read() {
    let cache = updated(ControlledBackend::in_memory(), 1000).await;
    let (_, calls) = cache
        .calls_during(async {
            let mut clients = Vec::new();
            for at in 0..50 {
                // About the same revision.
                clients.push((at, cache.client(after(10 + at)).await));
            }
            let reading = clients.into_iter().map(|(at, mut client)| async move {
                for data in 7 + at as i64..=1000 {
                    client.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
                }
            });
            futures::future::join_all(reading).await
        })
        .await;
    // One read for the first position, perhaps one before it, and one for the events that the history has removed
    // meanwhile.
    let watches: usize = calls.strip_prefix("Watch ").and_then(|count| count.parse().ok()).expect(&calls);
    assert!(watches <= 3, "{calls}");
    assert_eq!(cache.metric("apiserver_terminated_watchers_total", &[]), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_reads_no_history_of_others() {
    let cache = updated(ControlledBackend::in_memory(), 3000).await;
    cache.put(&pod("b").data(1)).await;
    cache.put(&pod("a").data(1)).await;
    cache.caught_up().await;
    for data in 1..=50 {
        cache.put(&pod("a").data(data)).await;
    }
    cache.caught_up().await;
    let request = WatchRequest { recursive: false, ..WatchRequest::from(after(1)) };
    let mut client = cache.client_of("/pods/ns/b", request).await;
    client.receives("ADDED b@3; MODIFIED b=1@3005").await;
    cache.put(&pod("b").data(2)).await;
    client.receives("MODIFIED b=2@3056").await;
    assert_eq!(cache.metric("keepwatch_watch_cache_history_reads_total", &[]), 1.0, "all of it is one page");
}

#[tokio::test(start_paused = true)]
async fn every_watcher_receives_every_event_within_the_read_limits() {
    // One page at a time, and no room to cache any.
    let options = CacherOptions { history_reads: HistoryReadLimits::new(1, 0), ..short_history() };
    let cache = TestCache::ready(ControlledBackend::in_memory(), options).await.create_abc().await;
    for data in 1..=1500 {
        cache.put(&pod("a").data(data)).await;
    }
    cache.caught_up().await;
    let mut clients = Vec::new();
    for start in [4, 500, 4, 1000] {
        clients.push((start, cache.client(after(start)).await));
    }
    let reading = clients.into_iter().map(|(start, mut client)| async move {
        for data in start as i64 - 3..=1500 {
            client.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
        }
    });
    futures::future::join_all(reading).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_events_in_old_history_gets_a_bookmark() {
    let cache = updated(ControlledBackend::in_memory(), 3000).await;
    let request = WatchRequest { progress: true, predicate: labels("l=1"), ..WatchRequest::from(after(4)) };
    let mut client = cache.client_of("/pods", request).await;
    // The watch is not read until a bookmark is due.
    sleep_for(70.0).await;
    let received = client.next().await;
    let revision: u64 = received.strip_prefix("BOOKMARK @").and_then(|at| at.parse().ok()).expect(&received);
    assert!((5..3004).contains(&revision), "{revision}");
    client.receives("BOOKMARK @3004").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_unreachable_storage_and_continues() {
    let cache = updated(ControlledBackend::in_memory(), 100).await;
    cache.backend.fail(Call::Watch, unreachable);
    let mut client = cache.client(after(4)).await;
    client.receives_nothing_for(100).await;
    cache.backend.recover(Call::Watch);
    receives_updates(&cache, &mut client, 1, 100).await;
}

/// The error would come again at each attempt.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_history_stays_unreadable_ends_with_the_error() {
    let cache = updated(ControlledBackend::in_memory(), 100).await;
    cache.backend.fail(Call::Watch, || StorageError::backend("reading the log", "the entry is damaged"));
    let mut client = cache.client(after(4)).await;
    let (received, seconds) = timed(client.next()).await;
    assert_eq!(received, "ERROR storage failed: reading the log");
    assert!((30.0..40.0).contains(&seconds), "{seconds}");
    client.receives("END").await;
}

/// Before, each watch requested progress after a while, and eight did so at a time.
#[tokio::test(start_paused = true)]
async fn many_watches_of_different_namespaces_resume_at_once_after_a_restart() {
    let backend = ControlledBackend::in_memory();
    let behind = Fixture::new(backend.inner.clone());
    behind.create(&pod("a")).await;
    let last = behind.write_elsewhere().await;
    let cache = TestCache::ready(backend, CacherOptions::default()).await;
    let mut clients = Vec::new();
    for number in 0..800 {
        let key = format!("/pods/ns-{number}");
        clients.push(cache.client_of(&key, WatchRequest::from(after(1))).await);
    }
    let mut waiting: Vec<_> = clients.iter_mut().map(|client| Box::pin(client.next())).collect();
    for client in &mut waiting {
        assert!(futures::poll!(client).is_pending());
    }
    let (received, seconds) = timed(async { cache.client(after(1)).await.next().await }).await;
    assert_eq!((received.as_str(), seconds), ("ADDED a@2", 0.0));
    drop(waiting);
    // All watches are live.
    let written = cache.create(&pod("x").in_namespace("ns-799")).await;
    assert!(written.revision > last);
    let (received, seconds) = timed(clients[799].next()).await;
    assert_eq!((received, seconds), (format!("ADDED x@{}", written.revision), 0.0));
}

/// A watcher of another resource, whose pages take all the room there is.
#[tokio::test(start_paused = true)]
async fn a_stalled_watcher_does_not_prevent_others_from_sharing_pages() {
    let history_reads = HistoryReadLimits::new(8, 100_000);
    let options = || CacherOptions { history_reads: history_reads.clone(), ..short_history() };
    let stalled = TestCache::ready(ControlledBackend::in_memory(), options()).await.create_abc().await;
    let cache = TestCache::ready(ControlledBackend::in_memory(), options()).await.create_abc().await;
    for cache in [&stalled, &cache] {
        for data in 1..=2000 {
            cache.put(&pod("a").data(data)).await;
        }
        cache.caught_up().await;
    }
    let mut first = stalled.client(after(4)).await;
    first.receives("MODIFIED a=1@5").await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(cache.client(after(4)).await);
    }
    let reading = clients.into_iter().map(|mut client| async move {
        for data in 1..=2000 {
            client.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
        }
    });
    futures::future::join_all(reading).await;
    let pages = cache.metric("keepwatch_watch_cache_history_reads_total", &[]);
    assert!(pages <= 8.0, "{pages} pages of 512 changes");
}

/// The watcher reads on slowly, from the cache's history.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_has_caught_up_keeps_no_read_open_in_storage() {
    let options = CacherOptions { history_bytes_max: 400_000, ..CacherOptions::default() };
    let cache = TestCache::ready(ControlledBackend::in_memory(), options).await.create_abc().await;
    for data in 1..=3000 {
        cache.put(&pod("a").data(data)).await;
    }
    cache.caught_up().await;
    let mut slow = cache.client(after(4)).await;
    slow.receives("MODIFIED a=1@5").await;
    assert_eq!(cache.backend.open_watches(), 2);
    for data in 2..=2950 {
        slow.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    assert_eq!(cache.backend.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_storage_ends_at_its_timeout_and_with_the_cache() {
    let cache = updated(ControlledBackend::in_memory(), 100).await;
    cache.backend.stall(Call::Watch);
    let timeout = Some(Duration::from_secs(30));
    let request = WatchRequest { timeout, ..WatchRequest::from(after(4)) };
    let (mut waiting, mut timed_out) =
        (cache.client(after(4)).await, cache.client_of("/pods", request).await);
    assert_eq!(timed(timed_out.next()).await, ("END".to_owned(), 30.0));
    let ending = async {
        sleep_for(10.0).await;
        cache.cacher.stop().await;
    };
    let (received, ()) = tokio::join!(timed(waiting.next()), ending);
    assert_eq!(received, ("END".to_owned(), 10.0));
}

#[tokio::test(start_paused = true)]
async fn without_progress_notifications_only_the_history_in_memory_is_served() {
    let cache = updated(ControlledBackend::without_progress(), 100).await;
    let received = cache.client(after(4)).await.next().await;
    assert!(received.starts_with("ERROR too old resource version: 4 ("), "{received}");
}

#[tokio::test(start_paused = true)]
async fn reads_of_old_history_are_closed_with_the_last_watcher() {
    let cache = updated(ControlledBackend::in_memory(), 2000).await;
    let open = || cache.backend.open_watches();
    assert_eq!(open(), 1, "the cache's own");
    let mut client = cache.client(after(4)).await;
    client.receives("MODIFIED a=1@5").await;
    assert_eq!(open(), 2);
    let dropped = cache.client(after(4)).await;
    drop(dropped);
    receives_updates(&cache, &mut client, 2, 2000).await;
    assert_eq!(open(), 1, "it is live");
    let mut client = cache.client(after(4)).await;
    client.receives("MODIFIED a=1@5").await;
    drop(client);
    wait_until("what was open is closed", || open() == 1).await;
}

/// A backend that keeps history for a minute, and for two while a watcher needs it.
fn keeping_history_for_a_minute() -> ControlledBackend {
    let retention = Retention { age_min: Duration::from_secs(60), events_min: 0, bytes_max: None };
    ControlledBackend::new(Arc::new(Embedded::memory(EmbeddedOptions {
        retention,
        ..EmbeddedOptions::default()
    })))
}

#[tokio::test(start_paused = true)]
async fn an_active_watcher_delays_compaction_up_to_the_limit() {
    let backend = keeping_history_for_a_minute();
    let cache = updated(backend.clone(), 300).await;
    let mut slow = cache.client(after(4)).await;
    slow.receives("MODIFIED a=1@5").await;
    let mut in_state = cache.client(initial_events(Position::MostRecent)).await;
    sleep_for(110.0).await;
    // The watcher has taken the first hundred already.
    assert_eq!(backend.inner.compacted_revision(), Some(version(104)));
    receives_updates(&cache, &mut slow, 2, 300).await;
    in_state.receives("ADDED a=300@304; ADDED b@3; ADDED c@4; STATE END @304").await;

    let start = backend.inner.current_revision().await.unwrap().get();
    // More than a page, which would be cached.
    for data in 1..=2000 {
        cache.put(&pod("a").data(-data)).await;
    }
    cache.caught_up().await;
    let mut stalled = cache.client(after(start)).await;
    stalled.receives(&format!("MODIFIED a=-1@{}", start + 1)).await;
    sleep_for(200.0).await;
    let current = backend.inner.current_revision().await.unwrap();
    assert_eq!(backend.inner.compacted_revision(), Some(current), "no longer than that");
    let mut received = stalled.next().await;
    while received.starts_with("MODIFIED") {
        received = stalled.next().await;
    }
    assert!(received.starts_with("ERROR too old resource version: "), "{received}");
    assert!(received.ends_with(&format!(" ({current})")), "{received}");
}

#[tokio::test(start_paused = true)]
async fn live_watchers_do_not_delay_compaction() {
    let backend = keeping_history_for_a_minute();
    let cache = updated(backend.clone(), 300).await;
    let mut live = cache.client(after(304)).await;
    let mut caught_up = cache.client(after(4)).await;
    for data in 1..=300 {
        caught_up.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    live.receives_nothing_for(1).await;
    caught_up.receives_nothing_for(100).await;
    assert_eq!(backend.inner.compacted_revision(), Some(version(304)));
}
