//! Earlier states: how long the cache has them, and when it does not trust itself with them.

use super::{
    gate::{Call, Gate},
    world::{World, list_at, named, pass, refused, until, version},
};
use keepwatch_apimachinery::list_options::ListAt;
use keepwatch_cacher::CacherOptions;
use keepwatch_storage::{ExpiredRead, ListRequest, Storage, StorageError, testing::pod};

fn checks(world: &World) -> [f64; 3] {
    ["success", "failure", "error"]
        .map(|status| world.metric("apiserver_storage_consistency_checks_total", &[("status", status)]))
}

/// Whether an earlier state comes from the cache or from storage.
async fn earlier_state_comes_from(world: &World) -> &'static str {
    let (list, asked) = world.asked_by(world.lists(list_at(ListAt::Exact(version(3))))).await;
    assert_eq!(list, "a b @3");
    if asked.is_empty() { "cache" } else { "storage" }
}

#[tokio::test(start_paused = true)]
async fn a_state_between_two_changes_is_that_after_the_first_and_called_what_was_asked_for() {
    for world in [World::abc().await, World::far_abc().await] {
        for _ in 5..=8 {
            world.write_elsewhere().await;
        }
        world.create(&pod("d")).await;
        world.caught_up().await;
        for (revision, list) in [(4, "a b c @4"), (6, "a b c @6"), (8, "a b c @8"), (9, "a b c d @9")] {
            let exact = list_at(ListAt::Exact(version(revision)));
            let (found, asked) = world.asked_by(world.lists(exact)).await;
            assert_eq!((found.as_str(), asked.as_str()), (list, ""));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_state_has_the_values_of_then() {
    let world = World::abc().await;
    world.put(&pod("a").data(1)).await;
    world.delete(&pod("b")).await;
    world.create(&pod("b").data(2)).await;
    world.caught_up().await;
    for (revision, state) in
        [(4, "a@2 b@3 c@4"), (5, "a=1@5 b@3 c@4"), (6, "a=1@5 c@4"), (7, "a=1@5 b=2@7 c@4")]
    {
        let exact = list_at(ListAt::Exact(version(revision)));
        let list = world.cacher.get_list("/pods", exact).await.unwrap();
        let found: Vec<_> = list.items.iter().map(named).collect();
        assert_eq!(found.join(" "), state, "at {revision}");
    }
    assert_eq!(world.gate.calls(Call::Range), 1);
}

#[tokio::test(start_paused = true)]
async fn states_older_than_the_history_come_from_storage() {
    let options = CacherOptions { history_bytes_max: 10 * 384, ..CacherOptions::default() };
    let world = World::over(Gate::near(), options).await.with_abc().await;
    assert_eq!(earlier_state_comes_from(&world).await, "cache");
    for data in 1..=50 {
        world.put(&pod("a").data(data)).await;
    }
    world.caught_up().await;
    assert_eq!(earlier_state_comes_from(&world).await, "storage");
}

#[tokio::test(start_paused = true)]
async fn states_before_the_cache_was_filled_anew_come_from_storage() {
    let world = World::abc().await;
    world.gate.end_watch(Some(StorageError::Expired(ExpiredRead::Watch)));
    until("the cache is filled anew", || world.fillings() == 2.0 && world.cacher.is_ready()).await;
    assert_eq!(earlier_state_comes_from(&world).await, "storage");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_finds_the_cache_right_is_a_success() {
    for world in [World::abc().await, World::far_abc().await] {
        world.cacher.check_consistency().await;
        assert_eq!(checks(&world), [1.0, 0.0, 0.0]);
        assert_eq!(earlier_state_comes_from(&world).await, "cache");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_of_a_cache_that_is_behind_compares_what_it_has() {
    let world = World::abc().await;
    world.gate.hold();
    world.create(&pod("d")).await;
    world.cacher.check_consistency().await;
    assert_eq!(checks(&world), [1.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn after_a_check_that_finds_a_difference_storage_tells_the_past_until_one_finds_none() {
    let world = World::abc().await;
    world.gate.lie(true);
    world.cacher.check_consistency().await;
    world.gate.lie(false);
    assert_eq!(checks(&world), [0.0, 1.0, 0.0]);
    assert_eq!(earlier_state_comes_from(&world).await, "storage");
    let page = ListRequest { limit: Some(1), ..ListRequest::all() };
    let token = world.cacher.get_list("/pods", page).await.unwrap().next.unwrap();
    let (rest, asked) = world.asked_by(world.lists(list_at(ListAt::Continue(token)))).await;
    assert_eq!((rest.as_str(), asked.as_str()), ("b c @4", "Range 1"));
    // The present is still the cache's.
    let (list, asked) = world.asked_by(world.lists(ListRequest::all())).await;
    assert_eq!((list.as_str(), asked.as_str()), ("a b c @4", ""));

    world.cacher.check_consistency().await;
    assert_eq!(checks(&world), [1.0, 1.0, 0.0]);
    assert_eq!(earlier_state_comes_from(&world).await, "cache");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_cannot_be_made_changes_nothing() {
    let world = World::abc().await;
    world.gate.fail(Call::Range, refused);
    world.cacher.check_consistency().await;
    world.gate.heal(Call::Range);
    assert_eq!(checks(&world), [0.0, 0.0, 1.0]);
    assert_eq!(earlier_state_comes_from(&world).await, "cache");
}

#[tokio::test(start_paused = true)]
async fn the_cache_checks_itself_every_five_to_seven_and_a_half_minutes() {
    let world = World::abc().await;
    pass(299.0).await;
    assert_eq!(checks(&world), [0.0, 0.0, 0.0]);
    for checked in 1..=10 {
        pass(if checked == 1 { 152.0 } else { 451.0 }).await;
        let [success, failure, error] = checks(&world);
        assert!(
            success >= f64::from(checked) && success <= f64::from(checked) * 1.6,
            "{success} of {checked}"
        );
        assert_eq!((failure, error), (0.0, 0.0));
    }
}
