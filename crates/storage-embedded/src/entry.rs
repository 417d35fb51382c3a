//! One committed write: the unit of the log and of the state it rebuilds.
//!
//! Its bytes are part of the store's format: see `record`.

use crate::record::FRAME_BYTES;
use bytes::Bytes;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Key, Value};

/// A write with its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) revision: ResourceVersion,
    pub(crate) key: Key,
    pub(crate) what: EntryKind,
}

/// The effect of a write on its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Put {
        value: Value,
        created: ResourceVersion,
        /// The end of the key's time to live, in milliseconds of Unix time.
        expires_ms: Option<u64>,
    },
    /// The revision at which the deleted object was created: no version before that needs the deletion.
    Delete { created: ResourceVersion },
}

const PUT: u8 = 1;
const DELETE: u8 = 2;

impl Entry {
    /// Appends the entry without its revision: kind, created, expires (0: never), length of the key, key, value.
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        let (kind, created, expires_ms, value) = match &self.what {
            EntryKind::Put { value, created, expires_ms } => {
                (PUT, created, expires_ms.unwrap_or(0), value.bytes.as_ref())
            }
            EntryKind::Delete { created } => (DELETE, created, 0, [].as_slice()),
        };
        bytes.reserve(HEADER_BYTES + self.key.len() + value.len());
        bytes.push(kind);
        bytes.extend_from_slice(&created.get().to_le_bytes());
        bytes.extend_from_slice(&expires_ms.to_le_bytes());
        bytes.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend_from_slice(value);
    }

    /// The number of bytes that it takes in the log.
    pub(crate) fn bytes(&self) -> u64 {
        let value = match &self.what {
            EntryKind::Put { value, .. } => value.bytes.len(),
            EntryKind::Delete { .. } => 0,
        };
        log_bytes(&self.key, value)
    }

    pub(crate) fn decode(revision: ResourceVersion, bytes: &[u8]) -> Option<Self> {
        Self::decode_with(revision, bytes, |at| Bytes::copy_from_slice(&bytes[at..]))
    }

    /// The same, with a value that shares the memory of the bytes.
    pub(crate) fn decode_shared(revision: ResourceVersion, bytes: &Bytes) -> Option<Self> {
        Self::decode_with(revision, bytes, |at| bytes.slice(at..))
    }

    fn decode_with(
        revision: ResourceVersion,
        bytes: &[u8],
        value_from: impl FnOnce(usize) -> Bytes,
    ) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let number = |at: usize| Some(u64::from_le_bytes(header[at..at + 8].try_into().ok()?));
        let key_bytes = u32::from_le_bytes(header[17..21].try_into().ok()?) as usize;
        let key = rest.get(..key_bytes)?;
        let what = match header[0] {
            PUT => EntryKind::Put {
                value: value_from(HEADER_BYTES + key_bytes).into(),
                created: ResourceVersion::new(number(1)?)?,
                expires_ms: Some(number(9)?).filter(|ms| *ms != 0),
            },
            DELETE => EntryKind::Delete { created: ResourceVersion::new(number(1)?)? },
            _ => return None,
        };
        Some(Self { revision, key: Key::from_backend(std::str::from_utf8(key).ok()?), what })
    }
}

const HEADER_BYTES: usize = 1 + 8 + 8 + 4;

/// A version that the log need not keep any more, and the number of bytes that this frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unneeded {
    pub(crate) revision: ResourceVersion,
    pub(crate) bytes: u64,
}

/// The number of bytes that a version takes in the log.
pub(crate) fn log_bytes(key: &str, value_bytes: usize) -> u64 {
    (FRAME_BYTES + HEADER_BYTES + key.len() + value_bytes) as u64
}

/// The part of an encoded entry that decides whether the log keeps it.
pub(crate) struct EntryHeader<'a> {
    pub(crate) key: &'a str,
    /// The revision at which the deleted object was created, if this is a deletion.
    pub(crate) deleted: Option<u64>,
}

impl<'a> EntryHeader<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let key_bytes = u32::from_le_bytes(header[17..21].try_into().ok()?) as usize;
        let created = u64::from_le_bytes(header[1..9].try_into().ok()?);
        let key = std::str::from_utf8(rest.get(..key_bytes)?).ok()?;
        Some(Self { key, deleted: (header[0] == DELETE).then_some(created) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(n: u64) -> ResourceVersion {
        ResourceVersion::new(n).unwrap()
    }

    fn encoded(entry: &Entry) -> Vec<u8> {
        let mut bytes = Vec::new();
        entry.encode_into(&mut bytes);
        bytes
    }

    #[test]
    fn entries_read_back_as_they_were_written() {
        let key = Key::from_backend("/registry/pods/ns/ä");
        for what in [
            EntryKind::Put { value: "v".into(), created: revision(7), expires_ms: Some(9) },
            EntryKind::Put { value: Value::default(), created: revision(8), expires_ms: None },
            EntryKind::Delete { created: revision(7) },
        ] {
            let entry = Entry { revision: revision(8), key: key.clone(), what };
            let bytes = Bytes::from(encoded(&entry));
            assert_eq!(Entry::decode_shared(entry.revision, &bytes), Some(entry.clone()));
            assert_eq!(Entry::decode(entry.revision, &bytes), Some(entry));
        }
    }

    #[test]
    fn damaged_entries_are_refused() {
        let key = Key::from_backend("/k");
        let what = EntryKind::Delete { created: revision(2) };
        let whole = encoded(&Entry { revision: revision(3), key, what });
        for end in 0..whole.len() {
            assert_eq!(Entry::decode(revision(2), &whole[..end]), None, "cut at {end}");
        }
        let mut unknown = whole;
        unknown[0] = 9;
        assert_eq!(Entry::decode(revision(2), &unknown), None);
    }
}
