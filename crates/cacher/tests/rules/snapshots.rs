//! Earlier states: for how long the cache can restore them, and when it does not trust them.

use super::{
    controlled_backend::{Call, ControlledBackend},
    test_cache::{TestCache, describe_object, list_at, sleep_for, unreachable, version, wait_until},
};
use keepwatch_apimachinery::list_options::ListAt;
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{ExpiredRead, ListRequest, Storage, StorageError, testing::pod};

fn checks(cache: &TestCache) -> [f64; 3] {
    ["success", "failure", "error"]
        .map(|status| cache.metric("apiserver_storage_consistency_checks_total", &[("status", status)]))
}

/// Whether an earlier state comes from the cache or from storage.
async fn source_of_earlier_state(cache: &TestCache) -> &'static str {
    let (list, calls) = cache.calls_during(cache.list_names(list_at(ListAt::Exact(version(3))))).await;
    assert_eq!(list, "a b @3");
    if calls.is_empty() { "cache" } else { "storage" }
}

#[tokio::test(start_paused = true)]
async fn a_list_between_two_changes_shows_the_earlier_state_at_the_requested_revision() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        for _ in 5..=8 {
            cache.write_elsewhere().await;
        }
        cache.create(&pod("d")).await;
        cache.caught_up().await;
        for (revision, list) in [(4, "a b c @4"), (6, "a b c @6"), (8, "a b c @8"), (9, "a b c d @9")] {
            let exact = list_at(ListAt::Exact(version(revision)));
            let (found, calls) = cache.calls_during(cache.list_names(exact)).await;
            assert_eq!((found.as_str(), calls.as_str()), (list, ""));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_state_has_its_own_values() {
    let cache = TestCache::abc().await;
    cache.put(&pod("a").data(1)).await;
    cache.delete(&pod("b")).await;
    cache.create(&pod("b").data(2)).await;
    cache.caught_up().await;
    for (revision, state) in
        [(4, "a@2 b@3 c@4"), (5, "a=1@5 b@3 c@4"), (6, "a=1@5 c@4"), (7, "a=1@5 b=2@7 c@4")]
    {
        let exact = list_at(ListAt::Exact(version(revision)));
        let list = cache.cacher.get_list("/pods", exact).await.unwrap();
        let found: Vec<_> = list.items.iter().map(describe_object).collect();
        assert_eq!(found.join(" "), state, "at {revision}");
    }
    assert_eq!(cache.backend.calls(Call::Range), 1);
}

#[tokio::test(start_paused = true)]
async fn states_older_than_the_history_come_from_storage() {
    let options = CacherOptions { history_bytes_max: 10 * 384, ..CacherOptions::default() };
    let cache = TestCache::ready(ControlledBackend::in_memory(), options).await.create_abc().await;
    assert_eq!(source_of_earlier_state(&cache).await, "cache");
    for data in 1..=50 {
        cache.put(&pod("a").data(data)).await;
    }
    cache.caught_up().await;
    assert_eq!(source_of_earlier_state(&cache).await, "storage");
}

#[tokio::test(start_paused = true)]
async fn states_before_a_relist_come_from_storage() {
    let cache = TestCache::abc().await;
    cache.backend.end_watch(Some(StorageError::Expired(ExpiredRead::Watch)));
    wait_until("the cache relists", || cache.initializations() == 2.0 && cache.cacher.is_ready()).await;
    assert_eq!(source_of_earlier_state(&cache).await, "storage");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_finds_no_difference_succeeds() {
    for cache in [TestCache::abc().await, TestCache::abc_without_frontier().await] {
        cache.cacher.check_consistency().await;
        assert_eq!(checks(&cache), [1.0, 0.0, 0.0]);
        assert_eq!(source_of_earlier_state(&cache).await, "cache");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_of_a_lagging_cache_compares_its_own_revision() {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache.create(&pod("d")).await;
    cache.cacher.check_consistency().await;
    assert_eq!(checks(&cache), [1.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_check_earlier_states_come_from_storage_until_a_check_succeeds() {
    let cache = TestCache::abc().await;
    cache.backend.omit_last_object(true);
    cache.cacher.check_consistency().await;
    cache.backend.omit_last_object(false);
    assert_eq!(checks(&cache), [0.0, 1.0, 0.0]);
    assert_eq!(source_of_earlier_state(&cache).await, "storage");
    let page = ListRequest { limit: Some(1), ..ListRequest::all() };
    let token = cache.cacher.get_list("/pods", page).await.unwrap().next.unwrap();
    let (rest, calls) = cache.calls_during(cache.list_names(list_at(ListAt::Continue(token)))).await;
    assert_eq!((rest.as_str(), calls.as_str()), ("b c @4", "Range 1"));
    // The current state still comes from the cache.
    let (list, calls) = cache.calls_during(cache.list_names(ListRequest::all())).await;
    assert_eq!((list.as_str(), calls.as_str()), ("a b c @4", ""));

    cache.cacher.check_consistency().await;
    assert_eq!(checks(&cache), [1.0, 1.0, 0.0]);
    assert_eq!(source_of_earlier_state(&cache).await, "cache");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_cannot_read_storage_changes_nothing() {
    let cache = TestCache::abc().await;
    cache.backend.fail(Call::Range, unreachable);
    cache.cacher.check_consistency().await;
    cache.backend.recover(Call::Range);
    assert_eq!(checks(&cache), [0.0, 0.0, 1.0]);
    assert_eq!(source_of_earlier_state(&cache).await, "cache");
}

#[tokio::test(start_paused = true)]
async fn the_cache_checks_itself_every_five_to_seven_and_a_half_minutes() {
    let cache = TestCache::abc().await;
    sleep_for(299.0).await;
    assert_eq!(checks(&cache), [0.0, 0.0, 0.0]);
    for checked in 1..=10 {
        sleep_for(if checked == 1 { 152.0 } else { 451.0 }).await;
        let [success, failure, error] = checks(&cache);
        assert!(
            success >= f64::from(checked) && success <= f64::from(checked) * 1.6,
            "{success} of {checked}"
        );
        assert_eq!((failure, error), (0.0, 0.0));
    }
}
