//! Watches that read their initial states, and the events that they missed, in turns.

use super::test_cache::{Client, TestCache, after, initial_events};
use futures::{FutureExt, future::BoxFuture};
use keepwatch_apimachinery::list_options::{Position, WatchStart};
use keepwatch_storage::{WatchRequest, WatchTurn, WatchTurns, testing::pod};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The number of events that a watch reads in one turn.
const EVENTS_IN_A_TURN: usize = 100;

/// Turns that a test grants one by one.
#[derive(Clone, Debug)]
struct GrantedTurns(Arc<Semaphore>);

impl GrantedTurns {
    fn grant(&self, turns: usize) {
        self.0.add_permits(turns);
    }
}

impl WatchTurns for GrantedTurns {
    fn turn(&self) -> BoxFuture<'static, WatchTurn> {
        let turns = Arc::clone(&self.0);
        async move {
            turns.acquire().await.expect("it is never closed").forget();
            Box::new(()) as WatchTurn
        }
        .boxed()
    }
}

/// A cache with 250 pods, the last at revision 251, and a watch that takes turns.
async fn watch_of_many(start: WatchStart) -> (TestCache, Client, GrantedTurns) {
    let cache = TestCache::empty().await;
    for number in 0..250 {
        cache.create(&pod(&format!("p{number:03}"))).await;
    }
    cache.caught_up().await;
    let turns = GrantedTurns(Arc::new(Semaphore::new(0)));
    let request = WatchRequest { turns: Some(Arc::new(turns.clone())), ..WatchRequest::from(start) };
    let client = cache.client_of("/pods", request).await;
    (cache, client, turns)
}

async fn receives_pods(client: &mut Client, numbers: std::ops::Range<usize>) {
    for number in numbers {
        client.receives(&format!("ADDED p{number:03}@{}", number + 2)).await;
    }
}

/// Two thousand watches that started at once were all ready to send, and delayed every other request by seconds.
#[tokio::test(start_paused = true)]
async fn a_watch_sends_as_much_of_its_initial_state_as_it_has_turns() {
    let (cache, mut client, turns) = watch_of_many(initial_events(Position::MostRecent)).await;
    client.receives_nothing_for(10).await;
    for turn in 0..2 {
        turns.grant(1);
        let begin = turn * EVENTS_IN_A_TURN;
        receives_pods(&mut client, begin..begin + EVENTS_IN_A_TURN).await;
        client.receives_nothing_for(10).await;
    }
    cache.create(&pod("live")).await;
    turns.grant(1);
    receives_pods(&mut client, 200..250).await;
    client.receives("STATE END @251; ADDED live@252").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_needs_turns_for_missed_events_and_none_for_new_ones() {
    let (cache, mut client, turns) = watch_of_many(after(1)).await;
    client.receives_nothing_for(10).await;
    turns.grant(3);
    receives_pods(&mut client, 0..250).await;
    cache.create(&pod("live")).await;
    client.receives("ADDED live@252").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_a_turn_ends_with_the_cache() {
    let (cache, mut client, _turns) = watch_of_many(initial_events(Position::Any)).await;
    client.receives_nothing_for(1).await;
    cache.cacher.stop().await;
    client.receives("END").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_a_turn_ends_at_its_deadline() {
    let cache = TestCache::abc().await;
    let turns = GrantedTurns(Arc::new(Semaphore::new(0)));
    let request = WatchRequest {
        turns: Some(Arc::new(turns)),
        timeout: Some(std::time::Duration::from_secs(5)),
        ..WatchRequest::from(initial_events(Position::Any))
    };
    let mut client = cache.client_of("/pods", request).await;
    assert_eq!(client.receives_within(10).await, "5s END");
}
