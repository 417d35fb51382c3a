//! When each watcher is due for a bookmark: about every minute, and shortly before its watch ends.
//!
//! Plain data. Kept true: a watcher that wants bookmarks is scheduled once and knows the time, or is not scheduled when
//! its deadline is so near that a bookmark would not help; a removed watcher is not scheduled.

use crate::watcher::Watcher;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The time between the bookmarks of a watcher.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The time between the last bookmark and the end of the watch, so that the client can resume from it.
const LAST_BEFORE_DEADLINE: Duration = Duration::from_secs(2);
/// The width of a bucket. Bookmarks may come later by this.
const BUCKET_WIDTH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Bookmarks {
    /// The watchers by the time of their bookmark and by their number.
    due: BTreeMap<(Instant, u64), Arc<Watcher>>,
}

impl Bookmarks {
    /// Schedules the next bookmark of a watcher.
    pub(crate) fn schedule(&mut self, watcher: &Arc<Watcher>, now: Instant) {
        let mut at = now + BOOKMARK_INTERVAL;
        if let Some(deadline) = watcher.deadline {
            match deadline.checked_sub(LAST_BEFORE_DEADLINE).filter(|last| *last > now) {
                Some(last) => at = at.min(last),
                None => return *watcher.bookmark_due.lock() = None,
            }
        }
        // Joins the bucket of other watchers if that is not much later.
        if let Some(((bucket, _), _)) = self.due.range((at, 0)..(at + BUCKET_WIDTH, 0)).next() {
            at = *bucket;
        }
        *watcher.bookmark_due.lock() = Some(at);
        self.due.insert((at, watcher.number), watcher.clone());
    }

    /// Removes a watcher.
    pub(crate) fn remove(&mut self, watcher: &Watcher) {
        if let Some(at) = watcher.bookmark_due.lock().take() {
            self.due.remove(&(at, watcher.number));
        }
    }

    /// The time of the next bookmark.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Removes the watchers that are due, and returns them.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Arc<Watcher>> {
        let later = self.due.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.due, later).into_values().collect()
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;
    use crate::{
        history::{FRESH_DURATION_MIN, Limits},
        predicates::SharedPredicate,
        state::State,
        watcher::WatchPosition,
    };
    use keepwatch_storage::{Key, Predicate, Scope};

    /// Watchers that start at a given time, and the times at which they are due.
    struct TestWatchers {
        bookmarks: Bookmarks,
        state: State,
        start: Instant,
    }

    impl TestWatchers {
        fn new() -> Self {
            let start = Instant::now();
            let state = State::new(&[], Limits::new(FRESH_DURATION_MIN, usize::MAX), start);
            Self { bookmarks: Bookmarks::default(), state, start }
        }

        fn at(&self, seconds: f64) -> Instant {
            self.start + Duration::from_secs_f64(seconds)
        }

        /// Adds a watcher that starts at one second and ends at another.
        fn add(&mut self, now: f64, deadline: Option<f64>) -> Arc<Watcher> {
            let scope = Scope::Children(Key::from_backend("/r/pods/"));
            let position = WatchPosition::After(self.state.revision);
            let deadline = deadline.map(|seconds| self.at(seconds));
            let everything = SharedPredicate::unshared(Predicate::everything());
            let (watcher, _) = Watcher::add(&mut self.state, scope, everything, position, deadline, true);
            self.state.watchers.remove(&watcher);
            self.bookmarks.schedule(&watcher, self.at(now));
            watcher
        }

        /// The second at which the next bookmark is due.
        fn next(&self) -> Option<f64> {
            self.bookmarks.next().map(|next| (next - self.start).as_secs_f64())
        }

        /// Sends bookmarks as they become due, and returns the seconds at which they were.
        fn send_all(&mut self, until: f64) -> Vec<f64> {
            let mut sent = Vec::new();
            while let Some(next) = self.next().filter(|next| *next <= until) {
                let now = self.at(next);
                for watcher in self.bookmarks.take_due(now) {
                    sent.push(next);
                    self.bookmarks.schedule(&watcher, now);
                }
            }
            sent
        }
    }

    #[test]
    fn bookmarks_come_every_minute_and_two_seconds_before_the_end() {
        for (deadline, sent) in [
            (None, &[60.0, 120.0, 180.0, 240.0][..]),
            (Some(1.0), &[]),
            (Some(2.0), &[]),
            (Some(3.0), &[1.0]),
            (Some(61.0), &[59.0]),
            (Some(62.0), &[60.0]),
            (Some(63.0), &[60.0, 61.0]),
            (Some(200.0), &[60.0, 120.0, 180.0, 198.0]),
        ] {
            let mut watchers = TestWatchers::new();
            let _watcher = watchers.add(0.0, deadline);
            assert_eq!(watchers.send_all(250.0), sent, "until {deadline:?}");
        }
    }

    #[test]
    fn a_deadline_that_has_passed_needs_no_bookmark() {
        let mut watchers = TestWatchers::new();
        let _watcher = watchers.add(10.0, Some(5.0));
        assert_eq!(watchers.next(), None);
    }

    #[test]
    fn watchers_of_one_second_are_due_together_and_none_too_early() {
        let mut watchers = TestWatchers::new();
        let _watchers =
            [(0.9, 60.9), (0.0, 60.9), (0.5, 60.9), (1.0, 60.9), (1.95, 60.9)].map(|(now, due)| {
                let watcher = watchers.add(now, None);
                assert_eq!(watchers.next(), Some(due));
                watcher
            });
        assert_eq!(watchers.bookmarks.take_due(watchers.at(60.89)).len(), 0);
        assert_eq!(watchers.bookmarks.take_due(watchers.at(60.9)).len(), 3);
        // Watchers that start up to a second after the first share the next bucket.
        assert_eq!(watchers.next(), Some(61.0));
        assert_eq!(watchers.bookmarks.take_due(watchers.at(62.0)).len(), 2);
        assert_eq!(watchers.next(), None);
    }

    #[test]
    fn a_removed_watcher_is_due_for_no_bookmark() {
        let mut watchers = TestWatchers::new();
        let watcher = watchers.add(0.0, None);
        watchers.send_all(100.0);
        watchers.bookmarks.remove(&watcher);
        watchers.bookmarks.remove(&watcher);
        assert_eq!(watchers.next(), None);
        assert_eq!(Arc::strong_count(&watcher), 1);
    }
}
