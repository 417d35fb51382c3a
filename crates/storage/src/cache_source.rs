//! The interface of a store for watch caches only: how far the store is, and its history.

use crate::{
    backend::Frontier,
    error::{ExpiredRead, StorageError},
    history::{HistoryReader, PastChanges},
    interface::Storage,
};
use async_trait::async_trait;
use keepwatch_apimachinery::ResourceVersion;
use std::sync::Weak;

/// A [`Storage`] that a watch cache can follow.
#[async_trait]
pub trait CacheSource: Storage {
    /// Asks that watches with `progress` soon deliver a bookmark.
    async fn request_progress(&self) -> Result<(), StorageError>;

    /// Whether requests for progress are answered reliably. If not, they are not made, and the newest state is read from
    /// storage.
    fn reports_progress(&self) -> bool {
        true
    }

    /// The store's revision: not below that of any write completed before the call.
    async fn current_revision(&self) -> Result<ResourceVersion, StorageError>;

    /// The revision up to which a reader must have followed the resource to know all of it, if the store knows it without a
    /// request.
    fn frontier(&self) -> Option<Frontier> {
        None
    }

    /// The revision up to which the store is compacted, as far as this process knows.
    fn compacted_revision(&self) -> Option<ResourceVersion>;

    /// Reads the changes of a key, or of what is below it, after one revision, up to and including another one that the
    /// storage has reached. The object before an update is read only if `with_old` is set. Needs a storage
    /// that reports progress. One that keeps no history answers `Expired`.
    async fn past_changes(
        &self,
        _key: &str,
        _recursive: bool,
        _after: ResourceVersion,
        _until: ResourceVersion,
        _with_old: bool,
    ) -> Result<PastChanges, StorageError> {
        Err(StorageError::Expired(ExpiredRead::Watch))
    }

    /// Puts compaction off for what a reader needs, within a limit; see [`crate::Backend::keep_history_for`].
    fn keep_history_for(&self, _reader: Weak<dyn HistoryReader>) {}
}
