//! Room on the disk, and a reserve for when there is none.
//!
//! Kept true: as long as there is room, a file takes up [`RESERVE_BYTES`] for nothing. When a write finds no room, the file
//! is removed and the write made again. From then on, and whenever little is left, the store is short of room: it refuses
//! what would grow, so that the rest is for deletions and for compaction, which make room. Once there is enough again the
//! file is made anew, and everything is taken as before.
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

/// Enough to open a log again that failed, and for many thousands of deletions.
pub(crate) const RESERVE_BYTES: u64 = 16 << 20;
/// With less left, the reserve aside, the store is short of room.
const SHORT_BYTES: u64 = 4 << 20;
/// With this much left, the reserve aside, it no longer is. More, so that it does not change with every write.
pub(crate) const ENOUGH_BYTES: u64 = 8 << 20;
/// How often is looked how much is left, while nothing is wrong.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

const RESERVE_FILE: &str = "reserve";

/// How much room a store has. Its writer looks after it.
pub(crate) struct Room {
    reserve: PathBuf,
    has_reserve: bool,
    looked: Instant,
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
    /// Looks at a directory whose log is about to be opened. If little is left the reserve is given up, because opening
    /// needs some.
    pub(crate) fn of(directory: &Path) -> Self {
        let reserve = directory.join(RESERVE_FILE);
        let has_reserve = fs::metadata(&reserve).is_ok_and(|file| file.len() == RESERVE_BYTES);
        let mut room = Self {
            reserve,
            has_reserve,
            looked: Instant::now(),
            is_short: ShortOfRoom::default(),
            #[cfg(test)]
            pretended_bytes: None,
        };
        if room.free_bytes() < SHORT_BYTES {
            room.release();
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
        let missing = if self.has_reserve { 0 } else { RESERVE_BYTES };
        if !self.is_short.get() {
            if free < SHORT_BYTES {
                self.note_short();
            }
        } else if free >= ENOUGH_BYTES.saturating_add(missing) && self.make_reserve().is_ok() {
            self.is_short.set(false);
        }
    }

    /// A write found no room: gives up the reserve. Returns whether there was one, so that the write can be made again.
    pub(crate) fn release(&mut self) -> bool {
        if !self.is_short.get() {
            self.note_short();
        }
        if !std::mem::take(&mut self.has_reserve) {
            return false;
        }
        fs::remove_file(&self.reserve).is_ok()
    }

    fn note_short(&self) {
        self.is_short.set(true);
        let directory = self.reserve.parent().unwrap_or(&self.reserve).display();
        tracing::error!(
            %directory,
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
        let directory = self.reserve.parent().unwrap_or(&self.reserve);
        match statvfs(directory) {
            Ok(found) if found.f_blocks > 0 => found.f_bavail.saturating_mul(found.f_frsize),
            _ => u64::MAX,
        }
    }

    fn make_reserve(&mut self) -> io::Result<()> {
        if self.has_reserve {
            return Ok(());
        }
        let made = File::create(&self.reserve).and_then(|file| fill(&file));
        if made.is_err() {
            let _ = fs::remove_file(&self.reserve);
        }
        self.has_reserve = made.is_ok();
        made
    }
}

/// Takes up room.
fn fill(mut file: &File) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        // Not every file system can.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let chunk = vec![0; 64 << 10];
            for _ in 0..RESERVE_BYTES / chunk.len() as u64 {
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

    fn reserved(directory: &Path) -> Option<u64> {
        fs::metadata(directory.join(RESERVE_FILE)).ok().map(|file| file.len())
    }

    #[test]
    fn the_reserve_is_there_until_it_is_needed_and_again_once_there_is_room() {
        let root = tempfile::tempdir().unwrap();
        let mut room = Room::of(root.path());
        let is_short = room.is_short();
        assert_eq!((reserved(root.path()), is_short.get()), (Some(RESERVE_BYTES), false));
        assert!(room.release(), "the write can be made again");
        assert_eq!((reserved(root.path()), is_short.get()), (None, true));
        assert!(!room.release(), "once");
        room.look_if_due();
        assert_eq!((reserved(root.path()), is_short.get()), (Some(RESERVE_BYTES), false));
        drop(room);
        assert_eq!(reserved(root.path()), Some(RESERVE_BYTES), "it stays for the next start");
        Room::of(root.path());
        assert_eq!(reserved(root.path()), Some(RESERVE_BYTES));
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
            assert_eq!(
                reserved(root.path()),
                Some(RESERVE_BYTES),
                "the reserve is kept for writes that fail"
            );
        }
        assert!(room.release());
        for (left, expected) in [(ENOUGH_BYTES, true), (ENOUGH_BYTES + RESERVE_BYTES, false)] {
            room.pretended_bytes = Some(left);
            room.look();
            assert_eq!(is_short.get(), expected, "{left}: the reserve has to fit too");
        }
    }
}
