//! A storage that returns a given state and then delivers given events, so that a cache on it is measured alone.

use async_trait::async_trait;
use bytes::Bytes;
use keepwatch_apimachinery::{ResourceVersion, list_options::Position};
use keepwatch_storage::{
    CacheSource, DeleteOptions, List, ListRequest, Object, Storage, StorageError, TryUpdate, Unchanged,
    UpdateOptions, Validate, Watch, WatchRequest,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A storage that can be listed once, and watched once from there on.
pub(crate) struct Script {
    state: Mutex<Vec<Object>>,
    revision: ResourceVersion,
    events: Mutex<Option<Watch>>,
}

impl Script {
    /// A storage with a state at a revision, and the events after it.
    pub(crate) fn new(mut state: Vec<Object>, revision: ResourceVersion, events: Watch) -> Self {
        state.sort_by(|one, other| one.key.cmp(&other.key));
        Script { state: Mutex::new(state), revision, events: Mutex::new(Some(events)) }
    }
}

pub(crate) fn version(number: usize) -> ResourceVersion {
    ResourceVersion::new(number as u64).expect("not zero")
}

/// Counts the watchers that have not received the last event yet.
#[derive(Default)]
pub(crate) struct Round {
    due: AtomicUsize,
    pub(crate) over: Notify,
}

impl Round {
    pub(crate) fn begin(&self, due: usize) {
        self.due.store(due, Ordering::Release);
    }

    pub(crate) fn received(&self) {
        if self.due.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.notify_one();
        }
    }
}

fn unsupported<T>() -> Result<T, StorageError> {
    Err(StorageError::backend("following a script", "the script does not support this"))
}

/// Takes the value and leaves the default.
fn take<T: Default>(value: &Mutex<T>) -> T {
    std::mem::take(&mut *value.lock().unwrap_or_else(PoisonError::into_inner))
}

#[async_trait]
impl Storage for Script {
    async fn create_while(
        &self,
        _: &str,
        _: Bytes,
        _: Option<Duration>,
        _: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        unsupported()
    }

    async fn get(&self, _: &str, _: Position) -> Result<Option<Object>, StorageError> {
        unsupported()
    }

    async fn delete(&self, _: &str, _: DeleteOptions, _: Validate<'_>) -> Result<Object, StorageError> {
        unsupported()
    }

    async fn guaranteed_update(
        &self,
        _: &str,
        _: UpdateOptions,
        _: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        unsupported()
    }

    async fn get_list(&self, _: &str, _: ListRequest) -> Result<List, StorageError> {
        let items = take(&self.state);
        let looked_at = items.len();
        Ok(List { items, revision: self.revision, next: None, remaining: None, looked_at })
    }

    async fn watch(&self, _: &str, _: WatchRequest) -> Result<Watch, StorageError> {
        take(&self.events).map_or_else(unsupported, Ok)
    }
}

#[async_trait]
impl CacheSource for Script {
    async fn request_progress(&self) -> Result<(), StorageError> {
        Ok(())
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        Ok(self.revision)
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        None
    }
}
