//! What reviews found, each with the test that would have.

use super::{
    gate::Gate,
    world::{World, after, from_state, pass, timed, until},
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

/// A state that is told in several parts, because it has more objects than one part.
#[tokio::test(start_paused = true)]
async fn a_long_state_is_told_whole() {
    let world = World::empty().await;
    for number in 0..1000 {
        world.create(&pod(&format!("pod-{number:04}"))).await;
    }
    world.caught_up().await;
    let mut client = world.client(from_state(Position::MostRecent)).await;
    for number in 0..1000 {
        client.hears(&format!("ADDED pod-{number:04}@{}", number + 2)).await;
    }
    client.hears("STATE END @1001").await;
}

/// The state was taken back to where the store's history begins, and a watch that was still telling the old one found
/// nothing more in it and said that it had told all.
#[tokio::test(start_paused = true)]
async fn a_state_that_is_half_told_when_the_cache_is_filled_anew_is_not_called_whole() {
    let world = World::empty().await;
    for number in 0..150 {
        world.create(&pod(&format!("pod-{number:03}"))).await;
    }
    world.caught_up().await;
    let mut client = world.client(from_state(Position::MostRecent)).await;
    for number in 0..100 {
        client.hears(&format!("ADDED pod-{number:03}@{}", number + 2)).await;
    }
    world.gate.hold();
    world.gate.end_watch(Some(StorageError::Rejected("out of order".into())));
    until("the watches are ended", || !world.cacher.is_ready()).await;
    pass(5.0).await;
    client.hears("END").await;
    world.gate.release();
}

/// Only its present value matters; the old one is met by those who read the history.
#[tokio::test(start_paused = true)]
async fn an_old_value_that_cannot_be_read_ends_only_the_watches_that_meet_it() {
    let gate = Gate::near();
    let behind = Fixture::new(gate.inner.clone());
    behind.put_raw(&behind.full_key(&pod("a")), "nonsense").await;
    behind.put_raw(&behind.full_key(&pod("a")), pod("a").value()).await;
    let world = World::over(gate, CacherOptions::default()).await;
    assert_eq!(world.lists(ListRequest::all()).await, "a @3");
    let heard = world.client(after(1)).await.next().await;
    assert!(heard.starts_with("ERROR StorageError: corrupt object"), "{heard}");
    world.put(&pod("a").data(1)).await;
    world.client(after(3)).await.hears("MODIFIED a=1@4").await;
}

/// Panics on some values, as long as it is told to.
struct Fragile(Arc<AtomicBool>);

impl Inspector for Fragile {
    fn inspect(&self, key: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        assert!(!(self.0.load(Ordering::Relaxed) && key.ends_with("bad")), "a bug in whoever knows the kind");
        PodInspector.inspect(key, value)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_a_value_fills_the_cache_anew_and_nobody_is_left_waiting() {
    let gate = Gate::near();
    let is_fragile = Arc::new(AtomicBool::new(false));
    let options = StoreOptions::new(pods_prefix(), Arc::new(Fragile(is_fragile.clone())));
    let store = Store::new(Arc::new(gate.clone()), options);
    let metrics = CacheMetrics::register(&prometheus::Registry::new()).unwrap();
    let resource = keepwatch_apimachinery::meta::Qualified::core("pods");
    let cacher = Cacher::new(Arc::new(store), pods_prefix(), resource, CacherOptions::default(), &metrics);
    cacher.until_ready().await;
    let mut watch = cacher.watch("/pods", WatchRequest::from(after(1))).await.unwrap();
    is_fragile.store(true, Ordering::Relaxed);
    let behind = Fixture::new(gate.inner.clone());
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
    let world = World::abc().await;
    for seconds in [i64::MAX as u64, u64::MAX] {
        let timeout = Some(Duration::from_secs(seconds));
        let request = WatchRequest { timeout, progress: true, ..WatchRequest::from(after(3)) };
        world.client_of("/pods", request).await.hears("ADDED c@4").await;
    }
}

/// The 129th event threw away the 128 that waited, which the history no longer had.
#[tokio::test(start_paused = true)]
async fn a_reader_that_pauses_is_told_what_waited_for_it_though_the_history_has_moved_on() {
    let options = CacherOptions { history_bytes_max: 20_000, ..CacherOptions::default() };
    let world = World::over(Gate::near(), options).await.with_abc().await;
    let mut client = world.client(after(4)).await;
    for data in 1..=129 {
        world.put(&pod("a").data(data)).await;
        world.caught_up().await;
    }
    for data in 1..=129 {
        client.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_always_refuses_to_be_watched_is_left_in_peace_more_and_more() {
    let gate = Gate::near();
    gate.fail(super::gate::Call::Watch, || StorageError::Rejected("never".into()));
    let world = World::begin(gate, CacherOptions::default());
    pass(600.0).await;
    let fillings = world.fillings();
    assert!((5.0..60.0).contains(&fillings), "{fillings} lists in 600 s");
}

/// A watcher that was gone kept its memory until its next bookmark would have been due.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dropped_leaves_nothing_behind() {
    let world = World::abc().await;
    for _ in 0..100 {
        let request = WatchRequest { progress: true, ..WatchRequest::from(WatchStart::now()) };
        drop(world.client_of("/pods", request).await);
    }
    assert_eq!(world.cacher.watcher_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_stopped_ends_its_watches_and_lets_go_of_storage() {
    let gate = Gate::near();
    let weak = Arc::downgrade(&gate.inner);
    let World { cacher, .. } = World::over(gate, CacherOptions::default()).await;
    let mut watch = cacher.watch("/pods", WatchRequest::from(after(1))).await.unwrap();
    cacher.stop().await;
    assert!(futures::StreamExt::next(&mut watch).await.is_none());
    let refused = cacher.watch("/pods", WatchRequest::from(after(1))).await.err().unwrap();
    assert_eq!(refused.to_string(), "apiserver cacher is stopped");
    drop((watch, cacher));
    assert!(weak.upgrade().is_none(), "nobody holds the store any more");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_cache_that_is_stopped_waits_no_longer() {
    let gate = Gate::near();
    gate.stall(super::gate::Call::Revision);
    let world = World::begin(gate, CacherOptions::default());
    tokio::join!(world.cacher.until_ready(), world.cacher.stop());
    assert!(!world.cacher.is_ready());
}

/// A list that fails late is no good watch.
#[tokio::test(start_paused = true)]
async fn storage_that_breaks_each_watch_for_long_is_left_in_peace_more_and_more() {
    let gate = Gate::near();
    gate.fail(super::gate::Call::Watch, || StorageError::WatchFailed("no leader".to_owned()));
    let world = World::begin(gate, CacherOptions::default());
    pass(3600.0).await;
    let fillings = world.fillings();
    assert!((2.0..80.0).contains(&fillings), "{fillings} lists in an hour");
}

/// Nobody would say that the end of the history is reached, if what was written last is another resource's.
#[tokio::test(start_paused = true)]
async fn over_storage_that_does_not_tell_progress_no_watch_begins_before_the_cache_does() {
    let gate = Gate::old();
    let behind = Fixture::new(gate.inner.clone());
    behind.create(&pod("a")).await;
    behind.write_elsewhere().await;
    let (world, seconds) = timed(World::over(gate, CacherOptions::default())).await;
    assert_eq!(seconds, 0.0);
    world.client(after(2)).await.hears("ERROR too old resource version: 2 (3)").await;
}
