//! Watches that need more than the cache's window holds: their events come from storage, then from the cache.

use super::{
    gate::{Call, Gate},
    world::{Client, World, after, from_state, pass, refused, timed, until, version},
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_cacher::{CacherOptions, HistoryReads};
use keepwatch_storage::{
    StorageError, WatchRequest,
    testing::{Fixture, labels, pod},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions, Retention};
use std::{sync::Arc, time::Duration};

/// A cache whose window holds about ten updates.
fn forgetful() -> CacherOptions {
    CacherOptions { history_bytes_max: 4000, ..CacherOptions::default() }
}

/// One that has seen `a`, `b` and `c` being created, at 2, 3 and 4, and `a` updated so often since.
async fn updated(gate: Gate, updates: i64) -> World {
    let world = World::over(gate, forgetful()).await.with_abc().await;
    for data in 1..=updates {
        world.put(&pod("a").data(data)).await;
    }
    world.caught_up().await;
    world
}

/// Hears all updates from one on, and one more that is made then.
async fn hears_updates(world: &World, client: &mut Client, from: i64, last: i64) {
    for data in from..=last {
        client.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    let next = world.put(&pod("c").data(1)).await;
    client.hears(&format!("MODIFIED c=1@{}", next.revision)).await;
    world.put(&pod("c")).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_before_the_window_hears_everything_and_is_live_then() {
    for gate in [Gate::near(), Gate::far()] {
        let world = updated(gate, 2000).await;
        let mut client = world.client(after(1)).await;
        client.hears("ADDED a@2; ADDED b@3; ADDED c@4").await;
        hears_updates(&world, &mut client, 1, 2000).await;
    }
}

/// Nothing comes after the list for a long time, so storage has to say how far it is.
#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_before_a_cache_in_which_nothing_happens_hears_everything() {
    for gate in [Gate::near(), Gate::far()] {
        let world = updated(gate.clone(), 20).await;
        world.write_elsewhere().await;
        drop(world);
        let world = World::over(gate, forgetful()).await;
        let mut client = world.client(after(20)).await;
        client.hears("MODIFIED a=17@21; MODIFIED a=18@22; MODIFIED a=19@23; MODIFIED a=20@24").await;
        client.hears_nothing_for(50).await;
        world.put(&pod("a").data(21)).await;
        client.hears("MODIFIED a=21@26").await;
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_see_objects_come_and_go_in_old_history() {
    let world = World::over(Gate::near(), forgetful()).await;
    for (data, label) in [(1, "web"), (2, "web"), (3, "db"), (4, "db"), (5, "web")] {
        world.put(&pod("a").label("app", label).data(data)).await;
    }
    world.delete(&pod("a")).await;
    for data in 1..=50 {
        world.put(&pod("other").data(data)).await;
    }
    world.caught_up().await;
    let request = WatchRequest { predicate: labels("app=web"), ..WatchRequest::from(after(1)) };
    let mut client = world.client_of("/pods", request).await;
    client.hears("ADDED a=1@2; MODIFIED a=2@3; DELETED a=2@4; ADDED a=5@6; DELETED a=5@7").await;
    client.hears_nothing_for(50).await;
    world.put(&pod("a").label("app", "web")).await;
    client.hears("ADDED a@58").await;
}

#[tokio::test(start_paused = true)]
async fn many_watchers_that_come_back_at_once_cause_one_reading() {
    let world = updated(Gate::near(), 1000).await;
    let (_, asked) = world
        .asked_by(async {
            let mut clients = Vec::new();
            for at in 0..50 {
                // About the same revision.
                clients.push((at, world.client(after(10 + at)).await));
            }
            let reading = clients.into_iter().map(|(at, mut client)| async move {
                for data in 7 + at as i64..=1000 {
                    client.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
                }
            });
            futures::future::join_all(reading).await
        })
        .await;
    // From where the first began, perhaps one for what lay before it, and for what the window has moved on by.
    let watches: usize = asked.strip_prefix("Watch ").and_then(|count| count.parse().ok()).expect(&asked);
    assert!(watches <= 3, "{asked}");
    assert_eq!(world.metric("apiserver_terminated_watchers_total", &[]), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_reads_no_history_of_others() {
    let world = updated(Gate::near(), 3000).await;
    world.put(&pod("b").data(1)).await;
    world.put(&pod("a").data(1)).await;
    world.caught_up().await;
    for data in 1..=50 {
        world.put(&pod("a").data(data)).await;
    }
    world.caught_up().await;
    let request = WatchRequest { recursive: false, ..WatchRequest::from(after(1)) };
    let mut client = world.client_of("/pods/ns/b", request).await;
    client.hears("ADDED b@3; MODIFIED b=1@3005").await;
    world.put(&pod("b").data(2)).await;
    client.hears("MODIFIED b=2@3056").await;
    assert_eq!(world.metric("keepwatch_watch_cache_history_reads_total", &[]), 1.0, "all of it is one page");
}

#[tokio::test(start_paused = true)]
async fn the_limits_on_reading_are_kept_and_everybody_still_hears_everything() {
    // One page at a time, and no room for any.
    let options = CacherOptions { history_reads: HistoryReads::new(1, 0), ..forgetful() };
    let world = World::over(Gate::near(), options).await.with_abc().await;
    for data in 1..=1500 {
        world.put(&pod("a").data(data)).await;
    }
    world.caught_up().await;
    let mut clients = Vec::new();
    for start in [4, 500, 4, 1000] {
        clients.push((start, world.client(after(start)).await));
    }
    let reading = clients.into_iter().map(|(start, mut client)| async move {
        for data in start as i64 - 3..=1500 {
            client.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
        }
    });
    futures::future::join_all(reading).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_finds_nothing_for_itself_in_old_history_hears_how_far_it_is() {
    let world = updated(Gate::near(), 3000).await;
    let request = WatchRequest { progress: true, predicate: labels("l=1"), ..WatchRequest::from(after(4)) };
    let mut client = world.client_of("/pods", request).await;
    // It is not read until a bookmark is due.
    pass(70.0).await;
    let heard = client.next().await;
    let revision: u64 = heard.strip_prefix("BOOKMARK @").and_then(|at| at.parse().ok()).expect(&heard);
    assert!((5..3004).contains(&revision), "{revision}");
    client.hears("BOOKMARK @3004").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_storage_that_cannot_be_reached_and_goes_on_then() {
    let world = updated(Gate::near(), 100).await;
    world.gate.fail(Call::Watch, refused);
    let mut client = world.client(after(4)).await;
    client.hears_nothing_for(100).await;
    world.gate.heal(Call::Watch);
    hears_updates(&world, &mut client, 1, 100).await;
}

/// An error that would come again each time.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_history_cannot_be_read_ends_with_the_error_after_a_while() {
    let world = updated(Gate::near(), 100).await;
    world.gate.fail(Call::Watch, || StorageError::backend("reading the log", "the entry is damaged"));
    let mut client = world.client(after(4)).await;
    let (heard, seconds) = timed(client.next()).await;
    assert_eq!(heard, "ERROR storage failed: reading the log");
    assert!((30.0..40.0).contains(&seconds), "{seconds}");
    client.hears("END").await;
}

/// Each asked for progress after a while, and eight did so at a time.
#[tokio::test(start_paused = true)]
async fn after_a_restart_many_watches_of_their_own_namespaces_resume_at_once() {
    let gate = Gate::near();
    let behind = Fixture::new(gate.inner.clone());
    behind.create(&pod("a")).await;
    let last = behind.write_elsewhere().await;
    let world = World::over(gate, CacherOptions::default()).await;
    let mut clients = Vec::new();
    for number in 0..800 {
        let key = format!("/pods/ns-{number}");
        clients.push(world.client_of(&key, WatchRequest::from(after(1))).await);
    }
    let mut waiting: Vec<_> = clients.iter_mut().map(|client| Box::pin(client.next())).collect();
    for client in &mut waiting {
        assert!(futures::poll!(client).is_pending());
    }
    let (heard, seconds) = timed(async { world.client(after(1)).await.next().await }).await;
    assert_eq!((heard.as_str(), seconds), ("ADDED a@2", 0.0));
    drop(waiting);
    // All are live.
    let written = world.create(&pod("x").in_namespace("ns-799")).await;
    assert!(written.revision > last);
    let (heard, seconds) = timed(clients[799].next()).await;
    assert_eq!((heard, seconds), (format!("ADDED x@{}", written.revision), 0.0));
}

/// Of another resource, whose pages take all the room there is.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_stalls_does_not_keep_others_from_sharing_pages() {
    let history_reads = HistoryReads::new(8, 100_000);
    let options = || CacherOptions { history_reads: history_reads.clone(), ..forgetful() };
    let stalled = World::over(Gate::near(), options()).await.with_abc().await;
    let world = World::over(Gate::near(), options()).await.with_abc().await;
    for world in [&stalled, &world] {
        for data in 1..=2000 {
            world.put(&pod("a").data(data)).await;
        }
        world.caught_up().await;
    }
    let mut first = stalled.client(after(4)).await;
    first.hears("MODIFIED a=1@5").await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(world.client(after(4)).await);
    }
    let reading = clients.into_iter().map(|mut client| async move {
        for data in 1..=2000 {
            client.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
        }
    });
    futures::future::join_all(reading).await;
    let pages = world.metric("keepwatch_watch_cache_history_reads_total", &[]);
    assert!(pages <= 8.0, "{pages} pages of 512 changes");
}

/// It reads slowly on, in the cache's window.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_back_in_the_window_keeps_nothing_open_in_storage() {
    let options = CacherOptions { history_bytes_max: 400_000, ..CacherOptions::default() };
    let world = World::over(Gate::near(), options).await.with_abc().await;
    for data in 1..=3000 {
        world.put(&pod("a").data(data)).await;
    }
    world.caught_up().await;
    let mut slow = world.client(after(4)).await;
    slow.hears("MODIFIED a=1@5").await;
    assert_eq!(world.gate.open_watches(), 2);
    for data in 2..=2950 {
        slow.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    assert_eq!(world.gate.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_storage_ends_with_the_cache_and_at_its_time() {
    let world = updated(Gate::near(), 100).await;
    world.gate.stall(Call::Watch);
    let timeout = Some(Duration::from_secs(30));
    let request = WatchRequest { timeout, ..WatchRequest::from(after(4)) };
    let (mut waiting, mut timed_out) =
        (world.client(after(4)).await, world.client_of("/pods", request).await);
    assert_eq!(timed(timed_out.next()).await, ("END".to_owned(), 30.0));
    let ending = async {
        pass(10.0).await;
        world.cacher.stop().await;
    };
    let (heard, ()) = tokio::join!(timed(waiting.next()), ending);
    assert_eq!(heard, ("END".to_owned(), 10.0));
}

#[tokio::test(start_paused = true)]
async fn over_storage_that_does_not_tell_progress_the_window_is_all_there_is() {
    let world = updated(Gate::old(), 100).await;
    let heard = world.client(after(4)).await.next().await;
    assert!(heard.starts_with("ERROR too old resource version: 4 ("), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn what_is_open_in_storage_for_old_history_is_closed_when_nobody_reads_it() {
    let world = updated(Gate::near(), 2000).await;
    let open = || world.gate.open_watches();
    assert_eq!(open(), 1, "the cache's own");
    let mut client = world.client(after(4)).await;
    client.hears("MODIFIED a=1@5").await;
    assert_eq!(open(), 2);
    let gone = world.client(after(4)).await;
    drop(gone);
    hears_updates(&world, &mut client, 2, 2000).await;
    assert_eq!(open(), 1, "it is live");
    let mut client = world.client(after(4)).await;
    client.hears("MODIFIED a=1@5").await;
    drop(client);
    until("what was open is closed", || open() == 1).await;
}

/// Keeps history for a minute, and two for who is being served.
fn keeping_a_minute() -> Gate {
    let retention = Retention { age_min: Duration::from_secs(60), events_min: 0, bytes_max: None };
    Gate::over(Arc::new(Embedded::memory(EmbeddedOptions { retention, ..EmbeddedOptions::default() })))
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_being_served_holds_compaction_back_up_to_the_limit() {
    let gate = keeping_a_minute();
    let world = updated(gate.clone(), 300).await;
    let mut slow = world.client(after(4)).await;
    slow.hears("MODIFIED a=1@5").await;
    let mut in_state = world.client(from_state(Position::MostRecent)).await;
    pass(110.0).await;
    // The first hundred are in its hands.
    assert_eq!(gate.inner.compacted_revision(), Some(version(104)));
    hears_updates(&world, &mut slow, 2, 300).await;
    in_state.hears("ADDED a=300@304; ADDED b@3; ADDED c@4; STATE END @304").await;

    let start = gate.inner.current_revision().await.unwrap().get();
    // More than a page, which would be kept.
    for data in 1..=2000 {
        world.put(&pod("a").data(-data)).await;
    }
    world.caught_up().await;
    let mut stalled = world.client(after(start)).await;
    stalled.hears(&format!("MODIFIED a=-1@{}", start + 1)).await;
    pass(200.0).await;
    let current = gate.inner.current_revision().await.unwrap();
    assert_eq!(gate.inner.compacted_revision(), Some(current), "no longer than that");
    let mut heard = stalled.next().await;
    while heard.starts_with("MODIFIED") {
        heard = stalled.next().await;
    }
    assert!(heard.starts_with("ERROR too old resource version: "), "{heard}");
    assert!(heard.ends_with(&format!(" ({current})")), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn watchers_that_need_nothing_old_hold_nothing_back() {
    let gate = keeping_a_minute();
    let world = updated(gate.clone(), 300).await;
    let mut live = world.client(after(304)).await;
    let mut caught_up = world.client(after(4)).await;
    for data in 1..=300 {
        caught_up.hears(&format!("MODIFIED a={data}@{}", data + 4)).await;
    }
    live.hears_nothing_for(1).await;
    caught_up.hears_nothing_for(100).await;
    assert_eq!(gate.inner.compacted_revision(), Some(version(304)));
}
