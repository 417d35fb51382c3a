//! One file of the log, and what the store keeps in memory about it.
//!
//! Kept true: a file has its name only when its header is durable; bytes behind `end` were never acknowledged; a block
//! begins with a frame, and its frames and those of the blocks before it are in the order of their revisions.
//!
//! Old versions are found by blocks: 16 bytes of memory for about 32 KiB on disk.

use crate::{
    entry::Unneeded,
    record::{Batch, Frame, Frames, HEADER_BYTES, Header},
};
use parking_lot::RwLock;
use std::{
    fs::{self, File},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The length of a segment, unless a single batch is longer.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 20;
/// The size of the piece that is read to find an old version.
const BLOCK_BYTES: u64 = 32 << 10;

const EXTENSION: &str = "segment";
const UNFINISHED: &str = "unfinished";

/// A segment that can be read, and whose last one is written to by the one writer.
pub(crate) struct Segment {
    pub(crate) header: Header,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    end: AtomicU64,
    blocks: RwLock<Vec<Block>>,
    /// The number of its bytes that are unneeded versions. It decides when the segment is rewritten, not which versions stay.
    dead: AtomicU64,
    /// The number of its bytes that are deletions which only older segments still need.
    held: AtomicU64,
}

#[derive(Clone, Copy)]
struct Block {
    /// The revision of its first frame.
    first: u64,
    at: u64,
}

impl Segment {
    /// Makes a file that is not yet part of the log.
    pub(crate) fn begin(folder: &Path, header: Header) -> io::Result<Self> {
        let path = folder.join(format!("{:016}.{UNFINISHED}", header.number));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.write_all_at(&header.encode(), 0)?;
        Ok(Self::of(header, path, file))
    }

    /// The same in the blocks of a reserve, which holds nothing but zeros.
    pub(crate) fn begin_on(reserve: &Path, folder: &Path, header: Header) -> io::Result<Self> {
        let path = folder.join(format!("{:016}.{UNFINISHED}", header.number));
        fs::rename(reserve, &path)?;
        let file = File::options().read(true).write(true).open(&path)?;
        file.write_all_at(&header.encode(), 0)?;
        Ok(Self::of(header, path, file))
    }

    pub(crate) fn of(header: Header, path: PathBuf, file: File) -> Self {
        Self {
            header,
            path,
            file,
            end: AtomicU64::new(HEADER_BYTES as u64),
            blocks: RwLock::default(),
            dead: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// Gives a file that is complete the name of a segment, in place of one that has it. That is durable once the
    /// folder is synced.
    pub(crate) fn publish(mut self) -> io::Result<Self> {
        self.file.sync_all()?;
        crash_point();
        let path = self.path.with_extension(EXTENSION);
        fs::rename(&self.path, &path)?;
        crash_point();
        self.path = path;
        Ok(self)
    }

    /// The place behind its last batch.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// The number of bytes of its frames and batches.
    pub(crate) fn bytes(&self) -> u64 {
        self.end() - HEADER_BYTES as u64
    }

    pub(crate) fn dead(&self) -> u64 {
        self.dead.load(Ordering::Relaxed).min(self.bytes())
    }

    pub(crate) fn add_dead(&self, bytes: u64) {
        self.dead.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn hold(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
    }

    /// Counts the held deletions as unneeded: the older segments that needed them are gone.
    pub(crate) fn release_held(&self) {
        self.add_dead(self.held.swap(0, Ordering::Relaxed));
    }

    /// Writes a batch behind the last one and waits until it is durable. Returns its checksum.
    pub(crate) fn append(&self, batch: &mut Batch, previous: u64) -> io::Result<u64> {
        let place = self.end();
        let (bytes, check) = batch.finish(self.header.salt, place, previous);
        write_interruptibly(&self.file, bytes, place)?;
        self.file.sync_data()?;
        self.note(bytes, place);
        Ok(check)
    }

    /// Notes whole frames and batches that are written behind `end`.
    pub(crate) fn note(&self, bytes: &[u8], place: u64) {
        for frame in Frames::new(bytes).filter(|frame| !frame.is_note()) {
            let at = place + frame.at as u64;
            let last = self.blocks.read().last().map(|block| block.at);
            if last.is_none_or(|last| at - last >= BLOCK_BYTES) {
                self.blocks.write().push(Block { first: frame.number, at });
            }
        }
        self.end.store(place + bytes.len() as u64, Ordering::Release);
    }

    /// Removes everything behind the end, durably. Blocks up to `filled` are kept, because other programs would take them.
    pub(crate) fn clear_behind_end(&self, filled: u64) -> io::Result<()> {
        let end = self.end();
        let kept = || {
            if self.file.metadata()?.len() > filled.max(end) {
                self.file.set_len(filled.max(end))?;
            }
            erase(&self.file, end)
        };
        // Some file systems write zeros to new blocks, and there may be none.
        kept().or_else(|_| self.file.set_len(end))?;
        self.file.sync_all()
    }

    /// The number of the block that holds a revision, if there is one.
    pub(crate) fn block_of(&self, revision: u64) -> usize {
        self.blocks.read().partition_point(|block| block.first <= revision).saturating_sub(1)
    }

    /// Reads a block; nothing behind the last one.
    pub(crate) fn read_block(&self, number: usize) -> io::Result<Option<Vec<u8>>> {
        let (begin, end) = {
            let blocks = self.blocks.read();
            let Some(block) = blocks.get(number) else { return Ok(None) };
            (block.at, blocks.get(number + 1).map_or_else(|| self.end(), |next| next.at))
        };
        // No reader wants a block that is just being added: its revisions are not visible yet.
        let mut bytes = vec![0; end.saturating_sub(begin) as usize];
        self.file.read_exact_at(&mut bytes, begin)?;
        Ok(Some(bytes))
    }
}

/// The frames of a block except notes, or an error if one is damaged.
pub(crate) fn checked_frames(block: &[u8]) -> impl Iterator<Item = io::Result<Frame<'_>>> {
    let mut frames = Frames::new(block);
    std::iter::from_fn(move || match frames.next() {
        Some(frame) if frame.is_whole() => Some(Ok(frame)),
        None if frames.is_at_end() => None,
        _ => {
            frames = Frames::new(&[]);
            Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a block of the log is damaged")))
        }
    })
    .filter(|frame| !frame.as_ref().is_ok_and(Frame::is_note))
}

/// All segments, oldest first.
#[derive(Default)]
pub(crate) struct Segments(pub(crate) Vec<Arc<Segment>>);

impl Segments {
    /// The segments with this revision or a later one.
    pub(crate) fn from(&self, revision: u64) -> &[Arc<Segment>] {
        let after = self.0.partition_point(|segment| segment.header.first <= revision);
        &self.0[after.saturating_sub(1)..]
    }
}

impl Segments {
    /// Puts a segment in the place of some that follow one another.
    pub(crate) fn replace(&mut self, sources: &[Arc<Segment>], output: Segment) {
        let Some(begin) = self.0.iter().position(|segment| Arc::ptr_eq(segment, &sources[0])) else { return };
        self.0.splice(begin..begin + sources.len(), [Arc::new(output)]);
        // Deletions in later segments may have been held because of the entries that are gone now.
        self.0[begin + 1..].iter().for_each(|segment| segment.release_held());
    }

    /// Notes that these versions are not needed any more.
    pub(crate) fn note_unneeded(&self, unneeded: &[Unneeded]) {
        for version in unneeded {
            if let Some(segment) = self.from(version.revision.get()).first() {
                segment.add_dead(version.bytes);
            }
        }
    }
}

/// A number that no other segment has.
pub(crate) fn salt() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The kind of a file in the folder of a log.
pub(crate) enum Name {
    Segment(u64),
    Unfinished,
    Other,
}

pub(crate) fn name(path: &Path) -> Name {
    let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
    match (number, path.extension().and_then(|extension| extension.to_str())) {
        (Some(number), Some(EXTENSION)) => Name::Segment(number),
        (Some(_), Some(UNFINISHED)) => Name::Unfinished,
        _ => Name::Other,
    }
}

/// Writes bytes, of which a power cut may leave any part. In a test there is a moment at which half of them are there.
fn write_interruptibly(file: &File, bytes: &[u8], place: u64) -> io::Result<()> {
    let (first, rest) = bytes.split_at(if cfg!(test) { bytes.len() / 2 } else { 0 });
    if !first.is_empty() {
        file.write_all_at(first, place)?;
        crash_point();
    }
    file.write_all_at(rest, place + first.len() as u64)
}

/// The sizes of the pieces in which a file is read and zeroed.
const ERASE_READ_BYTES: usize = 128 << 10;
const ERASE_WRITE_BYTES: usize = 4 << 10;

/// Writes zeros over everything in a file from a place on. Takes no room, because only blocks with something in them are
/// written to.
pub(crate) fn erase(file: &File, from: u64) -> io::Result<()> {
    let (mut read, zeros) = (vec![0; ERASE_READ_BYTES], [0; ERASE_WRITE_BYTES]);
    let mut at = from;
    loop {
        let length = file.read_at(&mut read, at)?;
        if length == 0 {
            return Ok(());
        }
        let mut is_changed = false;
        for piece in read[..length].chunks(ERASE_WRITE_BYTES) {
            let zeros = &zeros[..piece.len()];
            if piece != zeros {
                file.write_all_at(zeros, at)?;
                is_changed = true;
            }
            at += piece.len() as u64;
        }
        if is_changed {
            crash_point();
        }
    }
}

/// Makes the names of the files in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A moment at which a test takes the state that a power cut would leave.
pub(crate) fn crash_point() {
    #[cfg(test)]
    tests::CRASH.with_borrow_mut(|crash| {
        if let Some(crash) = crash {
            crash();
        }
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    thread_local! {
        /// Called wherever the files are in a state that a crash could leave.
        pub(crate) static CRASH: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    }
}
