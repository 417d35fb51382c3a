//! Entries on disk: every version that a reader may ask for, in the order of their revisions, in files that only grow.
//!
//! Kept true:
//! - a write returns only when it is on disk, all of it or (after a crash) nothing, and the next begins after that;
//! - entries above the last revision that was appended successfully never come back: the rest of a failed append is
//!   removed before anything else is written;
//! - opening reads every entry that was appended and is needed, or fails.
//!
//! Blocks that were written before are synced faster than new ones, so zeros are written ahead. A write
//! that finds no room is made once more in a segment whose blocks were reserved for that: see `room`. The bytes of a segment:
//! `record` and `segment`; reading the log: `recovery`; giving back room: `clean`.

use crate::{
    clean::{self, Cleaning, DEAD_BYTES_SHORT, Fill, Needs},
    directory::{Directory, OpenError, make_private},
    entry::{Entry, Unneeded},
    record::{Batch, Header},
    recovery::{Recover, Recovered, recover},
    room::{Budget, Purpose, Room, ShortOfRoom, is_full},
    segment::{SEGMENT_BYTES, Segment, Segments, checked_frames, crash_point, salt, sync_folder},
};
use bytes::Bytes;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::StorageError;
use parking_lot::RwLock;
use std::{
    fs, io,
    os::unix::fs::FileExt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Zeros are written ahead in pieces as long as the segment is already, within these limits.
const FILL_BYTES_MIN: u64 = 256 << 10;
const FILL_BYTES_MAX: u64 = 4 << 20;
/// The length of the zeros in memory from which such a piece is written.
const FILL_CHUNK_BYTES: usize = 128 << 10;
/// Below this a write is quick, if there is room for so many bytes in blocks that are there.
const QUICK_WRITE: Duration = Duration::from_millis(1);
const QUICK_BYTES: u64 = 64 << 10;
/// The limit of a batch that begins the reserve. The reserve is for deletions and for writes that lead to them; larger
/// batches are refused, so that they do not use it up.
pub(crate) const RESERVE_WRITE_BYTES_MAX: usize = 256 << 10;
/// A segment grows by so much before the log tries again to begin the next one.
const RETRY_BYTES: u64 = 1 << 20;

/// The writing end. There is one.
pub(crate) struct Log {
    directory: Directory,
    reader: LogReader,
    /// The segment that is written to.
    head: Arc<Segment>,
    /// The checksum of its last batch.
    chain: u64,
    /// The place up to which it has blocks.
    filled: u64,
    /// The segment that comes after it, once that is made.
    next: Option<Segment>,
    /// The length at which the next segment is begun.
    full: u64,
    batch: Batch,
    last: Option<ResourceVersion>,
    compacted: Option<ResourceVersion>,
    /// Set by a failed write, until its rest is removed.
    broken: bool,
    /// The duration of the last write; unknown at first, and after a write that failed.
    last_write_took: Option<Duration>,
    room: Room,
    cleaning: Option<Cleaning>,
}

/// Reads single versions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct LogReader {
    segments: Arc<RwLock<Segments>>,
    is_short_of_room: ShortOfRoom,
}

impl Log {
    /// Opens the log of a directory and returns its contents.
    pub(crate) fn open(directory: Directory, recover_to: &mut impl Recover) -> Result<Self, OpenError> {
        let io = |doing| {
            let path = directory.path().to_owned();
            move |source| OpenError::Io { doing, path, source }
        };
        make(&directory).map_err(io("make the log"))?;
        let recovered =
            recover(&directory.log_path(), recover_to).map_err(|fault| fault.of(directory.path()))?;
        let Recovered { segments, chain, last, compacted, unneeded } = recovered;
        let room = Room::of(directory.path(), &unneeded).map_err(io("open the log"))?;
        let head = segments.0.last().expect("a log has a segment").clone();
        let filled = head.file.metadata().map_err(io("open the log"))?.len();
        let reader =
            LogReader { segments: Arc::new(RwLock::new(segments)), is_short_of_room: room.is_short() };
        Ok(Self {
            directory,
            reader,
            head,
            chain,
            filled,
            next: None,
            full: SEGMENT_BYTES,
            batch: Batch::default(),
            last,
            compacted,
            broken: false,
            last_write_took: None,
            room,
            cleaning: None,
        })
    }

    pub(crate) fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Whether a write will probably be quick enough for a thread that also has other tasks.
    pub(crate) fn is_quick(&self) -> bool {
        let end = self.head.end() + QUICK_BYTES;
        let is_prepared = end <= self.filled && end <= self.full && self.next.is_none();
        is_prepared && self.last_write_took.is_some_and(|took| took < QUICK_WRITE)
    }

    /// The budget for writes if room is short; absent if not. Looks from time to time how much room is left.
    pub(crate) fn budget(&mut self) -> Option<Budget> {
        self.room.look_if_due();
        let prepared = self.filled.saturating_sub(self.head.end());
        self.reader.is_short_of_room().then(|| self.room.budget(prepared, self.last))
    }

    /// Looks how much room is left. Called from time to time, because there may be no writes.
    pub(crate) fn look_for_room(&mut self) {
        self.room.look();
    }

    #[cfg(test)]
    pub(crate) fn pretend_room(&mut self, bytes: u64) {
        self.room.pretended_bytes = Some(bytes);
    }

    /// Writes entries, in order of their revisions, all or none.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), StorageError> {
        self.batch.clear();
        entries.iter().for_each(|entry| self.batch.entry(entry));
        self.write()?;
        self.last = entries.last().map(|entry| entry.revision).or(self.last);
        Ok(())
    }

    /// Notes a compaction and the versions that it made superfluous.
    pub(crate) fn compact(
        &mut self,
        compacted: ResourceVersion,
        unneeded: &[Unneeded],
    ) -> Result<(), StorageError> {
        self.reader.segments.read().note_unneeded(unneeded);
        self.batch.clear();
        self.batch.compacted(compacted);
        self.write()?;
        self.compacted = Some(compacted);
        Ok(())
    }

    /// Does some of the work of giving back room. Returns whether there is more to do.
    pub(crate) fn clean(&mut self, needs: &impl Needs) -> Result<bool, StorageError> {
        let cleaned = self.try_clean(needs);
        if let Err(error) = &cleaned {
            self.abandon_cleaning();
            if is_full(error) {
                self.room.note_full();
                // The blocks of the abandoned file are reserved again.
                self.room.look();
            }
        }
        cleaned.map_err(|error| storage_error("rewriting the log", error))
    }

    fn try_clean(&mut self, needs: &impl Needs) -> io::Result<bool> {
        if self.cleaning.is_none() {
            let Some(cleaning) = self.next_cleaning(needs)? else { return Ok(false) };
            self.cleaning = Some(cleaning);
        }
        if let Some(cleaning) = &mut self.cleaning
            && cleaning.step(needs)?
            && let Some(cleaning) = self.cleaning.take()
        {
            let (segments, unfinished) = (&self.reader.segments, cleaning.unfinished());
            let finished =
                cleaning.finish(needs, |sources, output| segments.write().replace(sources, output));
            if finished.is_err() {
                // It is gone if the new segment has its name already.
                let _ = self.room.recycle(&unfinished);
            }
            finished?;
            if self.reader.is_short_of_room() {
                self.room.look();
            }
        }
        Ok(true)
    }

    fn abandon_cleaning(&mut self) {
        if let Some(cleaning) = self.cleaning.take() {
            let _ = self.room.recycle(&cleaning.unfinished());
        }
    }

    fn next_cleaning(&mut self, needs: &impl Needs) -> io::Result<Option<Cleaning>> {
        let is_short = self.reader.is_short_of_room();
        // A head without blocks could not take the next deletion.
        let prepared = self.filled.saturating_sub(self.head.end());
        let may_begin_next = || self.room.has_for_next_segment(prepared);
        if is_short && self.head.dead() > DEAD_BYTES_SHORT && !self.broken && may_begin_next() {
            match self.begin_next() {
                Err(error) if !is_full(&error) || !self.begin_on_reserve()? => return Err(error),
                _ => {}
            }
            // The blocks that the sealed segment does not need are reserved before others take them.
            self.room.look();
        }
        let segments = self.reader.segments.read();
        let (_, sealed) = segments.0.split_last().expect("a log has a segment");
        let fills: Vec<_> = sealed.iter().map(|segment| Fill::of(segment)).collect();
        let room = is_short.then(|| self.room.for_cleaning());
        let Some(run) = clean::choose(&fills, room) else { return Ok(None) };
        let reserve = if is_short { self.room.take(Purpose::Cleaning) } else { None };
        Cleaning::begin(&self.directory.log_path(), &segments.0, run, needs, reserve.as_deref()).map(Some)
    }

    /// Writes the batch.
    fn write(&mut self) -> Result<(), StorageError> {
        let written = match self.write_once() {
            Err(error) if is_full(&error) => self.write_to_reserve(error),
            written => written,
        };
        written.map_err(|error| storage_error("writing to the log", error))
    }

    /// Writes the batch once more after it found no room.
    fn write_to_reserve(&mut self, error: io::Error) -> io::Result<()> {
        self.room.note_full();
        let may_use = self.batch.len() <= RESERVE_WRITE_BYTES_MAX;
        if may_use && self.begin_on_reserve()? { self.write_once() } else { Err(error) }
    }

    /// Begins the next segment in the blocks that are reserved for that. Returns whether there are any.
    fn begin_on_reserve(&mut self) -> io::Result<bool> {
        if self.broken {
            self.cut()?;
        }
        if self.next.is_none() {
            let Some(reserve) = self.room.take(Purpose::Log) else { return Ok(false) };
            let unfinished = Segment::begin_on(&reserve, &self.directory.log_path(), self.next_header())?;
            crash_point();
            self.next = Some(unfinished.publish()?);
        }
        self.begin_next()?;
        Ok(true)
    }

    fn write_once(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        self.last_write_took = None;
        if self.broken {
            self.cut()?;
            tracing::info!(directory = %self.directory.path().display(), "the log takes writes again");
        }
        self.begin_next_if_full()?;
        self.fill_ahead();
        match self.head.append(&mut self.batch, self.chain) {
            Ok(check) => self.chain = check,
            Err(error) => {
                self.broken = true;
                // A full disk is logged by `room`.
                if !is_full(&error) {
                    tracing::error!(%error, "the log could not be written to");
                }
                // If that fails too, it is done before the next write.
                let _ = self.cut();
                return Err(error);
            }
        }
        self.filled = self.filled.max(self.head.end());
        self.last_write_took = Some(begun.elapsed());
        Ok(())
    }

    /// Removes the rest of a failed write.
    fn cut(&mut self) -> io::Result<()> {
        self.head.clear_behind_end(self.filled)?;
        self.filled = self.head.file.metadata()?.len();
        self.broken = false;
        Ok(())
    }

    fn fill_ahead(&mut self) {
        let end = self.head.end();
        let needed = end + self.batch.len() as u64;
        let ahead = self.filled.max(needed) + end.clamp(FILL_BYTES_MIN, FILL_BYTES_MAX);
        let goal = ahead.min(self.full.max(needed));
        let is_enough = needed + QUICK_BYTES <= self.filled || goal <= self.filled;
        if is_enough || self.reader.is_short_of_room() {
            return;
        }
        let zeros = vec![0; FILL_CHUNK_BYTES];
        // If this fails, only speed is lost. If the disk is full, the write itself fails.
        while self.filled < goal && self.head.file.write_all_at(&zeros, self.filled).is_ok() {
            self.filled += FILL_CHUNK_BYTES as u64;
        }
    }

    fn begin_next_if_full(&mut self) -> io::Result<()> {
        let is_empty = self.head.bytes() == 0;
        if self.next.is_none() && (is_empty || self.head.end() + self.batch.len() as u64 <= self.full) {
            return Ok(());
        }
        match self.begin_next() {
            // Without a next segment this one becomes longer.
            Err(error) if self.next.is_none() => {
                tracing::warn!(%error, "the next segment of the log could not be begun; trying again");
                self.full = self.head.end() + self.batch.len() as u64 + RETRY_BYTES;
                Ok(())
            }
            begun => begun,
        }
    }

    fn next_header(&self) -> Header {
        let number = self.head.header.next;
        Header {
            number,
            next: number + 1,
            first: self.last.map_or(0, ResourceVersion::get) + 1,
            compacted: self.compacted.map_or(0, ResourceVersion::get),
            cleaned: 0,
            previous: self.chain,
            replaced: 0,
            salt: salt(),
        }
    }

    /// Begins the next segment. Later batches are written there.
    fn begin_next(&mut self) -> io::Result<()> {
        let folder = self.directory.log_path();
        if self.next.is_none() {
            let unfinished = Segment::begin(&folder, self.next_header())?;
            crash_point();
            self.next = Some(unfinished.publish()?);
        }
        // The file is there, so nothing may be written before it, and nothing to it before it is sure to stay.
        sync_folder(&folder)?;
        crash_point();
        let Some(next) = self.next.take().map(Arc::new) else { return Ok(()) };
        self.seal_head(next.header.number);
        self.chain = next.header.salt;
        // More, if its blocks were reserved.
        self.filled = next.file.metadata().map_or(next.end(), |file| file.len());
        self.full = SEGMENT_BYTES;
        self.head = next.clone();
        self.reader.segments.write().0.push(next);
        Ok(())
    }

    /// Notes that the head is complete, and gives back the zeros that were written ahead. It is complete without that, too.
    fn seal_head(&mut self, next: u64) {
        let mut note = Batch::default();
        note.clear();
        note.sealed(next);
        if let Err(error) = self.head.append(&mut note, self.chain) {
            tracing::warn!(%error, "a segment of the log could not be sealed");
        }
        crash_point();
        let _ = self.head.file.set_len(self.head.end());
        crash_point();
    }
}

/// Makes an empty log, unless there is one. It is complete before the directory gets its format.
fn make(directory: &Directory) -> io::Result<()> {
    let (log, unfinished) = (directory.log_path(), directory.path().join("log.unfinished"));
    if directory.is_new() {
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        make_private(&unfinished)?;
        let header = Header {
            number: 1,
            next: 2,
            first: 1,
            compacted: 0,
            cleaned: 0,
            previous: 0,
            replaced: 0,
            salt: salt(),
        };
        Segment::begin(&unfinished, header)?.publish()?;
        sync_folder(&unfinished)?;
        directory.write_format()?;
    }
    if !log.exists() && unfinished.exists() {
        fs::rename(&unfinished, &log)?;
        directory.sync()?;
    }
    Ok(())
}

impl Drop for Log {
    fn drop(&mut self) {
        self.abandon_cleaning();
        // With that behind it, the last batch cannot be taken for one that was never acknowledged.
        if !self.broken && self.next.is_none() && self.head.bytes() > 0 {
            self.batch.clear();
            self.batch.closed();
            let _ = self.head.append(&mut self.batch, self.chain);
        }
        *self.reader.segments.write() = Segments::default();
    }
}

impl LogReader {
    /// Whether writes that grow are refused.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.is_short_of_room.get()
    }

    /// The entry of a revision; absent once it is compacted away.
    pub(crate) fn read(&self, revision: ResourceVersion) -> Result<Option<Entry>, StorageError> {
        let mut found = None;
        self.read_all(revision, revision, |entry| {
            found = Some(entry);
            false
        })?;
        Ok(found)
    }

    /// The entries from one revision to another, in order, as long as `take` wants more. Some may be compacted away.
    pub(crate) fn read_all(
        &self,
        first: ResourceVersion,
        last: ResourceVersion,
        take: impl FnMut(Entry) -> bool,
    ) -> Result<(), StorageError> {
        self.try_read(first.get(), last.get(), take)
            .map_err(|error| storage_error("reading old versions from the log", error))
    }

    fn try_read(&self, first: u64, last: u64, mut take: impl FnMut(Entry) -> bool) -> io::Result<()> {
        // A file that is replaced meanwhile can still be read, because it is open.
        let segments = self.segments.read().from(first).to_vec();
        if segments.is_empty() {
            return Err(io::Error::other("the log is closed"));
        }
        for segment in segments.iter().take_while(|segment| segment.header.first <= last) {
            let mut number = segment.block_of(first);
            while let Some(block) = segment.read_block(number)? {
                number += 1;
                let block = Bytes::from(block);
                for frame in checked_frames(&block) {
                    let frame = frame?;
                    if frame.number > last {
                        return Ok(());
                    }
                    if frame.number < first {
                        continue;
                    }
                    let entry = decode_large(frame.number, frame.payload(), &block);
                    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "an entry is damaged");
                    if !take(entry.ok_or_else(damaged)?) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Decodes an entry. A large one keeps its whole block in memory, a small one is copied.
fn decode_large(revision: u64, payload: &[u8], block: &Bytes) -> Option<Entry> {
    let revision = ResourceVersion::new(revision)?;
    if payload.len() < block.len() / 2 {
        return Entry::decode(revision, payload);
    }
    Entry::decode_shared(revision, &block.slice_ref(payload))
}

fn storage_error(doing: &'static str, error: io::Error) -> StorageError {
    match is_full(&error) {
        true => StorageError::Full { source: error.into() },
        false => StorageError::Backend { doing, source: error.into() },
    }
}

#[cfg(test)]
mod tests;
