//! How long a read waits for the cache to become as fresh as it asks.

use super::{
    gate::Call,
    world::{World, from_state, list_at, pass, timed, version},
};
use keepwatch_apimachinery::list_options::{ListAt, Position};
use keepwatch_storage::{ListRequest, Storage, StorageError, WatchRequest, testing::pod};

#[tokio::test(start_paused = true)]
async fn a_read_of_the_future_waits_three_seconds_and_is_told_to_come_back_after_one() {
    let world = World::abc().await;
    let future = version(1_000_004);
    let paged = ListRequest { limit: Some(2), ..list_at(ListAt::NotOlderThan(future)) };
    for request in [list_at(ListAt::NotOlderThan(future)), paged, list_at(ListAt::Exact(future))] {
        let ((list, took), asked) = world.asked_by(timed(world.cacher.get_list("/pods", request))).await;
        must_be_too_large(list.map(|_| ()), took, &asked);
    }
    let reading = world.cacher.get("/pods/ns/a", Position::At(future));
    let ((object, took), asked) = world.asked_by(timed(reading)).await;
    must_be_too_large(object.map(|_| ()), took, &asked);
}

fn must_be_too_large(read: Result<(), StorageError>, took: f64, asked: &str) {
    let error = read.expect_err("nobody has written that much");
    assert!(matches!(error, StorageError::TooLarge { retry_after_seconds: Some(1), .. }), "{error:?}");
    assert_eq!(error.to_string(), "Timeout: Too large resource version: 1000004, current: 4");
    assert_eq!((took, asked), (3.0, ""));
}

#[tokio::test(start_paused = true)]
async fn a_read_of_any_state_never_waits() {
    let world = World::abc().await;
    world.gate.hold();
    world.put(&pod("a").data(1)).await;
    let reads = async {
        assert_eq!(world.lists(list_at(ListAt::Any)).await, "a b c @4");
        let object = world.cacher.get("/pods/ns/a", Position::Any).await.unwrap().unwrap();
        assert_eq!(object.revision, version(2));
        world.client(from_state(Position::Any)).await.hears("ADDED a@2").await;
    };
    let before = world.gate.calls(Call::Progress);
    let (((), took), asked) = world.asked_by(timed(reads)).await;
    assert_eq!((took, asked.as_str(), world.gate.calls(Call::Progress)), (0.0, "", before));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_is_answered_as_soon_as_the_cache_is_there() {
    for at in [ListAt::NotOlderThan(version(5)), ListAt::Exact(version(5))] {
        let world = World::abc().await;
        world.gate.hold();
        world.put(&pod("a").data(1)).await;
        let (list, object) =
            (world.lists(list_at(at)), world.cacher.get("/pods/ns/a", Position::At(version(5))));
        let reads = async { tokio::join!(timed(list), timed(object), release(&world)) };
        let ((list, object, ()), asked) = world.asked_by(reads).await;
        assert_eq!(list, ("a b c @5".to_owned(), 1.0));
        assert_eq!((object.0.unwrap().unwrap().revision, object.1), (version(5), 1.0));
        assert_eq!(asked, "");
    }
}

async fn release(world: &World) {
    pass(1.0).await;
    world.gate.release();
}

#[tokio::test(start_paused = true)]
async fn a_consistent_read_waits_for_what_was_written_before_it() {
    for world in [World::abc().await, World::far_abc().await] {
        world.gate.hold();
        world.put(&pod("a").data(1)).await;
        let (list, ()) = tokio::join!(timed(world.lists(ListRequest::all())), release(&world));
        assert_eq!(list, ("a b c @5".to_owned(), 1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn while_somebody_waits_storage_is_asked_how_far_it_is_ten_times_a_second() {
    let world = World::far_abc().await;
    world.gate.hold();
    world.write_elsewhere().await;
    pass(10.0).await;
    let before = world.gate.calls(Call::Progress);
    let waiting = || world.lists(list_at(ListAt::NotOlderThan(version(5))));
    let lists = tokio::join!(waiting(), waiting());
    assert!(lists.0.starts_with("Timeout: ") && lists.1.starts_with("Timeout: "), "{lists:?}");
    let asked = world.gate.calls(Call::Progress) - before;
    assert!((30..=31).contains(&asked), "asked {asked} times");
    pass(0.2).await;
    let before = world.gate.calls(Call::Progress);
    pass(60.0).await;
    assert_eq!(world.gate.calls(Call::Progress), before, "nobody waits");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_nobody_writes_to_becomes_fresh_because_storage_is_asked() {
    let world = World::far_abc().await;
    for written in 5..=8 {
        world.write_elsewhere().await;
        let (list, took) = timed(world.lists(ListRequest::all())).await;
        assert_eq!(list, format!("a b c @{written}"));
        assert!(took <= 0.1, "took {took} seconds");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_counted() {
    let world = World::abc().await;
    let waits = || world.metric("apiserver_watch_cache_read_wait_seconds", &[]);
    let before = waits();
    world.lists(list_at(ListAt::NotOlderThan(version(5)))).await;
    let request = WatchRequest::from(from_state(Position::At(version(5))));
    world.client_of("/pods", request).await;
    assert_eq!(waits() - before, 2.0);
}
