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

pub use limiter::{
    BoxLimiter, Bucket, Exponential, FastSlow, MaxOf, MaxWait, RateLimiter, controller_default, item_default,
};
pub use order::{Aged, Fifo, Order};

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
    /// What has to be done, and with which priority it was asked for.
    dirty: HashMap<T, i32>,
    processing: HashSet<T>,
    waiting: Waiting<T>,
    limiter: BoxLimiter<T>,
    adds_count_as_attempts: bool,
    is_over: bool,
    /// Whether somebody waits for what is being worked on.
    is_draining: bool,
}

/// Items that are not due yet, each once.
struct Waiting<T> {
    by_time: BTreeMap<(Instant, u64), T>,
    places: HashMap<T, (Instant, u64)>,
    count: u64,
}

/// How a queue is to be.
pub struct Builder<T: Item> {
    order: Box<dyn Order<T>>,
    limiter: BoxLimiter<T>,
    adds_count_as_attempts: bool,
}

impl<T: Item> Builder<T> {
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
            processing: HashSet::new(),
            waiting: Waiting { by_time: BTreeMap::new(), places: HashMap::new(), count: 0 },
            limiter: self.limiter,
            adds_count_as_attempts: self.adds_count_as_attempts,
            is_over: false,
            is_draining: false,
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
        }
    }

    /// Something has to be done. Ignored once the queue is shut down.
    pub fn add(&self, item: T) {
        self.add_with_priority(item, 0);
    }

    /// The same, before or after other things if the queue's order looks at that.
    pub fn add_with_priority(&self, item: T, priority: i32) {
        if self.shared.state.lock().add(item, priority) {
            self.shared.changed.notify_one();
        }
    }

    /// Something has to be done in a while. If it waits already, the earlier time counts. What still waits when the queue
    /// is shut down is lost.
    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        let is_earlier = {
            let mut state = self.shared.state.lock();
            !state.is_over && state.waiting.push(item, later(delay))
        };
        if is_earlier {
            // All of them: the one who would be woken may be cancelled before it is due.
            self.shared.changed.notify_waiters();
        }
    }

    /// Something went wrong and has to be tried again, when the limiter says so.
    pub fn add_rate_limited(&self, item: T) {
        let delay = {
            let mut state = self.shared.state.lock();
            if !state.adds_count_as_attempts && state.waiting.places.contains_key(&item) {
                return;
            }
            state.limiter.when(&item)
        };
        self.add_after(item, delay);
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

    /// The next item, which nobody else has until the claim is dropped; nothing once the queue is shut down and empty.
    pub async fn get(&self) -> Option<Claim<T>> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From now on: what comes between the look and the wait counts.
            changed.as_mut().enable();
            let next = {
                let mut state = self.shared.state.lock();
                state.add_due(Instant::now());
                if let Some(item) = state.take() {
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

/// When a delay is over; one that is too long for a clock ends in a century.
fn later(delay: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(delay.min(CENTURY)).unwrap_or(now)
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

impl<T: Item> State<T> {
    /// Returns whether there is more to hand out.
    fn add(&mut self, item: T, priority: i32) -> bool {
        if self.is_over {
            return false;
        }
        let is_processed = self.processing.contains(&item);
        if let Some(before) = self.dirty.get_mut(&item) {
            *before = priority.max(*before);
            if !is_processed {
                self.order.touch(&item, priority);
            }
            return false;
        }
        self.dirty.insert(item.clone(), priority);
        if !is_processed {
            self.order.push(item, priority, Instant::now());
        }
        !is_processed
    }

    fn add_due(&mut self, now: Instant) {
        while let Some(item) = self.waiting.pop_due(now) {
            self.add(item, 0);
        }
    }

    fn take(&mut self) -> Option<T> {
        let item = self.order.pop()?;
        self.dirty.remove(&item);
        self.processing.insert(item.clone());
        Some(item)
    }

    /// Returns whether there is more to hand out.
    fn done(&mut self, item: &T) -> bool {
        self.processing.remove(item);
        let Some(priority) = self.dirty.get(item) else { return false };
        self.order.push(item.clone(), *priority, Instant::now());
        true
    }
}

impl<T: Item> Waiting<T> {
    /// Returns whether it is due earlier than anything before.
    fn push(&mut self, item: T, due: Instant) -> bool {
        if let Some(place) = self.places.get(&item).copied() {
            if place.0 <= due {
                return false;
            }
            self.by_time.remove(&place);
        }
        self.count += 1;
        let place = (due, self.count);
        self.places.insert(item.clone(), place);
        self.by_time.insert(place, item);
        self.next() == Some(due)
    }

    fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((due, _), _)| *due)
    }

    fn pop_due(&mut self, now: Instant) -> Option<T> {
        let item = self.by_time.first_entry().filter(|first| first.key().0 <= now)?.remove();
        self.places.remove(&item);
        Some(item)
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
