//! Room on the disk, and reserves for when there is none.
//!
//! Kept true:
//! - As long as there is room, two files take up [`RESERVE_BYTES`]. When there is none, the log goes on in the blocks of one,
//!   and segments are rewritten into the blocks of the other. The files are renamed, never removed, because another program
//!   may take room that is given up. For the same reason, a file that was begun in such blocks and is not needed becomes a
//!   reserve again.
//! - When a write finds no room, and whenever little is left, the store is short of room: it refuses writes that grow. Room
//!   that becomes free goes to the reserves first. Once there is enough, every write is taken again.
//! - The last part of what is left is for writes that make room: see [`Budget`].
//!
//! Not here: which writes are refused (`commit`), what is compacted (`compact`).

use crate::segment::{crash_point, erase, sync_folder};
use keepwatch_apimachinery::ResourceVersion;
use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The size of both reserves.
pub(crate) const RESERVE_BYTES: u64 = LOG_RESERVE_BYTES + CLEANING_RESERVE_BYTES;
/// Enough for many thousands of deletions.
const LOG_RESERVE_BYTES: u64 = 4 << 20;
/// Enough for what is still needed of a segment from which something was deleted.
const CLEANING_RESERVE_BYTES: u64 = 12 << 20;
/// With less left, the reserves aside, the store is short of room.
const SHORT_BYTES: u64 = 4 << 20;
/// With this much left, the reserves aside, it no longer is. More, so that it does not change with every write.
pub(crate) const ENOUGH_BYTES: u64 = 8 << 20;
/// The MiB that an administrator has to free so that the store has enough room and its reserves.
pub(crate) const NEEDED_MIB: u64 = (RESERVE_BYTES + ENOUGH_BYTES) >> 20;
/// The part of the room, the reserve of the log included, that is for deletions and for writes that lead to them.
const FOR_DELETIONS_BYTES: u64 = 3 << 20;
/// The part of that for deletions that callers ask for. Keys that expire do not use it.
const FOR_CALLERS_BYTES: u64 = 1 << 20;
/// The interval at which the store looks how much is left, while nothing is wrong.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The least time between two log messages about a lack of room.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The use of a reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To go on with the log.
    Log,
    /// To rewrite a segment.
    Cleaning,
}

impl Purpose {
    const ALL: [Purpose; 2] = [Purpose::Log, Purpose::Cleaning];

    fn file(self) -> &'static str {
        match self {
            Self::Log => "reserve-log",
            Self::Cleaning => "reserve",
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Self::Log => LOG_RESERVE_BYTES,
            Self::Cleaning => CLEANING_RESERVE_BYTES,
        }
    }
}

/// A write, as far as it matters while room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spending {
    /// A caller deletes a key.
    Deletion,
    /// The store deletes a key whose time is up.
    Expiry,
    /// A caller writes a key that was last written at `before`, and takes no more room than it did.
    Rewrite { before: ResourceVersion, shrinks: bool },
}

/// The number of bytes that may be written while room is short.
///
/// The last part is for deletions and for writes that lead to them. A store does not know which writes those are, but an
/// object is marked for deletion once, and loses its finalizers one after the other. So a key may be written once more in
/// that part, and whenever it shrinks. A lease that is renewed again and again cannot use it up. The very last part is for
/// deletions that callers ask for: many keys that expire cannot use that up either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    bytes: u64,
    /// The store's revision when the last part was reached.
    scarce_since: Option<ResourceVersion>,
}

impl Budget {
    /// Takes a write of so many bytes from the budget. Returns whether it may be written.
    pub(crate) fn spend(&mut self, spending: Spending, bytes: u64) -> bool {
        let is_once_more = |before| self.scarce_since.is_none_or(|since| before <= since);
        let left_min = match spending {
            Spending::Deletion => 0,
            Spending::Expiry => FOR_CALLERS_BYTES,
            Spending::Rewrite { before, shrinks } if shrinks || is_once_more(before) => FOR_CALLERS_BYTES,
            Spending::Rewrite { .. } => FOR_DELETIONS_BYTES,
        };
        let left = self.bytes.saturating_sub(bytes);
        // The last bytes are not counted exactly: a deletion is tried in any case.
        let is_allowed = left_min == 0 || left >= left_min;
        if is_allowed {
            self.bytes = left;
        }
        is_allowed
    }
}

/// The room of a store. Used by its writer.
pub(crate) struct Room {
    directory: PathBuf,
    /// Whether there is a reserve for each purpose.
    reserves: [bool; 2],
    looked: Instant,
    /// The free bytes at that time.
    free: u64,
    /// The store's revision when there was so little that it is for deletions.
    scarce_since: Option<ResourceVersion>,
    reported: Option<Instant>,
    is_short: ShortOfRoom,
    /// The free bytes according to a test.
    #[cfg(test)]
    pub(crate) pretended_bytes: Option<u64>,
}

/// Whether a store is short of room, for all its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShortOfRoom(Arc<AtomicBool>);

impl ShortOfRoom {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, is_short: bool) {
        self.0.store(is_short, Ordering::Relaxed);
    }
}

impl Room {
    /// The room in a directory, whose log was read and left `unneeded` files. Makes the reserves that are missing.
    pub(crate) fn of(directory: &Path, unneeded: &[PathBuf]) -> io::Result<Self> {
        let mut room = Self {
            directory: directory.to_owned(),
            reserves: Purpose::ALL.map(|purpose| is_reserved(&directory.join(purpose.file()), purpose)),
            looked: Instant::now(),
            free: 0,
            scarce_since: None,
            reported: None,
            is_short: ShortOfRoom::default(),
            #[cfg(test)]
            pretended_bytes: None,
        };
        let unfinished = Purpose::ALL.map(|purpose| room.unfinished(purpose));
        let unfinished = unfinished.iter().filter(|file| file.exists());
        unneeded.iter().chain(unfinished).try_for_each(|file| room.recycle(file))?;
        match room.free_bytes() < SHORT_BYTES {
            true => room.note_short(),
            false => room.is_short.set(true),
        }
        room.look();
        Ok(room)
    }

    pub(crate) fn is_short(&self) -> ShortOfRoom {
        self.is_short.clone()
    }

    /// Looks how much is left, if that was not done lately. Where room is short, that is always done.
    pub(crate) fn look_if_due(&mut self) {
        if self.is_short.get() || self.looked.elapsed() >= LOOK_INTERVAL {
            self.look();
        }
    }

    /// Looks how much is left, and makes reserves of what became free.
    pub(crate) fn look(&mut self) {
        self.looked = Instant::now();
        self.free = self.free_bytes();
        if !self.is_short.get() {
            if self.free < SHORT_BYTES {
                self.note_short();
            }
            return;
        }
        let missing = Purpose::ALL.into_iter().filter(|purpose| !self.has(*purpose)).map(Purpose::bytes);
        let is_enough = self.free >= ENOUGH_BYTES.saturating_add(missing.sum());
        for purpose in Purpose::ALL {
            if !self.has(purpose) && self.free >= purpose.bytes() && self.make(purpose).is_ok() {
                self.free -= purpose.bytes();
            }
        }
        if is_enough && self.reserves == [true, true] {
            self.is_short.set(false);
            self.scarce_since = None;
        }
    }

    /// The budget for writes while room is short, if `prepared` bytes of the log have blocks already.
    pub(crate) fn budget(&mut self, prepared: u64, current: Option<ResourceVersion>) -> Budget {
        let reserved = if self.has(Purpose::Log) { LOG_RESERVE_BYTES } else { 0 };
        let bytes = self.free.saturating_add(prepared).saturating_add(reserved);
        self.scarce_since = match bytes < FOR_DELETIONS_BYTES {
            true => self.scarce_since.or(current),
            false => None,
        };
        Budget { bytes, scarce_since: self.scarce_since }
    }

    /// A write found no room.
    pub(crate) fn note_full(&mut self) {
        if !self.is_short.get() {
            self.note_short();
        }
    }

    /// The file whose blocks are to be used now, if there is one. The caller renames it.
    pub(crate) fn take(&mut self, purpose: Purpose) -> Option<PathBuf> {
        let is_there = std::mem::take(&mut self.reserves[purpose as usize]);
        is_there.then(|| self.directory.join(purpose.file()))
    }

    /// Makes a reserve of a file that is not needed any more, or removes it if no reserve is missing for which it is large
    /// enough. Its blocks are never free in between.
    pub(crate) fn recycle(&mut self, path: &Path) -> io::Result<()> {
        let bytes = allocated_bytes(path)?;
        let fits = |purpose: &Purpose| !self.has(*purpose) && bytes >= purpose.bytes();
        let Some(purpose) = Purpose::ALL.into_iter().rev().find(fits) else { return fs::remove_file(path) };
        self.reuse(path, purpose).or_else(|_| {
            [path, &self.unfinished(purpose)]
                .into_iter()
                .filter(|left| left.exists())
                .try_for_each(fs::remove_file)
        })
    }

    fn reuse(&mut self, path: &Path, purpose: Purpose) -> io::Result<()> {
        // It gets another name first, and durably: a segment that is partly zeroed looks like damage.
        let unfinished = self.unfinished(purpose);
        fs::rename(path, &unfinished)?;
        crash_point();
        path.parent().map_or(Ok(()), sync_folder)?;
        sync_folder(&self.directory)?;
        let file = File::options().read(true).write(true).open(&unfinished)?;
        file.set_len(purpose.bytes())?;
        erase(&file, 0)?;
        file.sync_all()?;
        fs::rename(unfinished, self.directory.join(purpose.file()))?;
        crash_point();
        self.reserves[purpose as usize] = true;
        Ok(())
    }

    /// The name of a file that is about to become a reserve.
    fn unfinished(&self, purpose: Purpose) -> PathBuf {
        self.directory.join(purpose.file()).with_extension("unfinished")
    }

    /// The number of bytes that a rewritten segment may have while room is short.
    pub(crate) fn for_cleaning(&self) -> u64 {
        if self.has(Purpose::Cleaning) { CLEANING_RESERVE_BYTES } else { self.free_bytes() }
    }

    /// Whether the log can begin another segment although room is short, if that frees so many bytes.
    pub(crate) fn has_for_next_segment(&self, freed: u64) -> bool {
        self.has(Purpose::Log) || self.free_bytes().saturating_add(freed) >= LOG_RESERVE_BYTES
    }

    fn has(&self, purpose: Purpose) -> bool {
        self.reserves[purpose as usize]
    }

    fn note_short(&mut self) {
        self.is_short.set(true);
        if self.reported.is_some_and(|reported| reported.elapsed() < REPORT_INTERVAL) {
            return;
        }
        self.reported = Some(Instant::now());
        tracing::error!(
            directory = %self.directory.display(),
            "there is hardly any room on the disk: creations and updates that grow are refused until objects are \
             deleted or disk space is freed"
        );
    }

    /// The bytes that every program may write. Plenty where the file system does not know.
    fn free_bytes(&self) -> u64 {
        #[cfg(test)]
        if let Some(pretended) = self.pretended_bytes {
            return pretended;
        }
        match statvfs(&self.directory) {
            Ok(found) if found.f_blocks > 0 => found.f_bavail.saturating_mul(found.f_frsize),
            _ => u64::MAX,
        }
    }

    fn make(&mut self, purpose: Purpose) -> io::Result<()> {
        let path = self.directory.join(purpose.file());
        let made = File::create(&path).and_then(|file| {
            crash_point();
            fill(&file, purpose.bytes())
        });
        crash_point();
        if made.is_err() {
            let _ = fs::remove_file(&path);
        }
        self.reserves[purpose as usize] = made.is_ok();
        made
    }
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The unit in which the system reports how much room a file takes.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// The room that a file takes.
fn allocated_bytes(path: &Path) -> io::Result<u64> {
    let file = fs::metadata(path)?;
    Ok(file.len().min(file.blocks() * BLOCK_BYTES))
}

/// Whether a file is such a reserve. One that is longer, as earlier versions made it, gives back the rest. One that was
/// copied without its zeros takes no room, and is none.
fn is_reserved(path: &Path, purpose: Purpose) -> bool {
    match allocated_bytes(path) {
        Ok(length) if length > purpose.bytes() => {
            let file = File::options().write(true).open(path);
            file.and_then(|file| file.set_len(purpose.bytes())).is_ok()
        }
        Ok(length) => length == purpose.bytes(),
        Err(_) => false,
    }
}

/// Takes up room.
fn fill(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Not every file system can.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let chunk = vec![0; 64 << 10];
            for _ in 0..bytes / chunk.len() as u64 {
                file.write_all(&chunk)?;
            }
            file.sync_data()
        }
        made => Ok(made?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(directory: &Path) -> u64 {
        let bytes =
            |purpose: Purpose| fs::metadata(directory.join(purpose.file())).map_or(0, |file| file.len());
        Purpose::ALL.into_iter().map(bytes).sum()
    }

    #[test]
    fn a_reserve_is_there_until_it_is_used_and_again_once_there_is_room() {
        let root = tempfile::tempdir().unwrap();
        let mut room = Room::of(root.path(), &[]).unwrap();
        let is_short = room.is_short();
        assert_eq!((reserved(root.path()), is_short.get()), (RESERVE_BYTES, false));
        room.note_full();
        for purpose in Purpose::ALL {
            let taken = room.take(purpose).expect("there is one");
            assert_eq!(
                fs::metadata(&taken).unwrap().len(),
                purpose.bytes(),
                "nobody else can have its blocks"
            );
            fs::rename(taken, root.path().join(format!("used-{}", purpose.file()))).unwrap();
            assert_eq!((room.take(purpose), is_short.get()), (None, true), "once");
        }
        assert_eq!(reserved(root.path()), 0);
        room.look_if_due();
        assert_eq!((reserved(root.path()), is_short.get()), (RESERVE_BYTES, false));
        drop(room);
        assert_eq!(reserved(root.path()), RESERVE_BYTES, "they stay for the next start");
        Room::of(root.path(), &[]).unwrap();
        assert_eq!(reserved(root.path()), RESERVE_BYTES);
    }

    #[test]
    fn a_longer_reserve_of_before_is_cut_and_another_added() {
        let root = tempfile::tempdir().unwrap();
        let before = File::create(root.path().join(Purpose::Cleaning.file())).unwrap();
        fill(&before, 16 << 20).unwrap();
        let room = Room::of(root.path(), &[]).unwrap();
        assert_eq!((reserved(root.path()), room.is_short().get()), (RESERVE_BYTES, false));
    }

    #[test]
    fn room_is_short_when_little_is_left_and_until_there_is_clearly_more() {
        let root = tempfile::tempdir().unwrap();
        let mut room = Room::of(root.path(), &[]).unwrap();
        let is_short = room.is_short();
        for (left, expected) in [
            (SHORT_BYTES, false),
            (SHORT_BYTES - 1, true),
            (SHORT_BYTES, true),
            (ENOUGH_BYTES - 1, true),
            (ENOUGH_BYTES, false),
            (SHORT_BYTES, false),
        ] {
            room.pretended_bytes = Some(left);
            room.look();
            assert_eq!(is_short.get(), expected, "{left}");
            assert_eq!(reserved(root.path()), RESERVE_BYTES, "the reserves are kept for writes that fail");
        }
        room.note_full();
        for purpose in Purpose::ALL {
            fs::remove_file(room.take(purpose).unwrap()).unwrap();
        }
        for (left, has, expected) in [
            (LOG_RESERVE_BYTES - 1, 0, true),
            (LOG_RESERVE_BYTES, LOG_RESERVE_BYTES, true),
            (CLEANING_RESERVE_BYTES, RESERVE_BYTES, true),
            (ENOUGH_BYTES - 1, RESERVE_BYTES, true),
            (ENOUGH_BYTES, RESERVE_BYTES, false),
        ] {
            room.pretended_bytes = Some(left);
            room.look();
            assert_eq!(
                (reserved(root.path()), is_short.get()),
                (has, expected),
                "{left}: what becomes free is reserved first"
            );
        }
    }

    #[test]
    fn a_file_that_is_not_needed_becomes_the_reserve_that_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let mut room = Room::of(root.path(), &[]).unwrap();
        let unneeded = root.path().join("unneeded");
        room.note_full();
        room.pretended_bytes = Some(0);
        for purpose in [Purpose::Cleaning, Purpose::Log] {
            fs::rename(room.take(purpose).unwrap(), &unneeded).unwrap();
            fs::File::options().write(true).open(&unneeded).unwrap().write_all(b"something").unwrap();
            room.recycle(&unneeded).unwrap();
            let again = room.take(purpose).expect("it is reserved again");
            let bytes = fs::read(&again).unwrap();
            assert_eq!((bytes.len() as u64, bytes.iter().max()), (purpose.bytes(), Some(&0)));
            room.recycle(&again).unwrap();
        }
        for small in [0, LOG_RESERVE_BYTES - 1] {
            fs::write(&unneeded, vec![1; small as usize]).unwrap();
            room.recycle(&unneeded).unwrap();
            assert!(!unneeded.exists(), "{small}");
        }
    }

    #[test]
    fn a_reserve_without_blocks_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        for purpose in Purpose::ALL {
            File::create(root.path().join(purpose.file())).unwrap().set_len(purpose.bytes()).unwrap();
        }
        Room::of(root.path(), &[]).unwrap();
        for purpose in Purpose::ALL {
            assert_eq!(allocated_bytes(&root.path().join(purpose.file())).unwrap(), purpose.bytes());
        }
    }

    /// Whether writes of 100 bytes are allowed with so many bytes left, of keys that were last written at 5.
    fn allowed(bytes: u64, scarce_since: Option<u64>) -> [bool; 4] {
        let before = ResourceVersion::new(5).unwrap();
        let budget = Budget { bytes, scarce_since: scarce_since.and_then(ResourceVersion::new) };
        let rewrite = |shrinks| Spending::Rewrite { before, shrinks };
        [Spending::Deletion, Spending::Expiry, rewrite(true), rewrite(false)]
            .map(|spending| budget.clone().spend(spending, 100))
    }

    #[test]
    fn the_last_of_the_room_is_for_deletions() {
        assert_eq!(allowed(FOR_DELETIONS_BYTES + 100, None), [true; 4]);
        let scarce = FOR_DELETIONS_BYTES + 99;
        assert_eq!(allowed(scarce, Some(5)), [true; 4], "every key once more");
        assert_eq!(allowed(scarce, Some(4)), [true, true, true, false], "and no more unless it shrinks");
        assert_eq!(allowed(FOR_CALLERS_BYTES + 99, Some(5)), [true, false, false, false]);
        assert_eq!(allowed(0, Some(5)), [true, false, false, false]);
    }
}
