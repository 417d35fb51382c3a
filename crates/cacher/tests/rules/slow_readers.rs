//! Readers that stop: they cost little, delay nobody, and go on where they were as long as that is known.

use super::{
    gate::Gate,
    world::{Client, World, after, from_state, timed, version},
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    WatchRequest,
    testing::{labels, pod},
};

/// Updates `a` so often, and has `reader` hear of each update before the next.
async fn update(world: &World, updates: std::ops::RangeInclusive<i64>, reader: &mut Client) {
    for data in updates {
        world.put(&pod("a").data(data)).await;
        reader.hears(&updated(data)).await;
    }
}

/// How the update of `a` to this is told, if all writes after the first three are updates of it.
fn updated(data: i64) -> String {
    format!("MODIFIED a={data}@{}", data + 4)
}

fn terminated(world: &World) -> f64 {
    world.metric("apiserver_terminated_watchers_total", &[])
}

/// A cache whose history holds about so many updates.
async fn remembering(events: usize) -> World {
    let options = CacherOptions { history_bytes_max: events * 384, ..CacherOptions::default() };
    World::over(Gate::near(), options).await.with_abc().await
}

/// A cache whose history holds about ten.
async fn forgetful() -> World {
    remembering(10).await
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_hears_everything_when_it_reads_on_and_delays_nobody() {
    let world = World::abc().await;
    let (mut stopped, mut reader) = (world.client(after(4)).await, world.client(after(4)).await);
    let ((), took) = timed(update(&world, 1..=2000, &mut reader)).await;
    assert_eq!(took, 0.0);
    for data in 1..=2000 {
        stopped.hears(&updated(data)).await;
    }
    // It is live again.
    update(&world, 2001..=2001, &mut reader).await;
    stopped.hears(&updated(2001)).await;
    assert_eq!(terminated(&world), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_halfway_through_the_state_hears_the_state_it_began_with() {
    let world = World::empty().await;
    for at in 0..500 {
        world.create(&pod(&format!("p{at:03}"))).await;
    }
    let mut stopped = world.client(from_state(Position::MostRecent)).await;
    stopped.hears("ADDED p000@2").await;
    for at in 400..500 {
        world.delete(&pod(&format!("p{at:03}"))).await;
    }
    for at in 1..500 {
        stopped.hears(&format!("ADDED p{at:03}@{}", at + 2)).await;
    }
    stopped.hears("STATE END @501").await;
    for at in 400..500 {
        stopped.hears(&format!("DELETED p{at:03}@{}", at + 102)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_window_has_moved_past_a_reader_it_reads_on_from_storage() {
    let world = forgetful().await;
    let (mut stopped, mut reader) = (world.client(after(4)).await, world.client(after(4)).await);
    update(&world, 1..=3, &mut reader).await;
    stopped.hears(&updated(1)).await;
    let ((), took) = timed(update(&world, 4..=2000, &mut reader)).await;
    assert_eq!(took, 0.0);
    for data in 2..=2000 {
        stopped.hears(&updated(data)).await;
    }
    // It is live again.
    update(&world, 2001..=2001, &mut reader).await;
    stopped.hears(&updated(2001)).await;
    assert_eq!(terminated(&world), 0.0);
}

#[tokio::test(start_paused = true)]
async fn when_compaction_has_passed_a_reader_it_hears_so_once_and_the_watch_ends() {
    let world = forgetful().await;
    let (mut stopped, mut reader) = (world.client(after(4)).await, world.client(after(4)).await);
    update(&world, 1..=300, &mut reader).await;
    world.gate.inner.compact(version(280)).await.unwrap();
    // Whatever it hears it hears in order, and then that the rest is gone.
    let mut data = 0;
    let error = loop {
        let heard = stopped.next().await;
        data += 1;
        if heard != updated(data) {
            break heard;
        }
    };
    assert_eq!(error, format!("ERROR too old resource version: {} (280)", data + 3));
    stopped.hears("END").await;
    assert_eq!(terminated(&world), 1.0);
    update(&world, 301..=301, &mut reader).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_reader_was_given_before_it_stopped_it_still_hears() {
    let world = forgetful().await;
    let (mut stopped, mut reader) = (world.client(after(4)).await, world.client(after(4)).await);
    // So few fit into its inbox, whatever the history has forgotten.
    update(&world, 1..=100, &mut reader).await;
    for data in 1..=100 {
        stopped.hears(&updated(data)).await;
    }
    update(&world, 101..=101, &mut reader).await;
    stopped.hears(&updated(101)).await;
    assert_eq!(terminated(&world), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_and_wants_little_is_not_moved_past_by_what_it_does_not_want() {
    let world = forgetful().await;
    let wanted = WatchRequest { predicate: labels("l=1"), ..WatchRequest::from(after(4)) };
    let (mut stopped, mut reader) = (world.client_of("/pods", wanted).await, world.client(after(4)).await);
    update(&world, 1..=300, &mut reader).await;
    world.create(&pod("x").label("l", "1")).await;
    stopped.hears("ADDED x@305").await;
}

#[tokio::test(start_paused = true)]
async fn a_few_large_events_are_heard_as_well_as_many_small_ones() {
    let world = World::abc().await;
    let mut stopped = world.client(after(4)).await;
    let large = "x".repeat(50_000);
    for data in 1..=50 {
        world.put(&pod("a").label("large", &large).data(data)).await;
    }
    for data in 1..=50 {
        stopped.hears(&updated(data)).await;
    }
    assert_eq!(terminated(&world), 0.0);
}

/// Creates many pods, begins to read their state, and changes it so often that the window has moved past the reader.
async fn stopped_in_the_state() -> (World, Client) {
    let world = remembering(20).await;
    for at in 0..300 {
        world.create(&pod(&format!("p{at:03}"))).await;
    }
    let mut stopped = world.client(from_state(Position::MostRecent)).await;
    stopped.hears("ADDED a@2; ADDED b@3; ADDED c@4; ADDED p000@5").await;
    for data in 1..=100 {
        world.put(&pod("a").data(data)).await;
        world.put(&pod("p299").data(data)).await;
    }
    world.caught_up().await;
    (world, stopped)
}

#[tokio::test(start_paused = true)]
async fn when_the_window_has_moved_past_a_reader_in_the_state_it_reads_on_from_storage() {
    let (world, mut stopped) = stopped_in_the_state().await;
    for at in 1..300 {
        stopped.hears(&format!("ADDED p{at:03}@{}", at + 5)).await;
    }
    stopped.hears("STATE END @304").await;
    for data in 1..=100 {
        let a = format!("MODIFIED a={data}@{}", data * 2 + 303);
        stopped.hears(&format!("{a}; MODIFIED p299={data}@{}", data * 2 + 304)).await;
    }
    assert_eq!(terminated(&world), 0.0);
}

#[tokio::test(start_paused = true)]
async fn when_compaction_has_passed_a_reader_in_the_state_it_hears_so_once() {
    let (world, mut stopped) = stopped_in_the_state().await;
    world.gate.inner.compact(version(400)).await.unwrap();
    let mut last = stopped.next().await;
    while last.starts_with("ADDED p") {
        last = stopped.next().await;
    }
    assert_eq!(last, "ERROR too old resource version: 304 (400)");
    stopped.hears("END").await;
    assert_eq!(terminated(&world), 1.0);
}

/// It last heard something long ago, and has missed nothing since.
#[tokio::test(start_paused = true)]
async fn a_reader_that_wants_little_and_then_gets_much_at_once_hears_all_of_it() {
    let world = remembering(300).await;
    let wanted = WatchRequest { predicate: labels("l=1"), ..WatchRequest::from(after(4)) };
    let (mut idle, mut reader) = (world.client_of("/pods", wanted).await, world.client(after(4)).await);
    update(&world, 1..=1000, &mut reader).await;
    idle.hears_nothing_for(1).await;
    for at in 0..200 {
        world.create(&pod(&format!("x{at}")).label("l", "1")).await;
    }
    world.caught_up().await;
    for at in 0..200 {
        idle.hears(&format!("ADDED x{at}@{}", at + 1005)).await;
    }
    assert_eq!(terminated(&world), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_too_old_is_no_terminated_watcher() {
    let world = forgetful().await;
    let mut reader = world.client(after(4)).await;
    update(&world, 1..=100, &mut reader).await;
    world.gate.inner.compact(version(50)).await.unwrap();
    world.client(after(4)).await.hears("ERROR too old resource version: 4 (50); END").await;
    assert_eq!(terminated(&world), 0.0);
}
