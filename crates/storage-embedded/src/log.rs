//! Entries on disk: every version the state may be asked for, each under its revision, in one fjall keyspace.
//!
//! Kept true:
//! - [`Log::append`] returns only when its entries are on disk, all of them or (after a crash) none;
//! - entries above the last revision that was appended successfully never come back: what a failed append
//!   may have left is removed before anything else is written;
//! - what is read at opening is what was appended, less what was removed.
//!
//! After a failed write fjall takes no more of them, so the log closes it and opens it again as soon as the
//! disk has room. Reads go on meanwhile.

use crate::{
    directory::{Directory, OpenError},
    entry::Entry,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::StorageError;
use parking_lot::RwLock;
use std::{error::Error, io, sync::Arc};

/// How much of what was written lately fjall keeps in memory before it writes it out in order.
const MEMTABLE_BYTES: u64 = 8 << 20;
/// How much fjall keeps in memory of what it reads. Only old versions are ever read back.
const CACHE_BYTES: u64 = 1 << 20;
/// Journals beyond this are made superfluous by writing memtables out.
const JOURNALS_BYTES_MAX: u64 = 128 << 20;
/// What must fit on a disk that was full before the log is opened again.
const ROOM_PROBE_BYTES: usize = 1 << 20;
/// How many removals one batch takes, so that opening a long log does not hold them all in memory.
const REMOVALS_PER_BATCH: usize = 10_000;

/// Where the compacted revision is kept: revision 0 is nobody's.
const COMPACTED_AT: [u8; 8] = [0; 8];

/// The writing end. There is one.
pub(crate) struct Log {
    directory: Directory,
    reader: LogReader,
    last: Option<ResourceVersion>,
    /// Set by a failed write: the next one opens the log anew.
    broken: bool,
}

/// Reads single versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct LogReader {
    open: Arc<RwLock<Option<OpenLog>>>,
}

struct OpenLog {
    database: Database,
    entries: Keyspace,
}

impl OpenLog {
    fn open(directory: &Directory) -> fjall::Result<Self> {
        let database = Database::builder(directory.log_path())
            .worker_threads(1)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let entries = database.keyspace("entries", options)?;
        Ok(Self { database, entries })
    }

    /// Removes entries from `first` on, durably.
    fn remove_from(&self, first: u64) -> fjall::Result<()> {
        let keys = self.entries.range(first.to_be_bytes()..).map(|item| item.key());
        let keys = keys.collect::<fjall::Result<Vec<_>>>()?;
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for key in keys {
            batch.remove(&self.entries, key);
        }
        batch.commit()
    }
}

/// What a log held when it was opened.
pub(crate) trait Recover {
    /// Called first: up to where the log was compacted.
    fn compacted(&mut self, revision: ResourceVersion);
    /// Called for each entry in order. Returns revisions whose entries are not needed any more.
    fn entry(&mut self, entry: Entry) -> Vec<ResourceVersion>;
}

impl Log {
    /// Opens the log of a directory and tells what it holds.
    pub(crate) fn open(directory: Directory, recover: &mut impl Recover) -> Result<Self, OpenError> {
        let open = OpenLog::open(&directory).map_err(|error| open_error(&directory, error))?;
        let mut last = None;
        let mut unneeded = Vec::new();
        for item in open.entries.iter() {
            let (key, value) = item.into_inner().map_err(|error| open_error(&directory, error))?;
            if *key == COMPACTED_AT {
                let revision = decode_revision(&value).ok_or_else(|| damaged(&directory, "compacted revision"))?;
                recover.compacted(revision);
                last = Some(revision);
                continue;
            }
            let entry = decode_revision(&key).and_then(|revision| Entry::decode(revision, &value));
            let entry = entry.ok_or_else(|| damaged(&directory, "entry"))?;
            last = last.max(Some(entry.revision));
            unneeded.extend(recover.entry(entry));
        }
        let reader = LogReader { open: Arc::new(RwLock::new(Some(open))) };
        let mut log = Self { directory, reader, last, broken: false };
        log.remove(&unneeded).map_err(|error| OpenError::Damaged {
            path: log.directory.path().to_owned(),
            source: error.into(),
        })?;
        Ok(log)
    }

    pub(crate) fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Writes entries, in order of their revisions, all or none.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), StorageError> {
        self.write(Some(PersistMode::SyncData), |batch, keyspace| {
            for entry in entries {
                batch.insert(keyspace, entry.revision.get().to_be_bytes(), entry.encode());
            }
        })?;
        self.last = entries.last().map(|entry| entry.revision).or(self.last);
        Ok(())
    }

    /// Notes a compaction and removes what it made superfluous. It need not be on disk at once: a crash
    /// undoes it as a whole, or leaves removals that the next opening makes up for.
    pub(crate) fn compact(
        &mut self,
        compacted: ResourceVersion,
        unneeded: &[ResourceVersion],
    ) -> Result<(), StorageError> {
        self.write(None, |batch, keyspace| {
            batch.insert(keyspace, COMPACTED_AT, compacted.get().to_be_bytes());
        })?;
        self.remove(unneeded)
    }

    fn remove(&mut self, revisions: &[ResourceVersion]) -> Result<(), StorageError> {
        for chunk in revisions.chunks(REMOVALS_PER_BATCH) {
            self.write(None, |batch, keyspace| {
                for revision in chunk {
                    batch.remove(keyspace, revision.get().to_be_bytes());
                }
            })?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        durability: Option<PersistMode>,
        fill: impl FnOnce(&mut fjall::OwnedWriteBatch, &Keyspace),
    ) -> Result<(), StorageError> {
        if self.broken {
            self.open_again()?;
        }
        let written = {
            let open = self.reader.open.read();
            let open = open.as_ref().ok_or_else(closed)?;
            let mut batch = open.database.batch().durability(durability);
            fill(&mut batch, &open.entries);
            batch.commit()
        };
        written.map_err(|error| {
            self.broken = true;
            storage_error("writing to the log", error)
        })
    }

    fn open_again(&mut self) -> Result<(), StorageError> {
        self.directory.probe_room(ROOM_PROBE_BYTES).map_err(|error| {
            storage_error("looking for room on the disk", fjall::Error::Io(error))
        })?;
        let mut slot = self.reader.open.write();
        // fjall allows one open database per directory: the old one must go first.
        *slot = None;
        let again = "opening the log again";
        let open = OpenLog::open(&self.directory).map_err(|error| storage_error(again, error))?;
        let first_unwritten = self.last.map_or(1, |last| last.get() + 1);
        open.remove_from(first_unwritten).map_err(|error| storage_error(again, error))?;
        *slot = Some(open);
        self.broken = false;
        tracing::info!(directory = %self.directory.path().display(), "the log takes writes again");
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        *self.reader.open.write() = None;
    }
}

impl LogReader {
    /// The entry of a revision; absent once it is compacted away.
    pub(crate) fn read(&self, revision: ResourceVersion) -> Result<Option<Entry>, StorageError> {
        let doing = "reading an old version from the log";
        let open = self.open.read();
        let open = open.as_ref().ok_or_else(closed)?;
        let value = open.entries.get(revision.get().to_be_bytes()).map_err(|error| storage_error(doing, error))?;
        match value {
            None => Ok(None),
            Some(value) => match Entry::decode(revision, &value) {
                Some(entry) => Ok(Some(entry)),
                None => Err(StorageError::backend(doing, "the entry is damaged")),
            },
        }
    }
}

fn closed() -> StorageError {
    StorageError::backend("using the log", "the log is closed")
}

fn decode_revision(bytes: &[u8]) -> Option<ResourceVersion> {
    ResourceVersion::new(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn open_error(directory: &Directory, error: fjall::Error) -> OpenError {
    let path = directory.path().to_owned();
    match error {
        fjall::Error::Io(source) => OpenError::Io { doing: "open the log", path, source },
        error => OpenError::Damaged { path, source: error.into() },
    }
}

fn damaged(directory: &Directory, what: &str) -> OpenError {
    let source = format!("the log holds a damaged {what}").into();
    OpenError::Damaged { path: directory.path().to_owned(), source }
}

fn storage_error(doing: &'static str, error: fjall::Error) -> StorageError {
    if is_for_lack_of_room(&error) {
        StorageError::Full { source: error.into() }
    } else {
        StorageError::backend(doing, error)
    }
}

/// Whether the disk, a quota or a file size limit is at the bottom of it.
fn is_for_lack_of_room(error: &fjall::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            return matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        }
        cause = error.source();
    }
    false
}
