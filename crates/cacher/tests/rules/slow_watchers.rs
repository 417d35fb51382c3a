//! Watchers that are not read for a while: they cost little, delay no other watcher, and continue as long as storage
//! has their position.

use super::{
    controlled_backend::ControlledBackend,
    test_cache::{Client, TestCache, after, initial_events, timed, version},
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    Storage, WatchRequest,
    testing::{labels, pod},
};

/// Makes these updates of `a`, and has `reader` receive each of them before the next.
async fn update(cache: &TestCache, updates: std::ops::RangeInclusive<i64>, reader: &mut Client) {
    for data in updates {
        cache.put(&pod("a").data(data)).await;
        reader.receives(&updated(data)).await;
    }
}

/// The event of the update of `a` to this data, if all writes after the first three are updates of `a`.
fn updated(data: i64) -> String {
    format!("MODIFIED a={data}@{}", data + 4)
}

fn terminated(cache: &TestCache) -> f64 {
    cache.metric("apiserver_terminated_watchers_total", &[])
}

/// A cache whose history holds about this many updates.
async fn history_of(events: usize) -> TestCache {
    let options = CacherOptions { history_bytes_max: events * 384, ..CacherOptions::default() };
    TestCache::ready(ControlledBackend::in_memory(), options).await.create_abc().await
}

/// A cache whose history holds about ten updates.
async fn short_history() -> TestCache {
    history_of(10).await
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_pauses_receives_every_event_later_and_delays_no_other() {
    let cache = TestCache::abc().await;
    let (mut stopped, mut reader) = (cache.client(after(4)).await, cache.client(after(4)).await);
    let ((), took) = timed(update(&cache, 1..=2000, &mut reader)).await;
    assert_eq!(took, 0.0);
    for data in 1..=2000 {
        stopped.receives(&updated(data)).await;
    }
    // The watcher is live again.
    update(&cache, 2001..=2001, &mut reader).await;
    stopped.receives(&updated(2001)).await;
    assert_eq!(terminated(&cache), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_pauses_in_the_initial_state_receives_the_state_it_started_with() {
    let cache = TestCache::empty().await;
    for at in 0..500 {
        cache.create(&pod(&format!("p{at:03}"))).await;
    }
    let mut stopped = cache.client(initial_events(Position::MostRecent)).await;
    stopped.receives("ADDED p000@2").await;
    for at in 400..500 {
        cache.delete(&pod(&format!("p{at:03}"))).await;
    }
    for at in 1..500 {
        stopped.receives(&format!("ADDED p{at:03}@{}", at + 2)).await;
    }
    stopped.receives("STATE END @501").await;
    for at in 400..500 {
        stopped.receives(&format!("DELETED p{at:03}@{}", at + 102)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_older_than_the_history_continues_from_storage() {
    let cache = short_history().await;
    let (mut stopped, mut reader) = (cache.client(after(4)).await, cache.client(after(4)).await);
    update(&cache, 1..=3, &mut reader).await;
    stopped.receives(&updated(1)).await;
    let ((), took) = timed(update(&cache, 4..=2000, &mut reader)).await;
    assert_eq!(took, 0.0);
    for data in 2..=2000 {
        stopped.receives(&updated(data)).await;
    }
    // The watcher is live again.
    update(&cache, 2001..=2001, &mut reader).await;
    stopped.receives(&updated(2001)).await;
    assert_eq!(terminated(&cache), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_compacted_watcher_gets_one_error_and_its_watch_ends() {
    let cache = short_history().await;
    let (mut stopped, mut reader) = (cache.client(after(4)).await, cache.client(after(4)).await);
    update(&cache, 1..=300, &mut reader).await;
    cache.backend.inner.compact(version(280)).await.unwrap();
    // The events are in order, and an error follows for the rest.
    let mut data = 0;
    let error = loop {
        let received = stopped.next().await;
        data += 1;
        if received != updated(data) {
            break received;
        }
    };
    assert_eq!(error, format!("ERROR too old resource version: {} (280)", data + 3));
    stopped.receives("END").await;
    assert_eq!(terminated(&cache), 1.0);
    update(&cache, 301..=301, &mut reader).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_pauses_still_receives_its_queued_events() {
    let cache = short_history().await;
    let (mut stopped, mut reader) = (cache.client(after(4)).await, cache.client(after(4)).await);
    // Few enough for the queue, although the history has removed them.
    update(&cache, 1..=100, &mut reader).await;
    for data in 1..=100 {
        stopped.receives(&updated(data)).await;
    }
    update(&cache, 101..=101, &mut reader).await;
    stopped.receives(&updated(101)).await;
    assert_eq!(terminated(&cache), 0.0);
}

#[tokio::test(start_paused = true)]
async fn events_that_a_paused_watcher_does_not_want_do_not_fill_its_queue() {
    let cache = short_history().await;
    let wanted = WatchRequest { predicate: labels("l=1"), ..WatchRequest::from(after(4)) };
    let (mut stopped, mut reader) = (cache.client_of("/pods", wanted).await, cache.client(after(4)).await);
    update(&cache, 1..=300, &mut reader).await;
    cache.create(&pod("x").label("l", "1")).await;
    stopped.receives("ADDED x@305").await;
}

#[tokio::test(start_paused = true)]
async fn a_few_large_events_are_delivered_like_many_small_ones() {
    let cache = TestCache::abc().await;
    let mut stopped = cache.client(after(4)).await;
    let large = "x".repeat(50_000);
    for data in 1..=50 {
        cache.put(&pod("a").label("large", &large).data(data)).await;
    }
    for data in 1..=50 {
        stopped.receives(&updated(data)).await;
    }
    assert_eq!(terminated(&cache), 0.0);
}

/// Creates many pods, starts to read their state, and changes it so often that the history has moved past the watcher.
async fn paused_in_the_initial_state() -> (TestCache, Client) {
    let cache = history_of(20).await;
    for at in 0..300 {
        cache.create(&pod(&format!("p{at:03}"))).await;
    }
    let mut stopped = cache.client(initial_events(Position::MostRecent)).await;
    stopped.receives("ADDED a@2; ADDED b@3; ADDED c@4; ADDED p000@5").await;
    for data in 1..=100 {
        cache.put(&pod("a").data(data)).await;
        cache.put(&pod("p299").data(data)).await;
    }
    cache.caught_up().await;
    (cache, stopped)
}

#[tokio::test(start_paused = true)]
async fn an_initial_state_older_than_the_history_continues_from_storage() {
    let (cache, mut stopped) = paused_in_the_initial_state().await;
    for at in 1..300 {
        stopped.receives(&format!("ADDED p{at:03}@{}", at + 5)).await;
    }
    stopped.receives("STATE END @304").await;
    for data in 1..=100 {
        let a = format!("MODIFIED a={data}@{}", data * 2 + 303);
        stopped.receives(&format!("{a}; MODIFIED p299={data}@{}", data * 2 + 304)).await;
    }
    assert_eq!(terminated(&cache), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_whose_initial_state_is_compacted_gets_one_error() {
    let (cache, mut stopped) = paused_in_the_initial_state().await;
    cache.backend.inner.compact(version(400)).await.unwrap();
    let mut last = stopped.next().await;
    while last.starts_with("ADDED p") {
        last = stopped.next().await;
    }
    assert_eq!(last, "ERROR too old resource version: 304 (400)");
    stopped.receives("END").await;
    assert_eq!(terminated(&cache), 1.0);
}

/// The watcher received its last event long ago, and has missed nothing since.
#[tokio::test(start_paused = true)]
async fn a_selective_watcher_receives_all_events_of_a_sudden_burst() {
    let cache = history_of(300).await;
    let wanted = WatchRequest { predicate: labels("l=1"), ..WatchRequest::from(after(4)) };
    let (mut idle, mut reader) = (cache.client_of("/pods", wanted).await, cache.client(after(4)).await);
    update(&cache, 1..=1000, &mut reader).await;
    idle.receives_nothing_for(1).await;
    for at in 0..200 {
        cache.create(&pod(&format!("x{at}")).label("l", "1")).await;
    }
    cache.caught_up().await;
    for at in 0..200 {
        idle.receives(&format!("ADDED x{at}@{}", at + 1005)).await;
    }
    assert_eq!(terminated(&cache), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_too_old_is_not_counted_as_a_terminated_watcher() {
    let cache = short_history().await;
    let mut reader = cache.client(after(4)).await;
    update(&cache, 1..=100, &mut reader).await;
    cache.backend.inner.compact(version(50)).await.unwrap();
    cache.client(after(4)).await.receives("ERROR too old resource version: 4 (50); END").await;
    assert_eq!(terminated(&cache), 0.0);
}

/// Ends the watches of the cache once they have delivered everything so far.
fn finish(cache: &TestCache) -> tokio::task::JoinHandle<f64> {
    let (cacher, backend) = (cache.cacher.clone(), cache.backend.inner.clone());
    tokio::spawn(async move {
        let revision = backend.current_revision().await.unwrap();
        timed(cacher.finish_watches(revision)).await.1
    })
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_finished_first_deliver_everything_from_the_history_and_from_storage() {
    let cache = short_history().await;
    let (mut stopped, mut reader) = (cache.client(after(4)).await, cache.client(after(4)).await);
    let mut starting = cache.client(initial_events(Position::MostRecent)).await;
    update(&cache, 1..=1000, &mut reader).await;
    let finishing = finish(&cache);
    reader.receives("END").await;
    for data in 1..=1000 {
        stopped.receives(&updated(data)).await;
    }
    stopped.receives("END").await;
    starting.receives("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
    for data in 1..=1000 {
        starting.receives(&updated(data)).await;
    }
    starting.receives("END").await;
    drop((stopped, reader, starting));
    assert!(finishing.await.unwrap() < 1.0);
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_finished_wait_for_what_the_cache_has_not_seen_yet() {
    let cache = TestCache::abc().await;
    let mut reader = cache.client(after(4)).await;
    cache.backend.pause_watches();
    cache.put(&pod("a").data(1)).await;
    let finishing = finish(&cache);
    reader.receives_nothing_for(10).await;
    cache.backend.resume_watches();
    reader.receives(&updated(1)).await;
    reader.receives("END").await;
    drop(reader);
    assert!(finishing.await.unwrap() < 11.0);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_never_reads_is_not_waited_for_for_ever() {
    let cache = TestCache::abc().await;
    let _stopped = cache.client(after(2)).await;
    assert_eq!(finish(&cache).await.unwrap(), 30.0);
}
