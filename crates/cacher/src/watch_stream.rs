//! The stream of a watch: events of the cache, and before them events that only storage still holds.
//!
//! Kept true: a watch waits for storage only while the cache does not hold its next event, and is woken then when it is
//! ended; a request to storage is repeated after an error that may pass; the watcher is removed from the cache when the
//! stream is dropped.

use crate::{
    history_pages::{Page, PageReader, View},
    predicates::SharedPredicate,
    shared::Shared,
    watcher::{Reader, StorageRequest},
};
use futures::{Stream, future::BoxFuture};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ContinueToken, ListAt},
};
use keepwatch_storage::{
    ExpiredRead, Key, List, ListRequest, Predicate, Scope, StorageError, WatchEvent, WatchTurn, WatchTurns,
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    task::{JoinHandle, coop::poll_proceed},
    time::{Instant, Sleep, sleep, sleep_until},
};

/// The number of objects of an earlier state that are read from storage at a time, and the size that they should have.
const STATE_PAGE_OBJECTS_MAX: usize = 100;
const STATE_PAGE_BYTES: usize = 64 << 10;
/// The shortest and the longest delay before a request to storage is repeated.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(100);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// The time for which a request is repeated when storage is reachable but fails.
const RETRY_FAILURES_FOR: Duration = Duration::from_secs(30);

/// The stream of one watch.
pub(crate) struct WatchStream {
    shared: Arc<Shared>,
    reader: Reader,
    deadline: Option<Pin<Box<Sleep>>>,
    turns: Option<Arc<dyn WatchTurns>>,
    /// Present while the watcher waits for a turn.
    next_turn: Option<BoxFuture<'static, WatchTurn>>,
    /// Present while the watcher needs events that the cache does not hold.
    page_reader: Option<Arc<PageReader>>,
    /// The request runs in its own task, so that it finishes, and does not block other watchers, even if this stream is
    /// not polled.
    loading: Option<JoinHandle<Result<Loaded, StorageError>>>,
    /// The number of objects of an earlier state to read next, if some were read before.
    state_page_objects: Option<usize>,
}

/// The answer of storage.
enum Loaded {
    Page(Arc<Page>),
    State(List),
}

impl WatchStream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        reader: Reader,
        deadline: Option<Instant>,
        turns: Option<Arc<dyn WatchTurns>>,
    ) -> Self {
        Self {
            shared,
            reader,
            deadline: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
            turns,
            next_turn: None,
            page_reader: None,
            loading: None,
            state_page_objects: None,
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent, StorageError>>> {
        loop {
            if self.loading.is_some() {
                match ready!(self.poll_loading(context)) {
                    Ok(true) => {}
                    Ok(false) => return Poll::Ready(None),
                    Err(error) => {
                        self.reader.fail();
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
            if self.reader.needs_turn() && !ready!(self.poll_turn(context)) {
                return Poll::Ready(None);
            }
            let next = self.reader.poll_next(&self.shared.state, context);
            if next.is_pending() && self.reader.needs_turn() {
                continue;
            }
            if let Poll::Pending = next
                && let Some(request) = self.reader.take_storage_request()
            {
                self.begin_load(*request);
                if self.loading.is_none() && !self.reader.has_buffered_events() {
                    // A page that other watchers have read had no event for this one. Other tasks have their turn.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                continue;
            }
            if self.page_reader.is_some() && !self.reader.reads_storage() {
                self.page_reader = None;
            }
            return next.map(|event| event.map(Ok));
        }
    }

    /// Takes a turn. Returns whether the watch goes on.
    #[inline(never)]
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Some(turns) = &self.turns else { return Poll::Ready(false) };
        if self.reader.poll_ended(context) {
            return Poll::Ready(false);
        }
        let turn = ready!(self.next_turn.get_or_insert_with(|| turns.turn()).as_mut().poll(context));
        self.next_turn = None;
        self.reader.set_turn(turn);
        Poll::Ready(true)
    }

    /// Takes the answer of storage. Returns whether the watch goes on.
    #[inline(never)]
    fn poll_loading(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, StorageError>> {
        let Some(loading) = &mut self.loading else { return Poll::Ready(Ok(true)) };
        if self.reader.poll_ended(context) {
            return Poll::Ready(Ok(false));
        }
        let loaded = ready!(Pin::new(loading).poll(context));
        self.loading = None;
        match loaded.unwrap_or_else(|error| Err(StorageError::backend("reading old history", error)))? {
            Loaded::Page(page) => self.reader.take_page(&page),
            Loaded::State(list) => {
                let bytes = list.items.iter().map(|object| object.value.len()).sum();
                self.state_page_objects = Some(state_page_objects(list.items.len(), bytes));
                self.reader.take_state(list);
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Takes a page from the cached ones, or starts a request to storage.
    #[inline(never)]
    fn begin_load(&mut self, request: StorageRequest) {
        let (scope, predicate) = self.reader.scope_and_predicate();
        let page_reader = self.page_reader.get_or_insert_with(|| {
            let view = View { scope: scope.clone(), with_old: !predicate.is_everything() };
            Arc::new(PageReader::new(&self.shared.pages, view))
        });
        if let StorageRequest::Changes { after, .. } = request
            && let Some(page) = page_reader.cached(after)
        {
            return self.reader.take_page(&page);
        }
        let state_page_objects = self.state_page_objects.unwrap_or_else(|| {
            let store = &self.shared.state.read().store;
            state_page_objects(store.len(), store.bytes())
        });
        let load = Load {
            state_page_objects,
            shared: self.shared.clone(),
            page_reader: page_reader.clone(),
            scope: scope.clone(),
            predicate: predicate.clone(),
            request,
        };
        self.loading = Some(tokio::spawn(load.run_with_retries()));
    }
}

/// A request of a watcher to storage.
struct Load {
    shared: Arc<Shared>,
    page_reader: Arc<PageReader>,
    scope: Scope,
    predicate: Arc<SharedPredicate>,
    request: StorageRequest,
    state_page_objects: usize,
}

/// The number of objects to read so that they have the intended size, if they are like these.
fn state_page_objects(objects: usize, bytes: usize) -> usize {
    (STATE_PAGE_BYTES * objects.max(1) / bytes.max(1)).clamp(1, STATE_PAGE_OBJECTS_MAX)
}

impl Load {
    /// Repeats the request for ever while storage is unreachable, as the feed does, and for a limited time after other
    /// errors.
    async fn run_with_retries(self) -> Result<Loaded, StorageError> {
        let (mut wait, mut failing_since) = (RETRY_WAIT_MIN, None);
        loop {
            let error = match self.run().await {
                Ok(loaded) => return Ok(loaded),
                Err(error) if error.is_expired() => return Err(self.expired_error()),
                Err(error) => error,
            };
            let is_reachable = match &error {
                StorageError::Unready { .. } | StorageError::Unreachable { .. } => false,
                StorageError::Timeout { .. }
                | StorageError::WatchFailed(_)
                | StorageError::Backend { .. } => true,
                _ => return Err(error),
            };
            if wait == RETRY_WAIT_MIN {
                tracing::warn!(resource = %self.shared.name, %error, "old history cannot be read for a watch");
            }
            let since = *failing_since.get_or_insert_with(Instant::now);
            if is_reachable && since.elapsed() >= RETRY_FAILURES_FOR {
                return Err(error);
            }
            sleep(wait).await;
            wait = (wait * 2).min(RETRY_WAIT_MAX);
        }
    }

    async fn run(&self) -> Result<Loaded, StorageError> {
        match &self.request {
            // Without progress notifications a watch cannot know when it has read all of storage's history.
            StorageRequest::Changes { .. } if !self.shared.storage.reports_progress() => {
                Err(StorageError::Expired(ExpiredRead::Watch))
            }
            StorageRequest::Changes { after, until } => {
                self.page_reader.page(*after, *until).await.map(Loaded::Page)
            }
            StorageRequest::State { revision, after } => {
                let _permit = self.page_reader.permit().await;
                let prefix = self.scope.key();
                let list_request = ListRequest {
                    recursive: matches!(self.scope, Scope::Children(_)),
                    at: list_position(*revision, after.as_ref(), prefix),
                    limit: Some(self.state_page_objects),
                    predicate: Predicate::clone(&self.predicate),
                };
                let key = self.shared.keys.relative(prefix);
                self.shared.storage.get_list(key, list_request).await.map(Loaded::State)
            }
        }
    }

    /// The error for a watcher whose next events have been compacted.
    fn expired_error(&self) -> StorageError {
        let (requested, oldest_cached) = match self.request {
            StorageRequest::Changes { after, until } => (after, until),
            StorageRequest::State { revision, .. } => {
                (revision, self.shared.state.read().history.begins_after())
            }
        };
        let compacted = self.shared.storage.compacted_revision().filter(|compacted| *compacted > requested);
        let oldest = compacted.unwrap_or(oldest_cached);
        StorageError::Expired(ExpiredRead::WatchAfter { requested, oldest })
    }
}

/// The position of a list that continues after a key.
fn list_position(revision: ResourceVersion, after: Option<&Key>, prefix: &Key) -> ListAt {
    after
        .and_then(|after| ContinueToken::after(after, prefix, ContinueAt::Exact(revision)))
        .map_or(ListAt::Exact(revision), ListAt::Continue)
}

impl Stream for WatchStream {
    type Item = Result<WatchEvent, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(deadline) = &mut this.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        // After many events, other tasks have their turn.
        let budget = ready!(poll_proceed(context));
        let next = this.poll_read(context);
        if next.is_ready() {
            budget.made_progress();
        }
        let initial = this.reader.take_initial_count();
        if initial > 0 {
            this.shared.metrics.init_events.inc_by(initial as u64);
        }
        if let Poll::Ready(Some(Err(StorageError::Expired(_)))) = &next {
            this.shared.metrics.terminated_watchers.inc();
        }
        next
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        if let Some(loading) = &self.loading {
            loading.abort();
        }
        let mut state = self.shared.state.write();
        state.watchers.remove(self.reader.watcher());
        state.bookmarks.remove(self.reader.watcher());
    }
}
