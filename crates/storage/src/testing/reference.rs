//! The smallest backend there can be: a list of all changes, searched from one end to the other.
//!
//! Slow on purpose. Nothing is derived that could disagree with the list: a state is what replaying the
//! changes leaves, a watch is a position in them, and a time to live is a deletion made later.

use crate::{
    Backend, BackendEvent, BackendWatch, ExpiredRead, Key, KeyValue, Range, RangeRequest, Scope,
    StorageError, Swap, Unchanged, Value,
};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;

/// A backend in memory. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Reference {
    state: Arc<watch::Sender<State>>,
}

/// The state of a reference backend.
#[derive(Debug, Default)]
struct State {
    changes: Vec<Change>,
    compacted: Option<ResourceVersion>,
    progress_requests: u64,
}

/// One write or deletion. Its revision is its place in the list.
#[derive(Clone, Debug)]
struct Change {
    key: Key,
    revision: ResourceVersion,
    /// The written value, absent for a deletion.
    item: Option<KeyValue>,
    previous: Option<KeyValue>,
}

/// The revision of a store in which nothing was ever written.
const EMPTY: u64 = 1;

impl State {
    fn current(&self) -> ResourceVersion {
        ResourceVersion::new(EMPTY + self.changes.len() as u64).expect("above zero")
    }

    fn get(&self, key: &str) -> Option<KeyValue> {
        self.changes.iter().rev().find(|change| change.key.as_str() == key)?.item.clone()
    }

    fn state_at(&self, revision: ResourceVersion) -> BTreeMap<Key, KeyValue> {
        let mut state = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.revision <= revision) {
            match &change.item {
                Some(item) => state.insert(change.key.clone(), item.clone()),
                None => state.remove(&change.key),
            };
        }
        state
    }

    /// Puts (or with no value deletes) a key if its last write was at `expected`.
    fn swap(&mut self, key: &Key, expected: Option<ResourceVersion>, value: Option<Value>) -> Swap {
        let previous = self.get(key);
        if previous.as_ref().map(|item| item.modified) != expected {
            return Swap::Conflict(previous);
        }
        let revision = self.current().next();
        let created = previous.as_ref().map_or(revision, |item| item.created);
        let item = value.map(|value| KeyValue { key: key.clone(), value, created, modified: revision });
        self.changes.push(Change { key: key.clone(), revision, item, previous });
        Swap::Done(revision)
    }

    fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        let current = self.current();
        let at = request.at.unwrap_or(current);
        if at > current {
            return Err(StorageError::TooLarge { requested: at, current, retry_after_seconds: None });
        }
        if self.compacted.is_some_and(|compacted| at < compacted) {
            return Err(StorageError::Expired(ExpiredRead::List));
        }
        let from = request.from.unwrap_or_default();
        let mut items: Vec<KeyValue> = self
            .state_at(at)
            .into_values()
            .filter(|item| request.scope.contains(&item.key) && item.key.as_str() >= from.as_str())
            .collect();
        let found = items.len();
        items.truncate(request.limit.unwrap_or(found));
        Ok(Range { current, more: items.len() < found, count: request.count.then_some(found), items })
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self { state: Arc::new(watch::Sender::new(State::default())) }
    }
}

impl Reference {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut outcome = None;
        self.state.send_modify(|state| outcome = Some(change(state)));
        outcome.expect("the change was made")
    }

    /// Deletes the key when its time has passed, unless it was written again.
    fn expire_later(&self, key: Key, written: ResourceVersion, ttl: Duration) {
        let state = Arc::downgrade(&self.state);
        tokio::spawn(async move {
            tokio::time::sleep(ttl).await;
            if let Some(state) = state.upgrade() {
                Self { state }.change(|state| state.swap(&key, Some(written), None));
            }
        });
    }
}

#[async_trait]
impl Backend for Reference {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        let state = self.state.borrow();
        Ok((state.current(), state.get(key)))
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        let swap = self.change(|state| {
            let modified = |key: &str| state.get(key).map(|item| item.modified);
            match unchanged {
                Some(other) if modified(key) == expected && modified(&other.key) != Some(other.modified) => {
                    Err(StorageError::OtherChanged { key: other.key.clone() })
                }
                _ => Ok(state.swap(key, expected, Some(value))),
            }
        })?;
        if let (Swap::Done(revision), Some(ttl)) = (&swap, ttl) {
            self.expire_later(key.clone(), *revision, ttl);
        }
        Ok(swap)
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        Ok(self.change(|state| state.swap(key, Some(expected), None)))
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        self.state.borrow().range(request)
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        let state = self.state.subscribe();
        let answered = state.borrow().progress_requests;
        let position = WatchPosition { scope, delivered: after, progress, answered };
        Ok(stream::unfold(Some((state, position)), |watching| async move {
            let (mut state, mut position) = watching?;
            let mut found = None;
            let waited = state.wait_for(|state| {
                found = position.step(state);
                found.is_some()
            });
            waited.await.ok()?;
            let found = found?;
            let rest = found.is_ok().then_some((state, position));
            Some((found, rest))
        })
        .boxed())
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.change(|state| state.progress_requests += 1);
        Ok(())
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        Ok(self.state.borrow().current())
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        self.change(|state| {
            let current = state.current();
            if revision > current {
                return Err(StorageError::TooLarge {
                    requested: revision,
                    current,
                    retry_after_seconds: None,
                });
            }
            state.compacted = state.compacted.max(Some(revision));
            Ok(())
        })
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.state.borrow().compacted
    }
}

/// The progress of a watch.
struct WatchPosition {
    scope: Scope,
    /// Every change up to here was delivered or lies outside the scope.
    delivered: ResourceVersion,
    progress: bool,
    answered: u64,
}

impl WatchPosition {
    /// The next event of the watch, if there is one.
    fn step(&mut self, state: &State) -> Option<Result<BackendEvent, StorageError>> {
        if state.compacted.is_some_and(|compacted| self.delivered < compacted) {
            return Some(Err(StorageError::Expired(ExpiredRead::Watch)));
        }
        let pending = |change: &&Change| change.revision > self.delivered && self.scope.contains(&change.key);
        let Some(change) = state.changes.iter().find(pending).cloned() else {
            self.delivered = self.delivered.max(state.current());
            return self.progressed(state);
        };
        self.delivered = change.revision;
        let Change { key, revision, item, previous } = change;
        Some(Ok(match item {
            Some(item) => BackendEvent::Put { item, previous },
            None => BackendEvent::Delete { key, revision, previous },
        }))
    }

    /// Answers a request for progress. A watch from the future has nothing to say of what is before it.
    fn progressed(&mut self, state: &State) -> Option<Result<BackendEvent, StorageError>> {
        if !self.progress || self.answered == state.progress_requests || self.delivered > state.current() {
            return None;
        }
        self.answered = state.progress_requests;
        Some(Ok(BackendEvent::Progress(self.delivered)))
    }
}
