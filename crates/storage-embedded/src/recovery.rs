//! Reads the log when it is opened, and distinguishes the traces of a crash from damage.
//!
//! Each batch is synced before the next begins, so a crash or a failed write can leave only the last batch of the last
//! segment torn, and that one was never acknowledged: it is removed. Everything else is an error that names the place: a batch
//! that cannot be read and has a whole one behind it, a segment that ends before the one that follows it was begun, one that
//! is missing. A file that is not ours, or of another version, is an error too. Nothing is changed before all has been read.

use crate::{
    directory::OpenError,
    entry::{Entry, Unneeded},
    record::{self, BATCH_BYTES, BadHeader, BatchHead, Content, Frames, HEADER_BYTES, Header},
    segment::{Name, Segment, Segments, name},
};
use keepwatch_apimachinery::ResourceVersion;
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The number of bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Receives the contents of a log, in order.
pub(crate) trait Recover {
    /// The history was compacted up to here. Returns the versions that are not needed any more.
    fn compacted(&mut self, revision: ResourceVersion) -> Vec<Unneeded>;
    /// A write. Returns the versions that it made superfluous, or nothing if entries before this one are missing.
    fn entry(&mut self, entry: Entry) -> Option<Vec<Unneeded>>;
}

/// A log that was read.
pub(crate) struct Recovered {
    pub(crate) segments: Segments,
    /// The checksum of the last batch.
    pub(crate) chain: u64,
    pub(crate) last: Option<ResourceVersion>,
    pub(crate) compacted: Option<ResourceVersion>,
    /// Files of the log that are not part of it: an interrupted rewriting left them.
    pub(crate) unneeded: Vec<PathBuf>,
}

/// The reason why a log cannot be read.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    Damaged(String),
    /// A file with the name of a segment that is none.
    Unknown(PathBuf),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Fault {
    /// The same, about a data directory.
    pub(crate) fn of(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => OpenError::Io { doing: "open the log", path, source },
            Self::Damaged(what) => OpenError::Damaged { path, source: what.into() },
            Self::Unknown(file) => OpenError::UnknownFile { path, file },
        }
    }
}

/// Reads the log in a folder.
pub(crate) fn recover(folder: &Path, recover: &mut impl Recover) -> Result<Recovered, Fault> {
    let found = LogFiles::look(folder)?;
    let mut reading = Reading {
        recover,
        segments: Segments::default(),
        chain: 0,
        last: None,
        compacted: None,
        body: Vec::new(),
    };
    if let Some(compacted) = found.segments.iter().map(|segment| segment.header.compacted).max() {
        reading.compact(compacted);
    }
    let mut cuts = Vec::new();
    let mut segments = found.segments.into_iter().peekable();
    while let Some(segment) = segments.next() {
        let segment = Arc::new(segment);
        reading.segments.0.push(segment.clone());
        let next = segments.peek().map(|next| &next.header);
        if reading.read(&segment, next)? {
            cuts.push(segment);
        }
    }
    let Reading { segments, chain, last, compacted, .. } = reading;
    for segment in cuts {
        tracing::warn!(file = %segment.path.display(), at = segment.end(), "cut off what was never acknowledged");
        // The last segment goes on in its blocks, which may be the only ones that are left on the disk.
        let is_last = segments.0.last().is_some_and(|last| Arc::ptr_eq(last, &segment));
        segment.clear_behind_end(if is_last { u64::MAX } else { segment.end() })?;
    }
    Ok(Recovered { segments, chain, last, compacted, unneeded: found.superfluous })
}

/// The files of a log.
struct LogFiles {
    segments: Vec<Segment>,
    /// The files that an interrupted rewriting left.
    superfluous: Vec<PathBuf>,
}

impl LogFiles {
    fn look(folder: &Path) -> Result<Self, Fault> {
        let (mut numbered, mut superfluous) = (Vec::new(), Vec::new());
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            match name(&path) {
                Name::Segment(number) => numbered.push((number, path)),
                Name::Unfinished => superfluous.push(path),
                Name::Other => {}
            }
        }
        numbered.sort_unstable();
        let (mut segments, mut expected) = (Vec::new(), 1);
        for (number, path) in numbered {
            let file = File::options().read(true).write(true).open(&path)?;
            let header = read_header(&file, &path, number)?;
            if number < expected {
                superfluous.push(path);
                continue;
            }
            if number > expected {
                return Err(Fault::Damaged(format!(
                    "segment {expected} is missing before {}",
                    path.display()
                )));
            }
            expected = header.next;
            segments.push(Segment::of(header, path, file));
        }
        if segments.is_empty() {
            return Err(Fault::Damaged(format!("there is no log in {}", folder.display())));
        }
        Ok(Self { segments, superfluous })
    }
}

fn read_header(mut file: &File, path: &Path, number: u64) -> Result<Header, Fault> {
    let mut bytes = Vec::new();
    file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    match Header::decode(&bytes) {
        Ok(header) if header.number == number && header.next > number => Ok(header),
        Err(BadHeader::Unknown) => Err(Fault::Unknown(path.to_owned())),
        _ => Err(Fault::Damaged(format!("the header of {} is damaged", path.display()))),
    }
}

struct Reading<'a, R> {
    recover: &'a mut R,
    segments: Segments,
    chain: u64,
    last: Option<ResourceVersion>,
    compacted: Option<ResourceVersion>,
    body: Vec<u8>,
}

impl<R: Recover> Reading<'_, R> {
    fn compact(&mut self, revision: u64) {
        let Some(revision) = ResourceVersion::new(revision) else { return };
        if Some(revision) > self.compacted {
            self.compacted = Some(revision);
            self.last = self.last.max(Some(revision));
            let unneeded = self.recover.compacted(revision);
            self.segments.note_unneeded(&unneeded);
        }
    }

    /// Reads a segment. Returns whether there is something behind its end that has to be removed.
    fn read(&mut self, segment: &Segment, next: Option<&Header>) -> Result<bool, Fault> {
        let begins_after = self.chain;
        if segment.header.previous != begins_after {
            return Err(Fault::Damaged(format!(
                "{} does not go on where the segment before it ends",
                segment.path.display()
            )));
        }
        self.chain = segment.header.salt;
        let sealed = self.read_batches(segment)?;
        let (path, end) = (segment.path.display(), segment.end());
        let whole_if = |is_whole: bool, though: String| match is_whole {
            true => Ok(()),
            false => {
                Err(Fault::Damaged(format!("{path} cannot be read from byte {end} on, though {though}")))
            }
        };
        match next {
            Some(next) => {
                if segment.header.is_rewritten() {
                    whole_if(sealed == Some(next.number), format!("segment {} follows", next.number))?;
                    self.chain = segment.header.replaced;
                }
                whole_if(self.chain == next.previous, format!("segment {} follows", next.number))?;
            }
            None if segment.header.is_rewritten() || sealed.is_some() => {
                let missing = segment.header.next;
                return Err(Fault::Damaged(format!("segment {missing} is missing after {path}")));
            }
            None => {}
        }
        let rest = Tail::look(segment)?;
        whole_if(rest != Tail::Batches, "it goes on behind that".to_owned())?;
        // Zeros that were written ahead are needed in the last segment only.
        Ok(rest == Tail::Torn || (next.is_some() && segment.file.metadata()?.len() > end))
    }

    /// Reads the whole batches, and moves the segment's end behind them. Returns the next segment's number if it is sealed.
    fn read_batches(&mut self, segment: &Segment) -> Result<Option<u64>, Fault> {
        let length = segment.file.metadata()?.len();
        let mut file = &segment.file;
        file.seek(io::SeekFrom::Start(segment.end()))?;
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let mut sealed = None;
        while sealed.is_none() {
            let (place, salt) = (segment.end(), segment.header.salt);
            let mut head = [0; BATCH_BYTES];
            if length - place < BATCH_BYTES as u64 {
                break;
            }
            reader.read_exact(&mut head)?;
            let Some(batch) = BatchHead::decode(&head, salt, place) else { break };
            self.body.clear();
            (&mut reader).take(batch.body_bytes as u64).read_to_end(&mut self.body)?;
            if batch.previous != self.chain || !batch.is_of(&self.body, salt, place) {
                break;
            }
            let body = std::mem::take(&mut self.body);
            sealed = self.take(&body).ok_or_else(|| {
                let path = segment.path.display();
                Fault::Damaged(format!("{path} holds something unexpected behind byte {place}"))
            })?;
            segment.note(&body, place + BATCH_BYTES as u64);
            self.body = body;
            if sealed.is_none() {
                self.chain = batch.check;
            }
        }
        Ok(sealed)
    }

    /// Applies a batch; nothing if it cannot be. Returns the number of the next segment if the batch seals this one.
    fn take(&mut self, body: &[u8]) -> Option<Option<u64>> {
        let (mut frames, mut sealed) = (Frames::new(body), None);
        for frame in frames.by_ref() {
            match frame.decode()? {
                Content::Entry(entry) => {
                    self.last = self.last.max(Some(entry.revision));
                    let unneeded = self.recover.entry(entry)?;
                    self.segments.note_unneeded(&unneeded);
                }
                Content::Compacted(revision) => self.compact(revision.get()),
                Content::Sealed { next } => sealed = Some(next),
                Content::Closed => {}
            }
        }
        frames.is_at_end().then_some(sealed)
    }
}

/// The bytes behind the end of a segment.
#[derive(PartialEq)]
enum Tail {
    /// Nothing, or zeros that were written ahead.
    Zeros,
    /// The rest of a batch.
    Torn,
    /// Batches.
    Batches,
}

impl Tail {
    fn look(segment: &Segment) -> io::Result<Self> {
        let end = segment.end();
        let mut chunk = vec![0; READ_BYTES];
        let mut at = end;
        loop {
            let read = segment.file.read_at(&mut chunk, at)?;
            if read == 0 {
                return Ok(Self::Zeros);
            }
            if chunk[..read].iter().any(|byte| *byte != 0) {
                break;
            }
            at += read as u64;
        }
        let mut rest = vec![0; (segment.file.metadata()?.len() - end) as usize];
        segment.file.read_exact_at(&mut rest, end)?;
        Ok(match record::holds_a_batch(&rest, segment.header.salt, end) {
            true => Self::Batches,
            false => Self::Torn,
        })
    }
}
