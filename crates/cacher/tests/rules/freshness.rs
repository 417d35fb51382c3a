//! Reads that wait for the cache to become fresh enough.

use super::{
    controlled_backend::Call,
    test_cache::{TestCache, initial_events, list_at, sleep_for, timed, version},
};
use keepwatch_apimachinery::list_options::{ListAt, Position};
use keepwatch_storage::{ListRequest, Storage, StorageError, WatchRequest, testing::pod};

#[tokio::test(start_paused = true)]
async fn a_read_of_a_future_revision_fails_after_three_seconds_with_a_retry_delay_of_one() {
    let cache = TestCache::abc().await;
    let future = version(1_000_004);
    let paged = ListRequest { limit: Some(2), ..list_at(ListAt::NotOlderThan(future)) };
    for request in [list_at(ListAt::NotOlderThan(future)), paged, list_at(ListAt::Exact(future))] {
        let ((list, took), calls) = cache.calls_during(timed(cache.cacher.get_list("/pods", request))).await;
        assert_too_large(list.map(|_| ()), took, &calls);
    }
    let reading = cache.cacher.get("/pods/ns/a", Position::At(future));
    let ((object, took), calls) = cache.calls_during(timed(reading)).await;
    assert_too_large(object.map(|_| ()), took, &calls);
}

fn assert_too_large(read: Result<(), StorageError>, took: f64, calls: &str) {
    let error = read.expect_err("the revision is in the future");
    assert!(matches!(error, StorageError::TooLarge { retry_after_seconds: Some(1), .. }), "{error:?}");
    assert_eq!(error.to_string(), "Timeout: Too large resource version: 1000004, current: 4");
    assert_eq!((took, calls), (3.0, ""));
}

#[tokio::test(start_paused = true)]
async fn a_read_of_any_state_never_waits() {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache.put(&pod("a").data(1)).await;
    let reads = async {
        assert_eq!(cache.list_names(list_at(ListAt::Any)).await, "a b c @4");
        let object = cache.cacher.get("/pods/ns/a", Position::Any).await.unwrap().unwrap();
        assert_eq!(object.revision, version(2));
        cache.client(initial_events(Position::Any)).await.receives("ADDED a@2").await;
    };
    let before = cache.backend.calls(Call::Progress);
    let (((), took), calls) = cache.calls_during(timed(reads)).await;
    assert_eq!((took, calls.as_str(), cache.backend.calls(Call::Progress)), (0.0, "", before));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_read_is_answered_as_soon_as_the_cache_is_fresh() {
    for at in [ListAt::NotOlderThan(version(5)), ListAt::Exact(version(5))] {
        let cache = TestCache::abc().await;
        cache.backend.pause_watches();
        cache.put(&pod("a").data(1)).await;
        let (list, object) =
            (cache.list_names(list_at(at)), cache.cacher.get("/pods/ns/a", Position::At(version(5))));
        let reads = async { tokio::join!(timed(list), timed(object), release(&cache)) };
        let ((list, object, ()), calls) = cache.calls_during(reads).await;
        assert_eq!(list, ("a b c @5".to_owned(), 1.0));
        assert_eq!((object.0.unwrap().unwrap().revision, object.1), (version(5), 1.0));
        assert_eq!(calls, "");
    }
}

async fn release(cache: &TestCache) {
    sleep_for(1.0).await;
    cache.backend.resume_watches();
}

#[tokio::test(start_paused = true)]
async fn a_consistent_read_waits_for_earlier_writes() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        cache.backend.pause_watches();
        cache.put(&pod("a").data(1)).await;
        let (list, ()) = tokio::join!(timed(cache.list_names(ListRequest::all())), release(&cache));
        assert_eq!(list, ("a b c @5".to_owned(), 1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_requested_ten_times_a_second_while_a_read_waits() {
    let cache = TestCache::abc_without_frontier().await;
    cache.backend.pause_watches();
    cache.write_elsewhere().await;
    sleep_for(10.0).await;
    let before = cache.backend.calls(Call::Progress);
    let waiting = || cache.list_names(list_at(ListAt::NotOlderThan(version(5))));
    let lists = tokio::join!(waiting(), waiting());
    assert!(lists.0.starts_with("Timeout: ") && lists.1.starts_with("Timeout: "), "{lists:?}");
    let calls = cache.backend.calls(Call::Progress) - before;
    assert!((30..=31).contains(&calls), "calls {calls} times");
    sleep_for(0.2).await;
    let before = cache.backend.calls(Call::Progress);
    sleep_for(60.0).await;
    assert_eq!(cache.backend.calls(Call::Progress), before, "no read waits");
}

#[tokio::test(start_paused = true)]
async fn an_idle_resource_becomes_fresh_through_progress_requests() {
    let cache = TestCache::abc_without_frontier().await;
    for written in 5..=8 {
        cache.write_elsewhere().await;
        let (list, took) = timed(cache.list_names(ListRequest::all())).await;
        assert_eq!(list, format!("a b c @{written}"));
        assert!(took <= 0.1, "took {took} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_reads_are_counted() {
    let cache = TestCache::abc().await;
    let waits = || cache.metric("apiserver_watch_cache_read_wait_seconds", &[]);
    let before = waits();
    cache.list_names(list_at(ListAt::NotOlderThan(version(5)))).await;
    let request = WatchRequest::from(initial_events(Position::At(version(5))));
    cache.client_of("/pods", request).await;
    assert_eq!(waits() - before, 2.0);
}
