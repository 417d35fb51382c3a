//! Work queues: an item that is added several times is processed once.
//!
//! Invariants: an item that is being processed is not handed out; if it is added meanwhile, it is handed out again
//! afterwards; an item that was added and not handed out is in the queue once. No item is lost when a caller that
//! waits for an item, or processes one, is cancelled or panics.
//!
//! A queue has no task of its own: a caller that waits for an item also waits for the next delayed one.
//!
//! ```
//! use keepwatch_informer::workqueue::WorkQueue;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let queue = WorkQueue::new();
//! queue.add("apps/web");
//! queue.add("apps/web");
//! let claim = queue.get().await.expect("the queue is not shut down");
//! assert_eq!((*claim, queue.len()), ("apps/web", 0));
//! queue.add("apps/web");
//! assert_eq!(queue.len(), 0, "it is being processed");
//! drop(claim);
//! assert_eq!(queue.len(), 1);
//! # });
//! ```

mod limiter;
mod order;
mod measures;

pub use limiter::{
    BoxLimiter, Bucket, Exponential, FastSlow, MaxOf, MaxWait, RateLimiter, controller_default, item_default,
};
pub use measures::QueueCounts;
pub use order::{Aged, Fifo, Order};

use crate::deadline::after;
use measures::Measurements;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    ops::Deref,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// An item of a queue.
pub trait Item: Clone + Eq + Hash + Send + 'static {}
impl<T: Clone + Eq + Hash + Send + 'static> Item for T {}

/// A queue of work. Clones share it.
pub struct WorkQueue<T: Item> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Notified when an item may be ready for a caller of [`WorkQueue::get`].
    changed: Notify,
    /// Notified when no item is being processed, or when draining is cancelled.
    idle: Notify,
}

struct State<T> {
    order: Box<dyn Order<T>>,
    /// The items to hand out, including those that are being processed.
    dirty: HashMap<T, DirtyItem>,
    /// The items that are being processed, and since when.
    processing: HashMap<T, Instant>,
    waiting: Waiting<T>,
    limiter: BoxLimiter<T>,
    adds_count_as_attempts: bool,
    is_shutting_down: bool,
    /// Whether a caller waits in [`WorkQueue::drain`].
    is_draining: bool,
    /// Present if the queue has a name.
    measures: Option<Measurements>,
}

/// The time and the priority with which an item was added.
struct DirtyItem {
    priority: i32,
    since: Instant,
}

/// Items with a delay, each once.
struct Waiting<T> {
    by_time: BTreeMap<(Instant, u64), T>,
    items: HashMap<T, WaitingItem>,
    count: u64,
}

/// The delay of an item.
#[derive(Clone, Copy)]
struct WaitingItem {
    at: (Instant, u64),
    /// Whether the item failed and is to be retried.
    is_retry: bool,
}

/// Configures a queue.
pub struct Builder<T: Item> {
    order: Box<dyn Order<T>>,
    limiter: BoxLimiter<T>,
    adds_count_as_attempts: bool,
    name: String,
}

impl<T: Item> Builder<T> {
    /// The name under which the queue is measured; see [`WorkQueue::measures`]. Without a name it is not measured.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The order in which items are handed out; [`Fifo`] by default.
    pub fn order(mut self, order: impl Order<T> + 'static) -> Self {
        self.order = Box::new(order);
        self
    }

    /// The rate limiter for failed items; [`controller_default`] by default.
    pub fn limiter(mut self, limiter: BoxLimiter<T>) -> Self {
        self.limiter = limiter;
        self
    }

    /// Whether a failure still counts for an item that waits for a retry and is added before that is due. It does by
    /// default, as in client-go. With `false`, many events cannot drive the wait of an item to the limit.
    pub fn adds_count_as_attempts(mut self, they_do: bool) -> Self {
        self.adds_count_as_attempts = they_do;
        self
    }

    /// Creates the queue.
    pub fn build(self) -> WorkQueue<T> {
        let state = State {
            order: self.order,
            dirty: HashMap::new(),
            processing: HashMap::new(),
            waiting: Waiting { by_time: BTreeMap::new(), items: HashMap::new(), count: 0 },
            limiter: self.limiter,
            adds_count_as_attempts: self.adds_count_as_attempts,
            is_shutting_down: false,
            is_draining: false,
            measures: (!self.name.is_empty()).then(|| Measurements::new(self.name)),
        };
        let shared = Shared { state: Mutex::new(state), changed: Notify::new(), idle: Notify::new() };
        WorkQueue { shared: Arc::new(shared) }
    }
}

impl<T: Item> WorkQueue<T> {
    /// A queue with the default order and limiter.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Configures a queue.
    pub fn builder() -> Builder<T> {
        Builder {
            order: Box::new(Fifo::default()),
            limiter: controller_default(),
            adds_count_as_attempts: true,
            name: String::new(),
        }
    }

    /// Adds an item. Ignored once the queue is shut down.
    pub fn add(&self, item: T) {
        self.add_with_priority(item, 0);
    }

    /// Adds an item with a priority, which the order of the queue may ignore.
    pub fn add_with_priority(&self, item: T, priority: i32) {
        if self.shared.state.lock().add(item, priority, Instant::now) {
            self.shared.changed.notify_one();
        }
    }

    /// Adds an item after a delay. If the item already waits, the earlier time counts. Items that still wait when the
    /// queue is shut down are dropped.
    pub fn add_after(&self, item: T, delay: Duration) {
        self.wait(item, delay, false);
    }

    fn wait(&self, item: T, delay: Duration, is_retry: bool) {
        let mut state = self.shared.state.lock();
        if state.is_shutting_down {
            return;
        }
        state.measure(Measurements::retried);
        if delay.is_zero() {
            drop(state);
            return self.add(item);
        }
        let is_earlier = state.waiting.push(item, after(Instant::now(), delay), is_retry);
        drop(state);
        if is_earlier {
            // Every waiting caller is notified, because a single one could be cancelled before the item is due.
            self.shared.changed.notify_waiters();
        }
    }

    /// Adds an item after the wait that the rate limiter decides.
    pub fn add_rate_limited(&self, item: T) {
        let delay = {
            let mut state = self.shared.state.lock();
            if !state.adds_count_as_attempts && state.waiting.is_for_retry(&item) {
                return;
            }
            state.limiter.when(&item)
        };
        self.wait(item, delay, true);
    }

    /// Resets the failures of an item in the rate limiter.
    pub fn forget(&self, item: &T) {
        self.shared.state.lock().limiter.forget(item);
    }

    /// The number of failures that the rate limiter counts for an item.
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.shared.state.lock().limiter.num_requeues(item)
    }

    /// The number of items that are ready to be handed out.
    pub fn len(&self) -> usize {
        let mut state = self.shared.state.lock();
        state.add_due(Instant::now());
        state.order.len()
    }

    /// Whether no item is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters; nothing if the queue has no name. The durations of running work are as of now.
    pub fn measures(&self) -> Option<QueueCounts> {
        self.shared.counts()
    }

    /// A source of the counters that does not keep the queue alive.
    #[cfg(feature = "metrics")]
    pub(crate) fn measured(
        &self,
    ) -> std::sync::Weak<dyn crate::stats::histogram::MetricsSource<QueueCounts>> {
        Arc::downgrade(&self.shared) as _
    }

    /// The next item, which no other caller gets until the claim is dropped. `None` once the queue is shut down and
    /// empty.
    pub async fn get(&self) -> Option<Claim<T>> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that a notification in between is not lost.
            changed.as_mut().enable();
            let next = {
                let mut state = self.shared.state.lock();
                let now = Instant::now();
                state.add_due(now);
                if let Some(item) = state.take(now) {
                    return Some(Claim { item, queue: self.clone() });
                }
                if state.is_shutting_down {
                    return None;
                }
                state.waiting.next()
            };
            match next {
                Some(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = sleep_until(due) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Shuts the queue down: it accepts no more items and hands out those that it has.
    pub fn shut_down(&self) {
        let mut state = self.shared.state.lock();
        state.is_shutting_down = true;
        state.is_draining = false;
        self.shared.changed.notify_waiters();
        self.shared.idle.notify_waiters();
    }

    /// Shuts the queue down and waits until no item is being processed, or until [`WorkQueue::shut_down`] is called.
    pub async fn drain(&self) {
        {
            let mut state = self.shared.state.lock();
            state.is_shutting_down = true;
            state.is_draining = true;
            self.shared.changed.notify_waiters();
        }
        loop {
            let idle = self.shared.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            {
                let state = self.shared.state.lock();
                if !state.is_draining || state.processing.is_empty() {
                    return;
                }
            }
            idle.await;
        }
    }

    /// Whether the queue was shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.lock().is_shutting_down
    }

    fn done(&self, item: &T) {
        let (is_back, is_idle) = {
            let mut state = self.shared.state.lock();
            (state.done(item), state.processing.is_empty())
        };
        if is_back {
            self.shared.changed.notify_one();
        }
        if is_idle {
            self.shared.idle.notify_waiters();
        }
    }
}

impl<T: Item> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Item> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        WorkQueue { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Item> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("WorkQueue")
            .field("len", &state.order.len())
            .field("processing", &state.processing.len())
            .field("waiting", &state.waiting.items.len())
            .finish_non_exhaustive()
    }
}

impl<T: Item> Shared<T> {
    fn counts(&self) -> Option<QueueCounts> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.add_due(now);
        let running = state.processing.values().map(|since| now.saturating_duration_since(*since));
        state.measures.as_ref().map(|measures| measures.counts(state.dirty.len(), running))
    }
}

#[cfg(feature = "metrics")]
impl<T: Item> crate::stats::histogram::MetricsSource<QueueCounts> for Shared<T> {
    fn measures(&self) -> Option<QueueCounts> {
        self.counts()
    }
}

impl<T: Item> State<T> {
    /// Adds an item. `since` is only called if the item is new. Returns whether there is more to hand out.
    fn add(&mut self, item: T, priority: i32, since: impl FnOnce() -> Instant) -> bool {
        if self.is_shutting_down {
            return false;
        }
        let is_processed = self.processing.contains_key(&item);
        if let Some(entry) = self.dirty.get_mut(&item) {
            entry.priority = priority.max(entry.priority);
            if !is_processed {
                self.order.touch(&item, priority);
            }
            return false;
        }
        self.measure(Measurements::added);
        let since = since();
        self.dirty.insert(item.clone(), DirtyItem { priority, since });
        if !is_processed {
            self.order.push(item, priority, since);
        }
        !is_processed
    }

    /// Moves due items to the queue. They count as queued since they were due.
    fn add_due(&mut self, now: Instant) {
        while let Some((item, due)) = self.waiting.pop_due(now) {
            self.add(item, 0, || due);
        }
    }

    fn take(&mut self, now: Instant) -> Option<T> {
        let item = self.order.pop()?;
        if let Some(entry) = self.dirty.remove(&item) {
            self.measure(|measures| measures.taken(now.saturating_duration_since(entry.since)));
        }
        self.processing.insert(item.clone(), now);
        Some(item)
    }

    /// Returns whether there is more to hand out.
    fn done(&mut self, item: &T) -> bool {
        if let Some(since) = self.processing.remove(item) {
            self.measure(|measures| measures.done(since.elapsed()));
        }
        let Some(entry) = self.dirty.get(item) else { return false };
        self.order.push(item.clone(), entry.priority, Instant::now());
        true
    }

    fn measure(&mut self, what: impl FnOnce(&mut Measurements)) {
        if let Some(measures) = &mut self.measures {
            what(measures);
        }
    }
}

impl<T: Item> Waiting<T> {
    /// Returns whether the item is due before all others.
    fn push(&mut self, item: T, due: Instant, is_retry: bool) -> bool {
        if let Some(entry) = self.items.get_mut(&item) {
            entry.is_retry |= is_retry;
            if entry.at.0 <= due {
                return false;
            }
            self.by_time.remove(&entry.at);
        }
        self.count += 1;
        let at = (due, self.count);
        self.items.insert(item.clone(), WaitingItem { at, is_retry: is_retry || self.is_for_retry(&item) });
        self.by_time.insert(at, item);
        self.next() == Some(due)
    }

    fn is_for_retry(&self, item: &T) -> bool {
        self.items.get(item).is_some_and(|entry| entry.is_retry)
    }

    fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next due item, and when it was due.
    fn pop_due(&mut self, now: Instant) -> Option<(T, Instant)> {
        let ((due, _), item) =
            self.by_time.first_entry().filter(|first| first.key().0 <= now)?.remove_entry();
        self.items.remove(&item);
        Some((item, due))
    }
}

/// An item that is being processed until this is dropped.
pub struct Claim<T: Item> {
    item: T,
    queue: WorkQueue<T>,
}

impl<T: Item> Deref for Claim<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: Item> Drop for Claim<T> {
    fn drop(&mut self) {
        self.queue.done(&self.item);
    }
}

impl<T: Item + fmt::Debug> fmt::Debug for Claim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.item).finish()
    }
}

#[cfg(test)]
mod tests;
