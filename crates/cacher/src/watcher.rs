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
    history::{Event, TooOld},
    history_pages::Page,
    interest::Interested,
    sieve::Sieve,
    state::State,
    sync::{Mutex, RwLock},
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
pub(crate) const INBOX_EVENTS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 128 };
/// How many bytes of values may wait for one watcher, one event being the least. The values are shared with the
/// history and the store, but may outlive both in an inbox that nobody reads.
const INBOX_BYTES_MAX: usize = 256 << 10;
/// How many events or objects a reader takes into its hands at a time, and how many bytes of values.
const TAKEN_MAX: usize = if cfg!(feature = "loom") { 1 } else { 100 };
const TAKEN_BYTES_MAX: usize = 64 << 10;
/// For how many events a watcher that has nothing to tell keeps room, twice.
const IDLE_ROOM_EVENTS: usize = 8;
/// How many events or objects a reader looks at before others have their turn.
const LOOKED_AT_MAX: usize = 2000;

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
    place: AtomicUsize,
    /// Whether bookmarks are wanted. They are told only if they say more than `start`.
    bookmarks: bool,
    start: ResourceVersion,
    /// When its watch ends.
    pub(crate) deadline: Option<Instant>,
    /// When its next bookmark is due. Written by `Bookmarks` alone.
    pub(crate) bookmark_due: parking_lot::Mutex<Option<Instant>>,
    inbox: Mutex<Inbox>,
}

struct Inbox {
    mode: Mode,
    waiting: VecDeque<WatchEvent>,
    waiting_bytes: usize,
    /// The revision of what was put in last.
    last: Option<ResourceVersion>,
    /// The revision of the initial state, while it is being delivered.
    state: Option<ResourceVersion>,
    /// A bookmark was due while the watcher was behind.
    bookmark_due: bool,
    ended: bool,
    reader: Option<Waker>,
}

enum Mode {
    /// Offered events are for the inbox, if they come after this revision.
    Live { after: ResourceVersion },
    /// Offered events are left to the history, which has all that comes after this revision. What is for the watcher up
    /// to it was told or is in the inbox.
    Behind { after: ResourceVersion },
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
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
        start: Start,
        deadline: Option<Instant>,
        bookmarks: bool,
    ) -> (Arc<Self>, Reader) {
        let (after, stage) = match start {
            Start::State { revision, end_bookmark } => {
                state.put_aside();
                (revision, Stage::State { revision, after: None, end_bookmark })
            }
            Start::After(revision) => (revision, Stage::Changes),
        };
        let mode = if after < state.revision { Mode::Behind { after } } else { Mode::Live { after } };
        let inbox = Inbox {
            mode,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last: None,
            state: matches!(stage, Stage::State { .. }).then_some(after),
            bookmark_due: false,
            ended: false,
            reader: None,
        };
        let watcher = Arc::new(Self {
            number: state.next_number(),
            scope,
            predicate,
            place: AtomicUsize::new(0),
            start: after,
            bookmarks,
            deadline,
            bookmark_due: parking_lot::Mutex::new(None),
            inbox: Mutex::new(inbox),
        });
        state.watchers.add(watcher.clone());
        let reader = Reader {
            watcher: watcher.clone(),
            stage,
            taken: VecDeque::new(),
            position: after,
            begun_at: state.revision,
            initial_count: 0,
            reads_storage: false,
            wanted: None,
        };
        (watcher, reader)
    }

    /// Offers an event that the watcher may care for.
    pub(crate) fn offer(&self, event: &Arc<Event>, wakers: &mut Wakers) {
        let Some(seen) = event.seen_through(&self.predicate) else { return };
        let mut inbox = self.inbox.lock();
        match inbox.mode {
            Mode::Live { after } if event.revision > after && !inbox.ended => {}
            _ => return,
        }
        let bytes = bytes_of(&seen);
        let is_full = inbox.waiting.len() >= INBOX_EVENTS_MAX
            || (inbox.waiting_bytes + bytes > INBOX_BYTES_MAX && !inbox.waiting.is_empty());
        match inbox.last.filter(|_| is_full) {
            // Events of one revision stay together: nobody can resume between them.
            Some(last) if last < event.revision => inbox.mode = Mode::Behind { after: last },
            _ => {
                inbox.waiting.push_back(seen);
                inbox.waiting_bytes += bytes;
                inbox.last = Some(event.revision);
            }
        }
        wakers.0.extend(inbox.reader.take());
    }

    /// Tells that everything up to a revision is told, if there is anything new in that and room for it.
    pub(crate) fn offer_bookmark(&self, revision: ResourceVersion, wakers: &mut Wakers) {
        if !self.bookmarks {
            return;
        }
        let mut inbox = self.inbox.lock();
        match inbox.mode {
            Mode::Live { after } if revision >= after && revision > self.start && !inbox.ended => {}
            Mode::Live { .. } => return,
            Mode::Behind { .. } => return inbox.bookmark_due = true,
        }
        if inbox.waiting.len() < INBOX_EVENTS_MAX {
            inbox.waiting.push_back(WatchEvent::Bookmark { revision, initial_state_end: false });
            wakers.0.extend(inbox.reader.take());
        }
    }

    /// The oldest revision that the watcher still needs: of the initial state, or before the changes it has yet to read.
    pub(crate) fn oldest_needed(&self) -> Option<ResourceVersion> {
        let inbox = self.inbox.lock();
        match inbox.mode {
            _ if inbox.ended => None,
            Mode::Behind { after } => Some(inbox.state.map_or(after, |state| state.min(after))),
            Mode::Live { .. } => inbox.state,
        }
    }

    /// Ends the watch: what is in the inbox is still told.
    pub(crate) fn end(&self, wakers: &mut Wakers) {
        let mut inbox = self.inbox.lock();
        inbox.ended = true;
        wakers.0.extend(inbox.reader.take());
    }
}

impl Interested for Watcher {
    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    fn place(&self) -> &AtomicUsize {
        &self.place
    }
}

/// The half that is read.
pub(crate) struct Reader {
    watcher: Arc<Watcher>,
    stage: Stage,
    /// In the reader's hands: told next.
    taken: VecDeque<WatchEvent>,
    /// Everything up to here was told or is in the reader's hands, once the state is.
    position: ResourceVersion,
    /// Up to where events were there before the watch began.
    begun_at: ResourceVersion,
    initial_count: usize,
    reads_storage: bool,
    /// What the reader cannot go on without.
    wanted: Option<Box<StorageRead>>,
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
pub(crate) enum StorageRead {
    /// What comes after a revision. The cache holds what comes after another one.
    Changes { after: ResourceVersion, until: ResourceVersion },
    /// The objects of an earlier state, after this key.
    State { revision: ResourceVersion, after: Option<Key> },
}

/// What a look for more gave.
enum Look {
    /// Perhaps something is in the reader's hands now; if not, there may be more to look at.
    Looked,
    Nothing,
    Ended,
    /// Boxed, because it is rare: others need not move it about.
    NeedsStorage(Box<StorageRead>),
}

impl Reader {
    pub(crate) fn watcher(&self) -> &Arc<Watcher> {
        &self.watcher
    }

    /// What the reader may see.
    pub(crate) fn view(&self) -> (&Scope, &Predicate) {
        (&self.watcher.scope, &self.watcher.predicate)
    }

    /// How many events were taken, since this was last asked, that were there before the watch began.
    pub(crate) fn take_initial_count(&mut self) -> usize {
        std::mem::take(&mut self.initial_count)
    }

    /// Whether there is something to deliver without looking for more.
    pub(crate) fn has_events(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Whether what the reader took last came from storage, because the cache did not hold it.
    pub(crate) fn reads_storage(&self) -> bool {
        self.reads_storage
    }

    /// Whether the watch was ended. If not, the task is woken when that happens.
    pub(crate) fn poll_ended(&mut self, context: &Context<'_>) -> bool {
        let mut inbox = self.watcher.inbox.lock();
        if !inbox.ended {
            inbox.wake_later(context);
        }
        inbox.ended
    }

    /// Nothing can be read any more, for this reason.
    pub(crate) fn fail(&mut self) {
        self.stage = Stage::Ended;
    }

    /// What the reader cannot go on without and the cache does not hold, if that is why it is pending. It is handed over by
    /// [`Reader::take_page`] or [`Reader::take_state`].
    pub(crate) fn take_wanted(&mut self) -> Option<Box<StorageRead>> {
        self.wanted.take()
    }

    /// The next event; nothing when the watch has ended.
    pub(crate) fn poll_next(
        &mut self,
        state: &RwLock<State>,
        context: &mut Context<'_>,
    ) -> Poll<Option<WatchEvent>> {
        if let Some(event) = self.taken.pop_front() {
            return Poll::Ready(Some(event));
        }
        let look = match &self.stage {
            Stage::State { .. } => self.look_at_state(state),
            Stage::Changes => self.look_at_changes(state, context),
            Stage::Ended => Look::Ended,
        };
        match (self.taken.pop_front(), look) {
            (Some(event), _) => Poll::Ready(Some(event)),
            (None, Look::Looked) => {
                // Others have their turn.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (None, Look::Nothing) => Poll::Pending,
            (None, Look::Ended) => Poll::Ready(None),
            (None, Look::NeedsStorage(wanted)) => {
                self.wanted = Some(wanted);
                Poll::Pending
            }
        }
    }

    /// Takes the next few objects of the state.
    #[inline(never)]
    fn look_at_state(&mut self, state: &RwLock<State>) -> Look {
        let Stage::State { revision, after, .. } = &self.stage else { return Look::Ended };
        let (revision, after) = (*revision, after.clone());
        let past = {
            let state = state.read();
            // Watches are ended before the state is replaced: what is in there then is another one.
            if self.watcher.inbox.lock().ended {
                return Look::Ended;
            }
            state.past(revision)
        };
        let store = match past {
            Err(TooOld(_)) => return Look::NeedsStorage(Box::new(StorageRead::State { revision, after })),
            Ok(past) if past.is_at_hand() => past.restore(),
            Ok(past) => {
                let store = past.restore();
                let garbage = {
                    let mut state = state.write();
                    state.keep(revision, store.clone(), true);
                    state.take_garbage()
                };
                drop(garbage);
                store
            }
        };
        let watcher = &self.watcher;
        let sieve = Sieve::new(&watcher.predicate);
        let from = after.as_ref().map(|after| format!("{after}\0"));
        let mut entries = store.find(&watcher.scope, from.as_deref(), &watcher.predicate).entries;
        let (mut looked_at, mut bytes, mut last) = (0, 0, None);
        let rest = loop {
            if self.taken.len() >= TAKEN_MAX || bytes >= TAKEN_BYTES_MAX || looked_at >= LOOKED_AT_MAX {
                break last;
            }
            let Some(entry) = entries.next() else { break None };
            looked_at += 1;
            last = Some(entry.object.key.clone());
            if sieve.passes(entry.marks, &entry.object) {
                bytes += entry.object.value.len();
                self.taken.push_back(WatchEvent::Added(entry.object.clone()));
            }
        };
        self.reads_storage = false;
        self.state_told(rest);
        Look::Looked
    }

    /// Takes the first few objects of a part of an earlier state that was read from storage.
    pub(crate) fn take_state(&mut self, list: List) {
        let (count, mut bytes, mut last) = (list.items.len(), 0, None);
        for object in list.items {
            if bytes >= TAKEN_BYTES_MAX {
                break;
            }
            bytes += object.value.len();
            last = Some(object.key.clone());
            self.taken.push_back(WatchEvent::Added(object));
        }
        let is_whole = list.next.is_none() && self.taken.len() == count;
        self.reads_storage = true;
        self.state_told(last.filter(|_| !is_whole));
    }

    /// What is in the reader's hands is the next part of the state. There may be more after this key.
    fn state_told(&mut self, rest: Option<Key>) {
        self.initial_count += self.taken.len();
        let Stage::State { revision, after, end_bookmark } = &mut self.stage else { return };
        if rest.is_some() {
            return *after = rest;
        }
        if *end_bookmark {
            self.taken.push_back(WatchEvent::Bookmark { revision: *revision, initial_state_end: true });
        }
        self.stage = Stage::Changes;
        self.watcher.inbox.lock().state = None;
    }

    /// Takes what is in the inbox, or the next few events of the history.
    fn look_at_changes(&mut self, state: &RwLock<State>, context: &Context<'_>) -> Look {
        {
            let mut inbox = self.watcher.inbox.lock();
            if let Some(last) = inbox.waiting.back() {
                self.position = last.revision();
                std::mem::swap(&mut self.taken, &mut inbox.waiting);
                inbox.waiting_bytes = 0;
                return Look::Looked;
            }
            if inbox.ended {
                return Look::Ended;
            }
            if let Mode::Behind { after } = inbox.mode {
                self.position = self.position.max(after);
            } else {
                // An idle watcher does not keep what a burst made it need.
                self.taken.shrink_to(IDLE_ROOM_EVENTS);
                inbox.waiting.shrink_to(IDLE_ROOM_EVENTS);
                inbox.wake_later(context);
                return Look::Nothing;
            }
        }
        self.catch_up(&state.read())
    }

    /// Takes the next few events of the history, and turns live at its end: while the state is held, nobody can offer
    /// an event.
    #[inline(never)]
    fn catch_up(&mut self, state: &State) -> Look {
        if self.watcher.inbox.lock().ended {
            return Look::Ended;
        }
        match state.history.after(self.position) {
            Ok(events) => {
                self.reads_storage = false;
                if self.take_events(events.map(|event| &**event)) {
                    self.position = self.position.max(state.revision);
                    self.tell_due_bookmark();
                    self.watcher.inbox.lock().mode = Mode::Live { after: self.position };
                } else {
                    self.stay_behind();
                }
                Look::Looked
            }
            Err(TooOld(until)) => {
                Look::NeedsStorage(Box::new(StorageRead::Changes { after: self.position, until }))
            }
        }
    }

    /// Takes the next few events of a page that was read from storage and holds those after the reader's position.
    pub(crate) fn take_page(&mut self, page: &Page) {
        self.reads_storage = true;
        if self.take_events(page.after(self.position).iter()) {
            self.position = self.position.max(page.through);
        }
        self.stay_behind();
    }

    /// Takes the next few of some events; whether these were all.
    fn take_events<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> bool {
        let mut bytes = 0;
        for (looked_at, event) in events.enumerate() {
            // Events of one revision are taken together, too.
            let is_enough =
                self.taken.len() >= TAKEN_MAX || bytes >= TAKEN_BYTES_MAX || looked_at >= LOOKED_AT_MAX;
            if is_enough && event.revision > self.position {
                return false;
            }
            self.position = event.revision;
            if self.watcher.scope.contains(event.key())
                && let Some(seen) = event.seen_through(&self.watcher.predicate)
            {
                bytes += bytes_of(&seen);
                self.taken.push_back(seen);
                self.initial_count += usize::from(event.revision <= self.begun_at);
            }
        }
        true
    }

    /// Everything up to the position is in the reader's hands, and the rest is still in some history.
    fn stay_behind(&mut self) {
        self.tell_due_bookmark();
        self.watcher.inbox.lock().mode = Mode::Behind { after: self.position };
    }

    fn tell_due_bookmark(&mut self) {
        let is_due = std::mem::take(&mut self.watcher.inbox.lock().bookmark_due);
        if is_due && self.position > self.watcher.start {
            self.taken.push_back(WatchEvent::Bookmark { revision: self.position, initial_state_end: false });
        }
    }
}

impl Inbox {
    /// Has the reader's task woken when something happens.
    fn wake_later(&mut self, context: &Context<'_>) {
        if !self.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            self.reader = Some(context.waker().clone());
        }
    }
}

/// How many bytes the value has that an event is about.
fn bytes_of(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.value.len()
        }
        WatchEvent::Bookmark { .. } => 0,
    }
}
