//! The reasons why a storage call failed, distinguished by the next step of the caller.
//!
//! Nothing here is a [`Status`]: `endpoints` turns each variant into one. The text of a variant that has one
//! Status alone is that Status's; the text of those that Kubernetes numbers is the one its clients have always
//! seen.

use crate::key::{InvalidKey, Key};
use keepwatch_apimachinery::{ResourceVersion, list_options::ContinueToken, status::Status};
use std::{error::Error, fmt};

/// The error of a caller's own callback that refused an update or a deletion.
pub type Rejection = Box<dyn Error + Send + Sync>;

/// The reason why a storage call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// The key was refused before anything was read. A caller's mistake.
    InvalidKey(InvalidKey),
    /// There is no such object.
    NotFound {
        /// The missing key.
        key: Key,
    },
    /// The object to be created exists already.
    KeyExists {
        /// The key that is taken.
        key: Key,
    },
    /// The stored object is not the one the caller's preconditions speak of. Read again, then decide.
    InvalidObject {
        /// The key that was looked at.
        key: Key,
        /// The precondition that failed, and the values it compared.
        message: String,
    },
    /// Another object, which had to be as it was, has changed. Nothing was written. Read it again, then decide.
    OtherChanged {
        /// The key of the other object.
        key: Key,
    },
    /// A value to be written carries a resourceVersion; storage alone gives versions out.
    VersionSet,
    /// The store has not reached the version asked for. Wait, then retry.
    TooLarge {
        /// The requested revision.
        requested: ResourceVersion,
        /// The revision of the store.
        current: ResourceVersion,
        /// The time after which a retry makes sense; none if the caller decides.
        retry_after_seconds: Option<u32>,
    },
    /// The requested revision is compacted away. List again from the newest state.
    Expired(ExpiredRead),
    /// The copy that would answer is not there yet, or not any more. Retry later.
    Unready {
        /// The reason, in the words that clients know.
        message: String,
        /// The time after which a retry makes sense.
        retry_after_seconds: u32,
    },
    /// The stored value cannot be read. Nothing but writing the object anew helps.
    Corrupt {
        /// Whose value it is.
        key: Key,
        /// The error of reading it.
        source: Rejection,
    },
    /// The caller's own callback refused; this is what it said.
    Rejected(Rejection),
    /// The backend cannot be reached. Nothing is known of a write that was under way; retry later.
    Unreachable {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the transport.
        source: Rejection,
    },
    /// The backend did not answer in time. Nothing is known of a write that was under way; retry later.
    Timeout {
        /// The operation that failed.
        doing: &'static str,
    },
    /// The backend has no room to write. Reads go on; writes succeed again once there is room.
    Full {
        /// The error of the disk.
        source: Rejection,
    },
    /// The backend failed in another way. `Display` says only while doing what; the cause is in `source()`.
    Backend {
        /// The operation that failed.
        doing: &'static str,
        /// The cause, for the log.
        source: Rejection,
    },
    /// The backend's watch was cut off, with the backend's own words.
    WatchFailed(String),
}

/// The kind of a read that came too late for the history that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiredRead {
    /// A list at an exact version.
    List,
    /// A further page of a list; the token goes on from the same key in the newest state.
    Continue(ContinueToken),
    /// A watch.
    Watch,
    /// A watch of a copy that keeps less than the store does.
    WatchAfter {
        /// The revision at which the watch was to begin.
        requested: ResourceVersion,
        /// The oldest place where one can.
        oldest: ResourceVersion,
    },
}

impl StorageError {
    /// Wraps a backend's failure.
    pub fn backend(doing: &'static str, source: impl Into<Rejection>) -> Self {
        Self::Backend { doing, source: source.into() }
    }

    /// Whether the history asked for is no longer kept, so that only a fresh list helps.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Expired(_))
    }
}

/// The numbered form: clients and logs know these codes from Kubernetes.
fn numbered(f: &mut fmt::Formatter<'_>, text: &str, code: u8, key: &str, more: &str) -> fmt::Result {
    write!(
        f,
        "StorageError: {text}, Code: {code}, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {more}"
    )
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidKey(error) => error.fmt(f),
            Self::NotFound { key } => numbered(f, "key not found", 1, key, ""),
            Self::KeyExists { key } => numbered(f, "key exists", 2, key, ""),
            Self::InvalidObject { key, message } => numbered(f, "invalid object", 4, key, message),
            Self::OtherChanged { key } => write!(f, "{key} has changed meanwhile"),
            Self::VersionSet => f.write_str("resourceVersion should not be set on objects to be created"),
            Self::TooLarge { requested, current, retry_after_seconds } => {
                let retry = retry_after_seconds.unwrap_or_default();
                Status::too_large_resource_version(*requested, *current, retry).fmt(f)
            }
            Self::Expired(ExpiredRead::List) => Status::expired_list().fmt(f),
            Self::Expired(ExpiredRead::Continue(fresh)) => Status::expired_continue(fresh).fmt(f),
            Self::Expired(ExpiredRead::Watch) => Status::expired_watch().fmt(f),
            Self::Expired(ExpiredRead::WatchAfter { requested, oldest }) => {
                Status::too_old_resource_version(*requested, *oldest).fmt(f)
            }
            Self::Unready { message, .. } => f.write_str(message),
            Self::Corrupt { key, .. } => {
                numbered(f, "corrupt object", 7, key, "the stored value cannot be read")
            }
            Self::Rejected(source) => source.fmt(f),
            Self::Unreachable { doing, .. } => numbered(f, "server unreachable", 5, "", doing),
            Self::Timeout { doing } => numbered(f, "request timeout", 6, "", doing),
            Self::Full { .. } => f.write_str("storage is full: free some disk space, then retry"),
            Self::Backend { doing, .. } => write!(f, "storage failed: {doing}"),
            Self::WatchFailed(message) => f.write_str(message),
        }
    }
}

impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::InvalidKey(source) => Some(source),
            Self::Corrupt { source, .. }
            | Self::Rejected(source)
            | Self::Unreachable { source, .. }
            | Self::Full { source }
            | Self::Backend { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl From<InvalidKey> for StorageError {
    fn from(error: InvalidKey) -> Self {
        Self::InvalidKey(error)
    }
}
