//! When a watcher is told how far it is.

use super::world::{Client, World, after, from_state, pass};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_storage::{WatchRequest, testing::pod};
use std::time::Duration;

/// A watch of the pods in `ns` that allows bookmarks, for so many seconds if it says so.
async fn client(world: &World, start: WatchStart, seconds: Option<f64>) -> Client {
    let timeout = seconds.map(Duration::from_secs_f64);
    let request = WatchRequest { progress: true, timeout, ..WatchRequest::from(start) };
    world.client_of("/pods/ns", request).await
}

/// Something changes at 5 that the watch does not show.
async fn write_out_of_view(world: &World) {
    world.create(&pod("x").in_namespace("ns2")).await;
}

#[tokio::test(start_paused = true)]
async fn about_every_minute_a_bookmark_tells_how_far_the_watch_is() {
    for world in [World::abc().await, World::far_abc().await] {
        let mut client = client(&world, after(4), None).await;
        write_out_of_view(&world).await;
        let heard = client.hears_within(185).await;
        assert_eq!(heard, "60s BOOKMARK @5; 120s BOOKMARK @5; 180s BOOKMARK @5");
    }
}

#[tokio::test(start_paused = true)]
async fn two_seconds_before_the_end_there_is_a_last_bookmark() {
    for (seconds, heard) in [
        (3.0, "1s BOOKMARK @5; 3s END"),
        (59.0, "57s BOOKMARK @5; 59s END"),
        (100.0, "60s BOOKMARK @5; 98s BOOKMARK @5; 100s END"),
    ] {
        let world = World::abc().await;
        let mut client = client(&world, after(4), Some(seconds)).await;
        write_out_of_view(&world).await;
        assert_eq!(client.hears_within(200).await, heard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_within_two_seconds_has_no_bookmark() {
    for seconds in [0.5, 1.9] {
        let world = World::abc().await;
        let mut client = client(&world, after(4), Some(seconds)).await;
        write_out_of_view(&world).await;
        client.hears("END").await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_allow_bookmarks_gets_none() {
    let world = World::abc().await;
    let request = WatchRequest { timeout: Some(Duration::from_secs(200)), ..WatchRequest::from(after(4)) };
    let mut client = world.client_of("/pods/ns", request).await;
    write_out_of_view(&world).await;
    assert_eq!(client.hears_within(300).await, "200s END");
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_newer_than_the_start_there_is_no_bookmark() {
    let world = World::abc().await;
    for start in [after(4), after(1000), from_state(Position::Any)] {
        let mut client = client(&world, start, Some(200.0)).await;
        let heard = client.hears_within(300).await;
        assert!(!heard.contains("BOOKMARK") && heard.ends_with("200s END"), "{start:?}: {heard}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_to_other_resources_is_told_where_that_is_known() {
    let world = World::abc().await;
    let mut client = client(&world, after(4), None).await;
    world.write_elsewhere().await;
    assert_eq!(client.hears_within(61).await, "60s BOOKMARK @5");
}

#[tokio::test(start_paused = true)]
async fn what_is_written_to_other_resources_is_told_elsewhere_once_storage_has_told_it() {
    let world = World::far_abc().await;
    let mut client = client(&world, after(4), None).await;
    world.write_elsewhere().await;
    assert_eq!(client.hears_within(70).await, "");
    world.gate.inner.request_progress().await.unwrap();
    assert_eq!(client.hears_within(125).await, "120s BOOKMARK @5");
}

#[tokio::test(start_paused = true)]
async fn only_the_bookmark_after_the_state_is_marked() {
    let world = World::abc().await;
    let mut client = client(&world, from_state(Position::Any), None).await;
    write_out_of_view(&world).await;
    let heard = client.hears_within(125).await;
    let state = "0s ADDED a@2; 0s ADDED b@3; 0s ADDED c@4; 0s STATE END @4";
    assert_eq!(heard, format!("{state}; 60s BOOKMARK @5; 120s BOOKMARK @5"));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_comes_after_everything_up_to_it() {
    let world = World::abc().await;
    let mut client = client(&world, after(4), None).await;
    pass(59.9).await;
    for data in 1..=3 {
        world.put(&pod("a").data(data)).await;
    }
    pass(0.2).await;
    world.put(&pod("a").data(4)).await;
    client.hears("MODIFIED a=1@5; MODIFIED a=2@6; MODIFIED a=3@7; BOOKMARK @7; MODIFIED a=4@8").await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stopped_hears_on_its_way_how_far_it_is() {
    let world = World::abc().await;
    let mut client = client(&world, after(4), None).await;
    for data in 1..=300 {
        world.put(&pod("a").data(data)).await;
    }
    pass(200.0).await;
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != "BOOKMARK @304") {
        heard.push(client.next().await);
    }
    // One that was due while it was not there, with what it has heard by then, and the next when that is due.
    let (bookmarks, changes): (Vec<_>, Vec<_>) = heard.iter().partition(|heard| heard.starts_with("BOOK"));
    assert_eq!((bookmarks.len(), changes.len()), (2, 300));
    let at = heard.iter().position(|heard| heard == bookmarks[0]).unwrap();
    assert_eq!(*bookmarks[0], format!("BOOKMARK @{}", at + 4));
}
