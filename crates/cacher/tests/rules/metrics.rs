//! What the cache counts, under the names that kube-apiserver has for it.

use super::world::{World, after, from_state, pass};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::{ListRequest, testing::pod};

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_and_labels_of_kubernetes() {
    let world = World::abc().await;
    world.lists(ListRequest::all()).await;
    world.cacher.check_consistency().await;
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
    let mut names = world.metric_names();
    names.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(names, expected);
}

#[tokio::test(start_paused = true)]
async fn every_metric_is_labelled_with_the_resource() {
    let world = World::abc().await;
    let labels = [("group", ""), ("resource", "pods")];
    assert_eq!(world.metric("watch_cache_capacity", &labels), 100.0);
    assert_eq!(world.metric("apiserver_watch_cache_resource_version", &labels), 4.0);
    assert_eq!(world.metric("apiserver_watch_cache_initializations_total", &labels), 1.0);
}

#[tokio::test(start_paused = true)]
async fn events_are_counted_as_they_come_and_bookmarks_of_storage_as_dispatched_only() {
    let world = World::far_abc().await;
    let counts = || {
        ["received", "dispatched"]
            .map(|what| world.metric(&format!("apiserver_watch_cache_events_{what}_total"), &[]))
    };
    let [received, dispatched] = counts();
    world.create(&pod("d")).await;
    world.delete(&pod("d")).await;
    // Who waits has storage tell how far it is.
    world.write_elsewhere().await;
    world.caught_up().await;
    let [received, dispatched] = [counts()[0] - received, counts()[1] - dispatched];
    assert_eq!(received, 2.0);
    assert!(dispatched > received, "{dispatched}");
}

#[tokio::test(start_paused = true)]
async fn the_capacity_of_the_history_is_told_as_it_grows() {
    let world = World::empty().await;
    for data in 1..=450 {
        world.put(&pod("a").data(data)).await;
    }
    world.caught_up().await;
    assert_eq!(world.metric("watch_cache_capacity", &[]), 800.0);
    assert_eq!(world.metric("watch_cache_capacity_increase_total", &[]), 3.0);
    // Nothing is fresh any more, so that the next event lets half of them go.
    pass(80.0).await;
    for data in 1..=351 {
        world.put(&pod("a").data(-data)).await;
        pass(100.0).await;
    }
    world.caught_up().await;
    assert_eq!(world.metric("watch_cache_capacity_decrease_total", &[]), 1.0);
    assert_eq!(world.metric("watch_cache_capacity", &[]), 400.0);
}

#[tokio::test(start_paused = true)]
async fn events_that_were_there_before_a_watch_began_are_counted() {
    let world = World::abc().await;
    let count = || world.metric("apiserver_init_events_total", &[]);
    world
        .client(from_state(Position::Any))
        .await
        .hears("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4")
        .await;
    assert_eq!(count(), 3.0);
    let mut resumed = world.client(after(3)).await;
    resumed.hears("ADDED c@4").await;
    assert_eq!(count(), 4.0);
    world.create(&pod("d")).await;
    resumed.hears("ADDED d@5").await;
    assert_eq!(count(), 4.0);
}

#[tokio::test(start_paused = true)]
async fn what_there_is_of_a_resource_is_told_as_it_changes() {
    let world = World::abc().await;
    let held = || {
        ["objects", "size_estimate_bytes"]
            .map(|what| world.metric(&format!("apiserver_resource_{what}"), &[]))
    };
    let [objects, bytes] = held();
    assert_eq!((objects, bytes), (3.0, 3.0 * pod("a").value().len() as f64));
    assert_eq!(world.metric("apiserver_storage_objects", &[("resource", "pods")]), 3.0);
    world.delete(&pod("a")).await;
    world.put(&pod("b").data(1000)).await;
    world.caught_up().await;
    let left = pod("b").data(1000).value().len() + pod("c").value().len();
    assert_eq!(held(), [2.0, left as f64]);
}
