//! The answers to clients while the cache is not ready.

use super::{
    controlled_backend::{Call, ControlledBackend},
    test_cache::{
        TestCache, after, describe_object, initial_events, list_at, no_leader, sleep_for, version, wait_until,
    },
};
use keepwatch_apimachinery::list_options::{ListAt, Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    ExpiredRead, ListRequest, Storage, StorageError, WatchRequest,
    testing::{Fixture, labels, pod},
};

/// A cache with pods `a`, `b` and `c` that waits in vain for the revision of storage.
async fn unready() -> TestCache {
    let backend = ControlledBackend::in_memory();
    let storage = Fixture::new(backend.inner.clone());
    for name in ["a", "b", "c"] {
        storage.create(&pod(name)).await;
    }
    backend.stall(Call::Revision);
    TestCache::start(backend, CacherOptions::default())
}

/// The message and the retry delay.
fn unready_error<T>(answer: Result<T, StorageError>) -> (String, u32) {
    match answer.map(|_| "an answer") {
        Err(StorageError::Unready { message, retry_after_seconds }) => (message, retry_after_seconds),
        other => panic!("the cache cannot answer, not {other:?}"),
    }
}

fn assert_refused<T>(answer: Result<T, StorageError>) {
    assert_eq!(unready_error(answer), ("storage is (re)initializing".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_from_storage() {
    let cache = unready().await;
    for position in [Position::MostRecent, Position::Any, Position::At(version(4))] {
        let (object, calls) = cache.calls_during(cache.cacher.get("/pods/ns/a", position)).await;
        assert_eq!((describe_object(&object.unwrap().unwrap()).as_str(), calls.as_str()), ("a@2", "Get 1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_without_a_selector_is_read_from_storage() {
    let cache = unready().await;
    for (at, page) in [
        (ListAt::MostRecent, "a b @4"),
        (ListAt::Any, "a b @4"),
        (ListAt::NotOlderThan(version(2)), "a b @4"),
        (ListAt::Exact(version(3)), "a b @3"),
    ] {
        let request = ListRequest { limit: Some(2), ..list_at(at) };
        let (list, calls) = cache.calls_during(cache.list_names(request)).await;
        assert_eq!((list.as_str(), calls.as_str()), (page, "Range 1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_needs_storage_is_read_from_storage() {
    let cache = unready().await;
    let exact = list_at(ListAt::Exact(version(3)));
    assert_eq!(cache.list_names(exact.clone()).await, "a b @3");
    let one = ListRequest { recursive: false, ..exact };
    assert_eq!(cache.cacher.get_list("/pods/ns/a", one).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn any_other_list_is_refused() {
    let cache = unready().await;
    for at in [ListAt::MostRecent, ListAt::Any, ListAt::NotOlderThan(version(2))] {
        let whole = list_at(at);
        let selected = ListRequest { limit: Some(2), predicate: labels("l=1"), ..whole.clone() };
        for request in [whole, selected] {
            let (answer, calls) = cache.calls_during(cache.cacher.get_list("/pods", request)).await;
            assert_refused(answer);
            assert_eq!(calls, "");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_watch_is_refused_before_its_stream() {
    let cache = unready().await;
    for start in
        [after(2), WatchStart::now(), initial_events(Position::Any), initial_events(Position::MostRecent)]
    {
        assert_refused(cache.cacher.watch("/pods", WatchRequest::from(start)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_not_affected() {
    let cache = unready().await;
    assert_eq!(describe_object(&cache.create(&pod("d")).await), "d@5");
    assert_eq!(describe_object(&cache.put(&pod("d").data(1)).await), "d=1@6");
    assert_eq!(describe_object(&cache.delete(&pod("d")).await), "d=1@7");
}

#[tokio::test(start_paused = true)]
async fn the_retry_delay_grows_while_the_cache_is_not_ready() {
    let cache = unready().await;
    let mut now = 0;
    for (seconds, retry) in [(10, 1), (14, 2), (20, 3), (30, 6), (40, 11), (540, 30)] {
        sleep_for(f64::from(seconds - now)).await;
        now = seconds;
        let list = unready_error(cache.cacher.get_list("/pods", ListRequest::all()).await);
        let watch = unready_error(cache.cacher.watch("/pods", WatchRequest::from(after(2))).await);
        assert_eq!((list.1, watch.1), (retry, retry), "after {seconds} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_cause() {
    let backend = ControlledBackend::in_memory();
    backend.fail(Call::Revision, no_leader);
    let cache = TestCache::start(backend, CacherOptions::default());
    sleep_for(14.0).await;
    let error = unready_error(cache.cacher.get_list("/pods", ListRequest::all()).await);
    assert_eq!(error, ("storage is (re)initializing: etcdserver: no leader".to_owned(), 2));
    cache.backend.recover(Call::Revision);
    cache.cacher.until_ready().await;
    assert_eq!(cache.list_names(ListRequest::all()).await, " @1");
}

#[tokio::test(start_paused = true)]
async fn the_retry_delay_starts_again_with_a_relist() {
    let cache = TestCache::abc().await;
    sleep_for(100.0).await;
    cache.backend.stall(Call::Revision);
    cache.backend.end_watch(Some(StorageError::Expired(ExpiredRead::Watch)));
    wait_until("the cache is not ready", || !cache.cacher.is_ready()).await;
    sleep_for(14.5).await;
    let (message, retry) = unready_error(cache.cacher.get_list("/pods", ListRequest::all()).await);
    let why = "The resourceVersion for the provided watch is too old.";
    assert_eq!((message, retry), (format!("storage is (re)initializing: {why}"), 2));
    cache.backend.recover(Call::Revision);
    cache.cacher.until_ready().await;
    assert_eq!(cache.list_names(ListRequest::all()).await, "a b c @4");
}
