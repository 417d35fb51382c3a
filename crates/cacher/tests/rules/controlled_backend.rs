//! A backend in memory that a test can make fail, stall and end its watches, and that counts its calls.

use async_trait::async_trait;
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendWatch, Frontier, HistoryReader, Key, KeyValue, Range, RangeRequest, Scope, StorageError,
    Swap, Unchanged, Value,
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// A call of the backend, other than compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Get,
    Put,
    Delete,
    Range,
    Watch,
    Progress,
    Revision,
}

/// The answers of the backend to each call.
#[derive(Clone, Default)]
struct Behavior {
    failing: BTreeMap<Call, fn() -> StorageError>,
    stalled: BTreeSet<Call>,
    /// Watches deliver nothing for now.
    watches_paused: bool,
    /// The backend does not know its revision without a request, like one on another machine.
    hides_frontier: bool,
    /// Reads of a range leave out the last object.
    omits_last_object: bool,
    /// Requests for progress are not answered.
    ignores_progress_requests: bool,
}

/// The end of a watch.
type End = Option<StorageError>;

#[derive(Default)]
struct Recorded {
    calls: BTreeMap<Call, usize>,
    /// The revision after which each watch started.
    watched_after: Vec<u64>,
    /// The senders that end the watches, the newest last.
    ends: Vec<oneshot::Sender<End>>,
    /// The open watches, and some closed ones.
    open: Vec<Weak<()>>,
}

/// The backend. Clones share their data.
#[derive(Clone)]
pub(crate) struct ControlledBackend {
    pub(crate) inner: Arc<dyn Backend>,
    behavior: Arc<watch::Sender<Behavior>>,
    recorded: Arc<Mutex<Recorded>>,
}

impl ControlledBackend {
    /// A backend that knows its revision without a request, as the embedded store does.
    pub(crate) fn in_memory() -> Self {
        Self::new(Arc::new(Embedded::memory(EmbeddedOptions::default())))
    }

    /// A backend that wraps another one.
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, behavior: Arc::default(), recorded: Arc::default() }
    }

    /// A backend whose revision has to be requested, as from etcd.
    pub(crate) fn without_frontier() -> Self {
        let backend = Self::in_memory();
        backend.configure(|behavior| behavior.hides_frontier = true);
        backend
    }

    /// A backend that does not answer requests for progress.
    pub(crate) fn without_progress() -> Self {
        let backend = Self::without_frontier();
        backend.configure(|behavior| behavior.ignores_progress_requests = true);
        backend
    }

    fn configure(&self, change: impl FnOnce(&mut Behavior)) {
        self.behavior.send_modify(change);
    }

    /// Makes these calls fail from now on.
    pub(crate) fn fail(&self, call: Call, error: fn() -> StorageError) {
        self.configure(|behavior| {
            behavior.failing.insert(call, error);
        });
    }

    /// Leaves these calls unanswered from now on.
    pub(crate) fn stall(&self, call: Call) {
        self.configure(|behavior| {
            behavior.stalled.insert(call);
        });
    }

    /// Answers these calls again, including those that wait.
    pub(crate) fn recover(&self, call: Call) {
        self.configure(|behavior| {
            behavior.failing.remove(&call);
            behavior.stalled.remove(&call);
        });
    }

    /// Makes watches deliver nothing from now on, so that readers of them lag.
    pub(crate) fn pause_watches(&self) {
        self.configure(|behavior| behavior.watches_paused = true);
    }

    /// Delivers the events of the paused watches.
    pub(crate) fn resume_watches(&self) {
        self.configure(|behavior| behavior.watches_paused = false);
    }

    /// Whether reads of a range leave out the last object.
    pub(crate) fn omit_last_object(&self, omit: bool) {
        self.configure(|behavior| behavior.omits_last_object = omit);
    }

    /// Ends the newest watch, cleanly or with an error.
    pub(crate) fn end_watch(&self, end: End) {
        let newest = self.recorded.lock().unwrap().ends.pop().expect("a watch is open");
        newest.send(end).expect("the watch is being read");
    }

    /// The number of these calls.
    pub(crate) fn calls(&self, call: Call) -> usize {
        self.recorded.lock().unwrap().calls.get(&call).copied().unwrap_or_default()
    }

    /// The numbers of all calls so far.
    pub(crate) fn all_calls(&self) -> BTreeMap<Call, usize> {
        self.recorded.lock().unwrap().calls.clone()
    }

    /// The number of open watches.
    pub(crate) fn open_watches(&self) -> usize {
        self.recorded.lock().unwrap().open.iter().filter(|open| open.strong_count() > 0).count()
    }

    /// The revision after which each watch started.
    pub(crate) fn watched_after(&self) -> Vec<u64> {
        self.recorded.lock().unwrap().watched_after.clone()
    }

    /// Counts a call, and waits or fails if it is configured to.
    async fn enter(&self, call: Call) -> Result<(), StorageError> {
        *self.recorded.lock().unwrap().calls.entry(call).or_default() += 1;
        let mut behavior = self.behavior.subscribe();
        let behavior = behavior.wait_for(|behavior| !behavior.stalled.contains(&call)).await.unwrap();
        behavior.failing.get(&call).map_or(Ok(()), |error| Err(error()))
    }

    /// A watch that can be paused and ended.
    fn controlled(&self, events: BackendWatch, after: ResourceVersion) -> BackendWatch {
        let (end, ended) = oneshot::channel();
        {
            let mut recorded = self.recorded.lock().unwrap();
            recorded.watched_after.push(after.get());
            recorded.ends.push(end);
        }
        let open = Arc::new(());
        self.recorded.lock().unwrap().open.push(Arc::downgrade(&open));
        let watch = (events, ended, self.behavior.subscribe(), open);
        let controlled = stream::unfold(Some(watch), |watch| async {
            let (mut events, mut ended, mut behavior, open) = watch?;
            let next = async {
                let next = events.next().await;
                behavior.wait_for(|behavior| !behavior.watches_paused).await.unwrap();
                next
            };
            tokio::select! {
                biased;
                Ok(end) = &mut ended => end.map(|error| (Err(error), None)),
                next = next => next.map(|next| (next, Some((events, ended, behavior, open)))),
            }
        });
        controlled.boxed()
    }
}

#[async_trait]
impl Backend for ControlledBackend {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        self.enter(Call::Get).await?;
        self.inner.get(key).await
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        self.enter(Call::Put).await?;
        self.inner.put_while(key, expected, value, ttl, unchanged).await
    }

    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        self.enter(Call::Delete).await?;
        self.inner.delete_if(key, expected).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        self.enter(Call::Range).await?;
        let mut range = self.inner.range(request).await?;
        if self.behavior.borrow().omits_last_object {
            range.items.pop();
        }
        Ok(range)
    }

    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        self.enter(Call::Watch).await?;
        Ok(self.controlled(self.inner.watch(scope, after, progress).await?, after))
    }

    async fn watch_past(
        &self,
        scope: Scope,
        after: ResourceVersion,
        with_previous: bool,
    ) -> Result<BackendWatch, StorageError> {
        self.enter(Call::Watch).await?;
        Ok(self.controlled(self.inner.watch_past(scope, after, with_previous).await?, after))
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.enter(Call::Progress).await?;
        if !self.reports_progress() {
            return Ok(());
        }
        self.inner.request_progress().await
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.enter(Call::Revision).await?;
        self.inner.current_revision().await
    }

    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        self.inner.compact(revision).await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.inner.compacted_revision()
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.inner.keep_history_for(reader);
    }

    fn reports_progress(&self) -> bool {
        !self.behavior.borrow().ignores_progress_requests
    }

    fn frontier(&self, scope: &Scope) -> Option<Frontier> {
        if self.behavior.borrow().hides_frontier { None } else { self.inner.frontier(scope) }
    }
}
