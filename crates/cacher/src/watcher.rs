//! One watcher: the half that events are offered to, and the half that is read.
//!
//! A watcher that keeps up is *live*: events wait in its inbox, as pointers. When the inbox is full the watcher is
//! *behind*: it takes what is in there and then reads the shared history at its own pace, until it has found everything
//! there and is live again. What the history in memory does not hold any more, the reader's owner reads from storage and
//! hands over in pages ([`Reader::take_wanted`]). So a reader that stops costs its inbox and nothing else, and delays nobody; it
//! ends with an error only if storage has compacted what it has yet to read.
//!
//! Kept true:
//! - everything up to the reader's `position` was told or is in its hands; the inbox holds what comes after that, all of
//!   it for a live watcher, and for one that is behind all up to where it is to read on in the history;
//! - a watcher turns live only while nobody can offer it an event, which takes the state's lock for writing;
//! - what a watcher needs of storage's history ([`Watcher::oldest_needed`]) begins no later than what it has yet to read.

use crate::{
    bloom::PredicateFilter,
    history::{Event, TooOld},
    history_pages::Page,
    state::State,
    sync::{Mutex, RwLock},
    watcher_index::IndexedWatcher,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Key, List, Predicate, Scope, WatchEvent};
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll, Waker},
};
use tokio::time::Instant;

/// How many events may wait for one watcher before it reads from the history instead. Pointers: 16 bytes each.
pub(crate) const WATCHER_QUEUE_EVENTS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 128 };
/// How many bytes of values may wait for one watcher, one event being the least. The values are shared with the
/// history and the store, but may outlive both in an inbox that nobody reads.
const WATCHER_QUEUE_BYTES_MAX: usize = 256 << 10;
/// How many events or objects a reader takes into its hands at a time, and how many bytes of values.
const BATCH_EVENTS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 100 };
const BATCH_BYTES_MAX: usize = 64 << 10;
/// For how many events a watcher that has nothing to tell keeps room, twice.
const IDLE_CAPACITY_EVENTS: usize = 8;
/// How many events or objects a reader looks at before others have their turn.
const EXAMINED_PER_POLL_MAX: usize = 2000;

/// Readers that have something to read now. They are woken when this is dropped: when the state is let go of, so that they
/// do not have to wait for it, and also if a panic comes between.
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

/// The half that events are offered to.
pub(crate) struct Watcher {
    /// Later ones have higher ones.
    pub(crate) number: u64,
    scope: Scope,
    predicate: Predicate,
    index_position: AtomicUsize,
    /// Whether bookmarks are wanted. They are told only if they say more than `start`.
    bookmarks: bool,
    start: ResourceVersion,
    /// When its watch ends.
    pub(crate) deadline: Option<Instant>,
    /// When its next bookmark is due. Written by `Bookmarks` alone.
    pub(crate) bookmark_due: parking_lot::Mutex<Option<Instant>>,
    queue: Mutex<Queue>,
}

struct Queue {
    mode: Mode,
    events: VecDeque<WatchEvent>,
    event_bytes: usize,
    /// The revision of what was put in last.
    last_revision: Option<ResourceVersion>,
    /// The revision of the initial state, while it is being delivered.
    initial_state: Option<ResourceVersion>,
    /// A bookmark was due while the watcher was behind.
    bookmark_due: bool,
    ended: bool,
    reader_waker: Option<Waker>,
}

enum Mode {
    /// Offered events are for the inbox, if they come after this revision.
    Live { after: ResourceVersion },
    /// Offered events are left to the history, which has all that comes after this revision. What is for the watcher up
    /// to it was told or is in the inbox.
    Lagging { after: ResourceVersion },
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WatchPosition {
    /// With the state at this revision, which is the present one.
    State { revision: ResourceVersion, end_bookmark: bool },
    /// With what comes after this revision, which may be in the history, in storage's history or in the future.
    After(ResourceVersion),
}

impl Watcher {
    /// Adds a watcher to the state, from which on it misses nothing.
    pub(crate) fn add(
        state: &mut State,
        scope: Scope,
        predicate: Predicate,
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
        };
        (watcher, reader)
    }

    /// Offers an event that the watcher may care for.
    pub(crate) fn enqueue(&self, event: &Arc<Event>, wakers: &mut Wakers) {
        let Some(watch_event) = event.watch_event(&self.predicate) else { return };
        let mut queue = self.queue.lock();
        match queue.mode {
            Mode::Live { after } if event.revision > after && !queue.ended => {}
            _ => return,
        }
        let bytes = value_bytes(&watch_event);
        let is_full = queue.events.len() >= WATCHER_QUEUE_EVENTS_MAX
            || (queue.event_bytes + bytes > WATCHER_QUEUE_BYTES_MAX && !queue.events.is_empty());
        match queue.last_revision.filter(|_| is_full) {
            // Events of one revision stay together: nobody can resume between them.
            Some(last) if last < event.revision => queue.mode = Mode::Lagging { after: last },
            _ => {
                queue.events.push_back(watch_event);
                queue.event_bytes += bytes;
                queue.last_revision = Some(event.revision);
            }
        }
        wakers.0.extend(queue.reader_waker.take());
    }

    /// Tells that everything up to a revision is told, if there is anything new in that and room for it.
    pub(crate) fn enqueue_bookmark(&self, revision: ResourceVersion, wakers: &mut Wakers) {
        if !self.bookmarks {
            return;
        }
        let mut queue = self.queue.lock();
        match queue.mode {
            Mode::Live { after } if revision >= after && revision > self.start && !queue.ended => {}
            Mode::Live { .. } => return,
            Mode::Lagging { .. } => return queue.bookmark_due = true,
        }
        if queue.events.len() < WATCHER_QUEUE_EVENTS_MAX {
            queue.events.push_back(WatchEvent::Bookmark { revision, initial_state_end: false });
            wakers.0.extend(queue.reader_waker.take());
        }
    }

    /// The oldest revision that the watcher still needs: of the initial state, or before the changes it has yet to read.
    pub(crate) fn oldest_needed(&self) -> Option<ResourceVersion> {
        let queue = self.queue.lock();
        match queue.mode {
            _ if queue.ended => None,
            Mode::Lagging { after } => Some(queue.initial_state.map_or(after, |state| state.min(after))),
            Mode::Live { .. } => queue.initial_state,
        }
    }

    /// Ends the watch: what is in the inbox is still told.
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
    /// In the reader's hands: told next.
    batch: VecDeque<WatchEvent>,
    /// Everything up to here was told or is in the reader's hands, once the state is.
    position: ResourceVersion,
    /// Up to where events were there before the watch began.
    initial_until: ResourceVersion,
    initial_count: usize,
    reads_storage: bool,
    /// What the reader cannot go on without.
    storage_request: Option<Box<StorageRequest>>,
}

enum Stage {
    /// The initial state is being delivered, and has got to this key.
    State {
        revision: ResourceVersion,
        after: Option<Key>,
        end_bookmark: bool,
    },
    Changes,
    Ended,
}

/// Something that only storage still holds.
#[derive(Clone, Debug)]
pub(crate) enum StorageRequest {
    /// What comes after a revision. The cache holds what comes after another one.
    Changes { after: ResourceVersion, until: ResourceVersion },
    /// The objects of an earlier state, after this key.
    State { revision: ResourceVersion, after: Option<Key> },
}

/// What a look for more gave.
enum ReadOutcome {
    /// Perhaps something is in the reader's hands now; if not, there may be more to look at.
    Progressed,
    Idle,
    Ended,
    /// Boxed, because it is rare: others need not move it about.
    NeedsStorage(Box<StorageRequest>),
}

impl Reader {
    pub(crate) fn watcher(&self) -> &Arc<Watcher> {
        &self.watcher
    }

    /// What the reader may see.
    pub(crate) fn scope_and_predicate(&self) -> (&Scope, &Predicate) {
        (&self.watcher.scope, &self.watcher.predicate)
    }

    /// How many events were taken, since this was last asked, that were there before the watch began.
    pub(crate) fn take_initial_count(&mut self) -> usize {
        std::mem::take(&mut self.initial_count)
    }

    /// Whether there is something to deliver without looking for more.
    pub(crate) fn has_buffered_events(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Whether what the reader took last came from storage, because the cache did not hold it.
    pub(crate) fn reads_storage(&self) -> bool {
        self.reads_storage
    }

    /// Whether the watch was ended. If not, the task is woken when that happens.
    pub(crate) fn poll_ended(&mut self, context: &Context<'_>) -> bool {
        let mut queue = self.watcher.queue.lock();
        if !queue.ended {
            queue.register_waker(context);
        }
        queue.ended
    }

    /// Nothing can be read any more, for this reason.
    pub(crate) fn fail(&mut self) {
        self.stage = Stage::Ended;
    }

    /// What the reader cannot go on without and the cache does not hold, if that is why it is pending. It is handed over by
    /// [`Reader::take_page`] or [`Reader::take_state`].
    pub(crate) fn take_storage_request(&mut self) -> Option<Box<StorageRequest>> {
        self.storage_request.take()
    }

    /// The next event; nothing when the watch has ended.
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
                // Others have their turn.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (None, ReadOutcome::Idle) => Poll::Pending,
            (None, ReadOutcome::Ended) => Poll::Ready(None),
            (None, ReadOutcome::NeedsStorage(storage_request)) => {
                self.storage_request = Some(storage_request);
                Poll::Pending
            }
        }
    }

    /// Takes the next few objects of the state.
    #[inline(never)]
    fn read_state(&mut self, state: &RwLock<State>) -> ReadOutcome {
        let Stage::State { revision, after, .. } = &self.stage else { return ReadOutcome::Ended };
        let (revision, after) = (*revision, after.clone());
        let past = {
            let state = state.read();
            // Watches are ended before the state is replaced: what is in there then is another one.
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
        let from = after.as_ref().map(|after| format!("{after}\0"));
        let mut entries = store.find(&watcher.scope, from.as_deref(), &watcher.predicate).entries;
        let (mut examined, mut bytes, mut last) = (0, 0, None);
        let continue_after = loop {
            if self.batch.len() >= BATCH_EVENTS_MAX
                || bytes >= BATCH_BYTES_MAX
                || examined >= EXAMINED_PER_POLL_MAX
            {
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

    /// Takes the first few objects of a part of an earlier state that was read from storage.
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

    /// What is in the reader's hands is the next part of the state. There may be more after this key.
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

    /// Takes what is in the inbox, or the next few events of the history.
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
            } else {
                // An idle watcher does not keep what a burst made it need.
                self.batch.shrink_to(IDLE_CAPACITY_EVENTS);
                queue.events.shrink_to(IDLE_CAPACITY_EVENTS);
                queue.register_waker(context);
                return ReadOutcome::Idle;
            }
        }
        self.catch_up(&state.read())
    }

    /// Takes the next few events of the history, and turns live at its end: while the state is held, nobody can offer
    /// an event.
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

    /// Takes the next few events of a page that was read from storage and holds those after the reader's position.
    pub(crate) fn take_page(&mut self, page: &Page) {
        self.reads_storage = true;
        if self.take_events(page.after(self.position).iter()) {
            self.position = self.position.max(page.through);
        }
        self.keep_lagging();
    }

    /// Takes the next few of some events; whether these were all.
    fn take_events<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> bool {
        let mut bytes = 0;
        for (examined, event) in events.enumerate() {
            // Events of one revision are taken together, too.
            let is_enough = self.batch.len() >= BATCH_EVENTS_MAX
                || bytes >= BATCH_BYTES_MAX
                || examined >= EXAMINED_PER_POLL_MAX;
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

    /// Everything up to the position is in the reader's hands, and the rest is still in some history.
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
    /// Has the reader's task woken when something happens.
    fn register_waker(&mut self, context: &Context<'_>) {
        if !self.reader_waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.reader_waker = Some(context.waker().clone());
        }
    }
}

/// How many bytes the value has that an event is about.
fn value_bytes(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.value.len()
        }
        WatchEvent::Bookmark { .. } => 0,
    }
}
