//! A limit on an amount of work, for which users wait in turns: each has a queue of its own, and what becomes free goes to
//! one user after another. So how long a user waits depends on how many others wait, not on how much they ask for.
//!
//! Kept true: the amounts in work never exceed the limit together; while somebody waits, nobody passes the one whose turn
//! it is; a user who does not wait any more takes nothing and is forgotten.

use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::oneshot;

/// The limit and those who wait.
pub(crate) struct Turns {
    max: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    /// The users that wait. It is the turn of the first one.
    users: VecDeque<UserQueue>,
}

/// The amounts that a user waits for, in the order in which they were asked for.
struct UserQueue {
    user: String,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    amount: usize,
    granted: oneshot::Sender<Turn>,
}

/// An amount that is in work until this is dropped.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    amount: usize,
}

impl Turns {
    pub(crate) fn new(max: usize) -> Arc<Turns> {
        Arc::new(Turns { max, state: Mutex::new(State { free: max, users: VecDeque::new() }) })
    }

    /// This amount, if it is free and nobody waits.
    pub(crate) fn try_take(self: &Arc<Turns>, amount: usize) -> Option<Turn> {
        let state = &mut *self.state.lock();
        if !state.users.is_empty() {
            return None;
        }
        state.free = state.free.checked_sub(amount)?;
        Some(Turn { turns: Arc::clone(self), amount })
    }

    /// Waits until this amount, or all there is if that is less, may be in work.
    pub(crate) async fn wait(self: &Arc<Turns>, user: &str, amount: usize) -> Option<Turn> {
        let (granted, turn) = oneshot::channel();
        self.change(|state| state.enqueue(user, Waiting { amount: amount.min(self.max), granted }));
        // It is granted before it is dropped.
        turn.await.ok()
    }

    /// Changes the state and grants what is free then.
    fn change(self: &Arc<Turns>, change: impl FnOnce(&mut State)) {
        let granted = {
            let state = &mut *self.state.lock();
            change(state);
            state.grant()
        };
        for Waiting { amount, granted } in granted {
            // A turn that nobody waits for any more comes back, because it is dropped.
            let _ = granted.send(Turn { turns: Arc::clone(self), amount });
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.change(|state| state.free += self.amount);
    }
}

impl State {
    fn enqueue(&mut self, user: &str, waiting: Waiting) {
        match self.users.iter_mut().find(|queue| queue.user == user) {
            Some(queue) => queue.waiting.push_back(waiting),
            None => self.users.push_back(UserQueue { user: user.to_owned(), waiting: [waiting].into() }),
        }
    }

    /// Takes out who has the next turns, and what they may have.
    fn grant(&mut self) -> Vec<Waiting> {
        let mut granted = Vec::new();
        while let Some(mut queue) = self.users.pop_front() {
            let first = std::iter::from_fn(|| queue.waiting.pop_front());
            match first.into_iter().find(|waiting| !waiting.granted.is_closed()) {
                None => continue,
                Some(first) if first.amount > self.free => {
                    queue.waiting.push_front(first);
                    self.users.push_front(queue);
                    break;
                }
                Some(first) => {
                    self.free -= first.amount;
                    granted.push(first);
                }
            }
            if !queue.waiting.is_empty() {
                self.users.push_back(queue);
            }
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt, stream::FuturesUnordered};

    #[tokio::test]
    async fn users_take_turns_however_much_each_asks_for() {
        let turns = Turns::new(10);
        let mut first = turns.wait("mallory", 10).await;
        let mut waiting = FuturesUnordered::new();
        let users = ["mallory", "mallory", "mallory", "mallory", "alice", "bob", "alice", "bob"];
        for (number, user) in users.into_iter().enumerate() {
            let turns = Arc::clone(&turns);
            waiting.push(async move { (user, number, turns.wait(user, 10).await) });
        }
        assert!(waiting.next().now_or_never().is_none(), "everything is in work");
        let mut order = Vec::new();
        drop(first.take());
        while let Some((user, number, turn)) = waiting.next().await {
            order.push((user, number));
            drop(turn);
        }
        let expected = [
            ("mallory", 0),
            ("alice", 4),
            ("bob", 5),
            ("mallory", 1),
            ("alice", 6),
            ("bob", 7),
            ("mallory", 2),
            ("mallory", 3),
        ];
        assert_eq!(order, expected);
        let state = turns.state.lock();
        assert!(state.free == 10 && state.users.is_empty(), "nothing is left of it");
    }

    #[tokio::test]
    async fn small_amounts_do_not_pass_a_large_one_whose_turn_it_is() {
        let turns = Turns::new(10);
        let mut small = turns.wait("alice", 1).await;
        let mut large = Box::pin(turns.wait("bob", 100));
        assert!(large.as_mut().now_or_never().is_none());
        let mut next = Box::pin(turns.wait("alice", 1));
        assert!(next.as_mut().now_or_never().is_none());
        drop(small.take());
        let large = large.now_or_never().flatten();
        assert!(large.is_some(), "more than there is counts as all there is");
        assert!(next.as_mut().now_or_never().is_none());
        drop(large);
        assert!(next.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn who_does_not_wait_any_more_takes_nothing() {
        let turns = Turns::new(10);
        let first = turns.wait("alice", 10).await;
        let mut gone = Box::pin(turns.wait("bob", 10));
        let mut granted = Box::pin(turns.wait("carol", 10));
        let mut last = Box::pin(turns.wait("dave", 10));
        for waiting in [&mut gone, &mut granted, &mut last] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(gone);
        drop(first);
        // Its turn has come, but it never learns of it.
        drop(granted);
        assert!(last.now_or_never().flatten().is_some());
        assert_eq!(turns.state.lock().free, 10);
    }
}
