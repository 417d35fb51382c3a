//! A storage that has a state and then tells what it is handed, so that whoever stands on it is measured alone.

use async_trait::async_trait;
use bytes::Bytes;
use keepwatch_apimachinery::{ResourceVersion, list_options::Position};
use keepwatch_storage::{
    DeleteOptions, List, ListRequest, Object, Storage, StorageError, TryUpdate, Unchanged, UpdateOptions,
    Validate, Watch, WatchRequest,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// It can be listed once, and watched once from there on.
pub(crate) struct Script {
    state: Mutex<Vec<Object>>,
    revision: ResourceVersion,
    told: Mutex<Option<Watch>>,
}

impl Script {
    /// The state at a revision, and what happens after it.
    pub(crate) fn new(mut state: Vec<Object>, revision: ResourceVersion, told: Watch) -> Self {
        state.sort_by(|one, other| one.key.cmp(&other.key));
        Script { state: Mutex::new(state), revision, told: Mutex::new(Some(told)) }
    }
}

pub(crate) fn version(number: usize) -> ResourceVersion {
    ResourceVersion::new(number as u64).expect("not zero")
}

/// How many have yet to hear what was told last.
#[derive(Default)]
pub(crate) struct Round {
    due: AtomicUsize,
    pub(crate) over: Notify,
}

impl Round {
    pub(crate) fn begin(&self, due: usize) {
        self.due.store(due, Ordering::Release);
    }

    pub(crate) fn heard(&self) {
        if self.due.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.notify_one();
        }
    }
}

fn unasked<T>() -> Result<T, StorageError> {
    Err(StorageError::backend("following a script", "nobody asks for this"))
}

/// Takes what is there, and leaves nothing.
fn take<T: Default>(kept: &Mutex<T>) -> T {
    std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))
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
        unasked()
    }

    async fn get(&self, _: &str, _: Position) -> Result<Option<Object>, StorageError> {
        unasked()
    }

    async fn delete(&self, _: &str, _: DeleteOptions, _: Validate<'_>) -> Result<Object, StorageError> {
        unasked()
    }

    async fn guaranteed_update(
        &self,
        _: &str,
        _: UpdateOptions,
        _: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        unasked()
    }

    async fn get_list(&self, _: &str, _: ListRequest) -> Result<List, StorageError> {
        let items = take(&self.state);
        let looked_at = items.len();
        Ok(List { items, revision: self.revision, next: None, remaining: None, looked_at })
    }

    async fn watch(&self, _: &str, _: WatchRequest) -> Result<Watch, StorageError> {
        take(&self.told).map_or_else(unasked, Ok)
    }

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
