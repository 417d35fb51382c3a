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
    torn::cut_torn_batch,
};
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, PersistMode,
    config::{BlockSizePolicy, FilterPolicy},
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::StorageError;
use parking_lot::RwLock;
use std::{error::Error, io, sync::Arc};

/// How much of what was written lately fjall keeps in memory before it writes it out in order.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// How much fjall keeps in memory of what it reads. Only old versions are ever read back.
const CACHE_BYTES: u64 = 256 << 10;
/// Journals beyond this are made superfluous by writing memtables out.
const JOURNALS_BYTES_MAX: u64 = 128 << 20;
/// What must fit on a disk that was full before the log is opened again.
const ROOM_PROBE_BYTES: usize = 1 << 20;
/// How much is read at a time. What is read is mostly the whole log in order, and each block costs memory.
const BLOCK_BYTES: u32 = 32 << 10;
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
        cut_torn_batch(&directory.log_path())?;
        let database = Database::builder(directory.log_path())
            .worker_threads(1)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .open()?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
                // Nobody asks for a revision that is not there.
                .filter_policy(FilterPolicy::disabled())
        };
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
    /// Called for each entry in order. Returns revisions whose entries are not needed any more, or nothing if
    /// entries before this one are missing.
    fn entry(&mut self, entry: Entry) -> Option<Vec<ResourceVersion>>;
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
                let revision =
                    decode_revision(&value).ok_or_else(|| damaged(&directory, "compacted revision"))?;
                recover.compacted(revision);
                last = Some(revision);
                continue;
            }
            let entry = decode_revision(&key).and_then(|revision| Entry::decode(revision, &value));
            let entry = entry.ok_or_else(|| damaged(&directory, "entry"))?;
            last = last.max(Some(entry.revision));
            unneeded.extend(
                recover.entry(entry).ok_or_else(|| damaged(&directory, "history: entries are missing"))?,
            );
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
        self.directory
            .probe_room(ROOM_PROBE_BYTES)
            .map_err(|error| storage_error("looking for room on the disk", fjall::Error::Io(error)))?;
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
        let value =
            open.entries.get(revision.get().to_be_bytes()).map_err(|error| storage_error(doing, error))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::What;
    use keepwatch_storage::Key;
    use std::{
        fs::{self, File},
        path::{Path, PathBuf},
    };

    /// Collects what a log tells at opening.
    #[derive(Default, PartialEq, Debug)]
    struct Recovered {
        compacted: Option<u64>,
        revisions: Vec<u64>,
    }

    impl Recover for Recovered {
        fn compacted(&mut self, revision: ResourceVersion) {
            self.compacted = Some(revision.get());
        }

        fn entry(&mut self, entry: Entry) -> Option<Vec<ResourceVersion>> {
            self.revisions.push(entry.revision.get());
            Some(Vec::new())
        }
    }

    fn open(path: &Path) -> (Log, Recovered) {
        let mut recovered = Recovered::default();
        (Log::open(Directory::take(path).unwrap(), &mut recovered).unwrap(), recovered)
    }

    fn entries(revisions: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        let entry = |n: u64| {
            let revision = ResourceVersion::new(n).unwrap();
            // Ends in a byte that is not zero, so that the end of a journal can be told from unused space.
            let what = What::Put { value: vec![7; 40].into(), created: revision, expires_ms: None };
            Entry { revision, key: Key::from_backend(format!("/k/{n}")), what }
        };
        revisions.map(entry).collect()
    }

    fn journal(path: &Path) -> PathBuf {
        let mut journals: Vec<_> = fs::read_dir(path.join("log"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|file| file.extension().is_some_and(|extension| extension == "jnl"))
            .collect();
        assert_eq!(journals.len(), 1);
        journals.remove(0)
    }

    /// Up to where a journal is written; what follows is space taken in advance.
    fn written(journal: &Path) -> usize {
        fs::read(journal).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for file in fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            let target = to.join(file.file_name());
            if file.file_type().unwrap().is_dir() {
                copy(&file.path(), &target);
            } else if file.path().extension().is_none_or(|extension| extension != "jnl") {
                fs::copy(file.path(), target).unwrap();
            }
        }
    }

    /// A closed log of revisions 2 to 8, its last batch 6 to 8.
    struct Damageable {
        root: tempfile::TempDir,
        journal: Vec<u8>,
        last_batch: std::ops::Range<usize>,
    }

    impl Damageable {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let whole = root.path().join("whole");
            let (mut log, _) = open(&whole);
            log.append(&entries(2..=4)).unwrap();
            log.append(&entries(5..=5)).unwrap();
            let before = written(&journal(&whole));
            log.append(&entries(6..=8)).unwrap();
            drop(log);
            let after = written(&journal(&whole));
            assert!(after - before > 3 * 40, "the last batch is three entries long");
            let bytes = fs::read(journal(&whole)).unwrap();
            Self { root, journal: bytes, last_batch: before..after }
        }

        /// Opens a copy with another journal; then it must also take writes and keep them.
        fn open_with(&self, bytes: &[u8]) -> Result<Vec<u64>, OpenError> {
            let (whole, copied) = (self.root.path().join("whole"), self.root.path().join("copy"));
            let _ = fs::remove_dir_all(&copied);
            copy(&whole, &copied);
            fs::write(copied.join("log").join(journal(&whole).file_name().unwrap()), bytes).unwrap();
            let mut recovered = Recovered::default();
            let mut log = Log::open(Directory::take(&copied).unwrap(), &mut recovered)?;
            let last = *recovered.revisions.last().unwrap();
            log.append(&entries(last + 1..=last + 2)).unwrap();
            drop(log);
            let (_, again) = open(&copied);
            assert_eq!(again.revisions, (2..=last + 2).collect::<Vec<_>>(), "written on");
            Ok(recovered.revisions)
        }
    }

    #[test]
    fn fault_a_log_cut_anywhere_in_its_last_batch_loses_that_batch_and_nothing_else() {
        let log = Damageable::new();
        for end in log.last_batch.start..=log.last_batch.end {
            let last = if end < log.last_batch.end { 5 } else { 8 };
            let found = log.open_with(&log.journal[..end]).unwrap();
            assert_eq!(found, (2..=last).collect::<Vec<_>>(), "cut at {end} of {:?}", log.last_batch);
        }
    }

    #[test]
    fn fault_a_last_batch_with_a_hole_that_a_power_cut_left_is_lost_and_nothing_else() {
        let log = Damageable::new();
        for hole_bytes in [16, 60, 120] {
            for begin in log.last_batch.clone().step_by(29) {
                let hole = begin..(begin + hole_bytes).min(log.last_batch.end);
                let mut bytes = log.journal.clone();
                bytes[hole.clone()].fill(0);
                let found =
                    log.open_with(&bytes).unwrap_or_else(|error| panic!("hole at {hole:?}: {error:?}"));
                assert_eq!(found, [2, 3, 4, 5], "hole at {hole:?} of {:?}", log.last_batch);
            }
        }
    }

    #[test]
    fn damage_before_the_last_batch_is_an_error_not_a_loss() {
        let log = Damageable::new();
        let mut bytes = log.journal.clone();
        let first_value = bytes.windows(40).position(|window| window == [7; 40]).unwrap();
        bytes[first_value + 20] ^= 1;
        assert!(matches!(log.open_with(&bytes), Err(OpenError::Damaged { .. })));
    }

    #[test]
    fn a_compaction_is_remembered_and_takes_what_it_made_superfluous() {
        let root = tempfile::tempdir().unwrap();
        let (mut log, _) = open(root.path());
        let all = entries(2..=6);
        log.append(&all).unwrap();
        log.compact(all[3].revision, &[all[0].revision, all[2].revision]).unwrap();
        assert_eq!(log.reader().read(all[0].revision).unwrap(), None);
        assert_eq!(log.reader().read(all[1].revision).unwrap().as_ref(), Some(&all[1]));
        drop(log);
        let (_, recovered) = open(root.path());
        assert_eq!(recovered, Recovered { compacted: Some(5), revisions: vec![3, 5, 6] });
    }

    #[test]
    fn what_a_failed_append_may_have_left_is_gone_before_the_next() {
        let root = tempfile::tempdir().unwrap();
        let (mut log, _) = open(root.path());
        log.append(&entries(2..=3)).unwrap();
        // As if the disk had taken these but said that it did not.
        log.append(&entries(4..=6)).unwrap();
        log.last = ResourceVersion::new(3);
        log.broken = true;
        log.append(&entries(4..=4)).unwrap();
        drop(log);
        assert_eq!(open(root.path()).1.revisions, [2, 3, 4]);
    }

    #[test]
    fn a_damaged_entry_is_refused_with_the_directory_named() {
        let root = tempfile::tempdir().unwrap();
        let (log, _) = open(root.path());
        let open_log = log.reader.open.write().take().unwrap();
        open_log.entries.insert(9u64.to_be_bytes(), b"nonsense").unwrap();
        drop((open_log, log));
        let refused = Log::open(Directory::take(root.path()).unwrap(), &mut Recovered::default());
        let error = refused.err().expect("damaged").to_string();
        assert!(
            error.contains("is damaged") && error.contains(&root.path().display().to_string()),
            "{error}"
        );
    }

    #[test]
    fn lack_of_room_is_told_from_other_failures() {
        let room = fjall::Error::Io(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(storage_error("x", room), StorageError::Full { .. }));
        let other = fjall::Error::Io(File::open("/nowhere").unwrap_err());
        assert!(matches!(storage_error("x", other), StorageError::Backend { doing: "x", .. }));
    }
}
