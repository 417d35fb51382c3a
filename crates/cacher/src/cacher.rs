//! The [`Cacher`]: its tasks, and the [`Storage`] that it is.

use crate::{
    consistency, feed,
    history::Limits,
    history_pages::HistoryPages,
    list::SnapshotList,
    list_source::ListSource,
    metrics::CacheMetrics,
    options::CacherOptions,
    shared::{self, Shared},
    state::State,
    sync::RwLock,
    watcher::Wakers,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, future, stream};
use keepwatch_apimachinery::{ResourceVersion, list_options::Position, meta::Qualified};
use keepwatch_storage::{
    CacheSource, DeleteOptions, Existing, HistoryReader, List, ListRequest, Object, ResourcePrefix, Storage,
    StorageError, TryUpdate, Unchanged, UpdateOptions, Validate, Watch, WatchRequest,
};
use parking_lot::Mutex;
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// How long watches that are being finished may take to read what they have not read yet.
const FINISH_WATCHES_MAX: Duration = Duration::from_secs(30);
/// How often to look whether they have.
const FINISHED_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The watch cache of one resource. Its watches end when it is dropped.
pub struct Cacher {
    pub(crate) shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
}

impl Cacher {
    /// Starts a cache of the objects that `storage` has under `keys`. Must be called inside a tokio runtime. Until the
    /// cache is ready, a request is answered by storage, or with an error that asks the client to retry.
    pub fn new(
        storage: Arc<dyn CacheSource>,
        keys: ResourcePrefix,
        resource: Qualified<'_>,
        options: CacherOptions,
        metrics: &CacheMetrics,
    ) -> Self {
        let limits = Limits::new(options.fresh_for, options.history_bytes_max);
        let state = State::new(&options.indexed_fields, limits, Instant::now());
        let random = options.seed.map_or_else(SmallRng::from_os_rng, SmallRng::seed_from_u64);
        let metrics = metrics.for_resource(resource);
        let reads = metrics.history_reads.clone();
        let shared = Arc::new(Shared {
            pages: HistoryPages::new(storage.clone(), keys.clone(), options.history_reads.clone(), reads),
            storage,
            name: resource.to_string(),
            prefix: keys.resource().to_owned(),
            keys,
            options,
            state: RwLock::new(state),
            predicates: Arc::default(),
            metrics,
            random: Mutex::new(random),
            snapshots_trusted: AtomicBool::new(true),
            revision_reached: Notify::new(),
            waiter_count: AtomicUsize::new(0),
            progress_wanted: Notify::new(),
            bookmarks_changed: Notify::new(),
        });
        let reader: Arc<dyn HistoryReader> = shared.clone();
        shared.storage.keep_history_for(Arc::downgrade(&reader));
        let mut tasks = JoinSet::new();
        tasks.spawn(feed::follow(shared.clone()));
        tasks.spawn(shared::request_progress_for_waiters(shared.clone()));
        tasks.spawn(shared::send_bookmarks(shared.clone()));
        tasks.spawn(consistency::check_periodically(shared.clone()));
        Self { shared, tasks: Mutex::new(tasks) }
    }

    /// Ends all watches, refuses new ones, and waits until the cache makes no more requests to storage. Dropping the cache
    /// does the same without waiting.
    pub async fn stop(&self) {
        // A task was aborted, or it ended by a panic that has been logged.
        let mut tasks = self.end();
        while tasks.join_next().await.is_some() {}
    }

    fn end(&self) -> JoinSet<()> {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.abort_all();
        self.shared.state.write().ready.stop(Instant::now());
        self.shared.end_watches();
        self.shared.revision_reached.notify_waiters();
        tasks
    }

    /// Waits until the cache is ready, or stopped.
    pub async fn until_ready(&self) {
        self.shared.until_ready().await;
    }

    /// Whether the cache is ready: it has listed storage and caught up with it.
    pub fn is_ready(&self) -> bool {
        self.shared.state.read().ready.is_ready()
    }

    /// The number of open watches.
    pub fn watcher_count(&self) -> usize {
        self.shared.state.read().watchers.len()
    }

    /// Compares the cache with storage now. The cache does this itself every few minutes.
    pub async fn check_consistency(&self) {
        consistency::check_once(&self.shared).await;
    }

    /// Delivers a bookmark to every watch with `progress`, once the cache holds everything that is committed now.
    pub async fn request_progress(&self) -> Result<(), StorageError> {
        self.shared.until_consistent().await?;
        let mut wakers = Wakers::default();
        let state = self.shared.state.read();
        for watcher in state.watchers_in_order() {
            watcher.enqueue_bookmark(state.revision, &mut wakers);
        }
        drop(state);
        Ok(())
    }

    /// The cached object under a key, which may be stale.
    fn cached(&self, key: &str) -> Option<Object> {
        let key = self.shared.keys.object(key).ok()?;
        let state = self.shared.state.read();
        state.ready.is_ready().then(|| state.store.get(&key).cloned()).flatten()
    }
}

impl Drop for Cacher {
    fn drop(&mut self) {
        drop(self.end());
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
            // Only if the last change is known here: asking storage for its revision takes as long as reading the object.
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
        match self.list_source(&scope, &request).await? {
            ListSource::Storage => self.list_from_storage(key, request).await,
            ListSource::Cache { store, revision, from, limit } => {
                let predicate = &request.predicate;
                let is_continued = from.is_some();
                let list = SnapshotList { scope: &scope, from, limit, predicate, revision };
                let list = list.read(&store, &self.shared.metrics).await?;
                if list.next.is_some() {
                    // The next page reads this state again.
                    self.shared.change(|state| state.keep_snapshot(revision, store, is_continued));
                }
                Ok(list)
            }
        }
    }

    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        let scope = self.shared.keys.scope(key, request.recursive)?;
        self.shared.state.read().ready.check(Instant::now())?;
        // From here on, an error is delivered in the stream.
        match self.start_watch(scope, request).await {
            Err(error) => Ok(stream::once(future::ready(Err(error))).boxed()),
            Ok(watch) => Ok(watch.map_or_else(|| stream::empty().boxed(), StreamExt::boxed)),
        }
    }

    async fn until_ready(&self) {
        self.shared.until_ready().await;
    }

    async fn finish_watches(&self, through: ResourceVersion) {
        let finished = async {
            while self.shared.until_fresh(through).await.is_err() {}
            let mut wakers = Wakers::default();
            self.shared.state.write().finish_watches(&mut wakers);
            drop(wakers);
            while self.watcher_count() > 0 {
                sleep(FINISHED_POLL_INTERVAL).await;
            }
        };
        // Later, they end with the cache.
        let _ = timeout(FINISH_WATCHES_MAX, finished).await;
    }
}
