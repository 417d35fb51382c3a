//! The end of fjall's journal, looked at before fjall does.
//!
//! Every batch we write is synced before the next begins, and none begins after one that failed. So after a crash, a
//! power cut or a failed write all batches are whole but the last, which may be cut short or have holes and was never
//! acknowledged: it is cut off. A batch that is not whole and has a whole one behind it is damage to what was
//! acknowledged. fjall would drop it and everything behind
//! it without a word, or refuse some forms of a torn end; here the one is an error and the other is not.
//!
//! A torn first batch has a beginning that we know, as far as it was written. A journal that begins otherwise and has no
//! batch that we can read was not written by us, or by another version: it is left alone, and that is an error too.
//!
//! A batch is a start (tag, number of items, sequence number), its items (tag, type, compression, keyspace, lengths of
//! key and value, key, value) and an end (tag, checksum of the items, magic). All keys are revisions: see `log`.

use rustix::{fs::SeekFrom, io::Errno};
use std::{
    error::Error,
    fmt,
    fs::{self, File},
    io::{self, BufReader, Read, Seek, Write},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::Xxh3;

const START_TAG: u8 = 1;
const START_BYTES: usize = 1 + 4 + 8;
const ITEM_TAG: u8 = 2;
const ITEM_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const KEY_BYTES: usize = 8;
const UNCOMPRESSED: u8 = 0;
const END_TAG: u8 = 3;
const END_BYTES: usize = 1 + 8 + 4;
const MAGIC: [u8; 4] = *b"FJL\x03";

/// What is wrong with a journal beyond a torn end.
#[derive(Debug)]
pub(crate) enum JournalError {
    Io(io::Error),
    /// Acknowledged batches stand behind one that cannot be read.
    Damaged {
        journal: PathBuf,
        at: u64,
    },
    /// Nothing in it can be read, and it is not what is left of a batch of ours.
    Unrecognised {
        journal: PathBuf,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Damaged { journal, at } => {
                write!(
                    f,
                    "{} cannot be read from byte {at} on, though it goes on behind that",
                    journal.display()
                )
            }
            Self::Unrecognised { journal } => {
                write!(f, "{} is not in the format of this program", journal.display())
            }
        }
    }
}

impl Error for JournalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Cuts what was not acknowledged off the end of a log's journals: a batch that is not whole and, where the last
/// acknowledged revision is known, one with a later revision.
pub(crate) fn trim(log: &Path, last: Option<u64>) -> Result<(), JournalError> {
    let mut later_is_empty = true;
    // fjall may begin a new journal after a failed write, so the last batch need not be in the newest.
    for journal in journals(log)?.into_iter().rev() {
        let file = File::options().read(true).write(true).open(&journal)?;
        let is_last = later_is_empty;
        later_is_empty &= !has_data_from(&file, 0)?;
        let (end, why) = acknowledged_end(&file, last)?;
        if !has_data_from(&file, end)? {
            continue;
        }
        if !is_last || (why != Stop::TooLate && has_whole_batch_after(&journal, end)?) {
            return Err(JournalError::Damaged { journal, at: end });
        }
        if why == Stop::Unknown || (end == 0 && why == Stop::NotWhole && !may_begin_with_batch(&file)?) {
            return Err(JournalError::Unrecognised { journal });
        }
        tracing::warn!(journal = %journal.display(), at = end, "cut off a batch that was never acknowledged");
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Writes zeros into the part of the newest journal that comes next. It reads as zeros already, but there are no blocks
/// behind it yet, and a sync that has to find some takes half as long again. Whoever calls must be the one who writes.
/// That it reads as zeros is checked, not believed: file systems have been wrong about holes.
pub(crate) fn fill_ahead(log: &Path) -> io::Result<()> {
    let Some(journal) = journals(log)?.pop() else { return Ok(()) };
    let mut file = File::options().read(true).write(true).open(&journal)?;
    let length = file.metadata()?.len();
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(0))?;
    let data_again = match rustix::fs::seek(&file, SeekFrom::Data(hole)) {
        Err(Errno::NXIO) => length,
        other => other?,
    };
    let mut chunk = vec![0; FILL_CHUNK_BYTES];
    let chunks = || {
        let bytes = data_again.saturating_sub(hole).min(FILL_BYTES) as usize;
        (0..bytes).step_by(FILL_CHUNK_BYTES).map(move |start| FILL_CHUNK_BYTES.min(bytes - start))
    };
    file.seek(io::SeekFrom::Start(hole))?;
    for bytes in chunks() {
        file.read_exact(&mut chunk[..bytes])?;
        if chunk.iter().any(|byte| *byte != 0) {
            return Ok(());
        }
    }
    file.seek(io::SeekFrom::Start(hole))?;
    for bytes in chunks() {
        file.write_all(&chunk[..bytes])?;
    }
    file.sync_data()
}

/// How much of a journal is filled at a time.
pub(crate) const FILL_BYTES: u64 = 4 << 20;
/// How much of that is in memory at once.
const FILL_CHUNK_BYTES: usize = 128 << 10;

/// A log's journals, oldest first.
fn journals(log: &Path) -> io::Result<Vec<PathBuf>> {
    let mut numbered = Vec::new();
    for file in fs::read_dir(log)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "jnl")
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok())
        {
            numbered.push((number, path));
        }
    }
    numbered.sort_unstable();
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// Why the reading of a journal stopped.
#[derive(PartialEq)]
enum Stop {
    NotWhole,
    TooLate,
    /// There is a whole batch in another version of the format.
    Unknown,
}

/// Where the last batch ends that is whole and holds no revision above `last`, all before it being so too.
fn acknowledged_end(mut file: &File, last: Option<u64>) -> io::Result<(u64, Stop)> {
    file.rewind()?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut end = 0;
    while let Some(batch) = read_batch(&mut reader)? {
        if batch.magic != MAGIC {
            return Ok((end, Stop::Unknown));
        }
        if last.is_some_and(|last| batch.greatest_revision > last) {
            return Ok((end, Stop::TooLate));
        }
        end += batch.bytes;
    }
    Ok((end, Stop::NotWhole))
}

struct Batch {
    bytes: u64,
    greatest_revision: u64,
    magic: [u8; 4],
}

/// Reads a batch; nothing if what comes is not a whole one. One of another version has another magic.
fn read_batch(reader: &mut impl Read) -> io::Result<Option<Batch>> {
    let Some(start) = read_array::<START_BYTES>(reader)?.filter(|start| start[0] == START_TAG) else {
        return Ok(None);
    };
    let items = u32::from_le_bytes([start[1], start[2], start[3], start[4]]);
    let mut batch = Batch { bytes: (START_BYTES + END_BYTES) as u64, greatest_revision: 0, magic: MAGIC };
    let mut checksum = Xxh3::new();
    let mut value = Vec::new();
    for _ in 0..items {
        let Some(header) = read_array::<ITEM_BYTES>(reader)? else { return Ok(None) };
        let key_bytes = usize::from(u16::from_le_bytes([header[11], header[12]]));
        let value_bytes = u32::from_le_bytes([header[13], header[14], header[15], header[16]]);
        let known = header[0] == ITEM_TAG && header[2] == UNCOMPRESSED && header[13..17] == header[17..21];
        if !known || key_bytes != KEY_BYTES {
            return Ok(None);
        }
        let Some(key) = read_array::<KEY_BYTES>(reader)? else { return Ok(None) };
        value.clear();
        if reader.take(value_bytes.into()).read_to_end(&mut value)? as u64 != u64::from(value_bytes) {
            return Ok(None);
        }
        checksum.update(&header);
        checksum.update(&key);
        checksum.update(&value);
        batch.bytes += (ITEM_BYTES + KEY_BYTES + value.len()) as u64;
        batch.greatest_revision = batch.greatest_revision.max(u64::from_be_bytes(key));
    }
    let Some(end) = read_array::<END_BYTES>(reader)? else { return Ok(None) };
    batch.magic = [end[9], end[10], end[11], end[12]];
    let is_whole = end[0] == END_TAG && end[1..9] == checksum.digest().to_le_bytes();
    let is_torn = batch.magic != MAGIC && is_written_or_hole(&batch.magic, &MAGIC);
    Ok((is_whole && !is_torn).then_some(batch))
}

/// Whether a file begins as a batch does, as far as it was written.
fn may_begin_with_batch(mut file: &File) -> io::Result<bool> {
    const KEY_LENGTH: [u8; 2] = (KEY_BYTES as u16).to_le_bytes();
    file.rewind()?;
    let mut begin = Vec::new();
    file.take((START_BYTES + ITEM_BYTES) as u64).read_to_end(&mut begin)?;
    begin.resize(START_BYTES + ITEM_BYTES, 0);
    let (start, item) = begin.split_at(START_BYTES);
    let (length, again) = (&item[13..17], &item[17..21]);
    Ok(is_written_or_hole(&start[..1], &[START_TAG])
        && is_written_or_hole(&item[..1], &[ITEM_TAG])
        && item[2] == UNCOMPRESSED
        && is_written_or_hole(&item[11..13], &KEY_LENGTH)
        && (is_written_or_hole(length, again) || is_written_or_hole(again, length)))
}

/// Whether these are the bytes that are expected, but for those that were not written.
fn is_written_or_hole(found: &[u8], expected: &[u8]) -> bool {
    found.iter().zip(expected).all(|(found, expected)| found == expected || *found == 0)
}

/// The next bytes; nothing if there are fewer.
fn read_array<const N: usize>(reader: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match reader.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether anything but zeros stands from `position` on. A journal's length is set in advance, so that most of it
/// may be a hole, which is passed over.
fn has_data_from(mut file: &File, mut position: u64) -> io::Result<bool> {
    let mut chunk = [0; 64 << 10];
    loop {
        match rustix::fs::seek(file, SeekFrom::Data(position)) {
            Err(Errno::NXIO) => return Ok(false),
            Ok(data) => position = data,
            // A file system that cannot tell: read on.
            Err(Errno::INVAL) => position = file.seek(io::SeekFrom::Start(position))?,
            Err(error) => return Err(error.into()),
        }
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(false);
        }
        if chunk[..read].iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        position += read as u64;
    }
}

fn has_whole_batch_after(journal: &Path, position: u64) -> io::Result<bool> {
    let bytes = fs::read(journal)?;
    let rest = bytes.get(position as usize + 1..).unwrap_or_default();
    for (begin, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == START_TAG) {
        if read_batch(&mut &rest[begin..])?.is_some_and(|batch| batch.magic == MAGIC) {
            return Ok(true);
        }
    }
    Ok(false)
}
