//! Follows storage and keeps the state up with it: list, then watch; list again only if storage says that the place
//! where the watch would go on is gone.
//!
//! Kept true: changes are taken in one after the other, in the order storage tells them, and those of one revision
//! together (storage tells them without waiting in between); the cache is ready only while the state is complete up to
//! the revision that storage had when filling began.

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

/// How many objects are put into the store before other tasks have their turn.
const OBJECTS_BETWEEN_YIELDS: usize = 1024;
/// How many changes are taken in at a time while the state is held.
const BATCH_CHANGES_MAX: usize = 64;
/// To how many watchers changes are offered while the state is held, one change being the least.
const BATCH_DISPATCHES_MAX: usize = 4096;
/// How long a broken watch of storage is tried again before the cache is filled anew.
const WATCH_ERRORS_TOLERATED_FOR: Duration = Duration::from_secs(30);
/// A watch of storage that lasts this long is a good one: whatever was wrong before it is over.
const HEALTHY_WATCH_MIN: Duration = Duration::from_secs(30);
/// How long the clients' watches go on when the cache is about to be filled anew.
const END_WATCHES_AFTER: Duration = Duration::from_secs(1);
/// How long to wait before storage is tried again, at first and at last.
const BACKOFF_MIN: Duration = Duration::from_millis(800);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Follows storage until the task is dropped, whatever happens.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let mut backoff = Backoff::default();
    loop {
        // What reads values is not ours, and may panic on some.
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

/// Why the cache has to be filled again.
enum FeedEnd {
    /// It was not filled.
    ListFailed(StorageError),
    /// It could not keep up with storage, after a watch of it that was good or without one.
    WatchLost { error: StorageError, was_healthy: bool },
}

async fn list_and_watch(shared: &Shared) -> FeedEnd {
    match list(shared).await {
        Ok(target) => watch(shared, target).await,
        Err(error) => FeedEnd::ListFailed(error),
    }
}

/// Fills the cache with a list. Returns the revision that it must reach before it is ready.
async fn list(shared: &Shared) -> Result<ResourceVersion, StorageError> {
    let target = shared.storage.current_revision().await?;
    let list = shared.storage.get_list(&shared.prefix, ListRequest::all()).await?;
    // Made aside: reads of single objects go on meanwhile.
    let mut store = Store::new(shared.options.indexed_fields);
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

/// Watches storage until that is no longer possible. Returns why.
async fn watch(shared: &Shared, target: ResourceVersion) -> FeedEnd {
    let (mut broken_since, mut was_healthy) = (None, false);
    let mut backoff = Backoff::default();
    // Until the goal is reached, storage is asked how far it is.
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
            // It ended without a reason, or storage cannot be reached: go on where it was.
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
            // Its place is gone, or what comes there cannot be read, now or later.
            Some(error) => return FeedEnd::WatchLost { error, was_healthy },
        }
        backoff.wait(shared).await;
    }
}

/// Takes in what a watch of storage tells, until it ends.
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
        // What is there already is taken in together, and events of one revision never apart.
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
        apply_batch(shared, &mut events, &mut wakers);
        if let Some(end) = end {
            shared.become_ready(initializing);
            return end;
        }
    }
}

fn begins_next_batch(batch: &[WatchEvent], event: &WatchEvent) -> bool {
    batch.len() >= BATCH_CHANGES_MAX && batch.last().is_some_and(|last| last.revision() != event.revision())
}

/// Takes in changes, and wakes those who wait for them when the state is let go of.
fn apply_batch(shared: &Shared, changes: &mut Vec<WatchEvent>, wakers: &mut Wakers) {
    let mut changes = changes.drain(..).peekable();
    let now = Instant::now();
    while changes.peek().is_some() {
        let revision = shared.change(|state| {
            let mut dispatched = 0;
            while let Some(event) = changes.next() {
                let revision = event.revision();
                dispatched += apply_event(shared, state, event, now, wakers);
                let revision_continues = changes.peek().is_some_and(|next| next.revision() == revision);
                if dispatched >= BATCH_DISPATCHES_MAX && !revision_continues {
                    break;
                }
            }
            shared.metrics.set_objects(state.store.len(), state.store.bytes());
            state.revision
        });
        wakers.wake();
        shared.set_reached(revision);
    }
}

fn apply_event(
    shared: &Shared,
    state: &mut State,
    event: WatchEvent,
    now: Instant,
    wakers: &mut Wakers,
) -> usize {
    shared.metrics.events_dispatched.inc();
    let change = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Put(object),
        WatchEvent::Deleted(object) => Change::Deleted { key: object.key.clone(), revision: object.revision },
        WatchEvent::Bookmark { revision, .. } => {
            state.advance(revision);
            return 0;
        }
    };
    shared.metrics.events_received.inc();
    let Applied { resized, dispatched } = state.apply(change, now, wakers);
    match resized {
        Resized::No => {}
        Resized::Grown => shared.metrics.capacity_increases.inc(),
        Resized::Shrunk => shared.metrics.capacity_decreases.inc(),
    }
    if resized != Resized::No {
        shared.metrics.capacity.set(state.history.capacity() as i64);
    }
    dispatched
}

/// Longer and longer waits between attempts, so that storage in trouble is left in peace.
#[derive(Default)]
struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The first time it goes on at once.
    async fn wait(&mut self, shared: &Shared) {
        self.attempts += 1;
        if self.attempts == 1 {
            return tokio::task::yield_now().await;
        }
        let wait = BACKOFF_MIN.saturating_mul(2_u32.saturating_pow(self.attempts - 2)).min(BACKOFF_MAX);
        sleep(shared.jittered(wait).min(BACKOFF_MAX)).await;
    }
}
