//! What clients get while the cache cannot answer.

use super::{
    gate::{Call, Gate},
    world::{World, after, from_state, list_at, named, no_leader, pass, until, version},
};
use keepwatch_apimachinery::list_options::{ListAt, Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    ExpiredRead, ListRequest, Storage, StorageError, WatchRequest,
    testing::{Fixture, labels, pod},
};

/// A cache that waits in vain to hear where storage is, which has pods `a`, `b` and `c`.
async fn unready() -> World {
    let gate = Gate::near();
    let storage = Fixture::new(gate.inner.clone());
    for name in ["a", "b", "c"] {
        storage.create(&pod(name)).await;
    }
    gate.stall(Call::Revision);
    World::begin(gate, CacherOptions::default())
}

/// The message and when to come back.
fn unready_error<T>(answer: Result<T, StorageError>) -> (String, u32) {
    match answer.map(|_| "an answer") {
        Err(StorageError::Unready { message, retry_after_seconds }) => (message, retry_after_seconds),
        other => panic!("the cache cannot answer, not {other:?}"),
    }
}

fn refused<T>(answer: Result<T, StorageError>) {
    assert_eq!(unready_error(answer), ("storage is (re)initializing".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_from_storage() {
    let world = unready().await;
    for position in [Position::MostRecent, Position::Any, Position::At(version(4))] {
        let (object, asked) = world.asked_by(world.cacher.get("/pods/ns/a", position)).await;
        assert_eq!((named(&object.unwrap().unwrap()).as_str(), asked.as_str()), ("a@2", "Get 1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_without_a_selector_is_read_from_storage() {
    let world = unready().await;
    for (at, page) in [
        (ListAt::MostRecent, "a b @4"),
        (ListAt::Any, "a b @4"),
        (ListAt::NotOlderThan(version(2)), "a b @4"),
        (ListAt::Exact(version(3)), "a b @3"),
    ] {
        let request = ListRequest { limit: Some(2), ..list_at(at) };
        let (list, asked) = world.asked_by(world.lists(request)).await;
        assert_eq!((list.as_str(), asked.as_str()), (page, "Range 1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_storage_answers_anyway_is_read_from_there() {
    let world = unready().await;
    let exact = list_at(ListAt::Exact(version(3)));
    assert_eq!(world.lists(exact.clone()).await, "a b @3");
    let one = ListRequest { recursive: false, ..exact };
    assert_eq!(world.cacher.get_list("/pods/ns/a", one).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn any_other_list_is_refused() {
    let world = unready().await;
    for at in [ListAt::MostRecent, ListAt::Any, ListAt::NotOlderThan(version(2))] {
        let whole = list_at(at);
        let selected = ListRequest { limit: Some(2), predicate: labels("l=1"), ..whole.clone() };
        for request in [whole, selected] {
            let (answer, asked) = world.asked_by(world.cacher.get_list("/pods", request)).await;
            refused(answer);
            assert_eq!(asked, "");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_watch_is_refused_before_its_stream() {
    let world = unready().await;
    for start in [after(2), WatchStart::now(), from_state(Position::Any), from_state(Position::MostRecent)] {
        refused(world.cacher.watch("/pods", WatchRequest::from(start)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_not_affected() {
    let world = unready().await;
    assert_eq!(named(&world.create(&pod("d")).await), "d@5");
    assert_eq!(named(&world.put(&pod("d").data(1)).await), "d=1@6");
    assert_eq!(named(&world.delete(&pod("d")).await), "d=1@7");
}

#[tokio::test(start_paused = true)]
async fn the_longer_the_cache_is_not_ready_the_later_clients_come_back() {
    let world = unready().await;
    let mut now = 0;
    for (seconds, retry) in [(10, 1), (14, 2), (20, 3), (30, 6), (40, 11), (540, 30)] {
        pass(f64::from(seconds - now)).await;
        now = seconds;
        let list = unready_error(world.cacher.get_list("/pods", ListRequest::all()).await);
        let watch = unready_error(world.cacher.watch("/pods", WatchRequest::from(after(2))).await);
        assert_eq!((list.1, watch.1), (retry, retry), "after {seconds} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_hear_why() {
    let gate = Gate::near();
    gate.fail(Call::Revision, no_leader);
    let world = World::begin(gate, CacherOptions::default());
    pass(14.0).await;
    let error = unready_error(world.cacher.get_list("/pods", ListRequest::all()).await);
    assert_eq!(error, ("storage is (re)initializing: etcdserver: no leader".to_owned(), 2));
    world.gate.heal(Call::Revision);
    world.cacher.until_ready().await;
    assert_eq!(world.lists(ListRequest::all()).await, " @1");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_filled_anew_counts_from_then() {
    let world = World::abc().await;
    pass(100.0).await;
    world.gate.stall(Call::Revision);
    world.gate.end_watch(Some(StorageError::Expired(ExpiredRead::Watch)));
    until("the cache is not ready", || !world.cacher.is_ready()).await;
    pass(14.5).await;
    let (message, retry) = unready_error(world.cacher.get_list("/pods", ListRequest::all()).await);
    let why = "The resourceVersion for the provided watch is too old.";
    assert_eq!((message, retry), (format!("storage is (re)initializing: {why}"), 2));
    world.gate.heal(Call::Revision);
    world.cacher.until_ready().await;
    assert_eq!(world.lists(ListRequest::all()).await, "a b c @4");
}
