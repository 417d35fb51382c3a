//! How the cache follows storage, and what its clients notice when that goes wrong.

use super::{
    gate::{Call, Gate},
    world::{Client, World, after, from_state, list_at, no_leader, pass, refused, timed, until, version},
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
async fn the_cache_lists_once_and_watches_from_where_the_list_was_read() {
    let gate = Gate::near();
    Fixture::new(gate.inner.clone()).create(&pod("a")).await;
    let world = World::over(gate, CacherOptions::default()).await;
    assert_eq!((world.gate.calls(Call::Range), world.gate.watched_after()), (1, vec![2]));
    assert_eq!(world.lists(ListRequest::all()).await, "a @2");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_cleanly_goes_on_from_the_last_revision_and_clients_notice_nothing() {
    let world = World::abc().await;
    let mut client = world.client(after(4)).await;
    for (data, told) in [(1, "MODIFIED a=1@5"), (2, "MODIFIED a=2@6"), (3, "MODIFIED a=3@7")] {
        world.gate.end_watch(None);
        world.put(&pod("a").data(data)).await;
        client.hears(told).await;
    }
    client.hears_nothing_for(60).await;
    assert_eq!((world.gate.calls(Call::Range), world.gate.watched_after()), (1, vec![1, 4, 5, 6]));
    assert!(world.cacher.is_ready());
}

/// Many stores close watches that nobody writes to, each after a while. That is no reason to leave them in peace.
#[tokio::test(start_paused = true)]
async fn however_often_idle_watches_end_cleanly_the_next_one_begins_at_once() {
    let world = World::abc().await;
    for _ in 0..8 {
        pass(600.0).await;
        world.gate.end_watch(None);
        pass(0.001).await;
    }
    world.put(&pod("a").data(1)).await;
    let (list, asked) = world.asked_by(timed(world.lists(ListRequest::all()))).await;
    assert_eq!((list, asked.as_str()), (("a b c @5".to_owned(), 0.0), ""));
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_of_the_watch_is_tolerated_for_thirty_seconds() {
    let world = World::abc().await;
    let mut client = world.client(after(4)).await;
    world.gate.fail(Call::Watch, no_leader);
    world.gate.end_watch(Some(no_leader()));
    world.put(&pod("a").data(1)).await;
    pass(29.0).await;
    assert!(world.cacher.is_ready());
    world.gate.heal(Call::Watch);
    client.hears("MODIFIED a=1@5").await;
    client.hears_nothing_for(60).await;
    assert_eq!((world.fillings(), world.gate.calls(Call::Range)), (1.0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_that_lasts_longer_makes_the_cache_list_again() {
    let world = World::abc().await;
    let mut client = world.client(after(4)).await;
    world.gate.fail(Call::Watch, no_leader);
    world.gate.end_watch(Some(no_leader()));
    let ((), took) = timed(until("the cache gives up", || !world.cacher.is_ready())).await;
    // It notices when it next tries, which it does every thirty seconds at the least.
    assert!((30.0..=60.0).contains(&took), "after {took} seconds");
    client.hears("END").await;
    world.gate.heal(Call::Watch);
    world.cacher.until_ready().await;
    assert_eq!((world.fillings(), world.gate.calls(Call::Range)), (2.0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_of_long_ago_does_not_count() {
    let world = World::abc().await;
    for _ in 0..5 {
        world.gate.end_watch(Some(no_leader()));
        pass(600.0).await;
        assert!(world.cacher.is_ready());
    }
    assert_eq!(world.fillings(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn storage_that_cannot_be_reached_or_is_busy_is_waited_for() {
    for error in [refused, unready] {
        let world = World::abc().await;
        let mut client = world.client(after(4)).await;
        world.gate.fail(Call::Watch, error);
        world.gate.end_watch(Some(error()));
        world.put(&pod("a").data(1)).await;
        let before = world.gate.calls(Call::Watch);
        client.hears_nothing_for(300).await;
        let attempts = world.gate.calls(Call::Watch) - before;
        assert!((10..=20).contains(&attempts), "{attempts} attempts in five minutes");
        world.gate.heal(Call::Watch);
        client.hears("MODIFIED a=1@5").await;
        assert_eq!((world.cacher.is_ready(), world.fillings()), (true, 1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_watch_is_expired_or_fails_in_another_way_the_cache_is_filled_anew() {
    let too_large =
        || StorageError::TooLarge { requested: version(9), current: version(4), retry_after_seconds: None };
    for error in [expired, too_large] {
        let world = World::abc().await;
        let mut client = world.client(after(4)).await;
        world.gate.hold();
        world.put(&pod("d")).await;
        world.gate.end_watch(Some(error()));
        world.gate.release();
        until("the cache is not ready, at once", || !world.cacher.is_ready()).await;
        // No error, and not before a second has passed.
        assert_eq!(client.hears_within(60).await, "1s END");
        world.cacher.until_ready().await;
        assert_eq!((world.fillings(), world.lists(ListRequest::all()).await), (2.0, "a b c d @5".to_owned()));
        // d was listed and not watched: what led up to it comes from storage.
        for (start, heard) in [(3, "ADDED c@4; ADDED d@5"), (4, "ADDED d@5")] {
            world.client(after(start)).await.hears(heard).await;
        }
        let mut resumed = world.client(after(5)).await;
        world.put(&pod("d").data(1)).await;
        resumed.hears("MODIFIED d=1@6").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_while_the_cache_is_filled_anew_is_over_at_once() {
    let world = World::abc().await;
    let request = WatchRequest::from(from_state(Position::At(version(5))));
    let opening = tokio::spawn({
        let cacher = world.cacher.clone();
        async move { cacher.watch("/pods", request).await }
    });
    pass(0.1).await;
    // The list reaches what the watch waits for, but the cache does not become ready.
    world.gate.stall(Call::Watch);
    world.gate.end_watch(Some(expired()));
    world.behind().put(&pod("d")).await;
    let watch = opening.await.unwrap().expect("the stream begins");
    assert!(!world.cacher.is_ready());
    Client::new(watch).hears("END").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_waits_while_the_cache_is_filled_anew_gets_the_new_state() {
    for at in [ListAt::NotOlderThan(version(5)), ListAt::MostRecent] {
        let world = World::abc().await;
        world.gate.hold();
        world.put(&pod("d")).await;
        let filling_anew = async {
            world.gate.end_watch(Some(expired()));
            world.gate.release();
        };
        let (list, ()) = tokio::join!(timed(world.lists(list_at(at))), filling_anew);
        assert_eq!(list, ("a b c d @5".to_owned(), 0.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_cannot_be_filled_tries_again_and_counts_when_it_is() {
    let gate = Gate::near();
    gate.fail(Call::Range, refused);
    let world = World::begin(gate, CacherOptions::default());
    pass(300.0).await;
    let attempts = world.gate.calls(Call::Range);
    assert!((10..=20).contains(&attempts), "{attempts} attempts in five minutes");
    assert_eq!(world.fillings(), 0.0);
    world.gate.heal(Call::Range);
    world.cacher.until_ready().await;
    assert_eq!(world.fillings(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_storage_advance_the_cache_and_reach_no_client() {
    let world = World::far_abc().await;
    let progress = WatchRequest { progress: true, ..WatchRequest::from(after(4)) };
    let mut told = world.client_of("/pods", progress).await;
    let mut untold = world.client(after(4)).await;
    world.write_elsewhere().await;
    world.gate.inner.request_progress().await.unwrap();
    let reached = || world.metric("apiserver_watch_cache_resource_version", &[]);
    until("the cache is where storage is", || reached() == 5.0).await;
    assert_eq!(world.lists(list_at(ListAt::Any)).await, "a b c @5");
    told.hears_nothing_for(50).await;
    untold.hears_nothing_for(1).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_cache_ends_its_watches() {
    let world = World::abc().await;
    let (mut live, mut idle) = (world.client(after(4)).await, world.client(after(4)).await);
    world.put(&pod("a").data(1)).await;
    idle.hears("MODIFIED a=1@5").await;
    drop(world);
    live.hears("MODIFIED a=1@5; END").await;
    idle.hears("END").await;
}

/// Opens a store. The tasks of a cache that had it before may still be about to let go of it.
async fn open(directory: &Path) -> Arc<dyn Backend> {
    loop {
        match Embedded::open(directory, EmbeddedOptions::default()) {
            Ok(store) => return Arc::new(store),
            Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("the store opens: {error}"),
        }
    }
}

/// In real time: the disk takes some.
#[tokio::test]
async fn after_a_restart_watches_resume_from_the_history_that_storage_has() {
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
    let world = World::over(Gate::over(backend), CacherOptions::default()).await;
    let mut resumed = world.client(after(2)).await;
    resumed.hears("ADDED b@3; MODIFIED a=1@4; DELETED b@5").await;
    world.put(&pod("a").data(2)).await;
    resumed.hears("MODIFIED a=2@6").await;
    assert_eq!(world.lists(list_at(ListAt::Exact(version(3)))).await, "a b @3");
    let now = WatchStart::InitialEvents { position: Position::Any, end_bookmark: true };
    world.client(now).await.hears("ADDED a=2@6; STATE END @6").await;
}
