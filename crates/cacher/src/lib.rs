//! The watch cache: follows storage once for each resource, and serves every list and watch of it from memory.
//!
//! A [`Cacher`] is a [`Storage`] in front of another one. Writes pass through. What is read comes from its copy, which
//! is as fresh as the reader asks for: a list of the most recent state waits until the copy has seen all that was
//! committed before. Every object is there once, shared by the lists, events and watchers that show it.
//!
//! Without a cache, a [`keepwatch_storage::Store`] gives the same answers, each at the price of a read of storage.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! use futures::StreamExt;
//! use keepwatch_apimachinery::{list_options::WatchStart, meta::Qualified};
//! use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
//! use keepwatch_storage::{Storage, Store, StoreOptions, WatchEvent, WatchRequest};
//! use keepwatch_storage::testing::{PodInspector, pod, pods_prefix};
//! use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
//! use std::sync::Arc;
//!
//! let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
//! let store = Store::new(backend, StoreOptions::new(pods_prefix(), Arc::new(PodInspector)));
//! let metrics = CacheMetrics::register(&prometheus::Registry::new())?;
//! let options = CacherOptions::default();
//! let pods = Cacher::new(Arc::new(store), pods_prefix(), Qualified::core("pods"), options, &metrics);
//! pods.until_ready().await;
//!
//! let mut watch = pods.watch("/pods", WatchRequest::from(WatchStart::state())).await?;
//! let created = pods.create("/pods/ns/a", pod("a").value(), None).await?;
//! assert_eq!(watch.next().await.expect("it goes on")?, WatchEvent::Added(created));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Of what is in here only the state matters, and that is plain data behind one lock: objects (`store`), recent events
//! (`history`), watchers (`interest`, `watcher`) and who is due for a bookmark (`bookmark`). `feed` changes it, readers
//! look at it, and nothing waits while holding it.

mod sync;
mod sieve;
mod counts;
mod store;
mod kept;
mod history;
mod history_pages;
mod interest;
mod watcher;
mod bookmark;
mod ready;
mod state;
mod shared;
mod feed;
mod list;
mod watching;
mod check;
mod metrics;
mod metered;
mod encode;
#[cfg(all(test, feature = "loom"))]
mod handover;

pub use encode::{Encodings, Format, write_json};
pub use history_pages::HistoryReads;
pub use metered::{Metered, StorageMetrics};
pub use metrics::CacheMetrics;

use crate::{
    history::{FRESH_DURATION_MIN, Limits, TooOld},
    history_pages::HistoryPages,
    list::Listing,
    shared::{Inconsistent, Shared},
    state::State,
    store::Store,
    sync::RwLock,
    watcher::{Start, Wakers, Watcher},
    watching::Watching,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, future, stream};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ListAt, Position, WatchStart},
    meta::Qualified,
};
use keepwatch_storage::{
    DeleteOptions, Existing, ExpiredRead, Frontier, HistoryReader, List, ListRequest, Object, PastChanges,
    ResourcePrefix, Scope, Storage, StorageError, TryUpdate, Unchanged, UpdateOptions, Validate, Watch,
    WatchRequest,
};
use parking_lot::Mutex;
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, task::JoinHandle, time::Instant};

/// How a cache behaves.
#[derive(Clone, Debug)]
pub struct CacherOptions {
    /// The fields by whose value lists find objects without looking at the others.
    pub indexed_fields: &'static [&'static str],
    /// For how long events are to be kept, if there is room; 75 seconds at the least.
    pub fresh_for: Duration,
    /// How many bytes the history in memory may take. Older changes are read from storage.
    pub history_bytes_max: usize,
    /// How much of storage's history is read at a time and kept. Give all caches of a server the same one.
    pub history_reads: HistoryReads,
    /// Where randomness comes from; if absent, from the operating system.
    pub seed: Option<u64>,
}

impl Default for CacherOptions {
    fn default() -> Self {
        Self {
            indexed_fields: &[],
            fresh_for: FRESH_DURATION_MIN,
            history_bytes_max: 32 << 20,
            history_reads: HistoryReads::default(),
            seed: None,
        }
    }
}

/// The watch cache of one resource. Dropping it ends its watches.
pub struct Cacher {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Cacher {
    /// Begins to follow the objects that `storage` has under `keys`. Must be called inside a tokio runtime. The cache
    /// answers at once, by asking storage or by asking its client to come back, until it is filled.
    pub fn new(
        storage: Arc<dyn Storage>,
        keys: ResourcePrefix,
        resource: Qualified<'_>,
        options: CacherOptions,
        metrics: &CacheMetrics,
    ) -> Self {
        let limits = Limits::new(options.fresh_for, options.history_bytes_max);
        let state = State::new(options.indexed_fields, limits, Instant::now());
        let random = options.seed.map_or_else(SmallRng::from_os_rng, SmallRng::seed_from_u64);
        let metrics = metrics.of(resource);
        let reads = metrics.history_reads.clone();
        let shared = Arc::new(Shared {
            pages: HistoryPages::new(storage.clone(), keys.clone(), options.history_reads.clone(), reads),
            storage,
            name: resource.to_string(),
            prefix: keys.resource().to_owned(),
            keys,
            options,
            state: RwLock::new(state),
            metrics,
            random: Mutex::new(random),
            past_is_trusted: AtomicBool::new(true),
            fresh: Notify::new(),
            waiting: AtomicUsize::new(0),
            progress_wanted: Notify::new(),
            bookmarks_changed: Notify::new(),
        });
        let reader: Arc<dyn HistoryReader> = shared.clone();
        shared.storage.keep_history_for(Arc::downgrade(&reader));
        let tasks = [
            tokio::spawn(feed::follow(shared.clone())),
            tokio::spawn(shared::ask_for_progress(shared.clone())),
            tokio::spawn(shared::send_bookmarks(shared.clone())),
            tokio::spawn(check::check_regularly(shared.clone())),
        ];
        Self { shared, tasks: Mutex::new(tasks.into()) }
    }

    /// Ends all watches, refuses new ones, and waits until nothing is asked of storage any more. Dropping does the same
    /// without waiting.
    pub async fn stop(&self) {
        for task in self.end() {
            // Aborted, or ended by a panic that was told of.
            let _ = task.await;
        }
    }

    fn end(&self) -> Vec<JoinHandle<()>> {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.iter().for_each(JoinHandle::abort);
        self.shared.state.write().ready.stop(Instant::now());
        self.shared.end_watches();
        self.shared.fresh.notify_waiters();
        tasks
    }

    /// Waits until the cache is filled, or stopped.
    pub async fn until_ready(&self) {
        self.shared.until_ready().await;
    }

    /// Whether the cache is filled.
    pub fn is_ready(&self) -> bool {
        self.shared.state.read().ready.is_ready()
    }

    /// How many watches are open.
    pub fn watcher_count(&self) -> usize {
        self.shared.state.read().watchers.len()
    }

    /// Compares the cache with storage now, as it does by itself every few minutes.
    pub async fn check(&self) {
        check::check(&self.shared).await;
    }

    /// What the cache holds under a key, however old.
    fn cached(&self, key: &str) -> Option<Object> {
        let key = self.shared.keys.object(key).ok()?;
        let state = self.shared.state.read();
        state.ready.is_ready().then(|| state.store.get(&key).cloned()).flatten()
    }

    /// Everything that is known now, and at which revision.
    fn present(&self) -> Result<(Store, ResourceVersion), StorageError> {
        let state = self.shared.state.read();
        state.ready.check(Instant::now())?;
        Ok((state.store.clone(), state.revision))
    }

    /// The state at a revision, if the cache still knows it.
    fn past(&self, revision: ResourceVersion) -> Option<Store> {
        let compacted = self.shared.storage.compacted_revision();
        if compacted.is_some_and(|compacted| revision < compacted)
            || !self.shared.past_is_trusted.load(Ordering::Acquire)
        {
            return None;
        }
        let past = {
            let state = self.shared.state.read();
            state.ready.is_ready().then(|| state.past(revision).ok()).flatten()?
        };
        Some(past.restore())
    }
}

impl Drop for Cacher {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// From where a list is read.
enum Source {
    Storage,
    Cache { store: Store, revision: ResourceVersion, from: Option<String>, limit: Option<usize> },
}

impl Cacher {
    /// Decides from where a list is read, and waits until the cache is as fresh as it has to be.
    async fn source(&self, scope: &Scope, request: &ListRequest) -> Result<Source, StorageError> {
        let can_do_without_cache =
            request.limit.is_some_and(|limit| limit > 0) && request.predicate.is_everything();
        if !self.is_ready() && can_do_without_cache {
            return Ok(Source::Storage);
        }
        match &request.at {
            ListAt::Any => {
                let (store, revision) = self.present()?;
                Ok(Source::Cache { store, revision, from: None, limit: None })
            }
            ListAt::NotOlderThan(wanted) => {
                self.present()?;
                self.shared.until_fresh(*wanted).await?;
                self.source_now(request, None)
            }
            ListAt::MostRecent => self.consistent_source(request, None).await,
            ListAt::Continue(token) => {
                let from = Some(token.start_key(scope.key()));
                match token.at() {
                    ContinueAt::Newest => self.consistent_source(request, from).await,
                    ContinueAt::Exact(revision) => self.exact_source(scope, request, revision, from).await,
                }
            }
            ListAt::Exact(revision) => self.exact_source(scope, request, *revision, None).await,
        }
    }

    fn source_now(&self, request: &ListRequest, from: Option<String>) -> Result<Source, StorageError> {
        let (store, revision) = self.present()?;
        Ok(Source::Cache { store, revision, from, limit: request.limit })
    }

    /// Everything that was committed before the request: from the cache once it has that, else from storage.
    async fn consistent_source(
        &self,
        request: &ListRequest,
        from: Option<String>,
    ) -> Result<Source, StorageError> {
        self.present()?;
        if !self.shared.storage.tells_progress() {
            return Ok(Source::Storage);
        }
        match self.shared.until_consistent().await {
            Ok(_) => {
                self.shared.metrics.consistent_reads.inc();
                self.source_now(request, from)
            }
            Err(Inconsistent::Stale(_)) => Ok(Source::Storage),
            Err(Inconsistent::Unknown(error)) => Err(error),
        }
    }

    async fn exact_source(
        &self,
        scope: &Scope,
        request: &ListRequest,
        revision: ResourceVersion,
        from: Option<String>,
    ) -> Result<Source, StorageError> {
        if matches!(scope, Scope::Object(_)) || !self.is_ready() {
            return Ok(Source::Storage);
        }
        self.shared.until_fresh(revision).await?;
        Ok(match self.past(revision) {
            Some(store) => Source::Cache { store, revision, from, limit: request.limit },
            None => Source::Storage,
        })
    }

    /// A list of the most recent state that the cache could not give in time.
    async fn fall_back(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        let is_consistent_read = match &request.at {
            ListAt::MostRecent => true,
            ListAt::Continue(token) => token.at() == ContinueAt::Newest,
            _ => false,
        };
        let list = self.shared.storage.get_list(key, request).await;
        if is_consistent_read && self.is_ready() {
            let metrics = &self.shared.metrics;
            let count = match list {
                Ok(_) => &metrics.consistent_reads_from_storage,
                Err(_) => &metrics.consistent_reads_failed,
            };
            count.inc();
        }
        list
    }
}

#[async_trait]
impl Storage for Cacher {
    async fn create_while(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        self.shared.storage.create_while(key, value, ttl, unchanged).await
    }

    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError> {
        let shared = &self.shared;
        let full = shared.keys.object(key)?;
        if !self.is_ready() {
            return shared.storage.get(key, position).await;
        }
        match position {
            Position::Any => {}
            Position::At(revision) => shared.until_fresh(revision).await?,
            // Only if that is known here: asking storage for its revision would take as long as asking for the object.
            Position::MostRecent => match shared.storage.frontier() {
                Some(frontier) if shared.state.read().revision >= frontier.last_change => {}
                _ => return shared.storage.get(key, position).await,
            },
        }
        let found = {
            let state = shared.state.read();
            state.ready.is_ready().then(|| state.store.get(&full).cloned())
        };
        match found {
            Some(object) => Ok(object),
            None => shared.storage.get(key, position).await,
        }
    }

    async fn get_existing(&self, key: &str) -> Result<Existing, StorageError> {
        let shared = &self.shared;
        let full = shared.keys.object(key)?;
        let frontier = shared.storage.frontier();
        let cached = {
            let state = shared.state.read();
            let is_usable = state.ready.is_ready()
                && frontier.is_none_or(|frontier| state.revision >= frontier.last_change);
            is_usable.then(|| state.store.get(&full).cloned())
        };
        match (cached, frontier) {
            (Some(object), Some(_)) => Ok(Existing { object, is_current: true }),
            (Some(object @ Some(_)), None) => Ok(Existing { object, is_current: false }),
            _ => {
                let object = shared.storage.get(key, Position::MostRecent).await?;
                Ok(Existing { object, is_current: true })
            }
        }
    }

    async fn delete(
        &self,
        key: &str,
        mut options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError> {
        options.hint = options.hint.or_else(|| self.cached(key));
        self.shared.storage.delete(key, options, validate).await
    }

    async fn guaranteed_update(
        &self,
        key: &str,
        mut options: UpdateOptions,
        try_update: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        options.hint = options.hint.or_else(|| self.cached(key));
        self.shared.storage.guaranteed_update(key, options, try_update).await
    }

    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        let scope = self.shared.keys.scope(key, request.recursive)?;
        match self.source(&scope, &request).await? {
            Source::Storage => self.fall_back(key, request).await,
            Source::Cache { store, revision, from, limit } => {
                let predicate = &request.predicate;
                let is_continued = from.is_some();
                let listing = Listing { scope: &scope, from, limit, predicate, revision };
                let list = listing.of(&store, &self.shared.metrics).await?;
                if list.next.is_some() {
                    // The next page will ask for this state again.
                    self.shared.change(|state| state.keep(revision, store, is_continued));
                }
                Ok(list)
            }
        }
    }

    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        let scope = self.shared.keys.scope(key, request.recursive)?;
        self.shared.state.read().ready.check(Instant::now())?;
        // From here on, what goes wrong is told in the stream.
        match self.begin_watch(scope, request).await {
            Err(error) => Ok(stream::once(future::ready(Err(error))).boxed()),
            Ok(watching) => Ok(watching.map_or_else(|| stream::empty().boxed(), StreamExt::boxed)),
        }
    }

    async fn past_changes(
        &self,
        key: &str,
        recursive: bool,
        after: ResourceVersion,
        until: ResourceVersion,
        with_old: bool,
    ) -> Result<PastChanges, StorageError> {
        self.shared.storage.past_changes(key, recursive, after, until, with_old).await
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.shared.storage.keep_history_for(reader);
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.shared.until_consistent().await?;
        let mut wakers = Wakers::default();
        let state = self.shared.state.read();
        for watcher in state.watchers_in_order() {
            watcher.offer_bookmark(state.revision, &mut wakers);
        }
        drop(state);
        Ok(())
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.shared.storage.current_revision().await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.shared.storage.compacted_revision()
    }

    fn tells_progress(&self) -> bool {
        self.shared.storage.tells_progress()
    }

    fn frontier(&self) -> Option<Frontier> {
        self.shared.storage.frontier()
    }
}

impl Cacher {
    /// Begins a watch; nothing if the cache is being filled anew, so that the watch is over at once.
    async fn begin_watch(
        &self,
        scope: Scope,
        request: WatchRequest,
    ) -> Result<Option<Watching>, StorageError> {
        let shared = &self.shared;
        let begun = Instant::now();
        // One that is too far away to be told is none.
        let deadline = request.timeout.and_then(|timeout| begun.checked_add(timeout));
        let after = match request.start {
            WatchStart::InitialEvents { end_bookmark: true, .. } if !shared.storage.tells_progress() => {
                return Err(StorageError::backend(
                    "telling where a state ends",
                    "storage does not answer requests for progress",
                ));
            }
            WatchStart::InitialEvents { position, .. } => {
                match position {
                    Position::Any => {}
                    Position::MostRecent => drop(shared.until_consistent().await?),
                    Position::At(revision) => shared.until_fresh(revision).await?,
                }
                None
            }
            WatchStart::Changes { position: Position::At(revision) } => Some(revision),
            WatchStart::Changes { position: Position::MostRecent } => {
                Some(shared.storage.current_revision().await?)
            }
            WatchStart::Changes { position: Position::Any } => None,
        };
        let reader = shared.change(|state| {
            if !state.ready.is_ready() {
                return Ok::<_, StorageError>(None);
            }
            let start = match (after, request.start) {
                (Some(revision), _) => Start::After(revision),
                (None, WatchStart::InitialEvents { end_bookmark, .. }) => {
                    Start::State { revision: state.revision, end_bookmark }
                }
                (None, WatchStart::Changes { .. }) => Start::After(state.revision),
            };
            if let Start::After(requested) = start {
                self.must_be_kept(state, requested)?;
            }
            let (watcher, reader) =
                Watcher::add(state, scope, request.predicate, start, deadline, request.progress);
            if request.progress {
                state.bookmarks.schedule(&watcher, begun);
            }
            Ok(Some(reader))
        })?;
        let Some(reader) = reader else { return Ok(None) };
        if request.progress {
            shared.bookmarks_changed.notify_one();
        }
        Ok(Some(Watching::new(shared.clone(), reader, deadline)))
    }

    /// Refuses a position if it is known that what comes after it is neither in the cache nor in storage.
    fn must_be_kept(&self, state: &State, requested: ResourceVersion) -> Result<(), StorageError> {
        let Err(TooOld(begins_after)) = state.history.reaches(requested) else { return Ok(()) };
        let storage = &self.shared.storage;
        // Without progress notifications nothing says when the end of storage's history is reached.
        let oldest = if storage.tells_progress() { storage.compacted_revision() } else { Some(begins_after) };
        match oldest.filter(|oldest| requested < *oldest) {
            Some(oldest) => Err(StorageError::Expired(ExpiredRead::WatchAfter { requested, oldest })),
            None => Ok(()),
        }
    }
}
