//! The turns in which watches read their initial states, and the events that they missed.
//!
//! Thousands of watches may start at once, each with thousands of objects. If all of them were ready to send, every other
//! request would wait until each of them has sent something. So only a few watches read at a time, each of them a part of
//! its state, and users take turns.
//!
//! Kept true: at most [`READING_MAX`] watches have a turn, except for members of the group `system:masters`, who need none;
//! a watch that does not use its turn, because its client does not read, loses the turn after [`UNUSED_TURN_MAX`].

use crate::{
    auth::{SYSTEM_MASTERS, User},
    turns::{Turn, Turns},
};
use futures::{FutureExt, future::BoxFuture};
use keepwatch_storage::{WatchTurn, WatchTurns};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// The number of watches that have a turn at a time. A turn takes a fraction of a millisecond.
const READING_MAX: usize = 8;
/// The time for which a watch may keep a turn that it has waited for.
const UNUSED_TURN_MAX: Duration = Duration::from_millis(20);

/// The turns of the watches of all users.
pub(crate) struct ReadingTurns(Arc<Turns>);

impl ReadingTurns {
    pub(crate) fn new() -> ReadingTurns {
        ReadingTurns(Turns::new(READING_MAX))
    }

    /// The turns of a user's watches; none if they may read at any time.
    pub(crate) fn of_user(&self, user: &Arc<User>) -> Option<Arc<dyn WatchTurns>> {
        let turns = || UserTurns { turns: Arc::clone(&self.0), user: Arc::clone(user) };
        (!user.is_in(SYSTEM_MASTERS)).then(|| Arc::new(turns()) as Arc<dyn WatchTurns>)
    }
}

struct UserTurns {
    turns: Arc<Turns>,
    user: Arc<User>,
}

impl fmt::Debug for UserTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserTurns").field(&self.user.name).finish()
    }
}

impl WatchTurns for UserTurns {
    fn turn(&self) -> BoxFuture<'static, WatchTurn> {
        if let Some(turn) = self.turns.try_take(1) {
            return std::future::ready(Box::new(turn) as WatchTurn).boxed();
        }
        let (granted, lease) = oneshot::channel();
        tokio::spawn(lend(Arc::clone(&self.turns), Arc::clone(&self.user), granted));
        // The task that lends the turn ends early only with the server.
        lease.map(|lease| Box::new(lease.ok()) as WatchTurn).boxed()
    }
}

/// The turn of a watch that has waited. Dropping it ends the turn.
type Lease = oneshot::Sender<()>;

/// Waits for a turn, and gives it to a watch for a limited time.
async fn lend(turns: Arc<Turns>, user: Arc<User>, mut granted: oneshot::Sender<Lease>) {
    let turn: Option<Turn> = tokio::select! {
        turn = turns.wait(&user.name, 1) => turn,
        () = granted.closed() => return,
    };
    let (lease, used) = oneshot::channel();
    if granted.send(lease).is_ok() {
        // It is an error when the lease is dropped, and another one when the time is over.
        let _ = tokio::time::timeout(UNUSED_TURN_MAX, used).await;
    }
    drop(turn);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_of(turns: &ReadingTurns, name: &str) -> Arc<dyn WatchTurns> {
        let user = User { name: name.to_owned(), ..User::default() };
        turns.of_user(&Arc::new(user)).expect("an ordinary user takes turns")
    }

    #[tokio::test(start_paused = true)]
    async fn few_watches_read_at_a_time_and_users_take_turns() {
        let all = ReadingTurns::new();
        let [mallorys, alices] = ["mallory", "alice"].map(|name| turns_of(&all, name));
        let mut taken: Vec<_> = (0..READING_MAX).map(|_| mallorys.turn().now_or_never().unwrap()).collect();
        let mut waiting: Vec<_> = (0..100).map(|_| mallorys.turn()).collect();
        tokio::task::yield_now().await;
        let mut alice = alices.turn();
        assert!(waiting.iter_mut().chain([&mut alice]).all(|turn| turn.now_or_never().is_none()));
        tokio::task::yield_now().await;
        // Each user has one of two turns.
        taken.truncate(READING_MAX - 2);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(alice.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_does_not_use_its_turn_loses_it() {
        let all = ReadingTurns::new();
        let [mallorys, alices] = ["mallory", "alice"].map(|name| turns_of(&all, name));
        let taken: Vec<_> = (0..READING_MAX).map(|_| mallorys.turn().now_or_never().unwrap()).collect();
        let unused: Vec<_> = (0..READING_MAX).map(|_| mallorys.turn()).collect();
        tokio::task::yield_now().await;
        drop(taken);
        tokio::time::sleep(UNUSED_TURN_MAX / 2).await;
        let mut alice = alices.turn();
        assert!((&mut alice).now_or_never().is_none());
        tokio::time::sleep(UNUSED_TURN_MAX).await;
        assert!(alice.now_or_never().is_some());
        drop(unused);
    }

    #[tokio::test]
    async fn a_watch_that_ends_while_it_waits_takes_nothing() {
        let all = ReadingTurns::new();
        let mallorys = turns_of(&all, "mallory");
        let taken: Vec<_> = (0..READING_MAX).map(|_| mallorys.turn().now_or_never().unwrap()).collect();
        drop((0..100).map(|_| mallorys.turn()).collect::<Vec<_>>());
        tokio::task::yield_now().await;
        drop(taken);
        tokio::task::yield_now().await;
        let again: Vec<_> = (0..READING_MAX).map(|_| mallorys.turn().now_or_never()).collect();
        assert!(again.iter().all(Option::is_some));
    }
}
