//! The state that readers, writers and watchers share: the versions, and the watchers that wait for new ones, under one lock.
//!
//! Kept true: a change becomes visible and its watchers are woken in one step, so that a watcher that finds
//! nothing new has received everything.

use crate::{
    clean::Needs,
    compact::Samples,
    entry::{Entry, EntryKind},
    log::LogReader,
    mvcc::{Found, Mvcc, Stored},
    watch::Waiters,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{HistoryReaders, KeyValue, StorageError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

pub(crate) struct Shared {
    /// Never held across an await.
    pub(crate) state: RwLock<State>,
    /// Holds the values that are no longer in memory. Without a disk, all values stay in memory.
    pub(crate) log: LogReader,
    /// Notified when `compact` has work before the time at which it would look.
    pub(crate) attention: Notify,
    /// The limit of the history in bytes, beyond which it is compacted at once.
    pub(crate) history_bytes_max: usize,
    /// The revisions that were current at earlier times. Locked after the state.
    pub(crate) samples: Mutex<Samples>,
    /// Other readers that may need old changes.
    pub(crate) readers: HistoryReaders,
}

pub(crate) struct State {
    pub(crate) mvcc: Mvcc,
    pub(crate) waiters: Waiters,
    /// Set when the store is closed: watches end.
    pub(crate) closed: bool,
}

impl Shared {
    pub(crate) fn new(mvcc: Mvcc, log: LogReader, history_bytes_max: usize) -> Self {
        Self {
            state: RwLock::new(State { mvcc, waiters: Waiters::default(), closed: false }),
            log,
            attention: Notify::new(),
            history_bytes_max,
            samples: Mutex::default(),
            readers: HistoryReaders::default(),
        }
    }

    /// The revision after which a reader has changes to read.
    pub(crate) fn oldest_needed(&self) -> Option<ResourceVersion> {
        let readers = self.readers.oldest_needed();
        readers.into_iter().chain(self.state.read().waiters.oldest_needed()).min()
    }

    /// Makes committed writes visible.
    pub(crate) fn publish(&self, entries: Vec<Entry>) {
        self.publish_in(&mut self.state.write(), entries);
    }

    /// The same for a caller that holds the lock already.
    pub(crate) fn publish_in(&self, state: &mut State, entries: impl IntoIterator<Item = Entry>) {
        let deadline = state.mvcc.next_deadline_ms();
        for entry in entries {
            state.waiters.wake(&entry.key, entry.revision);
            state.mvcc.apply(entry);
        }
        if state.mvcc.next_deadline_ms().unwrap_or(u64::MAX) < deadline.unwrap_or(u64::MAX)
            || state.mvcc.history_bytes() > self.history_bytes_max
        {
            self.attention.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        state.waiters.wake_all();
    }
}

impl Needs for Shared {
    fn needs(&self, key: &str, revision: ResourceVersion) -> bool {
        self.state.read().mvcc.needs(key, revision)
    }

    fn compacted(&self) -> Option<ResourceVersion> {
        self.state.read().mvcc.compacted()
    }
}

/// Completes a version with its value; absent if only the log had it and a compaction was faster.
pub(crate) fn fetch(log: &LogReader, found: Found) -> Result<Option<KeyValue>, StorageError> {
    let Found { key, created, modified, value } = found;
    let value = match value {
        Stored::InMemory(value) => value,
        Stored::InLog => match log.read(modified)?.map(|entry| entry.what) {
            Some(EntryKind::Put { value, .. }) => value,
            _ => return Ok(None),
        },
    };
    Ok(Some(KeyValue { key, value, created, modified }))
}

/// Runs `work` here, or on a thread that may wait for the disk if it is going to.
pub(crate) async fn run<T: Send + 'static>(
    waits_for_disk: bool,
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    if !waits_for_disk {
        return work();
    }
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|error| StorageError::backend("reading old versions", error))?
}
