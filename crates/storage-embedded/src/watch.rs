//! Watches: each is a cursor in the history, woken by the changes in its scope.
//!
//! Kept true: a watcher has no queue. It reads the shared history at its own pace, a few changes at a time, so a slow
//! one delays nobody and holds no more than those; it fails only if a compaction passes changes it has not read yet.
//! Changes outside its scope do not wake it.

use crate::{
    entry::EntryKind,
    log::LogReader,
    mvcc::{Found, FoundChange},
    state::{Shared, fetch, run},
};
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{BackendEvent, BackendWatch, ExpiredRead, Key, KeyValue, Scope, StorageError};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// The number of changes that a watcher takes from the history at a time.
const BATCH_CHANGES_MAX: usize = 100;
/// The number of changes, most of other scopes, that a watcher looks at before it releases the state.
const LOOKED_AT_CHANGES_MAX: usize = 10_000;
/// The number of bytes of old values that a watcher reads from the log at a time; it reads one change in any case.
const BATCH_LOG_BYTES_MAX: usize = 1 << 20;

/// The number of entries of the log that may be read for each that is wanted, when they are read in one go.
const BETWEEN_MAX: u64 = 4;

/// The reasons to wake a sleeping watcher. Written under the state's lock.
#[derive(Default)]
pub(crate) struct Waiter {
    /// All changes in its scope before this one are delivered or taken; 0 if all are.
    pending_from: AtomicU64,
    /// No change in its scope is newer than this.
    last_change: AtomicU64,
    progress_requested: AtomicBool,
    wants_progress: bool,
    /// It reads for other watchers, which ask for the history that they need themselves.
    is_reader_of_past: bool,
    wake: Notify,
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
                waiter.last_change.store(revision.get(), Ordering::Release);
                let idle = 0;
                let first = waiter.pending_from.compare_exchange(
                    idle,
                    revision.get(),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                if first.is_ok() {
                    waiter.wake.notify_one();
                }
            }
        }
    }

    /// The revision of the last change of a scope that is watched, or a later one.
    pub(crate) fn last_change(&self, scope: &Scope) -> Option<ResourceVersion> {
        let waiters = self.by_key.get(scope.key())?;
        let last = waiters.iter().map(|waiter| waiter.last_change.load(Ordering::Acquire)).min()?;
        ResourceVersion::new(last)
    }

    /// The revision after which some watcher has changes to read.
    pub(crate) fn oldest_needed(&self) -> Option<ResourceVersion> {
        let own_account = self.by_key.values().flatten().filter(|waiter| !waiter.is_reader_of_past);
        let pending = own_account.map(|waiter| waiter.pending_from.load(Ordering::Acquire));
        ResourceVersion::new(pending.filter(|pending| *pending > 0).min()? - 1)
    }

    pub(crate) fn wake_all(&self) {
        for waiter in self.by_key.values().flatten() {
            waiter.wake.notify_one();
        }
    }

    pub(crate) fn request_progress(&self) {
        for waiter in self.by_key.values().flatten().filter(|waiter| waiter.wants_progress) {
            waiter.progress_requested.store(true, Ordering::Release);
            waiter.wake.notify_one();
        }
    }
}

/// One watcher.
struct Watcher {
    shared: Arc<Shared>,
    scope: Scope,
    waiter: Arc<Waiter>,
    /// Every change in scope up to here is delivered or in `ready`, and all that follow are not.
    cursor: ResourceVersion,
    with_previous: bool,
    ready: VecDeque<BackendEvent>,
    progress: Option<Progress>,
    ended: bool,
}

/// The time at which progress is reported without a request.
struct Progress {
    due: Instant,
    interval: Duration,
}

/// Starts a watch of changes after `after`. With `progress` it reports its progress on request, and after each interval.
pub(crate) fn start(
    shared: &Arc<Shared>,
    scope: Scope,
    after: ResourceVersion,
    progress: Option<Duration>,
) -> BackendWatch {
    let waiter = Waiter { wants_progress: progress.is_some(), ..Waiter::default() };
    start_with(shared, scope, after, progress, waiter, true)
}

/// Starts a watch for a reader of old changes, which reports progress as soon as it has delivered everything. Updates
/// carry the version before only if `with_previous` is set.
pub(crate) fn start_past(
    shared: &Arc<Shared>,
    scope: Scope,
    after: ResourceVersion,
    progress: Duration,
    with_previous: bool,
) -> BackendWatch {
    let progress_requested = AtomicBool::new(true);
    let waiter =
        Waiter { wants_progress: true, progress_requested, is_reader_of_past: true, ..Waiter::default() };
    start_with(shared, scope, after, Some(progress), waiter, with_previous)
}

fn start_with(
    shared: &Arc<Shared>,
    scope: Scope,
    after: ResourceVersion,
    progress: Option<Duration>,
    waiter: Waiter,
    with_previous: bool,
) -> BackendWatch {
    let waiter = Arc::new(waiter);
    // The first look at the history begins at `after`.
    waiter.pending_from.store(after.get().saturating_add(1), Ordering::Release);
    {
        let mut state = shared.state.write();
        // The last change is not known, but it was not after this.
        waiter.last_change.store(state.mvcc.current().get(), Ordering::Release);
        state.waiters.add(&scope, waiter.clone());
    }
    let watcher = Watcher {
        shared: shared.clone(),
        scope,
        waiter,
        cursor: after,
        with_previous,
        ready: VecDeque::new(),
        progress: progress.map(|interval| Progress { due: Instant::now() + interval, interval }),
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

/// The result of a look at the history.
enum HistoryRead {
    Changes(Vec<FoundChange>),
    /// There is more to look at.
    NothingYet,
    /// Everything in scope up to here is delivered.
    NothingNew(ResourceVersion),
    Compacted,
    Closed,
}

/// Changes as events, at least the first of them, and the revision up to which these go.
fn events(
    log: &LogReader,
    changes: Vec<FoundChange>,
    with_previous: bool,
) -> Result<(VecDeque<BackendEvent>, Option<ResourceVersion>), StorageError> {
    let mut events = VecDeque::with_capacity(changes.len());
    let mut reached = None;
    let mut fetched = Fetched { log, values: HashMap::new(), bytes: 0 };
    let is_read_ahead = fetched.read_ahead(&changes)?;
    for change in changes {
        let (key, revision) = (change.key, change.revision);
        let is_missing = change.now.as_ref().is_some_and(|now| !fetched.has(now));
        if reached.is_some() && (fetched.bytes >= BATCH_LOG_BYTES_MAX || (is_read_ahead && is_missing)) {
            break;
        }
        let before = change.before.filter(|_| with_previous || change.now.is_none());
        let previous = before.map(|found| fetched.fetch(found)).transpose()?;
        events.push_back(match change.now.map(|found| fetched.fetch(found)).transpose()? {
            Some(item) => BackendEvent::Put { item, previous },
            None => BackendEvent::Delete { key, revision, previous },
        });
        reached = Some(revision);
    }
    Ok((events, reached))
}

/// Values read from the log for one batch: the new value of one change is the old value of the next.
struct Fetched<'a> {
    log: &'a LogReader,
    values: HashMap<ResourceVersion, KeyValue>,
    /// The number of bytes of the values that were delivered.
    bytes: usize,
}

impl Fetched<'_> {
    /// Reads new versions that lie side by side in the log in one go: each read by itself would read a whole block.
    /// Returns whether that was worth it.
    fn read_ahead(&mut self, changes: &[FoundChange]) -> Result<bool, StorageError> {
        let in_log = |change: &&FoundChange| change.now.as_ref().is_some_and(|now| now.value.is_in_log());
        let wanted: HashSet<_> = changes.iter().filter(in_log).map(|change| change.revision).collect();
        let (Some(first), Some(last)) = (wanted.iter().min(), wanted.iter().max()) else { return Ok(false) };
        let between = last.get() - first.get() + 1;
        if between > wanted.len() as u64 * BETWEEN_MAX {
            return Ok(false);
        }
        // The entries between them are read as well.
        let mut read_bytes = 0;
        self.log.read_all(*first, *last, |entry| {
            read_bytes += entry.bytes() as usize;
            if let EntryKind::Put { value, created, .. } = entry.what
                && wanted.contains(&entry.revision)
            {
                let item = KeyValue { key: entry.key, value, created, modified: entry.revision };
                self.values.insert(entry.revision, item);
            }
            read_bytes < BATCH_LOG_BYTES_MAX
        })?;
        Ok(true)
    }

    /// Whether a version need not be read from the log any more.
    fn has(&self, found: &Found) -> bool {
        !found.value.is_in_log() || self.values.contains_key(&found.modified)
    }

    fn fetch(&mut self, found: Found) -> Result<KeyValue, StorageError> {
        let from_log = found.value.is_in_log();
        let item = match self.values.get(&found.modified) {
            Some(item) => item.clone(),
            None => fetch(self.log, found)?.ok_or(StorageError::Expired(ExpiredRead::Watch))?,
        };
        if from_log {
            self.bytes += item.value.bytes.len();
            self.values.insert(item.modified, item.clone());
        }
        Ok(item)
    }
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<BackendEvent, StorageError>> {
        // Other tasks run in between, however many events there are.
        tokio::task::consume_budget().await;
        while self.ready.is_empty() && !self.ended {
            // Taken before looking: a request asks for a revision that was reached before it.
            let progress_due = self.waiter.progress_requested.swap(false, Ordering::AcqRel)
                || self.progress.as_ref().is_some_and(|progress| progress.due <= Instant::now());
            match self.look() {
                HistoryRead::Changes(changes) => {
                    if progress_due {
                        self.waiter.progress_requested.store(true, Ordering::Release);
                    }
                    if let Err(error) = self.take(changes).await {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
                HistoryRead::NothingYet => {
                    if progress_due {
                        self.waiter.progress_requested.store(true, Ordering::Release);
                    }
                    tokio::task::yield_now().await;
                }
                HistoryRead::NothingNew(revision) if progress_due => {
                    if let Some(progress) = &mut self.progress {
                        progress.due = Instant::now() + progress.interval;
                    }
                    // A watch that begins in the future reports no progress before that.
                    if revision >= self.cursor {
                        self.ready.push_back(BackendEvent::Progress(revision));
                    }
                }
                HistoryRead::NothingNew(_) => self.sleep().await,
                HistoryRead::Compacted => {
                    self.ended = true;
                    return Some(Err(StorageError::Expired(ExpiredRead::Watch)));
                }
                HistoryRead::Closed => self.ended = true,
            }
        }
        self.ready.pop_front().map(Ok)
    }

    fn look(&mut self) -> HistoryRead {
        let state = self.shared.state.read();
        if state.closed {
            return HistoryRead::Closed;
        }
        let Some(pending) = ResourceVersion::new(self.waiter.pending_from.load(Ordering::Acquire)) else {
            return HistoryRead::NothingNew(state.mvcc.current());
        };
        // The changes between the cursor and the first pending one are outside this watcher's scope.
        let after =
            ResourceVersion::new(pending.get() - 1).map_or(self.cursor, |before| before.max(self.cursor));
        if state.mvcc.compacted().is_some_and(|compacted| after < compacted) {
            return HistoryRead::Compacted;
        }
        let (changes, looked_at) =
            state.mvcc.changes_after(after, &self.scope, BATCH_CHANGES_MAX, LOOKED_AT_CHANGES_MAX);
        if !changes.is_empty() {
            self.waiter.pending_from.store(after.next().get(), Ordering::Release);
            return HistoryRead::Changes(changes);
        }
        self.cursor = looked_at;
        if looked_at < state.mvcc.current() {
            self.waiter.pending_from.store(looked_at.next().get(), Ordering::Release);
            return HistoryRead::NothingYet;
        }
        self.waiter.pending_from.store(0, Ordering::Release);
        HistoryRead::NothingNew(state.mvcc.current())
    }

    async fn take(&mut self, changes: Vec<FoundChange>) -> Result<(), StorageError> {
        let in_log = |found: &Found| found.value.is_in_log();
        let waits = changes.iter().any(|change| change.now.iter().chain(&change.before).any(in_log));
        let log = self.shared.log.clone();
        let with_previous = self.with_previous;
        let (events, cursor) = run(waits, move || events(&log, changes, with_previous)).await?;
        self.ready = events;
        self.cursor = cursor.unwrap_or(self.cursor);
        Ok(())
    }

    async fn sleep(&self) {
        let woken = self.waiter.wake.notified();
        match &self.progress {
            Some(progress) => {
                let _ = tokio::time::timeout_at(progress.due, woken).await;
            }
            None => woken.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedded, EmbeddedOptions};
    use keepwatch_storage::Backend;

    /// A watcher read 1 MiB for every single event.
    #[tokio::test]
    async fn events_that_were_read_ahead_are_returned_together() {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap();
        let key = Key::from_backend("/registry/pods/a");
        let mut last = None;
        // Most of these are no longer in memory.
        for _ in 0..600 {
            let written = store.put_if(&key, last, vec![b'x'; 20_000].into(), None).await.unwrap();
            let keepwatch_storage::Swap::Done(revision) = written else { panic!("nobody else writes") };
            last = Some(revision);
        }
        let scope = Scope::Children(Key::from_backend("/registry/pods/"));
        let after = ResourceVersion::new(1).unwrap();
        let changes = || store.shared.state.read().mvcc.changes_after(after, &scope, 100, 1000).0;
        for (with_previous, expected) in [(false, 50..=60), (true, 25..=60)] {
            let (events, reached) = events(&store.shared.log, changes(), with_previous).unwrap();
            assert!(expected.contains(&events.len()), "{} events", events.len());
            assert_eq!(reached.map(ResourceVersion::get), Some(events.len() as u64 + 1));
        }
    }
}
