//! What a watcher is told of a change, and which changes meet which watchers.

use super::{
    gate::Gate,
    world::{Client, World, after, from_state},
};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    Predicate, WatchRequest,
    testing::{fields, labels, pod},
};

const STATE: WatchStart = WatchStart::InitialEvents { position: Position::MostRecent, end_bookmark: false };

/// The watches of one selector: one that is open while everything happens, and one that comes later.
async fn check(predicate: Predicate, happen: impl AsyncFn(&World), heard: &str) {
    let world = World::abc().await;
    let request = || WatchRequest { predicate: predicate.clone(), ..WatchRequest::from(after(4)) };
    let mut live = world.client_of("/pods", request()).await;
    happen(&world).await;
    world.caught_up().await;
    let mut late = world.client_of("/pods", request()).await;
    for client in [&mut live, &mut late] {
        if !heard.is_empty() {
            client.hears(heard).await;
        }
        client.hears_nothing_for(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_created_in_view_is_added() {
    check(labels("l=1"), async |world| drop(world.create(&pod("x").label("l", "1")).await), "ADDED x@5")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_created_out_of_view_is_not_told() {
    check(labels("l=1"), async |world| drop(world.create(&pod("x")).await), "").await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stays_in_view_is_modified_and_one_that_leaves_is_deleted_as_it_was() {
    let happen = async |world: &World| {
        world.create(&pod("x").label("l", "1").data(1)).await;
        world.put(&pod("x").label("l", "1").data(2)).await;
        world.put(&pod("x").data(3)).await;
        world.put(&pod("x").data(4)).await;
        world.put(&pod("x").label("l", "1").data(5)).await;
        world.delete(&pod("x")).await;
    };
    let heard = "ADDED x=1@5; MODIFIED x=2@6; DELETED x=2@7; ADDED x=5@9; DELETED x=5@10";
    check(labels("l=1"), happen, heard).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_out_of_view_is_not_told() {
    check(labels("l=1"), async |world| drop(world.delete(&pod("a")).await), "").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_selector_everything_is_told() {
    let happen = async |world: &World| {
        world.put(&pod("a").data(1)).await;
        world.delete(&pod("a")).await;
        world.create(&pod("a")).await;
    };
    check(Predicate::everything(), happen, "MODIFIED a=1@5; DELETED a=1@6; ADDED a@7").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_by_node_sees_pods_come_and_go() {
    for indexed_fields in [&[][..], &["spec.nodeName"]] {
        let options = CacherOptions { indexed_fields, ..CacherOptions::default() };
        let world = World::over(Gate::near(), options).await;
        world.create(&pod("p1").node("x")).await;
        world.create(&pod("p2").node("y")).await;
        let by_node = WatchRequest { predicate: fields("spec.nodeName=x"), ..WatchRequest::from(STATE) };
        let mut client = world.client_of("/pods", by_node).await;
        client.hears("ADDED p1@2").await;
        world.create(&pod("p3")).await;
        world.put(&pod("p2").node("y").data(1)).await;
        client.hears_nothing_for(1).await;
        world.put(&pod("p3").node("x")).await;
        client.hears("ADDED p3@6").await;
        world.put(&pod("p3").node("y")).await;
        client.hears("DELETED p3@7").await;
        world.delete(&pod("p1")).await;
        client.hears("DELETED p1@8").await;
        client.hears_nothing_for(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_excludes_a_node_sees_all_others() {
    let happen = async |world: &World| {
        world.create(&pod("x").node("x")).await;
        world.create(&pod("y").node("y")).await;
        world.put(&pod("x")).await;
    };
    check(fields("spec.nodeName!=x"), happen, "ADDED y@6; ADDED x@7").await;
}

#[tokio::test(start_paused = true)]
async fn every_watcher_hears_of_its_own_scope_and_of_nothing_else() {
    let world = World::abc().await;
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
    for (key, request, heard) in scopes {
        clients.push((world.client_of(key, request).await, heard));
    }
    for written in [pod("x"), pod("y"), pod("x").in_namespace("ns2")] {
        world.create(&written).await;
    }
    for (client, heard) in &mut clients {
        if !heard.is_empty() {
            client.hears(heard).await;
        }
        client.hears_nothing_for(1).await;
    }
    assert_eq!(world.cacher.watcher_count(), clients.len());
    drop(clients);
    assert_eq!(world.cacher.watcher_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn from_whatever_revision_was_heard_a_watch_resumes_without_gap_or_repetition() {
    let world = World::abc().await;
    let mut whole = world.client(from_state(Position::Any)).await;
    for data in 1..=3 {
        world.put(&pod("a").data(data)).await;
    }
    world.delete(&pod("b")).await;
    whole.hears("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
    let rest = ["MODIFIED a=1@5", "MODIFIED a=2@6", "MODIFIED a=3@7", "DELETED b@8"];
    whole.hears(&rest.join("; ")).await;
    for (heard, revision) in (4..=7).enumerate() {
        let mut resumed = world.client(after(revision)).await;
        resumed.hears(&rest[heard..].join("; ")).await;
        resumed.hears_nothing_for(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_way_back_is_told_completely_and_in_order() {
    let world = World::abc().await;
    for data in 1..=1000 {
        world.put(&pod("a").data(data)).await;
    }
    let mut client = world.client(after(4)).await;
    for data in 1..=1000 {
        client.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    client.hears_nothing_for(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_cleanly_when_its_time_is_up_and_lets_go_of_its_place() {
    let world = World::abc().await;
    let request =
        WatchRequest { timeout: Some(std::time::Duration::from_secs(5)), ..WatchRequest::from(after(3)) };
    let mut client = world.client_of("/pods", request).await;
    assert_eq!(client.hears_within(60).await, "0s ADDED c@4; 5s END");
    drop(client);
    assert_eq!(world.cacher.watcher_count(), 0);
}
