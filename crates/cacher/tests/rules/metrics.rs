//! The metrics of the cache, under the names that kube-apiserver uses for them.

use super::test_cache::{TestCache, after, initial_events, sleep_for};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::{ListRequest, testing::pod};

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_and_labels_of_kubernetes() {
    let cache = TestCache::abc().await;
    cache.list_names(ListRequest::all()).await;
    cache.cacher.check_consistency().await;
    let expected = [
        "apiserver_cache_list_fetched_objects_total{group,index,resource}",
        "apiserver_cache_list_returned_objects_total{group,resource}",
        "apiserver_cache_list_total{group,index,resource}",
        "apiserver_init_events_total{group,resource}",
        "apiserver_resource_objects{group,resource}",
        "apiserver_resource_size_estimate_bytes{group,resource}",
        "apiserver_storage_consistency_checks_total{group,resource,status}",
        "apiserver_storage_objects{resource}",
        "apiserver_terminated_watchers_total{group,resource}",
        "apiserver_watch_cache_consistent_read_total{fallback,group,resource,success}",
        "apiserver_watch_cache_events_dispatched_total{group,resource}",
        "apiserver_watch_cache_events_received_total{group,resource}",
        "apiserver_watch_cache_initializations_total{group,resource}",
        "apiserver_watch_cache_read_wait_seconds{group,resource}",
        "apiserver_watch_cache_resource_version{group,resource}",
        "keepwatch_watch_cache_history_reads_total{group,resource}",
        "watch_cache_capacity_decrease_total{group,resource}",
        "watch_cache_capacity_increase_total{group,resource}",
        "watch_cache_capacity{group,resource}",
    ];
    let mut names = cache.metric_names();
    names.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(names, expected);
}

#[tokio::test(start_paused = true)]
async fn every_metric_is_labelled_with_the_resource() {
    let cache = TestCache::abc().await;
    let labels = [("group", ""), ("resource", "pods")];
    assert_eq!(cache.metric("watch_cache_capacity", &labels), 100.0);
    assert_eq!(cache.metric("apiserver_watch_cache_resource_version", &labels), 4.0);
    assert_eq!(cache.metric("apiserver_watch_cache_initializations_total", &labels), 1.0);
}

#[tokio::test(start_paused = true)]
async fn events_are_counted_and_bookmarks_of_storage_only_as_dispatched() {
    let cache = TestCache::abc_without_frontier().await;
    let counts = || {
        ["received", "dispatched"]
            .map(|what| cache.metric(&format!("apiserver_watch_cache_events_{what}_total"), &[]))
    };
    let [received, dispatched] = counts();
    cache.create(&pod("d")).await;
    cache.delete(&pod("d")).await;
    // A waiting read makes the cache request progress from storage.
    cache.write_elsewhere().await;
    cache.caught_up().await;
    let [received, dispatched] = [counts()[0] - received, counts()[1] - dispatched];
    assert_eq!(received, 2.0);
    assert!(dispatched > received, "{dispatched}");
}

#[tokio::test(start_paused = true)]
async fn the_capacity_of_the_history_is_a_metric() {
    let cache = TestCache::empty().await;
    for data in 1..=450 {
        cache.put(&pod("a").data(data)).await;
    }
    cache.caught_up().await;
    assert_eq!(cache.metric("watch_cache_capacity", &[]), 800.0);
    assert_eq!(cache.metric("watch_cache_capacity_increase_total", &[]), 3.0);
    // No event is fresh any more, so that the next one makes the history remove half of them.
    sleep_for(80.0).await;
    for data in 1..=351 {
        cache.put(&pod("a").data(-data)).await;
        sleep_for(100.0).await;
    }
    cache.caught_up().await;
    assert_eq!(cache.metric("watch_cache_capacity_decrease_total", &[]), 1.0);
    assert_eq!(cache.metric("watch_cache_capacity", &[]), 400.0);
}

#[tokio::test(start_paused = true)]
async fn initial_events_of_a_watch_are_counted() {
    let cache = TestCache::abc().await;
    let count = || cache.metric("apiserver_init_events_total", &[]);
    cache
        .client(initial_events(Position::Any))
        .await
        .receives("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4")
        .await;
    assert_eq!(count(), 3.0);
    let mut resumed = cache.client(after(3)).await;
    resumed.receives("ADDED c@4").await;
    assert_eq!(count(), 4.0);
    cache.create(&pod("d")).await;
    resumed.receives("ADDED d@5").await;
    assert_eq!(count(), 4.0);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_resource_are_a_metric() {
    let cache = TestCache::abc().await;
    let held = || {
        ["objects", "size_estimate_bytes"]
            .map(|what| cache.metric(&format!("apiserver_resource_{what}"), &[]))
    };
    let [objects, bytes] = held();
    assert_eq!((objects, bytes), (3.0, 3.0 * pod("a").value().len() as f64));
    assert_eq!(cache.metric("apiserver_storage_objects", &[("resource", "pods")]), 3.0);
    cache.delete(&pod("a")).await;
    cache.put(&pod("b").data(1000)).await;
    cache.caught_up().await;
    let left = pod("b").data(1000).value().len() + pod("c").value().len();
    assert_eq!(held(), [2.0, left as f64]);
}
