//! The data that the tasks and readers of one cache share, and how they wait for one another.
//!
//! Kept true: the state's lock is never held across an await; a reader that waits for a revision is counted in
//! `waiter_count` before it reads the state, so that the feed, which reads the count after it has changed the state,
//! wakes it.

use crate::{
    history_pages::HistoryPages, metrics::Metrics, options::CacherOptions, predicates::Predicates,
    state::State, sync::RwLock, watcher::Wakers,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{CacheSource, Frontier, HistoryReader, ResourcePrefix, StorageError};
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

/// The time for which a read waits for the cache to become fresh enough.
const READ_WAIT_MAX: Duration = Duration::from_secs(3);
/// The retry delay for a client whose read has timed out.
const TOO_LARGE_RETRY_SECONDS: u32 = 1;
/// The time between requests for progress to storage while a reader waits.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn CacheSource>,
    pub(crate) name: String,
    pub(crate) keys: ResourcePrefix,
    /// The key under which storage has all objects of the resource.
    pub(crate) prefix: String,
    pub(crate) options: CacherOptions,
    pub(crate) state: RwLock<State>,
    /// The predicates of the watchers in the state.
    pub(crate) predicates: Arc<Predicates>,
    /// The events that are older than the history in the state.
    pub(crate) pages: Arc<HistoryPages>,
    pub(crate) metrics: Metrics,
    pub(crate) random: Mutex<SmallRng>,
    /// Whether earlier states are read from the cache. Otherwise storage answers.
    pub(crate) snapshots_trusted: AtomicBool,
    /// Notified when the state reaches a revision that a reader waits for.
    pub(crate) revision_reached: Notify,
    /// The number of readers that wait for a revision.
    pub(crate) waiter_count: AtomicUsize,
    /// Notified when a reader starts to wait.
    pub(crate) progress_wanted: Notify,
    /// Notified when a bookmark may be due earlier than the bookmark task expects.
    pub(crate) bookmarks_changed: Notify,
}

/// Counts a reader as waiting for a revision until it is dropped.
pub(crate) struct WaiterGuard<'a>(&'a Shared);

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.waiter_count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    pub(crate) fn add_waiter(&self) -> WaiterGuard<'_> {
        self.waiter_count.fetch_add(1, Ordering::AcqRel);
        self.progress_wanted.notify_one();
        WaiterGuard(self)
    }

    /// Records that the state has reached a revision, and wakes the readers that wait for it.
    pub(crate) fn set_reached(&self, revision: ResourceVersion) {
        self.metrics.set_revision(revision);
        if self.waiter_count.load(Ordering::Acquire) > 0 {
            self.revision_reached.notify_waiters();
        }
    }

    /// Makes the cache ready once it reaches the target: the revision that storage had before the list.
    pub(crate) fn become_ready(&self, initializing: &mut Option<(ResourceVersion, WaiterGuard<'_>)>) {
        if let Some((target, _)) = initializing
            && self.state.read().revision >= *target
        {
            self.state.write().ready.ready(Instant::now());
            *initializing = None;
            self.revision_reached.notify_waiters();
        }
    }

    /// Changes the state. Data that is no longer needed is dropped after the lock is released.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, garbage) = {
            let mut state = self.state.write();
            (change(&mut state), state.take_garbage())
        };
        drop(garbage);
        changed
    }

    pub(crate) fn end_watches(&self) {
        let mut wakers = Wakers::default();
        self.state.write().end_watches(&mut wakers);
    }

    /// Waits until the cache is ready, or stopped.
    pub(crate) async fn until_ready(&self) {
        loop {
            let changed = self.revision_reached.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.state.read().ready.is_pending() {
                return;
            }
            changed.await;
        }
    }

    /// Waits until the state is at `revision` or later.
    pub(crate) async fn until_fresh(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        if self.state.read().revision >= revision {
            return Ok(());
        }
        let _waiter = self.add_waiter();
        let begun = Instant::now();
        let fresh = async {
            loop {
                let changed = self.revision_reached.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.state.read().revision >= revision {
                    return;
                }
                changed.await;
            }
        };
        let waited = timeout_at(begun + READ_WAIT_MAX, fresh).await;
        self.metrics.read_wait.observe(begun.elapsed().as_secs_f64());
        waited.map_err(|_| StorageError::TooLarge {
            requested: revision,
            current: self.state.read().revision,
            retry_after_seconds: Some(TOO_LARGE_RETRY_SECONDS),
        })
    }

    /// Waits until the state holds everything that was committed when this was called.
    pub(crate) async fn until_consistent(&self) -> Result<ResourceVersion, Inconsistent> {
        let frontier = match self.storage.frontier() {
            Some(frontier) => frontier,
            None => {
                let current = self.storage.current_revision().await.map_err(Inconsistent::Unknown)?;
                Frontier { current, last_change: current }
            }
        };
        self.until_fresh(frontier.last_change).await.map_err(Inconsistent::Stale)?;
        self.advance_to(frontier);
        Ok(frontier.current)
    }

    /// Advances the state to the revision of storage, if it holds the last change.
    pub(crate) fn advance_to(&self, frontier: Frontier) {
        if self.state.read().revision < frontier.current {
            let revision = {
                let mut state = self.state.write();
                state.advance_to(frontier);
                state.revision
            };
            self.set_reached(revision);
        }
    }

    /// Adds up to half of the duration at random, so that the tasks of different caches run at different times.
    pub(crate) fn jittered(&self, duration: Duration) -> Duration {
        duration.mul_f64(self.random.lock().random_range(1.0..1.5))
    }
}

impl HistoryReader for Shared {
    fn oldest_needed(&self) -> Option<ResourceVersion> {
        self.state.read().watchers.iter().filter_map(|watcher| watcher.oldest_needed()).min()
    }
}

/// Why the cache does not hold everything that is committed.
pub(crate) enum Inconsistent {
    /// Storage does not return its revision.
    Unknown(StorageError),
    /// The cache did not reach the revision in time.
    Stale(StorageError),
}

impl From<Inconsistent> for StorageError {
    fn from(inconsistent: Inconsistent) -> Self {
        match inconsistent {
            Inconsistent::Unknown(error) | Inconsistent::Stale(error) => error,
        }
    }
}

/// Asks storage for progress as long as a reader waits for a revision.
pub(crate) async fn request_progress_for_waiters(shared: Arc<Shared>) {
    loop {
        while shared.waiter_count.load(Ordering::Acquire) > 0 {
            if let Err(error) = shared.storage.request_progress().await {
                tracing::debug!(resource = %shared.name, %error, "a request for progress failed");
            }
            sleep(PROGRESS_INTERVAL).await;
        }
        shared.progress_wanted.notified().await;
    }
}

/// Sends bookmarks to the watchers that are due for one.
pub(crate) async fn send_bookmarks(shared: Arc<Shared>) {
    loop {
        let next = shared.state.read().bookmarks.next();
        let changed = shared.bookmarks_changed.notified();
        let due = match next {
            Some(next) => timeout_at(next, changed).await.is_err(),
            None => {
                changed.await;
                false
            }
        };
        if due {
            // If storage knows its revision without a request, the bookmark includes writes to other resources.
            if let Some(frontier) = shared.storage.frontier() {
                shared.advance_to(frontier);
            }
            let (now, mut wakers) = (Instant::now(), Wakers::default());
            let mut state = shared.state.write();
            let revision = state.revision;
            for watcher in state.bookmarks.take_due(now) {
                watcher.enqueue_bookmark(revision, &mut wakers);
                state.bookmarks.schedule(&watcher, now);
            }
            drop(state);
        }
    }
}
