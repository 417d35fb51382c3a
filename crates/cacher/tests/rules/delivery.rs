//! Which event a watcher receives for a change, and which changes are dispatched to which watchers.

use super::{
    controlled_backend::ControlledBackend,
    test_cache::{Client, TestCache, after, initial_events},
};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    Predicate, WatchRequest,
    testing::{fields, labels, pod},
};

const STATE: WatchStart = WatchStart::InitialEvents { position: Position::MostRecent, end_bookmark: false };

/// Compares the events of two watches with a selector: one that is open during the changes, and one that starts later.
async fn check(predicate: Predicate, changes: impl AsyncFn(&TestCache), received: &str) {
    let cache = TestCache::abc().await;
    let request = || WatchRequest { predicate: predicate.clone(), ..WatchRequest::from(after(4)) };
    let mut live = cache.client_of("/pods", request()).await;
    changes(&cache).await;
    cache.caught_up().await;
    let mut late = cache.client_of("/pods", request()).await;
    for client in [&mut live, &mut late] {
        if !received.is_empty() {
            client.receives(received).await;
        }
        client.receives_nothing_for(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_created_in_the_selector_is_added() {
    check(labels("l=1"), async |cache| drop(cache.create(&pod("x").label("l", "1")).await), "ADDED x@5")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_created_outside_the_selector_is_not_delivered() {
    check(labels("l=1"), async |cache| drop(cache.create(&pod("x")).await), "").await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stays_is_modified_and_one_that_leaves_the_selector_is_deleted_with_its_old_value() {
    let changes = async |cache: &TestCache| {
        cache.create(&pod("x").label("l", "1").data(1)).await;
        cache.put(&pod("x").label("l", "1").data(2)).await;
        cache.put(&pod("x").data(3)).await;
        cache.put(&pod("x").data(4)).await;
        cache.put(&pod("x").label("l", "1").data(5)).await;
        cache.delete(&pod("x")).await;
    };
    let received = "ADDED x=1@5; MODIFIED x=2@6; DELETED x=2@7; ADDED x=5@9; DELETED x=5@10";
    check(labels("l=1"), changes, received).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_outside_the_selector_is_not_delivered() {
    check(labels("l=1"), async |cache| drop(cache.delete(&pod("a")).await), "").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_selector_every_change_is_delivered() {
    let changes = async |cache: &TestCache| {
        cache.put(&pod("a").data(1)).await;
        cache.delete(&pod("a")).await;
        cache.create(&pod("a")).await;
    };
    check(Predicate::everything(), changes, "MODIFIED a=1@5; DELETED a=1@6; ADDED a@7").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_by_node_receives_pods_that_enter_and_leave_the_node() {
    for indexed_fields in [vec![], vec!["spec.nodeName".into()]] {
        let options = CacherOptions { indexed_fields, ..CacherOptions::default() };
        let cache = TestCache::ready(ControlledBackend::in_memory(), options).await;
        cache.create(&pod("p1").node("x")).await;
        cache.create(&pod("p2").node("y")).await;
        let by_node = WatchRequest { predicate: fields("spec.nodeName=x"), ..WatchRequest::from(STATE) };
        let mut client = cache.client_of("/pods", by_node).await;
        client.receives("ADDED p1@2").await;
        cache.create(&pod("p3")).await;
        cache.put(&pod("p2").node("y").data(1)).await;
        client.receives_nothing_for(1).await;
        cache.put(&pod("p3").node("x")).await;
        client.receives("ADDED p3@6").await;
        cache.put(&pod("p3").node("y")).await;
        client.receives("DELETED p3@7").await;
        cache.delete(&pod("p1")).await;
        client.receives("DELETED p1@8").await;
        client.receives_nothing_for(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_excludes_a_node_receives_all_others() {
    let changes = async |cache: &TestCache| {
        cache.create(&pod("x").node("x")).await;
        cache.create(&pod("y").node("y")).await;
        cache.put(&pod("x")).await;
    };
    check(fields("spec.nodeName!=x"), changes, "ADDED y@6; ADDED x@7").await;
}

#[tokio::test(start_paused = true)]
async fn every_watcher_receives_the_events_of_its_own_scope_only() {
    let cache = TestCache::abc().await;
    let all = || WatchRequest::from(after(4));
    let one = || WatchRequest { recursive: false, ..all() };
    let by = |selector: &str| WatchRequest { predicate: fields(selector), ..all() };
    let scopes = [
        ("/pods", all(), "ADDED x@5; ADDED y@6; ADDED x@7"),
        ("/pods/ns", all(), "ADDED x@5; ADDED y@6"),
        ("/pods/ns2", all(), "ADDED x@7"),
        ("/pods/ns/x", one(), "ADDED x@5"),
        ("/pods/ns2/y", one(), ""),
        ("/pods", by("metadata.name=x"), "ADDED x@5; ADDED x@7"),
        ("/pods", by("metadata.namespace=ns"), "ADDED x@5; ADDED y@6"),
        ("/pods", by("metadata.namespace=ns2,metadata.name=x"), "ADDED x@7"),
        ("/pods/ns", by("metadata.name=y"), "ADDED y@6"),
        ("/pods/ns", by("metadata.namespace=ns2"), ""),
    ];
    let mut clients: Vec<(Client, &str)> = Vec::new();
    for (key, request, received) in scopes {
        clients.push((cache.client_of(key, request).await, received));
    }
    for written in [pod("x"), pod("y"), pod("x").in_namespace("ns2")] {
        cache.create(&written).await;
    }
    for (client, received) in &mut clients {
        if !received.is_empty() {
            client.receives(received).await;
        }
        client.receives_nothing_for(1).await;
    }
    assert_eq!(cache.cacher.watcher_count(), clients.len());
    drop(clients);
    assert_eq!(cache.cacher.watcher_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_from_any_delivered_revision_without_gap_or_repetition() {
    let cache = TestCache::abc().await;
    let mut whole = cache.client(initial_events(Position::Any)).await;
    for data in 1..=3 {
        cache.put(&pod("a").data(data)).await;
    }
    cache.delete(&pod("b")).await;
    whole.receives("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
    let rest = ["MODIFIED a=1@5", "MODIFIED a=2@6", "MODIFIED a=3@7", "DELETED b@8"];
    whole.receives(&rest.join("; ")).await;
    for (received, revision) in (4..=7).enumerate() {
        let mut resumed = cache.client(after(revision)).await;
        resumed.receives(&rest[received..].join("; ")).await;
        resumed.receives_nothing_for(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_history_is_delivered_completely_and_in_order() {
    let cache = TestCache::abc().await;
    for data in 1..=1000 {
        cache.put(&pod("a").data(data)).await;
    }
    let mut client = cache.client(after(4)).await;
    for data in 1..=1000 {
        client.receives(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    client.receives_nothing_for(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_cleanly_at_its_timeout_and_is_removed() {
    let cache = TestCache::abc().await;
    let request =
        WatchRequest { timeout: Some(std::time::Duration::from_secs(5)), ..WatchRequest::from(after(3)) };
    let mut client = cache.client_of("/pods", request).await;
    assert_eq!(client.receives_within(60).await, "0s ADDED c@4; 5s END");
    drop(client);
    assert_eq!(cache.cacher.watcher_count(), 0);
}
