//! Watches: a cursor in the history each, woken by the changes it wants.
//!
//! Kept true: a watcher has no queue. It reads the shared history at its own pace, so a slow one costs and
//! delays nobody; it fails only if a compaction passes changes it has not read yet. Changes outside its scope
//! neither wake it nor are looked at.

use crate::{
    mvcc::{FoundChange, Stored},
    state::{Shared, fetch, run},
};
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{BackendEvent, BackendWatch, ExpiredRead, Key, Scope, StorageError};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// How many changes a watcher takes from the history at a time.
const BATCH_CHANGES_MAX: usize = 100;

/// What a sleeping watcher is woken for. Written under the state's lock.
#[derive(Default)]
pub(crate) struct Waiter {
    /// The first change in its scope that it has not been told; 0 if there is none.
    pending_from: AtomicU64,
    progress_requested: AtomicBool,
    wants_progress: bool,
    bell: Notify,
}

/// The watchers, by the key or prefix they watch.
#[derive(Default)]
pub(crate) struct Waiters {
    by_key: HashMap<Key, Vec<Arc<Waiter>>>,
}

impl Waiters {
    fn add(&mut self, scope: &Scope, waiter: Arc<Waiter>) {
        self.by_key.entry(scope.key().clone()).or_default().push(waiter);
    }

    fn remove(&mut self, scope: &Scope, waiter: &Arc<Waiter>) {
        let Some(waiters) = self.by_key.get_mut(scope.key()) else { return };
        waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        if waiters.is_empty() {
            self.by_key.remove(scope.key());
        }
    }

    /// Wakes the watchers of a key that is about to change: those of the key and of each prefix of it.
    pub(crate) fn wake(&self, key: &str, revision: ResourceVersion) {
        if self.by_key.is_empty() {
            return;
        }
        let prefixes = key.match_indices('/').map(|(slash, _)| &key[..=slash]);
        for watched in prefixes.chain([key]) {
            for waiter in self.by_key.get(watched).into_iter().flatten() {
                let idle = 0;
                let first = waiter.pending_from.compare_exchange(
                    idle,
                    revision.get(),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                if first.is_ok() {
                    waiter.bell.notify_one();
                }
            }
        }
    }

    pub(crate) fn wake_all(&self) {
        for waiter in self.by_key.values().flatten() {
            waiter.bell.notify_one();
        }
    }

    pub(crate) fn request_progress(&self) {
        for waiter in self.by_key.values().flatten().filter(|waiter| waiter.wants_progress) {
            waiter.progress_requested.store(true, Ordering::Release);
            waiter.bell.notify_one();
        }
    }
}

/// One watcher.
struct Watcher {
    shared: Arc<Shared>,
    scope: Scope,
    waiter: Arc<Waiter>,
    /// Every change in scope up to here is told or in `ready`.
    cursor: ResourceVersion,
    ready: VecDeque<BackendEvent>,
    next_progress: Option<Instant>,
    progress_interval: Duration,
    ended: bool,
}

/// Starts a watch of changes after `after`. With `progress` it tells how far it is on request, and after each
/// interval.
pub(crate) fn start(
    shared: &Arc<Shared>,
    scope: Scope,
    after: ResourceVersion,
    progress: Option<Duration>,
) -> BackendWatch {
    let waiter = Arc::new(Waiter { wants_progress: progress.is_some(), ..Waiter::default() });
    // The first look at the history begins at `after`.
    waiter.pending_from.store(after.next().get(), Ordering::Release);
    shared.state.write().waiters.add(&scope, waiter.clone());
    let watcher = Watcher {
        shared: shared.clone(),
        scope,
        waiter,
        cursor: after,
        ready: VecDeque::new(),
        next_progress: progress.map(|interval| Instant::now() + interval),
        progress_interval: progress.unwrap_or_default(),
        ended: false,
    };
    stream::unfold(watcher, |mut watcher| async move {
        let item = watcher.next().await?;
        Some((item, watcher))
    })
    .boxed()
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.state.write().waiters.remove(&self.scope, &self.waiter);
    }
}

/// What a look at the history gave.
enum Look {
    Changes(Vec<FoundChange>),
    /// Everything in scope up to here is told.
    NothingNew(ResourceVersion),
    Compacted,
    Closed,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<BackendEvent, StorageError>> {
        while self.ready.is_empty() && !self.ended {
            // Asked before looking: whoever asked wants to know of a revision reached before they asked.
            let progress_due = self.waiter.progress_requested.swap(false, Ordering::AcqRel)
                || self.next_progress.is_some_and(|due| due <= Instant::now());
            match self.look() {
                Look::Changes(changes) => {
                    if progress_due {
                        self.waiter.progress_requested.store(true, Ordering::Release);
                    }
                    if let Err(error) = self.take(changes).await {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
                Look::NothingNew(revision) if progress_due => {
                    self.next_progress = self.next_progress.map(|_| Instant::now() + self.progress_interval);
                    self.ready.push_back(BackendEvent::Progress(revision));
                }
                Look::NothingNew(_) => self.sleep().await,
                Look::Compacted => {
                    self.ended = true;
                    return Some(Err(StorageError::Expired(ExpiredRead::Watch)));
                }
                Look::Closed => self.ended = true,
            }
        }
        self.ready.pop_front().map(Ok)
    }

    fn look(&mut self) -> Look {
        let state = self.shared.state.read();
        if state.closed {
            return Look::Closed;
        }
        let Some(pending) = ResourceVersion::new(self.waiter.pending_from.swap(0, Ordering::AcqRel)) else {
            return Look::NothingNew(state.mvcc.current());
        };
        // What lies between the cursor and the first pending change was none of this watcher's.
        let after =
            ResourceVersion::new(pending.get() - 1).map_or(self.cursor, |before| before.max(self.cursor));
        if state.mvcc.compacted().is_some_and(|compacted| after < compacted) {
            return Look::Compacted;
        }
        let (changes, looked_at) = state.mvcc.changes_after(after, &self.scope, BATCH_CHANGES_MAX);
        self.cursor = looked_at;
        if changes.is_empty() {
            return Look::NothingNew(state.mvcc.current());
        }
        if looked_at < state.mvcc.current() {
            self.waiter.pending_from.store(looked_at.next().get(), Ordering::Release);
        }
        Look::Changes(changes)
    }

    async fn take(&mut self, changes: Vec<FoundChange>) -> Result<(), StorageError> {
        let in_log = |found: &crate::mvcc::Found| found.value == Stored::InLog;
        let waits = changes.iter().any(|change| change.now.iter().chain(&change.before).any(in_log));
        let log = self.shared.log.clone();
        let events = run(waits, move || {
            let event = |change: FoundChange| {
                let (key, revision) = (change.key, change.revision);
                let fetch = |found| match fetch(&log, found) {
                    Ok(Some(item)) => Ok(item),
                    Ok(None) => Err(StorageError::Expired(ExpiredRead::Watch)),
                    Err(error) => Err(error),
                };
                let previous = change.before.map(fetch).transpose()?;
                Ok(match change.now.map(fetch).transpose()? {
                    Some(item) => BackendEvent::Put { item, previous },
                    None => BackendEvent::Delete { key, revision, previous },
                })
            };
            changes.into_iter().map(event).collect::<Result<VecDeque<_>, _>>()
        });
        self.ready = events.await?;
        Ok(())
    }

    async fn sleep(&self) {
        let rung = self.waiter.bell.notified();
        match self.next_progress {
            Some(due) => {
                let _ = tokio::time::timeout_at(due, rung).await;
            }
            None => rung.await,
        }
    }
}
