//! The rules of Kubernetes' storage over any backend, for one resource.
//!
//! Kept true: no value leaves or enters without passing the transformer and the inspector; a write that
//! loses a race is tried again with what won it; what a caller's hint led to is never final until it was
//! checked against the store.
//!
//! Not here: how anything is stored (`backend`), who may ask (`registry`).

mod history;
mod list;
mod watch;

use crate::{
    backend::{Backend, Frontier, KeyValue, Swap, Unchanged, Value},
    cache_source::CacheSource,
    error::StorageError,
    history::{HistoryReader, PastChanges},
    interface::{
        DeleteOptions, List, ListRequest, Object, Storage, TryUpdate, Update, UpdateOptions, Validate,
        Version, Watch, WatchRequest,
    },
    key::{Key, ResourcePrefix},
    predicate::{Attributes, Inspector, StoreId, Undecodable},
    transform::{Identity, Transformer},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use keepwatch_apimachinery::{ResourceVersion, list_options::Position};
use std::{
    future,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

/// One resource's objects in a backend. Cloning shares it.
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
    prefix: ResourcePrefix,
    values: Values,
}

/// The options of a [`Store`]: everything that it needs to know of its resource.
pub struct StoreOptions {
    /// The place of its objects.
    pub prefix: ResourcePrefix,
    /// The inspector of its values.
    pub inspector: Arc<dyn Inspector>,
    /// The transformation of values at rest.
    pub transformer: Arc<dyn Transformer>,
    /// Whether the backend keeps the attributes of a value, so that no reader of the value in memory inspects it again. For a
    /// resource with a watch cache that takes no memory, because the cache has the same [`Attributes`].
    pub shares_attributes: bool,
}

impl StoreOptions {
    /// Values at rest as they are, and attributes shared.
    pub fn new(prefix: ResourcePrefix, inspector: Arc<dyn Inspector>) -> Self {
        Self { prefix, inspector, transformer: Arc::new(Identity), shares_attributes: true }
    }
}

impl Store {
    /// One resource in `backend`.
    pub fn new(backend: Arc<dyn Backend>, options: StoreOptions) -> Self {
        let StoreOptions { prefix, inspector, transformer, shares_attributes } = options;
        let values = Values { store: StoreId::unique(), inspector, transformer, shares_attributes };
        Self { backend, prefix, values }
    }

    async fn read_live(&self, key: &Key) -> Result<Option<Current>, StorageError> {
        let (_, item) = self.backend.get(key).await?;
        item.map(|item| Current::live(&self.values, item)).transpose()
    }

    async fn must_read_live(&self, key: &Key) -> Result<Current, StorageError> {
        self.read_live(key).await?.ok_or_else(|| StorageError::NotFound { key: key.clone() })
    }
}

/// The object a write is about to replace or delete.
struct Current {
    object: Object,
    /// Stored in an outdated form: write even if the value stays the same.
    stale: bool,
    /// The caller's assumption, not the store's answer.
    hinted: bool,
}

impl Current {
    fn live(values: &Values, item: KeyValue) -> Result<Self, StorageError> {
        let (object, stale) = values.decode(item)?;
        Ok(Self { object, stale, hinted: false })
    }

    fn hinted(object: Object) -> Self {
        Self { object, stale: false, hinted: true }
    }
}

/// The way of values in and out.
#[derive(Clone)]
struct Values {
    store: StoreId,
    inspector: Arc<dyn Inspector>,
    transformer: Arc<dyn Transformer>,
    shares_attributes: bool,
}

impl Values {
    /// The object a stored version stands for, and whether its stored form is outdated.
    fn decode(&self, item: KeyValue) -> Result<(Object, bool), StorageError> {
        let KeyValue { key, value, modified: revision, .. } = item;
        let corrupt = |source| StorageError::Corrupt { key: key.clone(), source };
        let plain = self.transformer.unseal(&key, value.bytes).map_err(corrupt)?;
        let attributes = match value.attributes.filter(|known| known.found_by == self.store) {
            Some(known) => known,
            None => self.inspect(&key, &plain.value).map_err(|error| corrupt(error.into()))?,
        };
        Ok((Version { key, value: plain.value, revision, attributes }.into(), plain.stale))
    }

    /// The bytes to store for a new value, and the object that it becomes once its revision is known.
    fn encode(&self, key: &Key, value: Bytes) -> Result<(Value, Encoded), StorageError> {
        let attributes = self
            .inspect(key, &value)
            .map_err(|error| StorageError::InvalidObject { key: key.clone(), message: error.to_string() })?;
        if attributes.has_version {
            return Err(StorageError::VersionSet);
        }
        let bytes = self
            .transformer
            .seal(key, value.clone())
            .map_err(|source| StorageError::backend("transforming a value for storage", source))?;
        let stored = Value { bytes, attributes: self.shares_attributes.then(|| attributes.clone()) };
        let written = move |key: Key, revision| Version { key, value, revision, attributes }.into();
        Ok((stored, Box::new(written)))
    }

    fn inspect(&self, key: &Key, value: &[u8]) -> Result<Arc<Attributes>, Undecodable> {
        let found = self.inspector.inspect(key, value)?;
        Ok(Arc::new(Attributes { found_by: self.store, ..found }))
    }
}

/// Makes the written object once the write's revision is known.
type Encoded = Box<dyn FnOnce(Key, ResourceVersion) -> Object + Send>;

/// For how long a backend is to keep what is written. On the wire and for callers zero means for ever.
fn lasting(ttl: Option<Duration>) -> Option<Duration> {
    ttl.filter(|ttl| !ttl.is_zero())
}

/// The number of objects that one task decodes in a row: few enough that other tasks on its thread need not wait long,
/// and so many that letting others run costs next to nothing.
const DECODED_IN_A_ROW_MAX: usize = 256;

/// Gives other tasks their turn while many objects are decoded. Nothing else would: a backend that has
/// everything in memory never waits.
#[derive(Default)]
struct Yielding {
    decoded: usize,
}

impl Yielding {
    /// The number of decoded objects.
    fn count(&self) -> usize {
        self.decoded
    }

    /// One more object is decoded.
    async fn decoded(&mut self) {
        self.decoded += 1;
        if self.decoded.is_multiple_of(DECODED_IN_A_ROW_MAX) {
            yield_to_others().await;
        }
    }
}

/// Is pending once, with the task already woken again. Any runtime lets others run in between.
async fn yield_to_others() {
    let mut yielded = false;
    future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[async_trait]
impl Storage for Store {
    async fn create_while(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        let key = self.prefix.object(key)?;
        let (stored, written) = self.values.encode(&key, value)?;
        match self.backend.put_while(&key, None, stored, lasting(ttl), unchanged).await? {
            Swap::Done(revision) => Ok(written(key, revision)),
            Swap::Conflict(_) => Err(StorageError::KeyExists { key }),
        }
    }

    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError> {
        let key = self.prefix.object(key)?;
        let (current, item) = self.backend.get(&key).await?;
        if let Position::At(requested) = position {
            list::must_have_reached(requested, current)?;
        }
        Ok(item.map(|item| self.values.decode(item)).transpose()?.map(|(object, _)| object))
    }

    async fn delete(
        &self,
        key: &str,
        options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError> {
        let key = self.prefix.object(key)?;
        let mut current = match options.hint {
            Some(object) => Current::hinted(object),
            None => self.must_read_live(&key).await?,
        };
        loop {
            let allowed = options
                .preconditions
                .check(&key, Some(&current.object))
                .and_then(|()| validate(&current.object).map_err(StorageError::Rejected));
            if let Err(refusal) = allowed {
                let live = self.unless_the_hint_was_stale(Some(current), refusal).await?;
                current = live.ok_or_else(|| StorageError::NotFound { key: key.clone() })?;
                continue;
            }
            match self.backend.delete_if(&key, current.object.revision).await? {
                Swap::Done(revision) => return Ok(current.object.at(revision)),
                Swap::Conflict(None) => return Err(StorageError::NotFound { key }),
                Swap::Conflict(Some(item)) => current = Current::live(&self.values, item)?,
            }
        }
    }

    async fn guaranteed_update(
        &self,
        key: &str,
        options: UpdateOptions,
        try_update: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        let key = self.prefix.object(key)?;
        let mut current = match options.hint {
            Some(object) => Some(Current::hinted(object)),
            None => self.read_live(&key).await?,
        };
        loop {
            if current.is_none() && !options.ignore_not_found {
                return Err(StorageError::NotFound { key });
            }
            let existing = current.as_ref().map(|current| &current.object);
            let tried = options
                .preconditions
                .check(&key, existing)
                .and_then(|()| try_update(existing).map_err(StorageError::Rejected));
            let update = match tried {
                Ok(update) => update,
                Err(refusal) => {
                    current = self.unless_the_hint_was_stale(current, refusal).await?;
                    continue;
                }
            };
            match current {
                Some(same) if same.object.value == update.value && !same.stale => {
                    if !same.hinted {
                        return Ok(same.object);
                    }
                    current = self.read_live(&key).await?;
                }
                other => match self.swap(&key, other.map(|current| current.object.revision), update).await? {
                    Written::As(object) => return Ok(object),
                    Written::Lost(winner) => current = winner,
                },
            }
        }
    }

    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        self.list(self.prefix.scope(key, request.recursive)?, request).await
    }

    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        let scope = self.prefix.scope(key, request.recursive)?;
        let timeout = request.timeout;
        let watch = watch::start(self.clone(), scope, request).await?;
        Ok(match timeout {
            Some(timeout) => watch.take_until(tokio::time::sleep(timeout)).boxed(),
            None => watch,
        })
    }
}

#[async_trait]
impl CacheSource for Store {
    async fn past_changes(
        &self,
        key: &str,
        recursive: bool,
        after: ResourceVersion,
        until: ResourceVersion,
        with_old: bool,
    ) -> Result<PastChanges, StorageError> {
        history::read(self.clone(), self.prefix.scope(key, recursive)?, after, until, with_old).await
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.backend.keep_history_for(reader);
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.backend.request_progress().await
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.backend.current_revision().await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.backend.compacted_revision()
    }

    fn reports_progress(&self) -> bool {
        self.backend.reports_progress()
    }

    fn frontier(&self) -> Option<Frontier> {
        self.backend.frontier(&self.prefix.all())
    }
}

/// The outcome of writing an update.
enum Written {
    As(Object),
    /// Another client wrote first; this is the current object.
    Lost(Option<Current>),
}

impl Store {
    async fn swap(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        update: Update,
    ) -> Result<Written, StorageError> {
        let (stored, written) = self.values.encode(key, update.value)?;
        match self.backend.put_if(key, expected, stored, lasting(update.ttl)).await? {
            Swap::Done(revision) => Ok(Written::As(written(key.clone(), revision))),
            Swap::Conflict(winner) => {
                Ok(Written::Lost(winner.map(|item| Current::live(&self.values, item)).transpose()?))
            }
        }
    }

    /// A refusal is final if it was about the live object. One about a hint is final only if the hint was
    /// right; otherwise this is the live object, if there is one, to try again with.
    async fn unless_the_hint_was_stale(
        &self,
        current: Option<Current>,
        refusal: StorageError,
    ) -> Result<Option<Current>, StorageError> {
        let Some(current) = current.filter(|current| current.hinted) else {
            return Err(refusal);
        };
        match self.read_live(&current.object.key).await? {
            Some(live) if live.object.revision == current.object.revision => Err(refusal),
            live => Ok(live),
        }
    }
}
