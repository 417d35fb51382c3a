//! The interface of an engine: a revisioned key-value store.
//!
//! Kept true by every backend, and checked by `testing::conformance`:
//! - there is one revision counter; each successful write raises it and has a revision of its own;
//! - a read sees every write that was acknowledged before it began;
//! - a write is acknowledged only when it is as durable as the backend will ever make it;
//! - a watch yields every change in its scope after its start, once, in order of revision, or an error.

use crate::{
    error::StorageError,
    history::{HistoryExtent, HistoryReader},
    key::{Key, Scope},
    predicate::Attributes,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use keepwatch_apimachinery::ResourceVersion;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// A value as it is stored. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// The bytes that the transformer made of it.
    pub bytes: Bytes,
    /// The attributes that were found in it before that. A backend with values in memory returns those that it was given.
    pub attributes: Option<Arc<Attributes>>,
}

/// The attributes of a value depend on its bytes and on the inspector.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Value {}

impl<T: Into<Bytes>> From<T> for Value {
    fn from(bytes: T) -> Self {
        Self { bytes: bytes.into(), attributes: None }
    }
}

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The stored bytes.
    pub value: Value,
    /// The revision that created the key.
    pub created: ResourceVersion,
    /// The revision that wrote this version.
    pub modified: ResourceVersion,
}

/// The outcome of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Written, at this revision.
    Done(ResourceVersion),
    /// Nothing was written: the key was not as expected. This is what it holds.
    Conflict(Option<KeyValue>),
}

/// A further condition of a write: another key was last written at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchanged {
    /// The other key.
    pub key: Key,
    /// The revision.
    pub modified: ResourceVersion,
}

/// A read of a scope.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// The keys to read.
    pub scope: Scope,
    /// The first key inside the scope (inclusive); the scope's beginning if absent.
    pub from: Option<String>,
    /// The number of items at the most.
    pub limit: Option<usize>,
    /// At which revision; the current one if absent.
    pub at: Option<ResourceVersion>,
    /// Whether [`Range::count`] is wanted beyond knowing that there is more.
    pub count: bool,
}

impl RangeRequest {
    /// Everything in a scope, now.
    pub fn all(scope: Scope) -> Self {
        Self { scope, from: None, limit: None, at: None, count: false }
    }
}

/// The answer to a [`RangeRequest`].
#[derive(Clone, Debug)]
pub struct Range {
    /// The store's current revision when the read was made.
    pub current: ResourceVersion,
    /// The items in key order.
    pub items: Vec<KeyValue>,
    /// Whether keys remain beyond `items`.
    pub more: bool,
    /// The number of keys from the read's beginning on, limit aside; only on request.
    pub count: Option<usize>,
}

/// An event of a backend's watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendEvent {
    /// A key was created (`created == modified`) or changed.
    Put {
        /// The new version.
        item: KeyValue,
        /// The version before, absent for a creation.
        previous: Option<KeyValue>,
    },
    /// A key was deleted, or its time to live ran out.
    Delete {
        /// The key.
        key: Key,
        /// The revision of the deletion.
        revision: ResourceVersion,
        /// The last version.
        previous: Option<KeyValue>,
    },
    /// Every change up to this revision has been delivered.
    Progress(ResourceVersion),
}

/// A backend's watch. An error is its last item. Dropping it ends it.
pub type BackendWatch = BoxStream<'static, Result<BackendEvent, StorageError>>;

/// An engine.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Reads one key.
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError>;

    /// Writes a key if its last write was at `expected`, or if it is absent and nothing is expected.
    /// With a `ttl` the key is deleted when that time has passed; a later write without one drops it.
    async fn put_if(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
    ) -> Result<Swap, StorageError> {
        self.put_while(key, expected, value, ttl, None).await
    }

    /// The same, if another key has not changed either: if it has, nothing is written and this is
    /// [`StorageError::OtherChanged`], unless the key itself is not as expected.
    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError>;

    /// Deletes a key if its last write was at `expected`.
    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError>;

    /// Reads a scope. A revision that is compacted is [`StorageError::Expired`] (as a list), one that is
    /// not reached yet [`StorageError::TooLarge`].
    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError>;

    /// Follows a scope: every change with a revision above `after`, which may lie in the future. With
    /// `progress` the watch also yields [`BackendEvent::Progress`], on request and from time to time.
    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError>;

    /// The same as a watch with progress, for a reader of old changes. It should report progress by itself once it has
    /// delivered everything there is. If `with_previous` is not set, updates of existing keys need not carry the version
    /// before.
    async fn watch_past(
        &self,
        scope: Scope,
        after: ResourceVersion,
        _with_previous: bool,
    ) -> Result<BackendWatch, StorageError> {
        self.watch(scope, after, true).await
    }

    /// Asks every watch with `progress` to report its progress soon.
    async fn request_progress(&self) -> Result<(), StorageError>;

    /// The current revision: not below that of any write acknowledged before the call.
    async fn current_revision(&self) -> Result<ResourceVersion, StorageError>;

    /// Forgets what was before `revision`: changes up to it can no longer be watched, states before it no
    /// longer be read. Compacting what is compacted already changes nothing.
    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError>;

    /// The revision up to which the store is compacted, as far as this process knows.
    fn compacted_revision(&self) -> Option<ResourceVersion>;

    /// Asks a reader before compacting by itself, and puts that off for what the reader needs, within a limit that the
    /// backend states. [`Backend::compact`] asks no reader.
    fn keep_history_for(&self, _reader: Weak<dyn HistoryReader>) {}

    /// The extent of the history that can be read, as far as this process knows.
    fn history(&self) -> HistoryExtent {
        HistoryExtent { oldest: self.compacted_revision(), ..HistoryExtent::default() }
    }

    /// The number of bytes that the store takes on disk; none if it is not on one.
    async fn size_bytes(&self) -> Result<Option<u64>, StorageError> {
        Ok(None)
    }

    /// The reason why not every write is taken, and the remedy, if this process knows of one.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Whether requests for progress are answered reliably.
    fn reports_progress(&self) -> bool {
        true
    }

    /// The revision up to which a reader must have followed a scope to know all of it, if the backend knows it without a request.
    fn frontier(&self, _scope: &Scope) -> Option<Frontier> {
        None
    }
}

/// The progress of a store, seen from one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frontier {
    /// The store's revision.
    pub current: ResourceVersion,
    /// No change in the scope is newer than this. It may be a later revision than that of the last change.
    pub last_change: ResourceVersion,
}
