//! Room on the disk, and reserves for when there is none.
//!
//! Kept true: as long as there is room, two files take up [`RESERVE_BYTES`] for nothing. When there is none, the log goes on
//! in the blocks of one, and what is rewritten to give back room is written to the other: they are renamed, never removed,
//! because room that is given up belongs to whoever takes it first. From then on, and whenever little is left, the store is
//! short of room: it refuses what would grow, so that the rest is for deletions and for compaction, which make room. What
//! becomes free goes to the reserves first. Once there is enough again, everything is taken as before.
//!
//! Not here: which writes are refused (`commit`), what is compacted (`compact`).

use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// What both reserves take together.
pub(crate) const RESERVE_BYTES: u64 = LOG_RESERVE_BYTES + CLEANING_RESERVE_BYTES;
/// Enough for many thousands of deletions.
const LOG_RESERVE_BYTES: u64 = 4 << 20;
/// Enough for what is still needed of a segment from which something was deleted.
const CLEANING_RESERVE_BYTES: u64 = 12 << 20;
/// With less left, the reserve aside, the store is short of room.
const SHORT_BYTES: u64 = 4 << 20;
/// With this much left, the reserve aside, it no longer is. More, so that it does not change with every write.
pub(crate) const ENOUGH_BYTES: u64 = 8 << 20;
/// What reserves that are made anew leave for small files, such as those that a server writes when it starts.
const LEFT_BYTES: u64 = 256 << 10;
/// How often is looked how much is left, while nothing is wrong.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How often it is logged that room is short, if it is so again and again.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// What a reserve is for.
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

/// How much room a store has. Its writer looks after it.
pub(crate) struct Room {
    directory: PathBuf,
    /// Which reserves there are.
    reserves: [bool; 2],
    looked: Instant,
    reported: Option<Instant>,
    is_short: ShortOfRoom,
    /// What a test says is left.
    #[cfg(test)]
    pub(crate) pretended_bytes: Option<u64>,
}

/// Whether a store is short of room, for everyone to see.
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
    /// Looks at a directory whose log is about to be opened. If little is left the smaller reserve is given up, because a
    /// server may have to write something to start.
    pub(crate) fn of(directory: &Path) -> Self {
        let mut room = Self {
            directory: directory.to_owned(),
            reserves: Purpose::ALL.map(|purpose| is_reserved(&directory.join(purpose.file()), purpose)),
            looked: Instant::now(),
            reported: None,
            is_short: ShortOfRoom::default(),
            #[cfg(test)]
            pretended_bytes: None,
        };
        if room.free_bytes() < SHORT_BYTES {
            room.note_short();
            if let Some(reserve) = room.take(Purpose::Log) {
                let _ = fs::remove_file(reserve);
            }
        } else {
            room.is_short.set(true);
            room.look();
        }
        room
    }

    pub(crate) fn is_short(&self) -> ShortOfRoom {
        self.is_short.clone()
    }

    /// Looks, if that was not done lately. Where room is short, that is always done.
    pub(crate) fn look_if_due(&mut self) {
        if self.is_short.get() || self.looked.elapsed() >= LOOK_INTERVAL {
            self.look();
        }
    }

    /// Looks how much is left.
    pub(crate) fn look(&mut self) {
        self.looked = Instant::now();
        let free = self.free_bytes();
        if !self.is_short.get() {
            if free < SHORT_BYTES {
                self.note_short();
            }
            return;
        }
        let missing = Purpose::ALL.into_iter().filter(|purpose| !self.has(*purpose)).map(Purpose::bytes);
        let is_enough = free >= ENOUGH_BYTES.saturating_add(missing.sum());
        let mut left = free;
        for purpose in Purpose::ALL {
            if !self.has(purpose) && left >= purpose.bytes() + LEFT_BYTES && self.make(purpose).is_ok() {
                left -= purpose.bytes();
            }
        }
        if is_enough && self.reserves == [true, true] {
            self.is_short.set(false);
        }
    }

    /// A write found no room.
    pub(crate) fn note_full(&mut self) {
        if !self.is_short.get() {
            self.note_short();
        }
    }

    /// The file whose blocks are to be used now, if there is one. It is renamed by whoever uses it.
    pub(crate) fn take(&mut self, purpose: Purpose) -> Option<PathBuf> {
        let is_there = std::mem::take(&mut self.reserves[purpose as usize]);
        is_there.then(|| self.directory.join(purpose.file()))
    }

    /// How much can be written anew while room is short.
    pub(crate) fn for_cleaning(&self) -> u64 {
        if self.has(Purpose::Cleaning) { CLEANING_RESERVE_BYTES } else { self.free_bytes() }
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

    /// How much others may write. Plenty where the file system does not say.
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
        let made = File::create(&path).and_then(|file| fill(&file, purpose.bytes()));
        if made.is_err() {
            let _ = fs::remove_file(&path);
        }
        self.reserves[purpose as usize] = made.is_ok();
        made
    }
}

/// Whether a file is such a reserve. One that is longer, as others made it before, gives back the rest.
fn is_reserved(path: &Path, purpose: Purpose) -> bool {
    match fs::metadata(path).map(|file| file.len()) {
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
        let mut room = Room::of(root.path());
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
        Room::of(root.path());
        assert_eq!(reserved(root.path()), RESERVE_BYTES);
    }

    #[test]
    fn a_longer_reserve_of_before_is_cut_and_another_added() {
        let root = tempfile::tempdir().unwrap();
        let before = File::create(root.path().join(Purpose::Cleaning.file())).unwrap();
        fill(&before, 16 << 20).unwrap();
        let room = Room::of(root.path());
        assert_eq!((reserved(root.path()), room.is_short().get()), (RESERVE_BYTES, false));
    }

    #[test]
    fn room_is_short_when_little_is_left_and_until_there_is_clearly_more() {
        let root = tempfile::tempdir().unwrap();
        let mut room = Room::of(root.path());
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
            (LOG_RESERVE_BYTES + LEFT_BYTES - 1, 0, true),
            (LOG_RESERVE_BYTES + LEFT_BYTES, LOG_RESERVE_BYTES, true),
            (CLEANING_RESERVE_BYTES + LEFT_BYTES, RESERVE_BYTES, true),
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
}
