//! Entries on disk: every version the state may be asked for, each under its revision, in one fjall keyspace.
//!
//! Kept true:
//! - a write returns only when it is on disk, all of it or (after a crash) nothing, and the next begins after that;
//! - entries above the last revision that was appended successfully never come back: what a failed append may have
//!   left is cut off before anything else is written;
//! - what is read at opening is what was appended, less what was removed, or opening fails.
//!
//! After a failed write fjall takes no more of them, so the log closes it and opens it again as soon as the disk has
//! room. Until then old versions are read as before; if opening again fails, they cannot be read until it succeeds. A write
//! that finds no room is made once more with the room that was reserved for that: see `room`.

use crate::{
    directory::{Directory, OpenError, make_private},
    entry::Entry,
    journal::{self, JournalError},
    room::{Room, ShortOfRoom},
};
use bytes::Bytes;
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, PersistMode, UserValue,
    config::{BlockSizePolicy, FilterPolicy},
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Rejection, StorageError};
use parking_lot::RwLock;
use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// How much of what was written lately fjall keeps in memory before it writes it out in order.
const MEMTABLE_BYTES: u64 = 3 << 20;
/// How much fjall keeps in memory of what it reads. Only old versions are ever read back.
const CACHE_BYTES: u64 = 256 << 10;
/// Journals beyond this are made superfluous by writing memtables out.
const JOURNALS_BYTES_MAX: u64 = 128 << 20;
/// What must fit on a disk that was full before the log is opened again.
const ROOM_PROBE_BYTES: usize = 1 << 20;
/// How much is read at a time. What is read is mostly the whole log in order, and each block costs memory.
const BLOCK_BYTES: u32 = 32 << 10;
/// Below this a write is quick.
const QUICK_WRITE: Duration = Duration::from_millis(1);
/// How many removals one batch takes, so that opening a long log does not hold them all in memory.
const REMOVALS_PER_BATCH: usize = 10_000;

/// How long is waited before the log is rewritten once more to make room: it takes a while, and writes wait for it. Longer
/// if it took long, and longer each time if it does not help.
const REWRITE_PAUSE_MIN: Duration = Duration::from_secs(2);
const REWRITE_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);
const REWRITE_SHARE: u32 = 20;
/// How often the log is rewritten after something was removed. What was removed last may be on its way to the disk.
const REWRITES: usize = 2;
/// How long is waited for what is on its way.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(1);

/// Where the compacted revision is kept: revision 0 is nobody's.
const COMPACTED_AT: [u8; 8] = [0; 8];

/// The writing end. There is one.
pub(crate) struct Log {
    directory: Directory,
    reader: LogReader,
    last: Option<ResourceVersion>,
    /// Set by a failed write: the next one opens the log anew.
    broken: bool,
    /// How long the last write took; unknown at first, and after one that failed.
    last_write_took: Option<Duration>,
    /// How much was written since the journal was last filled ahead.
    unfilled_bytes: u64,
    room: Room,
    /// From when on the log may be rewritten to make room, how long was waited for that, and how often it is worth it.
    next_rewrite: Instant,
    rewrite_pause: Duration,
    rewrites_due: usize,
}

/// Reads single versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct LogReader {
    open: Arc<RwLock<Option<OpenLog>>>,
    is_short_of_room: ShortOfRoom,
}

struct OpenLog {
    database: Database,
    entries: Keyspace,
}

impl OpenLog {
    /// Opens the log, without what was written after `last` if that is known.
    fn open(directory: &Directory, last: Option<ResourceVersion>) -> Result<Self, Rejection> {
        let path = directory.log_path();
        if !path.exists() || unfinished_path(directory).exists() {
            return Self::make(directory);
        }
        journal::trim(&path, last.map(ResourceVersion::get))?;
        Ok(Self::open_database(&path)?)
    }

    /// Makes an empty log. fjall leaves one that cannot be opened if it is interrupted, so a file stands beside it
    /// until it is complete, and a log with that file is made anew. It is not closed and opened again: fjall sets
    /// the length of a journal that it makes, which can then be filled ahead, but appends to one that it finds.
    fn make(directory: &Directory) -> Result<Self, Rejection> {
        let path = directory.log_path();
        let unfinished = unfinished_path(directory);
        fs::File::create(&unfinished)?;
        directory.sync()?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        make_private(&path)?;
        let open = Self::open_database(&path)?;
        directory.sync()?;
        fs::remove_file(&unfinished)?;
        directory.sync()?;
        Ok(open)
    }

    fn open_database(path: &Path) -> fjall::Result<Self> {
        let database = Database::builder(path)
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

    /// Writes anew what is not removed. Needs as much room as that takes.
    fn rewrite(&self) -> fjall::Result<()> {
        self.entries.rotate_memtable()?;
        // Not for ever: what should write it out may have failed.
        let begun = Instant::now();
        while self.database.outstanding_flushes() > 0 && begun.elapsed() < FLUSH_WAIT_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.entries.major_compact()
    }

    /// Whether what was acknowledged last is still there.
    fn holds(&self, last: ResourceVersion) -> fjall::Result<bool> {
        let compacted = self.entries.get(COMPACTED_AT)?.and_then(|value| decode_revision(&value));
        Ok(compacted >= Some(last) || self.entries.contains_key(last.get().to_be_bytes())?)
    }
}

/// What stands beside a log as long as it is being made.
fn unfinished_path(directory: &Directory) -> PathBuf {
    directory.path().join("log.unfinished")
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
        let room = Room::of(directory.path());
        let open = OpenLog::open(&directory, None).map_err(|error| open_error(&directory, error))?;
        let mut last = None;
        let mut unneeded = Vec::new();
        for item in open.entries.iter() {
            let (key, value) = item.into_inner().map_err(|error| open_error(&directory, error.into()))?;
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
        let reader = LogReader { open: Arc::new(RwLock::new(Some(open))), is_short_of_room: room.is_short() };
        let mut log = Self {
            directory,
            reader,
            last,
            broken: false,
            last_write_took: None,
            unfilled_bytes: journal::FILL_BYTES,
            room,
            next_rewrite: Instant::now(),
            rewrite_pause: REWRITE_PAUSE_MIN,
            rewrites_due: REWRITES,
        };
        log.remove(&unneeded).map_err(|error| open_error(&log.directory, error.into()))?;
        Ok(log)
    }

    pub(crate) fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Whether a write can be expected to take less than a thread that also does other things may be kept.
    pub(crate) fn is_quick(&self) -> bool {
        !self.must_fill_ahead() && self.last_write_took.is_some_and(|took| took < QUICK_WRITE)
    }

    /// Whether what would grow is refused. Looks how much room is left, now and then.
    pub(crate) fn is_short_of_room(&mut self) -> bool {
        self.room.look_if_due();
        self.reader.is_short_of_room()
    }

    /// Looks how much room is left, because nobody may be writing, and makes some if it is short.
    pub(crate) fn look_for_room(&mut self) {
        self.room.look();
        if self.reader.is_short_of_room() {
            self.rewrite();
            self.room.look();
        } else {
            self.rewrite_pause = REWRITE_PAUSE_MIN;
        }
    }

    #[cfg(test)]
    pub(crate) fn pretend_room(&mut self, bytes: u64) {
        self.room.pretended_bytes = Some(bytes);
    }

    /// Writes entries, in order of their revisions, all or none.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), StorageError> {
        self.fill_ahead();
        self.write(|batch, keyspace| {
            for entry in entries {
                batch.insert(keyspace, entry.revision.get().to_be_bytes(), entry.encode());
            }
        })?;
        self.unfilled_bytes += entries.iter().map(Entry::bytes).sum::<u64>();
        self.last = entries.last().map(|entry| entry.revision).or(self.last);
        Ok(())
    }

    fn must_fill_ahead(&self) -> bool {
        self.unfilled_bytes >= journal::FILL_BYTES / 2
    }

    fn fill_ahead(&mut self) {
        if self.must_fill_ahead() && !self.broken {
            self.unfilled_bytes = 0;
            // Only speed is lost where it cannot be done. If the disk is full the write will say so.
            let _ = journal::fill_ahead(&self.directory.log_path());
        }
    }

    /// Notes a compaction and removes what it made superfluous. If that is interrupted, the next opening makes up
    /// for it.
    pub(crate) fn compact(
        &mut self,
        compacted: ResourceVersion,
        unneeded: &[ResourceVersion],
    ) -> Result<(), StorageError> {
        self.write(|batch, keyspace| {
            batch.insert(keyspace, COMPACTED_AT, compacted.get().to_be_bytes());
        })?;
        self.remove(unneeded)?;
        self.rewrites_due = REWRITES;
        Ok(())
    }

    /// Makes what was removed give up its room. fjall does so by itself, but only as more is written.
    fn rewrite(&mut self) {
        let begun = Instant::now();
        if self.rewrites_due == 0 || begun < self.next_rewrite {
            return;
        }
        // What is written anew needs room before anything is given up for it.
        self.room.release();
        let rewritten = self.reader.open.read().as_ref().map_or(Ok(()), OpenLog::rewrite);
        match &rewritten {
            Ok(()) => self.rewrites_due -= 1,
            Err(error) => tracing::warn!(%error, "no room could be made by rewriting the log; trying again"),
        }
        // fjall keeps files that it no longer needs until it is opened again, if it could not write new ones.
        if rewritten.is_err() || self.rewrites_due == 0 {
            self.broken = true;
            if let Err(error) = self.open_again() {
                tracing::warn!(%error, "the log could not be opened again to make room; trying again");
            }
        }
        let ended = Instant::now();
        self.rewrite_pause =
            (self.rewrite_pause * 2).max((ended - begun) * REWRITE_SHARE).min(REWRITE_PAUSE_MAX);
        self.next_rewrite = ended + self.rewrite_pause;
    }

    fn remove(&mut self, revisions: &[ResourceVersion]) -> Result<(), StorageError> {
        for chunk in revisions.chunks(REMOVALS_PER_BATCH) {
            self.write(|batch, keyspace| {
                for revision in chunk {
                    batch.remove(keyspace, revision.get().to_be_bytes());
                }
            })?;
        }
        Ok(())
    }

    fn write(&mut self, fill: impl Fn(&mut fjall::OwnedWriteBatch, &Keyspace)) -> Result<(), StorageError> {
        match self.write_once(&fill) {
            Err(StorageError::Full { .. }) if self.room.release() => self.write_once(&fill),
            written => written,
        }
    }

    fn write_once(
        &mut self,
        fill: &impl Fn(&mut fjall::OwnedWriteBatch, &Keyspace),
    ) -> Result<(), StorageError> {
        let begun = Instant::now();
        self.last_write_took = None;
        if self.broken {
            self.open_again()?;
        }
        let written = match self.try_write(fill)? {
            // Something failed behind our back, before anything of this batch was written.
            Err(fjall::Error::Poisoned) => {
                self.broken = true;
                self.open_again()?;
                self.try_write(fill)?
            }
            written => written,
        };
        written.map_err(|error| {
            self.broken = true;
            tracing::error!(%error, "the log takes no writes until it can be opened again");
            storage_error("writing to the log", error.into())
        })?;
        self.last_write_took = Some(begun.elapsed());
        Ok(())
    }

    /// The outer error: the log is closed.
    fn try_write(
        &self,
        fill: &impl Fn(&mut fjall::OwnedWriteBatch, &Keyspace),
    ) -> Result<fjall::Result<()>, StorageError> {
        let open = self.reader.open.read();
        let open = open.as_ref().ok_or_else(closed)?;
        let mut batch = open.database.batch().durability(Some(PersistMode::SyncData));
        fill(&mut batch, &open.entries);
        Ok(batch.commit())
    }

    fn open_again(&mut self) -> Result<(), StorageError> {
        self.directory
            .probe_room(ROOM_PROBE_BYTES)
            .map_err(|error| storage_error("looking for room on the disk", error.into()))?;
        let mut slot = self.reader.open.write();
        // fjall allows one open database per directory: the old one must go first.
        *slot = None;
        let again = |error| storage_error("opening the log again", error);
        let last = self.last.unwrap_or(BEFORE_ALL);
        let open = OpenLog::open(&self.directory, Some(last)).map_err(again)?;
        if last > BEFORE_ALL && !open.holds(last).map_err(|error| again(error.into()))? {
            return Err(again(format!("revision {last} is gone").into()));
        }
        *slot = Some(open);
        self.broken = false;
        tracing::info!(directory = %self.directory.path().display(), "the log takes writes again");
        Ok(())
    }
}

/// No entry has this revision: it is that of an empty store.
const BEFORE_ALL: ResourceVersion = ResourceVersion::new(1).expect("one is not zero");

impl Drop for Log {
    fn drop(&mut self) {
        *self.reader.open.write() = None;
    }
}

impl LogReader {
    /// Whether what would grow is refused.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.is_short_of_room.get()
    }

    /// The entry of a revision; absent once it is compacted away.
    pub(crate) fn read(&self, revision: ResourceVersion) -> Result<Option<Entry>, StorageError> {
        let doing = "reading an old version from the log";
        let open = self.open.read();
        let open = open.as_ref().ok_or_else(closed)?;
        let value = open
            .entries
            .get(revision.get().to_be_bytes())
            .map_err(|error| storage_error(doing, error.into()))?;
        match value {
            None => Ok(None),
            Some(value) => match Entry::decode(revision, &value) {
                Some(entry) => Ok(Some(entry)),
                None => Err(StorageError::backend(doing, "the entry is damaged")),
            },
        }
    }
}

impl LogReader {
    /// The entries from one revision to another, in order, as long as `take` wants more. Some may be compacted away.
    pub(crate) fn read_all(
        &self,
        first: ResourceVersion,
        last: ResourceVersion,
        mut take: impl FnMut(Entry) -> bool,
    ) -> Result<(), StorageError> {
        let failed = |error: Rejection| storage_error("reading old versions from the log", error);
        let open = self.open.read();
        let open = open.as_ref().ok_or_else(closed)?;
        let keys = first.get().to_be_bytes()..=last.get().to_be_bytes();
        for item in open.entries.range(keys) {
            let (key, value) = item.into_inner().map_err(|error| failed(error.into()))?;
            let entry = decode_revision(&key).and_then(|revision| decode_large(revision, value));
            let entry = entry.ok_or_else(|| failed("an entry is damaged".into()))?;
            if !take(entry) {
                break;
            }
        }
        Ok(())
    }
}

fn closed() -> StorageError {
    StorageError::backend("using the log", "the log is closed")
}

/// An entry that keeps its whole block in memory if it is a large part of it, and is copied if not.
fn decode_large(revision: ResourceVersion, value: UserValue) -> Option<Entry> {
    if value.len() < BLOCK_BYTES as usize / 2 {
        return Entry::decode(revision, &value);
    }
    Entry::decode_shared(revision, &Bytes::from_owner(value))
}

fn decode_revision(bytes: &[u8]) -> Option<ResourceVersion> {
    ResourceVersion::new(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn open_error(directory: &Directory, error: Rejection) -> OpenError {
    let path = directory.path().to_owned();
    if let Some(JournalError::Unrecognised { journal }) = error.downcast_ref() {
        return OpenError::UnknownJournal { path, journal: journal.clone() };
    }
    match io_cause(error.as_ref()) {
        Some(cause) => {
            let source = io::Error::new(cause.kind(), cause.to_string());
            OpenError::Io { doing: "open the log", path, source }
        }
        None => OpenError::Damaged { path, source: error },
    }
}

fn damaged(directory: &Directory, what: &str) -> OpenError {
    let source = format!("the log holds a damaged {what}").into();
    OpenError::Damaged { path: directory.path().to_owned(), source }
}

fn storage_error(doing: &'static str, error: Rejection) -> StorageError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match io_cause(error.as_ref()).map(io::Error::kind) {
        Some(StorageFull | QuotaExceeded | FileTooLarge) => StorageError::Full { source: error },
        _ => StorageError::Backend { doing, source: error },
    }
}

/// What the operating system said, if that is at the bottom of an error.
fn io_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    error.downcast_ref().or_else(|| io_cause(error.source()?))
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
        journals.sort_unstable();
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
            } else if file.file_name() != "0.jnl" {
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

        /// A copy with another journal.
        fn copy_with(&self, bytes: &[u8]) -> PathBuf {
            let (whole, copied) = (self.root.path().join("whole"), self.root.path().join("copy"));
            let _ = fs::remove_dir_all(&copied);
            copy(&whole, &copied);
            fs::write(copied.join("log").join(journal(&whole).file_name().unwrap()), bytes).unwrap();
            copied
        }

        /// Opens a copy with another journal; then it must also take writes and keep them.
        fn open_with(&self, bytes: &[u8]) -> Result<Vec<u64>, OpenError> {
            let copied = self.copy_with(bytes);
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

    /// After a failed write fjall may still begin a new journal.
    #[test]
    fn fault_a_torn_batch_with_an_empty_journal_behind_it_is_lost_and_nothing_else() {
        let log = Damageable::new();
        let next = log.root.path().join("whole/log/1.jnl");
        File::create(&next).unwrap().set_len(64 << 20).unwrap();
        let cut = &log.journal[..log.last_batch.end - 20];
        assert_eq!(log.open_with(cut).unwrap(), [2, 3, 4, 5]);
        fs::write(&next, &log.journal[..log.last_batch.end]).unwrap();
        assert!(matches!(log.open_with(cut), Err(OpenError::Damaged { .. })), "not the last batch");
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
    fn fault_damage_before_the_last_batch_is_an_error_not_a_loss() {
        let log = Damageable::new();
        let mut refused = 0;
        for at in (0..log.last_batch.start).step_by(3) {
            let mut bytes = log.journal.clone();
            bytes[at] ^= 1 << (at % 8);
            match log.open_with(&bytes) {
                Ok(found) => {
                    assert_eq!(found, (2..=8).collect::<Vec<_>>(), "a flipped bit at {at} lost something")
                }
                Err(OpenError::Damaged { .. }) => refused += 1,
                Err(other) => panic!("a flipped bit at {at}: {other}"),
            }
        }
        assert!(refused > 100, "only {refused} were noticed");
    }

    /// It was taken for a torn batch, cut off, and the store began anew.
    #[test]
    fn a_journal_that_is_not_ours_is_refused_and_left_alone() {
        let log = Damageable::new();
        let mut other_version = log.journal[..log.last_batch.end].to_vec();
        while let Some(at) = other_version.windows(4).position(|bytes| bytes == b"FJL\x03") {
            other_version[at + 3] = 4;
        }
        let mut compressed = log.journal[..log.last_batch.end].to_vec();
        // The first item of the only batch that there is.
        compressed.drain(..log.last_batch.start);
        compressed[13 + 2] = 1;
        for bytes in [b"SQLite format 3\0".repeat(40), vec![b'x'; 5], other_version, compressed] {
            let refused = log.open_with(&bytes).unwrap_err();
            assert!(matches!(refused, OpenError::UnknownJournal { .. }), "{refused:?}");
            let text = refused.to_string();
            assert!(text.contains("use the version of this program that wrote it"), "{text}");
            let copied = log.root.path().join("copy");
            assert_eq!(fs::read(journal(&copied)).unwrap(), bytes, "left as it was");
        }
    }

    /// A first batch that was never acknowledged leaves its beginning, in whatever state.
    #[test]
    fn fault_a_torn_first_batch_leaves_an_empty_log() {
        let log = Damageable::new();
        let whole = log.journal[..written_batch_end(&log.journal)].to_vec();
        for end in 0..whole.len() {
            let mut hole = whole.clone();
            hole[end.saturating_sub(30)..end].fill(0);
            for bytes in [&whole[..end], &hole] {
                let (mut recovered, copied) = (Recovered::default(), log.copy_with(bytes));
                let opened = Log::open(Directory::take(&copied).unwrap(), &mut recovered);
                assert!(opened.is_ok(), "{end} of {}: {:?}", whole.len(), opened.err());
                assert!(recovered.revisions.is_empty() || *bytes == *whole);
            }
        }
    }

    /// Where the first batch of a journal ends.
    fn written_batch_end(journal: &[u8]) -> usize {
        journal.windows(4).position(|bytes| bytes == b"FJL\x03").unwrap() + 4
    }

    /// Values are any bytes. One that looks like the end of a batch, or like a hole, was taken for one.
    #[test]
    fn values_that_look_like_a_journal_are_values() {
        let root = tempfile::tempdir().unwrap();
        let (mut log, _) = open(root.path());
        let looks_like_an_end = [[3].as_slice(), &[9; 8], b"FJL\x03", &[7; 30]].concat();
        for (n, value) in [looks_like_an_end, vec![0; 100_000], vec![1; 50]].into_iter().enumerate() {
            let revision = ResourceVersion::new(n as u64 + 2).unwrap();
            let what = What::Put { value: value.into(), created: revision, expires_ms: None };
            log.append(&[Entry { revision, key: Key::from_backend("/k"), what }]).unwrap();
        }
        drop(log);
        // As a backup that knows about holes would restore it.
        let dug =
            std::process::Command::new("fallocate").arg("--dig-holes").arg(journal(root.path())).status();
        assert!(dug.is_ok_and(|status| status.success()), "fallocate of util-linux is needed");
        assert_eq!(open(root.path()).1.revisions, [2, 3, 4]);
    }

    #[test]
    fn a_first_start_that_was_interrupted_is_begun_anew() {
        let root = tempfile::tempdir().unwrap();
        let (log, directory) = (root.path().join("log"), root.path());
        fs::create_dir(&log).unwrap();
        fs::write(log.join("0.jnl"), "").unwrap();
        fs::write(directory.join("format"), "1\n").unwrap();
        fs::write(directory.join("log.unfinished"), "").unwrap();
        let (mut log, _) = open(directory);
        log.append(&entries(2..=2)).unwrap();
        drop(log);
        assert_eq!(open(directory).1.revisions, [2]);
    }

    #[test]
    fn what_is_stored_is_for_our_eyes_only() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let made = root.path().join("made");
        for (directory, log) in [(made.as_path(), made.join("log")), (root.path(), root.path().join("log"))] {
            drop(open(directory));
            assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o700, "{}", log.display());
        }
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_error_of_the_system_is_not_called_damage() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::take(root.path()).unwrap();
        let error =
            fjall::Error::Storage(fjall::LsmError::Io(io::Error::from(io::ErrorKind::PermissionDenied)));
        assert!(matches!(open_error(&directory, error.into()), OpenError::Io { .. }));
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
        assert!(matches!(storage_error("x", room.into()), StorageError::Full { .. }));
        let other = fjall::Error::Io(File::open("/nowhere").unwrap_err());
        assert!(matches!(storage_error("x", other.into()), StorageError::Backend { doing: "x", .. }));
    }
}
