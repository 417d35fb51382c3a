//! The fixture of a case: a fresh backend, a storage over it, and short words for what cases do.

use super::{Pod, PodInspector, Watching, pods_prefix, reference::Reference};
use crate::{
    Backend, CacheSource, DeleteOptions, Key, List, ListRequest, Object, Storage, StorageError, Store,
    StoreOptions, Swap, Transformer, Update, UpdateOptions, Value, WatchRequest,
};
use futures::{FutureExt, future::BoxFuture};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{Position, WatchStart},
};
use std::{any::Any, future::Future, sync::Arc, time::Duration};

type Build = Arc<dyn Fn(Arc<dyn Backend>, StoreOptions) -> BoxFuture<'static, Built> + Send + Sync>;
type Reopen = Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn Backend>> + Send + Sync>;

/// In what implementations may rightly differ.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The shortest time to live that the backend keeps precisely enough. Cases about it take a few of these.
    pub shortest_ttl: Duration,
    /// Whether a cache stands between the storage and its backend. Then the cases do not ask
    /// - that the reader who asked meets an undecodable value: the cache's own feed meets it first;
    /// - that what is compacted is `Expired`, and in which words: a cache may still hold it, or hold less;
    /// - how soon a retry makes sense after `TooLarge`: a cache has already waited.
    pub cached: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { shortest_ttl: Duration::from_secs(1), cached: false }
    }
}

/// A storage that is tried, and how it is asked to deliver bookmarks: a store by its trait, a cache by a method of its own.
pub type Built = (Arc<dyn Storage>, RequestProgress);

/// Asks that watches with `progress` soon deliver a bookmark.
pub type RequestProgress = Arc<dyn Fn() -> BoxFuture<'static, Result<(), StorageError>> + Send + Sync>;

/// A fresh store of pods, under `/registry/pods/`. What it owns is dropped with it, guards last.
pub struct Fixture {
    /// The storage that is tried.
    pub storage: Arc<dyn Storage>,
    /// The way in which it is asked for bookmarks.
    pub request_progress: RequestProgress,
    /// The backend below it, for operations that the storage does not offer.
    pub backend: Arc<dyn Backend>,
    /// In what it may differ from others.
    pub capabilities: Capabilities,
    build: Build,
    reopen: Option<Reopen>,
    guards: Vec<Box<dyn Any + Send + Sync>>,
}

fn pods() -> StoreOptions {
    StoreOptions::new(pods_prefix(), Arc::new(PodInspector))
}

fn store(backend: Arc<dyn Backend>, options: StoreOptions) -> Built {
    let store = Arc::new(Store::new(backend, options));
    let asked = store.clone();
    let request_progress = move || {
        let store = asked.clone();
        async move { store.request_progress().await }.boxed()
    };
    (store, Arc::new(request_progress))
}

impl Fixture {
    /// A [`Store`] over a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let build: Build = Arc::new(|backend, options| Box::pin(std::future::ready(store(backend, options))));
        let (storage, request_progress) = store(backend.clone(), pods());
        Self {
            storage,
            request_progress,
            backend,
            capabilities: Capabilities::default(),
            build,
            reopen: None,
            guards: Vec::new(),
        }
    }

    /// Another implementation over a backend: `build` makes it, and makes it again where a case needs one
    /// with other options over the same backend.
    pub async fn over<F, S>(backend: Arc<dyn Backend>, build: F) -> Self
    where
        F: Fn(Arc<dyn Backend>, StoreOptions) -> S + Send + Sync + 'static,
        S: Future<Output = Built> + Send + 'static,
    {
        let build: Build = Arc::new(move |backend, options| Box::pin(build(backend, options)));
        let (storage, request_progress) = build(backend.clone(), pods()).await;
        Self { storage, request_progress, build, ..Self::new(backend) }
    }

    /// With these differences.
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Keeps `guard` (a directory, a process) until everything else is dropped.
    pub fn guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guards.push(Box::new(guard));
        self
    }

    /// Can be closed and opened again: `reopen` is called when storage and backend are dropped.
    pub fn reopening<F, B>(self, reopen: F) -> Self
    where
        F: Fn() -> B + Send + Sync + 'static,
        B: Future<Output = Arc<dyn Backend>> + Send + 'static,
    {
        Self { reopen: Some(Arc::new(move || Box::pin(reopen()))), ..self }
    }

    /// Closes the store and opens it again, if it can be. All watches must have been dropped.
    pub async fn reopen(&mut self) {
        let Some(reopen) = self.reopen.clone() else { return };
        // While a store is opened again there may be no reference to it; an empty one takes its place.
        self.backend = Arc::new(Reference::default());
        (self.storage, self.request_progress) = store(self.backend.clone(), pods());
        self.backend = reopen().await;
        (self.storage, self.request_progress) = (self.build)(self.backend.clone(), pods()).await;
    }

    /// Another storage over the same backend, with this transformer.
    pub async fn transformed(&self, transformer: impl Transformer + 'static) -> Arc<dyn Storage> {
        let options = StoreOptions { transformer: Arc::new(transformer), ..pods() };
        (self.build)(self.backend.clone(), options).await.0
    }

    /// A [`Store`] straight on the backend, whatever is tried: what can be asked of a store only.
    pub fn source(&self) -> Arc<dyn CacheSource> {
        Arc::new(Store::new(self.backend.clone(), pods()))
    }

    /// Writes a new pod.
    pub async fn create(&self, pod: &Pod) -> Object {
        self.storage.create(&pod.key(), pod.value(), None).await.expect("the pod is created")
    }

    /// Writes a new pod that lives for `ttl`.
    pub async fn create_for(&self, pod: &Pod, ttl: Duration) -> Object {
        self.storage.create(&pod.key(), pod.value(), Some(ttl)).await.expect("the pod is created")
    }

    /// Writes a pod, new or not.
    pub async fn put(&self, pod: &Pod) -> Object {
        self.put_for(pod, None).await
    }

    /// Writes a pod, new or not, that lives for `ttl` from now on.
    pub async fn put_for(&self, pod: &Pod, ttl: Option<Duration>) -> Object {
        let options = UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() };
        let mut replace = |_: Option<&Object>| Ok(Update { value: pod.value(), ttl });
        self.storage.guaranteed_update(&pod.key(), options, &mut replace).await.expect("the pod is written")
    }

    /// Deletes a pod.
    pub async fn delete(&self, pod: &Pod) -> Object {
        self.storage
            .delete(&pod.key(), DeleteOptions::default(), &mut |_| Ok(()))
            .await
            .expect("the pod is deleted")
    }

    /// Reads a pod.
    pub async fn get(&self, pod: &Pod) -> Option<Object> {
        self.storage.get(&pod.key(), Position::MostRecent).await.expect("the pod is read")
    }

    /// Lists every pod.
    pub async fn list(&self, request: ListRequest) -> List {
        self.try_list(request).await.expect("the pods are listed")
    }

    /// Lists every pod, or not.
    pub async fn try_list(&self, request: ListRequest) -> Result<List, StorageError> {
        self.storage.get_list("/pods", request).await
    }

    /// Follows every pod.
    pub async fn watch(&self, start: WatchStart) -> Watching {
        self.watch_with("/pods", WatchRequest::from(start)).await
    }

    /// Follows pods.
    pub async fn watch_with(&self, key: &str, request: WatchRequest) -> Watching {
        Watching::new(self.storage.watch(key, request).await.expect("the watch is opened"))
    }

    /// The store's revision.
    pub async fn revision(&self) -> ResourceVersion {
        self.backend.current_revision().await.expect("a revision")
    }

    /// Forgets what was before `revision`.
    pub async fn compact(&self, revision: ResourceVersion) {
        if self.capabilities.cached {
            // A cache that has yet to read what is forgotten would have to be filled anew.
            self.list(ListRequest::all()).await;
        }
        self.backend.compact(revision).await.expect("the store is compacted");
    }

    /// The full key of a pod.
    pub fn full_key(&self, pod: &Pod) -> Key {
        pods_prefix().object(&pod.key()).expect("a good key")
    }

    /// Writes any bytes under a full key, behind the storage's back.
    pub async fn put_raw(&self, key: &Key, value: impl Into<Value>) -> ResourceVersion {
        let value = value.into();
        loop {
            let (_, item) = self.backend.get(key).await.expect("the key is read");
            let expected = item.map(|item| item.modified);
            match self.backend.put_if(key, expected, value.clone(), None).await.expect("the key is written") {
                Swap::Done(revision) => return revision,
                Swap::Conflict(_) => {}
            }
        }
    }

    /// Writes to another resource, which only the revision shows.
    pub async fn write_elsewhere(&self) -> ResourceVersion {
        let revision = self.revision().await;
        self.put_raw(&Key::from_backend("/registry/other/x"), format!("after {revision}")).await
    }
}
