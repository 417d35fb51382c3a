//! Which watcher is due for a bookmark when: about every minute, and shortly before its watch ends.
//!
//! Plain data with second-wide buckets. Kept true: a watcher that wants bookmarks stands in one bucket, or in none when
//! its deadline is so near that none would help; one that is gone is forgotten when its bucket is due.

use crate::watcher::Watcher;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// How often a watcher is told how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long before the end of a watch its last bookmark comes, so that its client can resume from there.
const BEFORE_DEADLINE: Duration = Duration::from_secs(2);
/// How wide a bucket is: bookmarks may come later by this.
const RESOLUTION: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Bookmarks {
    due: BTreeMap<Instant, Vec<Weak<Watcher>>>,
}

impl Bookmarks {
    /// Files a watcher for its next bookmark.
    pub(crate) fn schedule(&mut self, watcher: &Arc<Watcher>, now: Instant) {
        let mut at = now + BOOKMARK_INTERVAL;
        if let Some(deadline) = watcher.deadline {
            match deadline.checked_sub(BEFORE_DEADLINE).filter(|last| *last > now) {
                Some(last) => at = at.min(last),
                None => return,
            }
        }
        let bucket = match self.due.range(at..at + RESOLUTION).next() {
            Some((bucket, _)) => *bucket,
            None => at,
        };
        self.due.entry(bucket).or_default().push(Arc::downgrade(watcher));
    }

    /// When the next bookmark is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.keys().next().copied()
    }

    /// Takes out the watchers that are due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Arc<Watcher>> {
        let later = self.due.split_off(&(now + Duration::from_nanos(1)));
        let due = std::mem::replace(&mut self.due, later);
        due.into_values().flatten().filter_map(|watcher| watcher.upgrade()).collect()
    }
}
