//! The bytes of the log: a segment's header, and batches of entries behind it.
//!
//! A batch is a header (magic, length of the body, checksum of the body, checksum of the batch before it, checksum of
//! all these) and a body of frames. A frame is a length, a checksum, a revision and an entry, or a note of the log's own.
//! The checksums of a batch begin with the segment's salt and the batch's place in the file, so that nothing
//! is ever taken for a batch that was not written to this place of this segment. A frame's own checksum lets it be read alone.
//!
//! A change here, or of what [`Entry`] encodes, needs a new [`crate::directory::FORMAT`].

use crate::{directory::FORMAT, entry::Entry};
use keepwatch_apimachinery::ResourceVersion;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: [u8; 8] = *b"KEEPWLOG";

/// The length of the header of a segment.
pub(crate) const HEADER_BYTES: usize = 88;

/// The header of a segment. Segments are numbered, and together hold everything since the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    /// The number of the segment that follows. A rewritten one may stand for many.
    pub(crate) next: u64,
    /// No entry in it has an earlier revision, and no entry before it has this one or a later.
    pub(crate) first: u64,
    /// The revision up to which the history was compacted when it was written; 0 if it never was.
    pub(crate) compacted: u64,
    /// It holds no version that a compaction up to here made superfluous.
    pub(crate) cleaned: u64,
    /// The checksum of the last batch before it.
    pub(crate) previous: u64,
    /// The `previous` of the segment that follows a rewritten one; 0 in a segment that was not rewritten.
    pub(crate) replaced: u64,
    /// Random, so that no two segments are alike.
    pub(crate) salt: u64,
}

/// The reason why a header cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// It is not ours, or of another version.
    Unknown,
    Damaged,
}

impl Header {
    pub(crate) fn is_rewritten(&self) -> bool {
        self.replaced != 0
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        let fields = [
            self.number,
            self.next,
            self.first,
            self.compacted,
            self.cleaned,
            self.previous,
            self.replaced,
            self.salt,
        ];
        for (at, field) in (16..).step_by(8).zip(fields) {
            bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        let check = xxh3_64(&bytes[..HEADER_BYTES - 8]);
        bytes[HEADER_BYTES - 8..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the header at the beginning of a file.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        if bytes.get(..8) != Some(&MAGIC) || bytes.get(8..12) != Some(&FORMAT.to_le_bytes()) {
            return Err(BadHeader::Unknown);
        }
        let bytes = bytes.get(..HEADER_BYTES).ok_or(BadHeader::Damaged)?;
        if u64_at(bytes, HEADER_BYTES - 8) != xxh3_64(&bytes[..HEADER_BYTES - 8]) {
            return Err(BadHeader::Damaged);
        }
        let field = |n: usize| u64_at(bytes, 16 + 8 * n);
        Ok(Self {
            number: field(0),
            next: field(1),
            first: field(2),
            compacted: field(3),
            cleaned: field(4),
            previous: field(5),
            replaced: field(6),
            salt: field(7),
        })
    }
}

/// A batch begins with this. Its highest bit is set, which that of a frame's length never is.
const BATCH_MAGIC: u32 = 0xb47c_9e57;
pub(crate) const BATCH_BYTES: usize = 4 + 4 + 8 + 8 + 8;
/// The length of the head of a frame, which precedes an entry.
pub(crate) const FRAME_BYTES: usize = 4 + 8 + 8;
const PAYLOAD_BYTES_MAX: usize = i32::MAX as usize;

/// The kinds of the log's own notes. Their numbers follow those of entries.
const COMPACTED: u8 = 3;
const SEALED: u8 = 4;
const CLOSED: u8 = 5;

/// A batch being put together.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Begins anew, in the memory of the one before it unless that was large.
    pub(crate) fn clear(&mut self) {
        const BYTES_KEPT_MAX: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT_MAX);
        self.bytes.resize(BATCH_BYTES, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() <= BATCH_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn entry(&mut self, entry: &Entry) {
        self.frame(entry.revision.get(), |bytes| entry.encode_into(bytes));
    }

    pub(crate) fn compacted(&mut self, revision: ResourceVersion) {
        self.frame(revision.get(), |bytes| bytes.push(COMPACTED));
    }

    /// The segment is complete, and this one follows.
    pub(crate) fn sealed(&mut self, next: u64) {
        self.frame(next, |bytes| bytes.push(SEALED));
    }

    /// The store was closed, so everything before this is whole.
    pub(crate) fn closed(&mut self) {
        self.frame(0, |bytes| bytes.push(CLOSED));
    }

    /// A frame that is known to be good, as it is.
    pub(crate) fn copy(&mut self, frame: &Frame<'_>) {
        self.bytes.extend_from_slice(frame.bytes);
    }

    fn frame(&mut self, revision: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        self.bytes.resize(begin + FRAME_BYTES, 0);
        write(&mut self.bytes);
        let (head, payload) = self.bytes[begin..].split_at_mut(FRAME_BYTES);
        debug_assert!(payload.len() <= PAYLOAD_BYTES_MAX);
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[4..12].copy_from_slice(&xxh3_64_with_seed(payload, revision).to_le_bytes());
        head[12..20].copy_from_slice(&revision.to_le_bytes());
    }

    /// The batch as it is written to a place of a segment behind another batch, and its checksum.
    pub(crate) fn finish(&mut self, salt: u64, place: u64, previous: u64) -> (&[u8], u64) {
        let (head, body) = self.bytes.split_at_mut(BATCH_BYTES);
        let check = xxh3_64_with_seed(body, seed(salt, place));
        head[..4].copy_from_slice(&BATCH_MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[8..16].copy_from_slice(&check.to_le_bytes());
        head[16..24].copy_from_slice(&previous.to_le_bytes());
        let of_head = xxh3_64_with_seed(&head[..24], seed(salt, place));
        head[24..].copy_from_slice(&of_head.to_le_bytes());
        (&self.bytes, check)
    }
}

fn seed(salt: u64, place: u64) -> u64 {
    salt.wrapping_add(place)
}

/// The beginning of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchHead {
    pub(crate) body_bytes: usize,
    pub(crate) check: u64,
    pub(crate) previous: u64,
}

impl BatchHead {
    /// Reads the bytes at a place of a segment; nothing if no batch begins there.
    pub(crate) fn decode(bytes: &[u8], salt: u64, place: u64) -> Option<Self> {
        let bytes = bytes.get(..BATCH_BYTES)?;
        let is_good = u32_at(bytes, 0) == BATCH_MAGIC
            && u64_at(bytes, 24) == xxh3_64_with_seed(&bytes[..24], seed(salt, place));
        is_good.then(|| Self {
            body_bytes: u32_at(bytes, 4) as usize,
            check: u64_at(bytes, 8),
            previous: u64_at(bytes, 16),
        })
    }

    /// Whether this is the whole body.
    pub(crate) fn is_of(&self, body: &[u8], salt: u64, place: u64) -> bool {
        body.len() == self.body_bytes && xxh3_64_with_seed(body, seed(salt, place)) == self.check
    }
}

/// Whether some whole batch begins in these bytes of a segment, which begin at `place`.
pub(crate) fn holds_a_batch(bytes: &[u8], salt: u64, place: u64) -> bool {
    let magic = BATCH_MAGIC.to_le_bytes();
    bytes.windows(magic.len()).enumerate().filter(|(_, window)| *window == magic).any(|(at, _)| {
        let (rest, place) = (&bytes[at..], place + at as u64);
        BatchHead::decode(rest, salt, place).is_some_and(|head| {
            let body = rest[BATCH_BYTES..].get(..head.body_bytes);
            body.is_some_and(|body| head.is_of(body, salt, place))
        })
    })
}

/// An entry or a note, not yet decoded.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// A revision, or the number that a note carries.
    pub(crate) number: u64,
    /// The place of its first byte among those that were read.
    pub(crate) at: usize,
    /// All of it.
    bytes: &'a [u8],
}

pub(crate) enum Content {
    Entry(Entry),
    Compacted(ResourceVersion),
    Sealed { next: u64 },
    Closed,
}

impl<'a> Frame<'a> {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        &self.bytes[FRAME_BYTES..]
    }

    /// Whether its checksum is right. In a batch whose checksum is right, that of every frame is.
    pub(crate) fn is_whole(&self) -> bool {
        u64_at(self.bytes, 4) == xxh3_64_with_seed(self.payload(), self.number)
    }

    pub(crate) fn is_note(&self) -> bool {
        matches!(self.payload(), [COMPACTED | SEALED | CLOSED])
    }

    pub(crate) fn decode(&self) -> Option<Content> {
        Some(match self.payload() {
            [COMPACTED] => Content::Compacted(ResourceVersion::new(self.number)?),
            [SEALED] => Content::Sealed { next: self.number },
            [CLOSED] => Content::Closed,
            payload => Content::Entry(Entry::decode(ResourceVersion::new(self.number)?, payload)?),
        })
    }
}

/// The frames in a piece of a segment that begins with a frame or a batch. Ends early where there is no frame.
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether all bytes were frames.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let mut rest = self.bytes.get(self.at..)?;
        while rest.len() >= BATCH_BYTES && u32_at(rest, 0) == BATCH_MAGIC {
            self.at += BATCH_BYTES;
            rest = &rest[BATCH_BYTES..];
        }
        let head = rest.get(..FRAME_BYTES)?;
        let payload_bytes = u32_at(head, 0) as usize;
        // Nothing that was written is empty, but zeros were not written.
        let bytes = rest.get(..FRAME_BYTES.checked_add(payload_bytes)?).filter(|_| payload_bytes > 0)?;
        let frame = Frame { number: u64_at(head, 12), at: self.at, bytes };
        self.at += bytes.len();
        Some(frame)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
