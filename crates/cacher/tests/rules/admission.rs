//! How a watch begins: from where, with what, and when it has to wait.

use super::{
    gate::{Call, Gate},
    world::{World, after, from_state, no_leader, pass, timed, version},
};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{
    ListRequest, Storage, StorageError, WatchRequest,
    testing::{Watching, labels, pod},
};

const FROM_STATE_UNMARKED: WatchStart =
    WatchStart::InitialEvents { position: Position::Any, end_bookmark: false };
const FROM_ANYWHERE: WatchStart = WatchStart::Changes { position: Position::Any };

/// Opens a watch where `a`, `b` and `c` are, and compares what it hears; then creates `d`, which it hears too.
async fn check(start: WatchStart, heard: &str) {
    for world in [World::abc().await, World::far_abc().await] {
        let (mut client, took) = timed(world.client(start)).await;
        assert_eq!(took, 0.0, "{start:?} waits");
        if !heard.is_empty() {
            client.hears(heard).await;
        }
        world.create(&pod("d")).await;
        client.hears("ADDED d@5").await;
        client.hears_nothing_for(10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_outside_of_the_resource_is_refused_before_the_stream() {
    let world = World::abc().await;
    for key in ["/pods/../secrets", "/secrets", ""] {
        match world.cacher.watch(key, WatchRequest::from(after(2))).await {
            Err(StorageError::InvalidKey(_)) => {}
            other => panic!("{key}: {:?}", other.map(|_| "a stream")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_a_revision_tells_what_changed_since() {
    check(after(3), "ADDED c@4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_the_newest_revision_tells_what_changes_next() {
    check(after(4), "").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_any_state_tells_what_there_is_and_then_what_changes() {
    check(FROM_STATE_UNMARKED, "ADDED a@2; ADDED b@3; ADDED c@4").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_state_is_marked_for_those_who_allow_it() {
    check(from_state(Position::Any), "ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_state_not_older_than_a_revision_may_begin_with_a_newer_one() {
    check(from_state(Position::At(version(2))), "ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_most_recent_state_begins_with_everything_committed() {
    check(from_state(Position::MostRecent), "ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_initial_events_tells_only_what_comes() {
    check(WatchStart::now(), "").await;
    check(FROM_ANYWHERE, "").await;
}

#[tokio::test(start_paused = true)]
async fn the_state_is_told_in_order_of_keys_whenever_they_were_written() {
    let world = World::empty().await;
    for name in ["c", "a", "b"] {
        world.create(&pod(name)).await;
    }
    let mut client = world.client(from_state(Position::MostRecent)).await;
    client.hears("ADDED a@3; ADDED b@4; ADDED c@2; STATE END @4").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_state_without_objects_is_marked_once_too() {
    let world = World::abc().await;
    let start = from_state(Position::MostRecent);
    let nothing = WatchRequest { predicate: labels("no=such"), ..WatchRequest::from(start) };
    for (key, request) in [("/pods/empty", WatchRequest::from(start)), ("/pods", nothing)] {
        let mut client = world.client_of(key, request).await;
        client.hears("STATE END @4").await;
        client.hears_nothing_for(10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_state_tells_of_what_was_written_elsewhere() {
    for world in [World::abc().await, World::far_abc().await] {
        world.write_elsewhere().await;
        let mut client = world.client(from_state(Position::MostRecent)).await;
        client.hears("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @5").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_in_the_future_is_waited_for_and_then_an_error_in_the_stream() {
    let world = World::abc().await;
    let (mut client, took) = timed(world.client(from_state(Position::At(version(1_000_004))))).await;
    assert_eq!(took, 3.0);
    client.hears("ERROR Timeout: Too large resource version: 1000004, current: 4; END").await;
}

#[tokio::test(start_paused = true)]
async fn a_state_in_the_near_future_is_waited_for_until_it_is_there() {
    let world = World::abc().await;
    let opening = async {
        let mut client = world.client(from_state(Position::At(version(5)))).await;
        client.hears("ADDED a@2; ADDED b@3; ADDED c@4; ADDED d@5; STATE END @5").await;
    };
    let writing = async {
        pass(2.0).await;
        world.create(&pod("d")).await;
    };
    let (_, took) = timed(async { tokio::join!(opening, writing) }).await;
    assert_eq!(took, 2.0);
}

#[tokio::test(start_paused = true)]
async fn the_most_recent_state_of_a_cache_that_falls_behind_is_an_error_in_the_stream() {
    for world in [World::abc().await, World::far_abc().await] {
        world.gate.hold();
        world.create(&pod("d")).await;
        let (mut client, took) = timed(world.client(from_state(Position::MostRecent))).await;
        assert_eq!(took, 3.0);
        client.hears("ERROR Timeout: Too large resource version: 5, current: 4; END").await;
    }
}

#[tokio::test(start_paused = true)]
async fn too_large_says_when_to_come_back() {
    let world = World::abc().await;
    let request = WatchRequest::from(from_state(Position::At(version(9))));
    let mut watch = Watching::new(world.cacher.watch("/pods", request).await.unwrap());
    match watch.last_error().await {
        StorageError::TooLarge { retry_after_seconds: Some(1), .. } => {}
        error => panic!("{error:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn any_state_is_what_the_cache_has_however_far_behind_it_is() {
    let world = World::abc().await;
    world.gate.hold();
    world.create(&pod("d")).await;
    let (mut client, took) = timed(world.client(from_state(Position::Any))).await;
    assert_eq!(took, 0.0);
    client.hears("ADDED a@2; ADDED b@3; ADDED c@4; STATE END @4").await;
    world.gate.release();
    client.hears("ADDED d@5").await;
}

#[tokio::test(start_paused = true)]
async fn changes_from_anywhere_begin_where_the_cache_is_and_from_now_where_storage_is() {
    let world = World::abc().await;
    world.gate.hold();
    world.create(&pod("d")).await;
    let (mut anywhere, mut now) = (world.client(FROM_ANYWHERE).await, world.client(WatchStart::now()).await);
    world.gate.release();
    anywhere.hears("ADDED d@5").await;
    now.hears_nothing_for(10).await;
    world.create(&pod("e")).await;
    now.hears("ADDED e@6").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_tells_only_what_comes_after_that() {
    let world = World::abc().await;
    let mut client = world.client(after(6)).await;
    for name in ["d", "e", "f"] {
        world.create(&pod(name)).await;
    }
    client.hears("ADDED f@7").await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_no_longer_known_is_an_error_in_the_stream() {
    let world = World::abc().await;
    world.client(after(1)).await.hears("ADDED a@2").await;
    let gate = world.gate.clone();
    drop(world);
    gate.inner.compact(version(4)).await.unwrap();
    let world = World::over(gate, Default::default()).await;
    world.client(after(3)).await.hears("ERROR too old resource version: 3 (4); END").await;
    world.client(after(4)).await.hears_nothing_for(1).await;
}

#[tokio::test(start_paused = true)]
async fn if_storage_does_not_say_where_it_is_that_is_an_error_in_the_stream() {
    let world = World::far_abc().await;
    world.gate.fail(Call::Revision, no_leader);
    for start in [from_state(Position::MostRecent), WatchStart::now()] {
        world.client(start).await.hears("ERROR etcdserver: no leader; END").await;
    }
    world.client(from_state(Position::Any)).await.hears("ADDED a@2").await;
}

/// Whatever is being written while a watch begins, it hears either in the state or as a change.
#[tokio::test(start_paused = true)]
async fn wherever_a_watch_begins_nothing_is_missing_and_nothing_comes_twice() {
    let world = World::abc().await;
    let mut clients = Vec::new();
    for data in 1..=150 {
        world.put(&pod("a").data(data)).await;
        clients.push((data, world.client(FROM_STATE_UNMARKED).await));
    }
    for (begun, mut client) in clients {
        let first = client.next().await;
        client.hears("ADDED b@3; ADDED c@4").await;
        let (data, _) =
            first.strip_prefix("ADDED a=").and_then(|rest| rest.split_once('@')).unwrap_or(("0", ""));
        for data in data.parse::<i64>().unwrap() + 1..=150 {
            assert_eq!(client.next().await, format!("MODIFIED a={data}@{}", data + 4), "begun at {begun}");
        }
        client.hears_nothing_for(1).await;
    }
}

/// An etcd before 3.4.31 or 3.5.13: the end of a state could be told too early, and a list of the newest be too old.
#[tokio::test(start_paused = true)]
async fn storage_that_does_not_answer_requests_for_progress_is_not_trusted_to_tell_the_newest() {
    let world = World::over(Gate::old(), CacherOptions::default()).await;
    let mut client = world.client(from_state(Position::MostRecent)).await;
    client.hears("ERROR storage failed: telling where a state ends; END").await;
    let (list, asked) = world.asked_by(world.lists(ListRequest::all())).await;
    assert_eq!((list.as_str(), asked.as_str()), (" @1", "Range 1"));
}
