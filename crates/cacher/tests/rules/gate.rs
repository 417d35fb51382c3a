//! A store in memory that can be made to fail, to keep things back and to end its watches, and that counts what is
//! asked of it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendWatch, Frontier, HistoryReader, Key, KeyValue, Range, RangeRequest, Scope, StorageError,
    Swap, Unchanged,
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// What is asked of a store, other than to compact it.
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

/// How each call is answered.
#[derive(Clone, Default)]
struct Orders {
    failing: BTreeMap<Call, fn() -> StorageError>,
    stalled: BTreeSet<Call>,
    /// Watches tell nothing for now.
    watches_are_held: bool,
    /// The store does not say how far it is unless it is asked, like one on another machine.
    is_far: bool,
    /// Reads of a scope leave out the last object.
    ranges_lie: bool,
    /// Requests for progress are left unanswered.
    is_old: bool,
}

/// How a watch ends.
type End = Option<StorageError>;

#[derive(Default)]
struct Seen {
    calls: BTreeMap<Call, usize>,
    /// After which revision each watch began.
    watched_after: Vec<u64>,
    /// Ends the watches, the newest last.
    ends: Vec<oneshot::Sender<End>>,
    /// The watches that are open, and some that are not any more.
    open: Vec<Weak<()>>,
}

/// The store. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) inner: Arc<dyn Backend>,
    orders: Arc<watch::Sender<Orders>>,
    seen: Arc<Mutex<Seen>>,
}

impl Gate {
    /// One that knows how far it is without being asked, as the embedded store does.
    pub(crate) fn near() -> Self {
        Self::over(Arc::new(Embedded::memory(EmbeddedOptions::default())))
    }

    /// This one.
    pub(crate) fn over(inner: Arc<dyn Backend>) -> Self {
        Self { inner, orders: Arc::default(), seen: Arc::default() }
    }

    /// One that has to be asked how far it is, as etcd does.
    pub(crate) fn far() -> Self {
        let gate = Self::near();
        gate.order(|orders| orders.is_far = true);
        gate
    }

    /// One that does not answer requests for progress.
    pub(crate) fn old() -> Self {
        let gate = Self::far();
        gate.order(|orders| orders.is_old = true);
        gate
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        self.orders.send_modify(change);
    }

    /// From now on these calls fail.
    pub(crate) fn fail(&self, call: Call, error: fn() -> StorageError) {
        self.order(|orders| {
            orders.failing.insert(call, error);
        });
    }

    /// From now on these calls are not answered.
    pub(crate) fn stall(&self, call: Call) {
        self.order(|orders| {
            orders.stalled.insert(call);
        });
    }

    /// From now on these calls are answered again, those that wait included.
    pub(crate) fn heal(&self, call: Call) {
        self.order(|orders| {
            orders.failing.remove(&call);
            orders.stalled.remove(&call);
        });
    }

    /// From now on watches tell nothing: who follows the store falls behind.
    pub(crate) fn hold(&self) {
        self.order(|orders| orders.watches_are_held = true);
    }

    /// What was held back is told.
    pub(crate) fn release(&self) {
        self.order(|orders| orders.watches_are_held = false);
    }

    /// Whether reads of a scope leave out the last object.
    pub(crate) fn lie(&self, lies: bool) {
        self.order(|orders| orders.ranges_lie = lies);
    }

    /// Ends the newest watch, cleanly or with an error.
    pub(crate) fn end_watch(&self, end: End) {
        let newest = self.seen.lock().unwrap().ends.pop().expect("a watch is open");
        newest.send(end).expect("the watch is being read");
    }

    /// How often this was asked.
    pub(crate) fn calls(&self, call: Call) -> usize {
        self.seen.lock().unwrap().calls.get(&call).copied().unwrap_or_default()
    }

    /// Everything that was asked so far.
    pub(crate) fn all_calls(&self) -> BTreeMap<Call, usize> {
        self.seen.lock().unwrap().calls.clone()
    }

    /// How many watches are open.
    pub(crate) fn open_watches(&self) -> usize {
        self.seen.lock().unwrap().open.iter().filter(|open| open.strong_count() > 0).count()
    }

    /// After which revision each watch began.
    pub(crate) fn watched_after(&self) -> Vec<u64> {
        self.seen.lock().unwrap().watched_after.clone()
    }

    /// Counts a call, and lets it pass when it may.
    async fn enter(&self, call: Call) -> Result<(), StorageError> {
        *self.seen.lock().unwrap().calls.entry(call).or_default() += 1;
        let mut orders = self.orders.subscribe();
        let orders = orders.wait_for(|orders| !orders.stalled.contains(&call)).await.unwrap();
        orders.failing.get(&call).map_or(Ok(()), |error| Err(error()))
    }

    /// A watch that can be held back and ended.
    fn gated(&self, told: BackendWatch, after: ResourceVersion) -> BackendWatch {
        let (end, ended) = oneshot::channel();
        {
            let mut seen = self.seen.lock().unwrap();
            seen.watched_after.push(after.get());
            seen.ends.push(end);
        }
        let open = Arc::new(());
        self.seen.lock().unwrap().open.push(Arc::downgrade(&open));
        let watch = (told, ended, self.orders.subscribe(), open);
        let gated = stream::unfold(Some(watch), |watch| async {
            let (mut told, mut ended, mut orders, open) = watch?;
            let next = async {
                let next = told.next().await;
                orders.wait_for(|orders| !orders.watches_are_held).await.unwrap();
                next
            };
            tokio::select! {
                biased;
                Ok(end) = &mut ended => end.map(|error| (Err(error), None)),
                next = next => next.map(|next| (next, Some((told, ended, orders, open)))),
            }
        });
        gated.boxed()
    }
}

#[async_trait]
impl Backend for Gate {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        self.enter(Call::Get).await?;
        self.inner.get(key).await
    }

    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: Bytes,
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
        if self.orders.borrow().ranges_lie {
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
        Ok(self.gated(self.inner.watch(scope, after, progress).await?, after))
    }

    async fn watch_past(
        &self,
        scope: Scope,
        after: ResourceVersion,
        with_previous: bool,
    ) -> Result<BackendWatch, StorageError> {
        self.enter(Call::Watch).await?;
        Ok(self.gated(self.inner.watch_past(scope, after, with_previous).await?, after))
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.enter(Call::Progress).await?;
        if !self.tells_progress() {
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

    fn tells_progress(&self) -> bool {
        !self.orders.borrow().is_old
    }

    fn frontier(&self, scope: &Scope) -> Option<Frontier> {
        if self.orders.borrow().is_far { None } else { self.inner.frontier(scope) }
    }
}
