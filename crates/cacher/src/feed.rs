//! Follows storage and applies its changes to the state: list, then watch; relist only if storage cannot resume the
//! watch.
//!
//! Kept true: changes are applied in the order in which storage delivers them, and those of one revision together
//! (storage delivers them without waiting in between); the cache is ready only while the state is complete up to the
//! revision that storage had before the list.

use crate::{
    history::Resized,
    shared::{Shared, WaiterGuard},
    state::{Applied, Change, State},
    store::Store,
    watcher::Wakers,
};
use futures::{FutureExt, StreamExt};
use keepwatch_apimachinery::{ResourceVersion, list_options::WatchStart};
use keepwatch_storage::{ListRequest, StorageError, Watch, WatchEvent, WatchRequest};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// The number of objects that are put into the store before other tasks have their turn.
const OBJECTS_BETWEEN_YIELDS: usize = 1024;
/// The number of changes that are applied at a time while the state is locked.
const BATCH_CHANGES_MAX: usize = 64;
/// To how many watchers events are dispatched, and how many terms of their selectors are evaluated, while the state is
/// locked. At least one change is applied.
const BATCH_WATCHERS_MAX: usize = 4096;
const BATCH_TERMS_MAX: usize = 16 << 10;
/// The time for which errors of the watch of storage are tolerated before the cache relists.
const WATCH_ERRORS_TOLERATED_FOR: Duration = Duration::from_secs(30);
/// A watch of storage that lasts this long is healthy, and errors before it do not count any more.
const HEALTHY_WATCH_MIN: Duration = Duration::from_secs(30);
/// The time for which the clients' watches continue when the cache is about to relist.
const END_WATCHES_AFTER: Duration = Duration::from_secs(1);
/// The shortest and the longest delay between attempts.
const BACKOFF_MIN: Duration = Duration::from_millis(800);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Follows storage until the task is dropped.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let mut backoff = Backoff::default();
    loop {
        // The inspector of values belongs to the owner of the store, and may panic on a value.
        let why = match AssertUnwindSafe(list_and_watch(&shared)).catch_unwind().await {
            Ok(FeedEnd::ListFailed(error)) => {
                tracing::warn!(resource = %shared.name, %error, "the watch cache cannot list");
                error.to_string()
            }
            Ok(FeedEnd::WatchLost { error, was_healthy }) => {
                if was_healthy {
                    backoff = Backoff::default();
                }
                tracing::warn!(resource = %shared.name, %error, "the watch cache relists");
                error.to_string()
            }
            Err(_) => {
                tracing::error!(resource = %shared.name, "the watch cache relists after a panic");
                "a value could not be read".to_owned()
            }
        };
        shared.state.write().ready.pending(Some(why), Instant::now());
        if shared.state.read().watchers.len() > 0 {
            sleep(END_WATCHES_AFTER).await;
            shared.end_watches();
        }
        backoff.wait(&shared).await;
    }
}

/// Why the cache has to relist.
enum FeedEnd {
    /// The list failed.
    ListFailed(StorageError),
    /// The watch of storage could not be resumed. `was_healthy` is set if one of its streams was.
    WatchLost { error: StorageError, was_healthy: bool },
}

async fn list_and_watch(shared: &Shared) -> FeedEnd {
    match list(shared).await {
        Ok(target) => watch(shared, target).await,
        Err(error) => FeedEnd::ListFailed(error),
    }
}

/// Lists storage and replaces the state. Returns the revision that the cache must reach before it is ready.
async fn list(shared: &Shared) -> Result<ResourceVersion, StorageError> {
    let target = shared.storage.current_revision().await?;
    let list = shared.storage.get_list(&shared.prefix, ListRequest::all()).await?;
    // The new store is built before the lock is taken, so that reads of single objects continue.
    let mut store = Store::new(&shared.options.indexed_fields);
    for (count, object) in list.items.into_iter().enumerate() {
        store.put(object);
        if count % OBJECTS_BETWEEN_YIELDS == OBJECTS_BETWEEN_YIELDS - 1 {
            tokio::task::yield_now().await;
        }
    }
    shared.change(|state| {
        shared.metrics.capacity.set(state.history.capacity() as i64);
        shared.metrics.initializations.inc();
        shared.metrics.set_objects(store.len(), store.bytes());
        state.replace(store, list.revision);
    });
    shared.set_reached(list.revision);
    Ok(target)
}

/// Watches storage, and resumes the watch as long as that is possible. Returns why it is not.
async fn watch(shared: &Shared, target: ResourceVersion) -> FeedEnd {
    let (mut broken_since, mut was_healthy) = (None, false);
    let mut backoff = Backoff::default();
    // Until the target is reached, storage is asked for progress.
    let mut initializing = Some((target, shared.add_waiter()));
    loop {
        let position = shared.state.read().revision;
        let request = WatchRequest { progress: true, ..WatchRequest::from(WatchStart::after(position)) };
        let (error, lasted) = match shared.storage.watch(&shared.prefix, request).await {
            Ok(watch) => {
                let begun = Instant::now();
                (apply_watch(shared, watch, &mut initializing).await, begun.elapsed())
            }
            Err(error) => (Some(error), Duration::ZERO),
        };
        was_healthy |= lasted >= HEALTHY_WATCH_MIN;
        if shared.state.read().revision > position || lasted >= HEALTHY_WATCH_MIN {
            (broken_since, backoff) = (None, Backoff::default());
        }
        match error {
            // The watch ended without an error, or storage cannot be reached: resume.
            None | Some(StorageError::Unready { .. } | StorageError::Unreachable { .. }) => {}
            Some(
                error @ (StorageError::WatchFailed(_)
                | StorageError::Backend { .. }
                | StorageError::Timeout { .. }),
            ) => {
                let since = *broken_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= WATCH_ERRORS_TOLERATED_FOR {
                    return FeedEnd::WatchLost { error, was_healthy };
                }
            }
            // Storage has compacted the position, or cannot read an event after it.
            Some(error) => return FeedEnd::WatchLost { error, was_healthy },
        }
        backoff.wait(shared).await;
    }
}

/// Applies the events of one watch of storage until it ends.
async fn apply_watch(
    shared: &Shared,
    mut watch: Watch,
    initializing: &mut Option<(ResourceVersion, WaiterGuard<'_>)>,
) -> Option<StorageError> {
    let mut events = Vec::with_capacity(BATCH_CHANGES_MAX);
    let mut wakers = Wakers::default();
    let mut item = None;
    loop {
        shared.become_ready(initializing);
        let mut next = match item.take() {
            Some(item) => item,
            None => watch.next().await,
        };
        // Events that are available at once are applied together, and those of one revision always.
        let end = loop {
            match next {
                Some(Ok(event)) if begins_next_batch(&events, &event) => {
                    item = Some(Some(Ok(event)));
                    break None;
                }
                Some(Ok(event)) => events.push(event),
                Some(Err(error)) => break Some(Some(error)),
                None => break Some(None),
            }
            match watch.next().now_or_never() {
                Some(more) => next = more,
                None => break None,
            }
        };
        apply_batch(shared, &mut events, &mut wakers).await;
        if let Some(end) = end {
            shared.become_ready(initializing);
            return end;
        }
    }
}

fn begins_next_batch(batch: &[WatchEvent], event: &WatchEvent) -> bool {
    batch.len() >= BATCH_CHANGES_MAX && batch.last().is_some_and(|last| last.revision() != event.revision())
}

/// Applies events, and wakes the waiting readers after the lock is released. Other tasks have their turn before the rest of
/// the events if they are much work.
async fn apply_batch(shared: &Shared, changes: &mut Vec<WatchEvent>, wakers: &mut Wakers) {
    let mut changes = changes.drain(..).peekable();
    let now = Instant::now();
    while changes.peek().is_some() {
        let revision = shared.change(|state| {
            let (mut watchers, mut terms) = (0, 0);
            while let Some(event) = changes.next() {
                let revision = event.revision();
                if let Some(applied) = apply_event(shared, state, event, now, wakers) {
                    watchers += applied.watchers;
                    terms += applied.terms;
                }
                let is_enough = watchers >= BATCH_WATCHERS_MAX || terms >= BATCH_TERMS_MAX;
                let revision_continues = changes.peek().is_some_and(|next| next.revision() == revision);
                if is_enough && !revision_continues {
                    break;
                }
            }
            shared.metrics.set_objects(state.store.len(), state.store.bytes());
            state.revision
        });
        wakers.wake();
        shared.set_reached(revision);
        if changes.peek().is_some() {
            tokio::task::yield_now().await;
        }
    }
}

fn apply_event(
    shared: &Shared,
    state: &mut State,
    event: WatchEvent,
    now: Instant,
    wakers: &mut Wakers,
) -> Option<Applied> {
    shared.metrics.events_dispatched.inc();
    let change = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Put(object),
        WatchEvent::Deleted(object) => Change::Deleted { key: object.key.clone(), revision: object.revision },
        WatchEvent::Bookmark { revision, .. } => {
            state.advance(revision);
            return None;
        }
    };
    shared.metrics.events_received.inc();
    let applied = state.apply(change, now, wakers);
    match applied.resized {
        Resized::No => {}
        Resized::Grown => shared.metrics.capacity_increases.inc(),
        Resized::Shrunk => shared.metrics.capacity_decreases.inc(),
    }
    if applied.resized != Resized::No {
        shared.metrics.capacity.set(state.history.capacity() as i64);
    }
    Some(applied)
}

/// An exponential backoff, which limits the load on storage in trouble.
#[derive(Default)]
struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The first retry is immediate.
    async fn wait(&mut self, shared: &Shared) {
        self.attempts += 1;
        if self.attempts == 1 {
            return tokio::task::yield_now().await;
        }
        let wait = BACKOFF_MIN.saturating_mul(2_u32.saturating_pow(self.attempts - 2)).min(BACKOFF_MAX);
        sleep(shared.jittered(wait).min(BACKOFF_MAX)).await;
    }
}
