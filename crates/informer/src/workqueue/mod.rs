//! Work queues: what has to be done, each thing once, however often it is asked for.
//!
//! Kept true: an item that is being worked on is not handed out; one that is added meanwhile is handed out again when
//! that is done; an item that is added and not handed out yet is in the queue once. Nothing is lost when somebody who
//! waits for an item, or works on one, is cancelled or panics.
//!
//! There is no task behind a queue: whoever waits for an item also waits for the next one that is due.
//!
//! ```
//! use keepwatch_informer::workqueue::WorkQueue;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let queue = WorkQueue::new();
//! queue.add("apps/web");
//! queue.add("apps/web");
//! let claim = queue.get().await.expect("the queue goes on");
//! assert_eq!((*claim, queue.len()), ("apps/web", 0));
//! queue.add("apps/web");
//! assert_eq!(queue.len(), 0, "it is being worked on");
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

use crate::moment::after;
use measures::Measures;
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

/// What can be worked on.
pub trait Item: Clone + Eq + Hash + Send + 'static {}
impl<T: Clone + Eq + Hash + Send + 'static> Item for T {}

/// A queue of work. Cloning shares it.
pub struct WorkQueue<T: Item> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Told when there may be something for whoever waits for an item.
    changed: Notify,
    /// Told when nothing is being worked on, or a queue need not wait for that any more.
    idle: Notify,
}

struct State<T> {
    order: Box<dyn Order<T>>,
    /// What has to be done and was not handed out yet, even if it is being worked on.
    dirty: HashMap<T, Wanted>,
    /// What is being worked on, and since when.
    processing: HashMap<T, Instant>,
    waiting: Waiting<T>,
    limiter: BoxLimiter<T>,
    adds_count_as_attempts: bool,
    is_over: bool,
    /// Whether somebody waits for what is being worked on.
    is_draining: bool,
    /// Only if the queue has a name.
    measures: Option<Measures>,
}

/// How something that has to be done was asked for.
struct Wanted {
    priority: i32,
    since: Instant,
}

/// Items that are not due yet, each once.
struct Waiting<T> {
    by_time: BTreeMap<(Instant, u64), T>,
    places: HashMap<T, Place>,
    count: u64,
}

/// Where an item waits.
#[derive(Clone, Copy)]
struct Place {
    at: (Instant, u64),
    /// Whether it failed, and is to be tried again.
    is_retry: bool,
}

/// How a queue is to be.
pub struct Builder<T: Item> {
    order: Box<dyn Order<T>>,
    limiter: BoxLimiter<T>,
    adds_count_as_attempts: bool,
    name: String,
}

impl<T: Item> Builder<T> {
    /// Under this name the queue measures itself; see [`WorkQueue::measures`]. Without one, or an empty one, it does not.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// In which order items are handed out; [`Fifo`] unless this is called.
    pub fn order(mut self, order: impl Order<T> + 'static) -> Self {
        self.order = Box::new(order);
        self
    }

    /// How long items wait after a failure; [`controller_default`] unless this is called.
    pub fn limiter(mut self, limiter: BoxLimiter<T>) -> Self {
        self.limiter = limiter;
        self
    }

    /// Whether a failure counts of an item that waited for a retry and was added by somebody else before that was due.
    /// It does, as in client-go, unless this is called with `false`: many events then cannot drive its wait to the limit.
    pub fn adds_count_as_attempts(mut self, they_do: bool) -> Self {
        self.adds_count_as_attempts = they_do;
        self
    }

    /// The queue.
    pub fn build(self) -> WorkQueue<T> {
        let state = State {
            order: self.order,
            dirty: HashMap::new(),
            processing: HashMap::new(),
            waiting: Waiting { by_time: BTreeMap::new(), places: HashMap::new(), count: 0 },
            limiter: self.limiter,
            adds_count_as_attempts: self.adds_count_as_attempts,
            is_over: false,
            is_draining: false,
            measures: (!self.name.is_empty()).then(|| Measures::new(self.name)),
        };
        let shared = Shared { state: Mutex::new(state), changed: Notify::new(), idle: Notify::new() };
        WorkQueue { shared: Arc::new(shared) }
    }
}

impl<T: Item> WorkQueue<T> {
    /// A queue as controllers usually want it.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with settings of its own.
    pub fn builder() -> Builder<T> {
        Builder {
            order: Box::new(Fifo::default()),
            limiter: controller_default(),
            adds_count_as_attempts: true,
            name: String::new(),
        }
    }

    /// Something has to be done. Ignored once the queue is shut down.
    pub fn add(&self, item: T) {
        self.add_with_priority(item, 0);
    }

    /// The same, before or after other things if the queue's order looks at that.
    pub fn add_with_priority(&self, item: T, priority: i32) {
        if self.shared.state.lock().add(item, priority, Instant::now) {
            self.shared.changed.notify_one();
        }
    }

    /// Something has to be done in a while. If it waits already, the earlier time counts. What still waits when the queue
    /// is shut down is lost.
    pub fn add_after(&self, item: T, delay: Duration) {
        self.wait(item, delay, false);
    }

    fn wait(&self, item: T, delay: Duration, is_retry: bool) {
        let mut state = self.shared.state.lock();
        if state.is_over {
            return;
        }
        state.measure(Measures::retried);
        if delay.is_zero() {
            drop(state);
            return self.add(item);
        }
        let is_earlier = state.waiting.push(item, after(Instant::now(), delay), is_retry);
        drop(state);
        if is_earlier {
            // All of them: the one who would be woken may be cancelled before it is due.
            self.shared.changed.notify_waiters();
        }
    }

    /// Something went wrong and has to be tried again, when the limiter says so.
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

    /// Something went well: the limiter forgets its failures.
    pub fn forget(&self, item: &T) {
        self.shared.state.lock().limiter.forget(item);
    }

    /// How often something has failed, as far as the limiter knows.
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.shared.state.lock().limiter.num_requeues(item)
    }

    /// How many items could be handed out now.
    pub fn len(&self) -> usize {
        let mut state = self.shared.state.lock();
        state.add_due(Instant::now());
        state.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the queue has done so far; nothing if it has no name. How long work runs already is as of now, so this can be
    /// asked as often as one likes.
    pub fn measures(&self) -> Option<QueueCounts> {
        self.shared.counts()
    }

    /// The same for whoever does not keep the queue alive.
    #[cfg(feature = "metrics")]
    pub(crate) fn measured(&self) -> std::sync::Weak<dyn crate::measure::Measured<QueueCounts>> {
        Arc::downgrade(&self.shared) as _
    }

    /// The next item, which nobody else has until the claim is dropped; nothing once the queue is shut down and empty.
    pub async fn get(&self) -> Option<Claim<T>> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From now on: what comes between the look and the wait counts.
            changed.as_mut().enable();
            let next = {
                let mut state = self.shared.state.lock();
                let now = Instant::now();
                state.add_due(now);
                if let Some(item) = state.take(now) {
                    return Some(Claim { item, queue: self.clone() });
                }
                if state.is_over {
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

    /// Takes nothing new. What is in the queue is still handed out.
    pub fn shut_down(&self) {
        let mut state = self.shared.state.lock();
        state.is_over = true;
        state.is_draining = false;
        self.shared.changed.notify_waiters();
        self.shared.idle.notify_waiters();
    }

    /// Shuts the queue down and waits until nothing is being worked on, or until it is shut down without waiting.
    pub async fn drain(&self) {
        {
            let mut state = self.shared.state.lock();
            state.is_over = true;
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

    /// Whether the queue takes nothing new.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.lock().is_over
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
            .field("waiting", &state.waiting.places.len())
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
impl<T: Item> crate::measure::Measured<QueueCounts> for Shared<T> {
    fn measures(&self) -> Option<QueueCounts> {
        self.counts()
    }
}

impl<T: Item> State<T> {
    /// Something has to be done. `since` is asked only if it had not to before. Returns whether there is more to hand out.
    fn add(&mut self, item: T, priority: i32, since: impl FnOnce() -> Instant) -> bool {
        if self.is_over {
            return false;
        }
        let is_processed = self.processing.contains_key(&item);
        if let Some(wanted) = self.dirty.get_mut(&item) {
            wanted.priority = priority.max(wanted.priority);
            if !is_processed {
                self.order.touch(&item, priority);
            }
            return false;
        }
        self.measure(Measures::added);
        let since = since();
        self.dirty.insert(item.clone(), Wanted { priority, since });
        if !is_processed {
            self.order.push(item, priority, since);
        }
        !is_processed
    }

    /// What was due earlier has waited since then, even if nobody looked.
    fn add_due(&mut self, now: Instant) {
        while let Some((item, due)) = self.waiting.pop_due(now) {
            self.add(item, 0, || due);
        }
    }

    fn take(&mut self, now: Instant) -> Option<T> {
        let item = self.order.pop()?;
        if let Some(wanted) = self.dirty.remove(&item) {
            self.measure(|measures| measures.taken(now.saturating_duration_since(wanted.since)));
        }
        self.processing.insert(item.clone(), now);
        Some(item)
    }

    /// Returns whether there is more to hand out.
    fn done(&mut self, item: &T) -> bool {
        if let Some(since) = self.processing.remove(item) {
            self.measure(|measures| measures.done(since.elapsed()));
        }
        let Some(wanted) = self.dirty.get(item) else { return false };
        self.order.push(item.clone(), wanted.priority, Instant::now());
        true
    }

    fn measure(&mut self, what: impl FnOnce(&mut Measures)) {
        if let Some(measures) = &mut self.measures {
            what(measures);
        }
    }
}

impl<T: Item> Waiting<T> {
    /// Returns whether it is due earlier than anything before.
    fn push(&mut self, item: T, due: Instant, is_retry: bool) -> bool {
        if let Some(place) = self.places.get_mut(&item) {
            place.is_retry |= is_retry;
            if place.at.0 <= due {
                return false;
            }
            self.by_time.remove(&place.at);
        }
        self.count += 1;
        let at = (due, self.count);
        self.places.insert(item.clone(), Place { at, is_retry: is_retry || self.is_for_retry(&item) });
        self.by_time.insert(at, item);
        self.next() == Some(due)
    }

    fn is_for_retry(&self, item: &T) -> bool {
        self.places.get(item).is_some_and(|place| place.is_retry)
    }

    fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((due, _), _)| *due)
    }

    /// What is due, and since when.
    fn pop_due(&mut self, now: Instant) -> Option<(T, Instant)> {
        let ((due, _), item) =
            self.by_time.first_entry().filter(|first| first.key().0 <= now)?.remove_entry();
        self.places.remove(&item);
        Some((item, due))
    }
}

/// An item that is being worked on, until this is dropped.
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
