//! One watcher: the half to which events are dispatched, and the half that is read.
//!
//! A watcher that keeps up is *live*: its events wait in its queue, as pointers. When the queue is full, the watcher
//! becomes *lagging*: it empties the queue and then reads the shared history at its own pace, until it has caught up
//! and is live again. When the history in memory no longer holds the next events, the owner of the reader reads them
//! from storage and passes them on in pages ([`Reader::take_storage_request`]). So a watcher that is not read costs its
//! queue and delays no other watcher. It fails only if storage has compacted events that it has not read.
//!
//! Kept true:
//! - all events up to the reader's `position` have been delivered or are in its `batch`; the queue holds the events
//!   after that: all of them for a live watcher, and for a lagging one those up to the revision after which it reads
//!   the history;
//! - a watcher becomes live only while no event can be dispatched to it, because dispatching takes the state's lock for
//!   writing;
//! - the part of storage's history that a watcher needs ([`Watcher::oldest_needed`]) starts no later than the first
//!   event that it has not read.

use crate::{
    bloom::PredicateFilter,
    history::{Event, TooOld},
    history_pages::Page,
    predicates::{Dispatch, SharedPredicate},
    state::State,
    sync::{Mutex, RwLock},
    watcher_index::IndexedWatcher,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Key, List, Predicate, Scope, WatchEvent, WatchTurn};
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll, Waker},
};
use tokio::time::Instant;

/// The number of events that the queue of a watcher holds before it reads from the history instead. Pointers: 16 bytes
/// each.
pub(crate) const WATCHER_QUEUE_EVENTS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 128 };
/// The size of the values that the queue of a watcher holds, unless it holds only one event. The history and the store
/// share the values, but a queue that is not read may hold them longer.
const WATCHER_QUEUE_BYTES_MAX: usize = 256 << 10;
/// The number of events or objects that a reader takes at a time, and the size of their values.
const BATCH_EVENTS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 100 };
const BATCH_BYTES_MAX: usize = 64 << 10;
/// For how many events an idle watcher keeps capacity, both in its queue and in its batch.
const IDLE_CAPACITY_EVENTS: usize = 8;
/// The number of events or objects that a reader examines before other tasks have their turn.
const EXAMINED_PER_POLL_MAX: usize = 2000;

/// The wakers of readers that have something to read now. They are woken when this is dropped, which happens after the
/// state's lock is released, so that they need not wait for it; and also after a panic.
#[derive(Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        self.wake();
    }
}

/// The half to which events are dispatched.
pub(crate) struct Watcher {
    /// A later watcher has a higher number.
    pub(crate) number: u64,
    scope: Scope,
    predicate: Arc<SharedPredicate>,
    index_position: AtomicUsize,
    /// Whether the client wants bookmarks. They are delivered only if they are newer than `start`.
    bookmarks: bool,
    start: ResourceVersion,
    /// The time at which the watch ends.
    pub(crate) deadline: Option<Instant>,
    /// The time of the next bookmark. Written by `Bookmarks` alone.
    pub(crate) bookmark_due: parking_lot::Mutex<Option<Instant>>,
    queue: Mutex<Queue>,
}

struct Queue {
    mode: Mode,
    events: VecDeque<WatchEvent>,
    event_bytes: usize,
    /// The revision of the event that was added last.
    last_revision: Option<ResourceVersion>,
    /// The revision of the initial state, while it is being delivered.
    initial_state: Option<ResourceVersion>,
    /// A bookmark was due while the watcher was lagging.
    bookmark_due: bool,
    /// The watch ends once the reader has caught up; no more events are added.
    is_finishing: bool,
    ended: bool,
    reader_waker: Option<Waker>,
}

enum Mode {
    /// Dispatched events are added to the queue if they are newer than this revision.
    Live { after: ResourceVersion },
    /// Dispatched events are left to the history, which has all events after this revision. The events up to it have
    /// been delivered or are in the queue.
    Lagging { after: ResourceVersion },
}

/// The position at which a watch starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WatchPosition {
    /// The watch starts with the state at this revision, which is the current one.
    State { revision: ResourceVersion, end_bookmark: bool },
    /// The watch starts with the events after this revision, which may be in the history, in storage's history or in
    /// the future.
    After(ResourceVersion),
}

impl Watcher {
    /// Adds a watcher to the state. From then on it misses no event.
    pub(crate) fn add(
        state: &mut State,
        scope: Scope,
        predicate: Arc<SharedPredicate>,
        start: WatchPosition,
        deadline: Option<Instant>,
        bookmarks: bool,
    ) -> (Arc<Self>, Reader) {
        let (after, stage) = match start {
            WatchPosition::State { revision, end_bookmark } => {
                state.snapshot();
                (revision, Stage::State { revision, after: None, end_bookmark })
            }
            WatchPosition::After(revision) => (revision, Stage::Changes),
        };
        let mode = if after < state.revision { Mode::Lagging { after } } else { Mode::Live { after } };
        let queue = Queue {
            mode,
            events: VecDeque::new(),
            event_bytes: 0,
            last_revision: None,
            initial_state: matches!(stage, Stage::State { .. }).then_some(after),
            bookmark_due: false,
            is_finishing: false,
            ended: false,
            reader_waker: None,
        };
        let watcher = Arc::new(Self {
            number: state.next_watcher_number(),
            scope,
            predicate,
            index_position: AtomicUsize::new(0),
            start: after,
            bookmarks,
            deadline,
            bookmark_due: parking_lot::Mutex::new(None),
            queue: Mutex::new(queue),
        });
        state.watchers.add(watcher.clone());
        let reader = Reader {
            watcher: watcher.clone(),
            stage,
            batch: VecDeque::new(),
            position: after,
            initial_until: state.revision,
            initial_count: 0,
            reads_storage: false,
            storage_request: None,
            takes_turns: false,
            turn: None,
            needs_turn: false,
        };
        (watcher, reader)
    }

    /// Adds an event to the queue if the watcher is live and its predicate matches.
    pub(crate) fn enqueue(&self, dispatch: &mut Dispatch<'_>, wakers: &mut Wakers) {
        let Some(watch_event) = dispatch.watch_event(&self.predicate) else { return };
        let event = &dispatch.event;
        let mut queue = self.queue.lock();
        match queue.mode {
            Mode::Live { after } if event.revision > after && !queue.is_closed() => {}
            _ => return,
        }
        let bytes = value_bytes(&watch_event);
        let is_full = queue.events.len() >= WATCHER_QUEUE_EVENTS_MAX
            || (queue.event_bytes + bytes > WATCHER_QUEUE_BYTES_MAX && !queue.events.is_empty());
        match queue.last_revision.filter(|_| is_full) {
            // Events of one revision stay together, because no watch can resume between them.
            Some(last) if last < event.revision => queue.mode = Mode::Lagging { after: last },
            _ => {
                queue.events.push_back(watch_event);
                queue.event_bytes += bytes;
                queue.last_revision = Some(event.revision);
            }
        }
        wakers.0.extend(queue.reader_waker.take());
    }

    /// Adds a bookmark to the queue if the revision is new to the client and there is room.
    pub(crate) fn enqueue_bookmark(&self, revision: ResourceVersion, wakers: &mut Wakers) {
        if !self.bookmarks {
            return;
        }
        let mut queue = self.queue.lock();
        match queue.mode {
            Mode::Live { after } if revision >= after && revision > self.start && !queue.is_closed() => {}
            Mode::Live { .. } => return,
            Mode::Lagging { .. } => return queue.bookmark_due = true,
        }
        if queue.events.len() < WATCHER_QUEUE_EVENTS_MAX {
            queue.events.push_back(WatchEvent::Bookmark { revision, initial_state_end: false });
            wakers.0.extend(queue.reader_waker.take());
        }
    }

    /// The oldest revision that the watcher still needs: that of the initial state, or that before the first event it
    /// has not read.
    pub(crate) fn oldest_needed(&self) -> Option<ResourceVersion> {
        let queue = self.queue.lock();
        match queue.mode {
            _ if queue.ended => None,
            Mode::Lagging { after } => Some(queue.initial_state.map_or(after, |state| state.min(after))),
            Mode::Live { .. } => queue.initial_state,
        }
    }

    /// Ends the watch after the events up to now, wherever they have to be read from.
    pub(crate) fn finish(&self, wakers: &mut Wakers) {
        let mut queue = self.queue.lock();
        queue.is_finishing = true;
        wakers.0.extend(queue.reader_waker.take());
    }

    /// Ends the watch. The events in the queue are still delivered.
    pub(crate) fn end(&self, wakers: &mut Wakers) {
        let mut queue = self.queue.lock();
        queue.ended = true;
        wakers.0.extend(queue.reader_waker.take());
    }
}

impl IndexedWatcher for Watcher {
    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    fn index_position(&self) -> &AtomicUsize {
        &self.index_position
    }
}

/// The half that is read.
pub(crate) struct Reader {
    watcher: Arc<Watcher>,
    stage: Stage,
    /// The events that are delivered next.
    batch: VecDeque<WatchEvent>,
    /// All events up to here have been delivered or are in `batch`, once the initial state is.
    position: ResourceVersion,
    /// Events up to this revision existed before the watch started.
    initial_until: ResourceVersion,
    initial_count: usize,
    reads_storage: bool,
    /// A request to storage without whose answer the reader cannot continue.
    storage_request: Option<Box<StorageRequest>>,
    /// Whether the state and the history are read in turns.
    takes_turns: bool,
    /// The turn for the next read.
    turn: Option<WatchTurn>,
    /// The reader cannot continue without a turn.
    needs_turn: bool,
}

enum Stage {
    /// The initial state is being delivered, and has been read up to this key.
    State {
        revision: ResourceVersion,
        after: Option<Key>,
        end_bookmark: bool,
    },
    Changes,
    Ended,
}

/// Data that only storage still holds.
#[derive(Clone, Debug)]
pub(crate) enum StorageRequest {
    /// The changes after a revision. The cache holds those after `until`.
    Changes { after: ResourceVersion, until: ResourceVersion },
    /// The objects of an earlier state after this key.
    State { revision: ResourceVersion, after: Option<Key> },
}

/// The outcome of a read of the state, the queue or the history.
enum ReadOutcome {
    /// The batch may have events now. If it has none, the reader tries again.
    Progressed,
    Idle,
    Ended,
    NeedsTurn,
    /// Boxed because it is rare, so that the other variants stay small.
    NeedsStorage(Box<StorageRequest>),
}

impl Reader {
    pub(crate) fn watcher(&self) -> &Arc<Watcher> {
        &self.watcher
    }

    /// The objects that the reader may see.
    pub(crate) fn scope_and_predicate(&self) -> (&Scope, &Arc<SharedPredicate>) {
        (&self.watcher.scope, &self.watcher.predicate)
    }

    /// The number of initial events that were read since the last call.
    pub(crate) fn take_initial_count(&mut self) -> usize {
        std::mem::take(&mut self.initial_count)
    }

    /// Whether there are events to deliver without another read.
    pub(crate) fn has_buffered_events(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Whether the last read was from storage, because the cache did not hold the events.
    pub(crate) fn reads_storage(&self) -> bool {
        self.reads_storage
    }

    /// Whether the watch has ended. If it has not, the task is woken when it does.
    pub(crate) fn poll_ended(&mut self, context: &Context<'_>) -> bool {
        let mut queue = self.watcher.queue.lock();
        if !queue.ended {
            queue.register_waker(context);
        }
        queue.ended
    }

    /// Ends the reader after an error.
    pub(crate) fn fail(&mut self) {
        self.stage = Stage::Ended;
    }

    /// The request to storage that makes the reader pending, if there is one. [`Reader::take_page`] or
    /// [`Reader::take_state`] takes the answer.
    pub(crate) fn take_storage_request(&mut self) -> Option<Box<StorageRequest>> {
        self.storage_request.take()
    }

    /// Has the reader pend from now on until it has a turn, before each read of the state or the history.
    pub(crate) fn take_turns(&mut self) {
        self.takes_turns = true;
    }

    /// Whether it is a missing turn that makes the reader pending. [`Reader::set_turn`] takes the turn.
    pub(crate) fn needs_turn(&self) -> bool {
        self.needs_turn
    }

    /// Sets the turn for the next read.
    pub(crate) fn set_turn(&mut self, turn: WatchTurn) {
        self.needs_turn = false;
        self.turn = Some(turn);
    }

    /// The next event; none when the watch has ended.
    pub(crate) fn poll_next(
        &mut self,
        state: &RwLock<State>,
        context: &mut Context<'_>,
    ) -> Poll<Option<WatchEvent>> {
        if let Some(event) = self.batch.pop_front() {
            return Poll::Ready(Some(event));
        }
        let outcome = match &self.stage {
            Stage::State { .. } => self.read_state(state),
            Stage::Changes => self.read_changes(state, context),
            Stage::Ended => ReadOutcome::Ended,
        };
        match (self.batch.pop_front(), outcome) {
            (Some(event), _) => Poll::Ready(Some(event)),
            (None, ReadOutcome::Progressed) => {
                // Other tasks have their turn.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (None, ReadOutcome::Idle) => Poll::Pending,
            (None, ReadOutcome::Ended) => Poll::Ready(None),
            (None, ReadOutcome::NeedsTurn) => {
                self.needs_turn = true;
                Poll::Pending
            }
            (None, ReadOutcome::NeedsStorage(storage_request)) => {
                self.storage_request = Some(storage_request);
                Poll::Pending
            }
        }
    }

    /// Reads the next objects of the initial state.
    #[inline(never)]
    fn read_state(&mut self, state: &RwLock<State>) -> ReadOutcome {
        let turn = self.turn.take();
        if self.takes_turns && turn.is_none() {
            return ReadOutcome::NeedsTurn;
        }
        let Stage::State { revision, after, .. } = &self.stage else { return ReadOutcome::Ended };
        let (revision, after) = (*revision, after.clone());
        let past = {
            let state = state.read();
            // All watches are ended before the state is replaced, so the objects would belong to another state.
            if self.watcher.queue.lock().ended {
                return ReadOutcome::Ended;
            }
            state.past(revision)
        };
        let store = match past {
            Err(TooOld(_)) => {
                return ReadOutcome::NeedsStorage(Box::new(StorageRequest::State { revision, after }));
            }
            Ok(past) if past.is_materialized() => past.restore(),
            Ok(past) => {
                let store = past.restore();
                let garbage = {
                    let mut state = state.write();
                    state.keep_snapshot(revision, store.clone(), true);
                    state.take_garbage()
                };
                drop(garbage);
                store
            }
        };
        let watcher = &self.watcher;
        let filter = PredicateFilter::new(&watcher.predicate);
        let examined_max = filter.examined_max(EXAMINED_PER_POLL_MAX);
        let from = after.as_ref().map(|after| format!("{after}\0"));
        let mut entries = store.find(&watcher.scope, from.as_deref(), &watcher.predicate).entries;
        let (mut examined, mut bytes, mut last) = (0, 0, None);
        let continue_after = loop {
            if self.batch.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX || examined >= examined_max {
                break last;
            }
            let Some(entry) = entries.next() else { break None };
            examined += 1;
            last = Some(entry.object.key.clone());
            if filter.matches(entry.bloom, &entry.object) {
                bytes += entry.object.value.len();
                self.batch.push_back(WatchEvent::Added(entry.object.clone()));
            }
        };
        self.reads_storage = false;
        self.finish_state_batch(continue_after);
        ReadOutcome::Progressed
    }

    /// Takes the first objects of a page of an earlier state that was read from storage.
    pub(crate) fn take_state(&mut self, list: List) {
        let (count, mut bytes, mut last) = (list.items.len(), 0, None);
        for object in list.items {
            if bytes >= BATCH_BYTES_MAX {
                break;
            }
            bytes += object.value.len();
            last = Some(object.key.clone());
            self.batch.push_back(WatchEvent::Added(object));
        }
        let is_whole = list.next.is_none() && self.batch.len() == count;
        self.reads_storage = true;
        self.finish_state_batch(last.filter(|_| !is_whole));
    }

    /// Records that the batch is the next part of the initial state. There may be more objects after `continue_after`.
    fn finish_state_batch(&mut self, continue_after: Option<Key>) {
        self.initial_count += self.batch.len();
        let Stage::State { revision, after, end_bookmark } = &mut self.stage else { return };
        if continue_after.is_some() {
            return *after = continue_after;
        }
        if *end_bookmark {
            self.batch.push_back(WatchEvent::Bookmark { revision: *revision, initial_state_end: true });
        }
        self.stage = Stage::Changes;
        self.watcher.queue.lock().initial_state = None;
    }

    /// Takes the events in the queue, or the next events of the history.
    fn read_changes(&mut self, state: &RwLock<State>, context: &Context<'_>) -> ReadOutcome {
        {
            let mut queue = self.watcher.queue.lock();
            if let Some(last) = queue.events.back() {
                self.position = last.revision();
                std::mem::swap(&mut self.batch, &mut queue.events);
                queue.event_bytes = 0;
                return ReadOutcome::Progressed;
            }
            if queue.ended {
                return ReadOutcome::Ended;
            }
            if let Mode::Lagging { after } = queue.mode {
                self.position = self.position.max(after);
            } else if queue.is_finishing {
                return ReadOutcome::Ended;
            } else {
                // An idle watcher releases the capacity that a burst of events needed.
                self.batch.shrink_to(IDLE_CAPACITY_EVENTS);
                queue.events.shrink_to(IDLE_CAPACITY_EVENTS);
                queue.register_waker(context);
                return ReadOutcome::Idle;
            }
        }
        let turn = self.turn.take();
        if self.takes_turns && turn.is_none() {
            return ReadOutcome::NeedsTurn;
        }
        self.catch_up(&state.read())
    }

    /// Takes the next events of the history, and becomes live at its end. No event can be dispatched while the state is
    /// locked.
    #[inline(never)]
    fn catch_up(&mut self, state: &State) -> ReadOutcome {
        if self.watcher.queue.lock().ended {
            return ReadOutcome::Ended;
        }
        match state.history.after(self.position) {
            Ok(events) => {
                self.reads_storage = false;
                if self.take_events(events.map(|event| &**event)) {
                    self.position = self.position.max(state.revision);
                    self.push_due_bookmark();
                    self.watcher.queue.lock().mode = Mode::Live { after: self.position };
                } else {
                    self.keep_lagging();
                }
                ReadOutcome::Progressed
            }
            Err(TooOld(until)) => {
                ReadOutcome::NeedsStorage(Box::new(StorageRequest::Changes { after: self.position, until }))
            }
        }
    }

    /// Takes the next events of a page from storage, which holds the events after the reader's position.
    pub(crate) fn take_page(&mut self, page: &Page) {
        self.reads_storage = true;
        if self.take_events(page.after(self.position).iter()) {
            self.position = self.position.max(page.through);
        }
        self.keep_lagging();
    }

    /// Takes the next of some events. Returns whether these were all.
    fn take_events<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> bool {
        let mut bytes = 0;
        let examined_max = PredicateFilter::new(&self.watcher.predicate).examined_max(EXAMINED_PER_POLL_MAX);
        for (examined, event) in events.enumerate() {
            // Events of one revision stay together here, too.
            let is_enough =
                self.batch.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX || examined >= examined_max;
            if is_enough && event.revision > self.position {
                return false;
            }
            self.position = event.revision;
            if self.watcher.scope.contains(event.key())
                && let Some(watch_event) = event.watch_event(&self.watcher.predicate)
            {
                bytes += value_bytes(&watch_event);
                self.batch.push_back(watch_event);
                self.initial_count += usize::from(event.revision <= self.initial_until);
            }
        }
        true
    }

    /// Records that the events up to the position are in the batch, and that the history has the rest.
    fn keep_lagging(&mut self) {
        self.push_due_bookmark();
        self.watcher.queue.lock().mode = Mode::Lagging { after: self.position };
    }

    fn push_due_bookmark(&mut self) {
        let is_due = std::mem::take(&mut self.watcher.queue.lock().bookmark_due);
        if is_due && self.position > self.watcher.start {
            self.batch.push_back(WatchEvent::Bookmark { revision: self.position, initial_state_end: false });
        }
    }
}

impl Queue {
    /// Whether no more events are added.
    fn is_closed(&self) -> bool {
        self.ended || self.is_finishing
    }

    /// Has the reader's task woken at the next event or at the end of the watch.
    fn register_waker(&mut self, context: &Context<'_>) {
        if !self.reader_waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.reader_waker = Some(context.waker().clone());
        }
    }
}

/// The size of the value of an event's object.
fn value_bytes(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.value.len()
        }
        WatchEvent::Bookmark { .. } => 0,
    }
}
