//! Keepwatch's own store: every key's versions in memory, durable in a log on disk.
//!
//! A write is decided against the state, written to the log together with all others that wait, synced once
//! and only then seen and acknowledged. The log holds each version until compaction, so a
//! store that is opened again has its history too, and watches can be resumed.
//!
//! [`Embedded::memory`] is the same store without the disk, for tests and throw-away servers.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use keepwatch_storage::{Backend, Key, Swap};
//! use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
//!
//! let store = Embedded::memory(EmbeddedOptions::default());
//! let key = Key::from_backend("/registry/pods/default/web-0");
//! let written = store.put_if(&key, None, "{}".into(), None).await?;
//! assert!(matches!(written, Swap::Done(_)));
//! assert_eq!(store.get(&key).await?.1.expect("was written").value.bytes, "{}");
//! # Ok::<_, keepwatch_storage::StorageError>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod directory;
mod entry;
mod mvcc;
mod room;
mod record;
mod segment;
mod recovery;
mod clean;
mod log;
mod state;
mod commit;
mod watch;
mod compact;

pub use compact::Retention;
pub use directory::OpenError;

use crate::{
    commit::{Committer, Proposal, Proposed},
    compact::WallClock,
    directory::{Directory, allocated_bytes},
    entry::{Entry, Unneeded},
    log::{Log, LogReader},
    mvcc::Mvcc,
    recovery::Recover,
    state::{Shared, fetch, run},
};
use async_trait::async_trait;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendWatch, ExpiredRead, Frontier, HistoryExtent, HistoryReader, Key, KeyValue, Range,
    RangeRequest, Scope, StorageError, Swap, Unchanged, Value,
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{task::AbortHandle, time::Instant};

/// The number of bytes of superseded values in memory for watches; older values are read from the log.
const SUPERSEDED_BYTES_MAX: usize = 4 << 20;
/// The default limits of the history in bytes, on disk and in memory.
const HISTORY_ON_DISK_BYTES_MAX: usize = 1 << 30;
const HISTORY_IN_MEMORY_BYTES_MAX: usize = 256 << 20;

/// The options of a store.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// The amount of history that is kept.
    pub retention: Retention,
    /// The interval at which a watch with `progress` reports its progress without a request.
    pub progress_interval: Duration,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { retention: Retention::default(), progress_interval: Duration::from_secs(10 * 60) }
    }
}

/// The store. Dropping it finishes the writes under way, ends its watches and releases the directory.
pub struct Embedded {
    shared: Arc<Shared>,
    committer: Arc<Committer>,
    maintenance: AbortHandle,
    clock: WallClock,
    progress_interval: Duration,
    /// The directory, if the store is on disk.
    path: Option<PathBuf>,
}

impl Recover for Mvcc {
    fn compacted(&mut self, revision: ResourceVersion) -> Vec<Unneeded> {
        self.resume_compacted(revision)
    }

    fn entry(&mut self, entry: Entry) -> Option<Vec<Unneeded>> {
        self.is_next(&entry).then(|| self.apply(entry))
    }
}

impl Embedded {
    /// A store that lives as long as this value. Must be called inside a tokio runtime.
    pub fn memory(options: EmbeddedOptions) -> Self {
        let bytes_max = options.retention.bytes_max.unwrap_or(HISTORY_IN_MEMORY_BYTES_MAX);
        let shared = Arc::new(Shared::new(Mvcc::new(None), LogReader::default(), bytes_max));
        Self::start(shared, Committer::InPlace, options, None)
    }

    /// The store in a directory, which is made if need be. Reads all of it, so call it where waiting for the
    /// disk is fine; must be called inside a tokio runtime.
    pub fn open(directory: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let path = directory.as_ref();
        let mut mvcc = Mvcc::new(Some(SUPERSEDED_BYTES_MAX));
        let log = Log::open(Directory::take(path)?, &mut mvcc)?;
        mvcc.settle();
        let bytes_max = options.retention.bytes_max.unwrap_or(HISTORY_ON_DISK_BYTES_MAX);
        let shared = Arc::new(Shared::new(mvcc, log.reader(), bytes_max));
        let committer = Committer::to_disk(shared.clone(), log).map_err(|source| OpenError::Io {
            doing: "start a thread to write",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::start(shared, committer, options, Some(path.to_owned())))
    }

    fn start(
        shared: Arc<Shared>,
        committer: Committer,
        options: EmbeddedOptions,
        path: Option<PathBuf>,
    ) -> Self {
        let (committer, clock) = (Arc::new(committer), WallClock::start());
        let maintenance =
            tokio::spawn(compact::maintain(shared.clone(), committer.clone(), options.retention, clock))
                .abort_handle();
        Self { shared, committer, maintenance, clock, progress_interval: options.progress_interval, path }
    }

    /// The number of keys.
    pub fn object_count(&self) -> usize {
        self.shared.state.read().mvcc.len()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.maintenance.abort();
        self.committer.close();
        self.shared.close();
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        let (current, found) = {
            let mvcc = &self.shared.state.read().mvcc;
            (mvcc.current(), mvcc.get(key))
        };
        // The newest version's value is always in memory.
        let item = found.map(|found| fetch(&self.shared.log, found)).transpose()?.flatten();
        Ok((current, item))
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        let expires_ms = ttl.map(|ttl| {
            let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            self.clock.now_ms().saturating_add(ms)
        });
        let change = Proposed::Put { value, expires_ms };
        let proposal = Proposal { key: key.clone(), expected, unchanged: unchanged.cloned(), change };
        self.committer.write(&self.shared, proposal).await
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        let proposal = Proposal {
            key: key.clone(),
            expected: Some(expected),
            unchanged: None,
            change: Proposed::Delete,
        };
        self.committer.write(&self.shared, proposal).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        let (current, page) = {
            let mvcc = &self.shared.state.read().mvcc;
            let current = mvcc.current();
            let at = request.at.unwrap_or(current);
            if at > current {
                return Err(StorageError::TooLarge { requested: at, current, retry_after_seconds: None });
            }
            if mvcc.compacted().is_some_and(|compacted| at < compacted) {
                return Err(StorageError::Expired(ExpiredRead::List));
            }
            let from = request.from.as_deref();
            (current, mvcc.range(&request.scope, from, request.limit, at, request.count))
        };
        let waits = page.items.iter().any(|found| found.value.is_in_log());
        let log = self.shared.log.clone();
        let items = run(waits, move || {
            let item = |found| fetch(&log, found)?.ok_or(StorageError::Expired(ExpiredRead::List));
            page.items.into_iter().map(item).collect::<Result<Vec<_>, _>>()
        })
        .await?;
        Ok(Range { current, items, more: page.more, count: page.count })
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        Ok(watch::start(&self.shared, scope, after, progress.then_some(self.progress_interval)))
    }

    async fn watch_past(
        &self,
        scope: Scope,
        after: ResourceVersion,
        with_previous: bool,
    ) -> Result<BackendWatch, StorageError> {
        Ok(watch::start_past(&self.shared, scope, after, self.progress_interval, with_previous))
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.shared.state.read().waiters.request_progress();
        Ok(())
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        Ok(self.shared.state.read().mvcc.current())
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        let current = self.shared.state.read().mvcc.current();
        if revision > current {
            return Err(StorageError::TooLarge { requested: revision, current, retry_after_seconds: None });
        }
        self.committer.compact(&self.shared, revision).await
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.shared.readers.add(reader);
    }

    fn history(&self) -> HistoryExtent {
        let (state, samples) = (self.shared.state.read(), self.shared.samples.lock());
        HistoryExtent {
            oldest: Some(state.mvcc.base()),
            // If it was compacted past the last look, nothing is known to be older.
            age: Some(samples.age_of(state.mvcc.compacted(), Instant::now()).unwrap_or_default()),
            events: Some(state.mvcc.changes_kept() as u64),
            bytes: Some(state.mvcc.history_bytes() as u64),
        }
    }

    async fn size_bytes(&self) -> Result<Option<u64>, StorageError> {
        let Some(path) = self.path.clone() else { return Ok(None) };
        let measure = move || {
            allocated_bytes(&path)
                .map_err(|error| StorageError::backend("measuring the data directory", error))
        };
        run(true, measure).await.map(Some)
    }

    fn trouble(&self) -> Option<String> {
        let path = self.path.as_ref().filter(|_| self.shared.log.is_short_of_room())?;
        let needed = room::NEEDED_MIB;
        Some(format!(
            "there is hardly any room on the disk of {}: delete objects, or free {needed} MiB; until then creations \
             and updates that grow are refused",
            path.display()
        ))
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.shared.state.read().mvcc.compacted()
    }

    fn frontier(&self, scope: &Scope) -> Option<Frontier> {
        let state = self.shared.state.read();
        let last_change = state.waiters.last_change(scope)?;
        Some(Frontier { current: state.mvcc.current(), last_change })
    }
}
