//! Applies what was heard to the store, and tells every listener.
//!
//! Kept true: the store is written and all listeners are handed what that means in one critical section, so a listener
//! that comes late gets the state there is and then every change of it, none twice and none left out. Handing over never
//! waits for a listener.

use crate::{
    Batch, Cause, Delta, Entry, Event, Gone, Object, ObjectKey, Overflow,
    listener::{Hearing, Listener},
    moment::after,
    store::{Store, Write},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// Who listens, by number.
pub(crate) type ListenerId = u64;

/// What is told in which case. The defaults tell of changes only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telling {
    /// Whether an object that is the same after a relist is told as an update, as client-go does.
    pub(crate) unchanged_on_relist: bool,
    /// Whether the deletion of an object that was not known is told, as client-go does.
    pub(crate) unknown_deletes: bool,
}

pub(crate) struct Processor<O: Object> {
    store: Store<O>,
    telling: Telling,
    state: Mutex<State<O>>,
    hearing: watch::Sender<Hearing>,
}

struct State<O> {
    listeners: BTreeMap<ListenerId, Listening<O>>,
    next_id: ListenerId,
    /// Whether the first state of each part was applied.
    synced_parts: Vec<bool>,
    life: Life,
    /// How often objects are told once more; never if zero.
    resync: Duration,
    /// How often it is looked who wants that; as often as anybody does who asked before the start.
    check: Duration,
    /// When it may be looked again.
    next_check: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    New,
    Running,
    Stopped,
}

struct Listening<O> {
    listener: Arc<Listener<O>>,
    /// What was asked for.
    asked: Duration,
    /// What it gets; never if zero.
    period: Duration,
    next: Instant,
    /// Whether it was due when that was last looked at. At first it is.
    is_syncing: bool,
}

/// The informer is stopped, so nobody can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the informer is stopped")
    }
}

impl std::error::Error for Stopped {}

/// What a listener asks for less than this is raised to it.
const RESYNC_MIN: Duration = Duration::from_secs(1);

impl<O: Object> Processor<O> {
    pub(crate) fn new(store: Store<O>, parts: usize, resync: Duration, telling: Telling) -> Self {
        let state = State {
            listeners: BTreeMap::new(),
            next_id: 0,
            synced_parts: vec![false; parts],
            life: Life::New,
            resync,
            check: resync,
            next_check: None,
        };
        Processor { store, telling, state: Mutex::new(state), hearing: watch::Sender::new(Hearing::Waiting) }
    }

    pub(crate) fn synced(&self) -> watch::Receiver<Hearing> {
        self.hearing.subscribe()
    }

    /// Returns whether this is the first start.
    pub(crate) fn start(&self) -> bool {
        let mut state = self.state.lock();
        let is_new = state.life == Life::New;
        if is_new {
            state.life = Life::Running;
            let now = Instant::now();
            state.listeners.values_mut().for_each(|listening| listening.next = after(now, listening.period));
        }
        is_new
    }

    /// From now on nothing is applied and nobody can be added. Whatever waits is not told any more.
    pub(crate) fn stop(&self) {
        let listeners = {
            let mut state = self.state.lock();
            state.life = Life::Stopped;
            std::mem::take(&mut state.listeners)
        };
        Hearing::Stopped.say(&self.hearing);
        listeners.into_values().for_each(|listening| listening.listener.close());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().life == Life::Stopped
    }

    /// From now on somebody is told, at first of everything that is in the store; and of all once more so often, or as
    /// often as the informer does that.
    pub(crate) fn listen(
        &self,
        resync: Option<Duration>,
        overflow: Overflow,
    ) -> Result<Arc<Listener<O>>, Stopped> {
        let mut state = self.state.lock();
        if state.life == Life::Stopped {
            return Err(Stopped);
        }
        let id = state.next_id;
        state.next_id += 1;
        let listener = Arc::new(Listener::new(id, overflow));
        let (asked, period) = state.period(resync);
        let next = after(Instant::now(), period);
        let listening = Listening { listener: Arc::clone(&listener), asked, period, next, is_syncing: true };
        state.listeners.insert(id, listening);
        let mut all = Vec::new();
        if state.life == Life::Running {
            self.store.for_each(|object| all.push(Event::Added { obj: Arc::clone(object), initial: true }));
        }
        listener.push(all);
        if *self.hearing.borrow() == Hearing::Synced {
            listener.informer_synced();
        }
        Ok(listener)
    }

    /// Somebody is not told any more. Whatever waits is forgotten.
    pub(crate) fn remove(&self, id: ListenerId) {
        let listening = self.state.lock().listeners.remove(&id);
        if let Some(listening) = listening {
            listening.listener.close();
        }
    }

    pub(crate) fn resync_period(&self) -> Duration {
        self.state.lock().resync
    }

    /// How often it has to be looked who is due; never if zero.
    pub(crate) fn check_period(&self) -> Duration {
        self.state.lock().check
    }

    /// Who is to be told of all objects once more. Parts ask when they see fit; nobody is looked at more often than agreed.
    pub(crate) fn due(&self, now: Instant) -> Vec<ListenerId> {
        let mut due = Vec::new();
        let state = &mut *self.state.lock();
        if state.next_check.is_some_and(|next| now < next) {
            return due;
        }
        state.next_check = Some(after(now, state.check));
        for (id, listening) in &mut state.listeners {
            listening.is_syncing = !listening.period.is_zero() && now >= listening.next;
            if listening.is_syncing {
                listening.next = after(now, listening.period);
                due.push(*id);
            }
        }
        due
    }

    /// How many events wait for each listener.
    pub(crate) fn pending(&self) -> Vec<(ListenerId, usize)> {
        let state = self.state.lock();
        state.listeners.iter().map(|(id, listening)| (*id, listening.listener.pending())).collect()
    }

    /// Applies what was taken from the queue of a part, and tells of it.
    pub(crate) fn apply(&self, part: usize, namespace: Option<&str>, batch: Batch<O>) {
        let state = self.state.lock();
        let mut single = Vec::new();
        for entry in batch.entries {
            match entry {
                Entry::One(key, delta) => single.push((key, delta)),
                Entry::ReplacedAll { version, objects } => {
                    let events = self.replace(part, namespace, version, objects, batch.initial);
                    self.tell_replaced(&state, events);
                }
                Entry::SyncAll { listeners } => self.sync_all(&state, &listeners),
                Entry::Bookmark { version } => self.store.reach(part, Some(version)),
            }
        }
        let events = self.write(part, single, batch.initial);
        state.tell(&events);
    }

    /// The first state of a part was applied.
    pub(crate) fn part_synced(&self, part: usize) {
        let mut state = self.state.lock();
        state.synced_parts[part] = true;
        if state.synced_parts.iter().all(|is_synced| *is_synced) && Hearing::Synced.say(&self.hearing) {
            state.listeners.values().for_each(|listening| listening.listener.informer_synced());
        }
    }

    /// The last version counts as that of the store: deltas come in the order in which they happened.
    fn write(&self, part: usize, deltas: Vec<(ObjectKey, Delta<O>)>, initial: bool) -> Vec<Event<O>> {
        if deltas.is_empty() {
            return Vec::new();
        }
        let version = deltas.iter().rev().find_map(|(_, delta)| match delta {
            Delta::Deleted(Gone::Missed(..)) | Delta::Sync(_) => None,
            delta => delta.object().map(|object| object.revision().to_owned()),
        });
        let writes = deltas.iter().map(|(key, delta)| match (delta.is_deletion(), delta.object()) {
            (false, Some(object)) => Write::Put(key.clone(), Arc::clone(object)),
            _ => Write::Remove(key.clone()),
        });
        let before = self.store.write(part, writes, version);
        let told = deltas.into_iter().zip(before);
        told.filter_map(|((_, delta), before)| self.event(delta, before, initial)).collect()
    }

    fn event(&self, delta: Delta<O>, before: Option<Arc<O>>, initial: bool) -> Option<Event<O>> {
        match delta {
            Delta::Deleted(gone) => {
                let final_state_unknown = gone.is_missed();
                let is_told = before.is_some() || self.telling.unknown_deletes;
                let obj = gone.object().cloned().or(before)?;
                is_told.then_some(Event::Deleted { obj, final_state_unknown })
            }
            Delta::Added(new) | Delta::Updated(new) | Delta::Replaced(new) | Delta::Sync(new) => {
                Some(match before {
                    Some(old) => Event::Updated { old, new, cause: Cause::Watch },
                    None => Event::Added { obj: new, initial },
                })
            }
        }
    }

    fn replace(
        &self,
        part: usize,
        namespace: Option<&str>,
        version: String,
        objects: Vec<(ObjectKey, Arc<O>)>,
        initial: bool,
    ) -> Vec<Event<O>> {
        let listed: Vec<Arc<O>> = objects.iter().map(|(_, object)| Arc::clone(object)).collect();
        let replaced = self.store.replace(part, namespace, objects, version);
        let gone = replaced.gone.into_iter().map(|obj| Event::Deleted { obj, final_state_unknown: true });
        let there = listed.into_iter().zip(replaced.before).map(|(new, before)| match before {
            Some(old) => Event::Updated { old, new, cause: Cause::Relist },
            None => Event::Added { obj: new, initial },
        });
        gone.chain(there).collect()
    }

    /// Of what is the same as before those are told who were due for a resync, and only if that is wanted at all.
    fn tell_replaced(&self, state: &State<O>, events: Vec<Event<O>>) {
        if !self.telling.unchanged_on_relist {
            let changed: Vec<_> = events.into_iter().filter(|event| !event.is_same_version()).collect();
            return state.tell(&changed);
        }
        for listening in state.listeners.values() {
            let wanted = events.iter().filter(|event| listening.is_syncing || !event.is_same_version());
            listening.listener.push(wanted.cloned());
        }
    }

    fn sync_all(&self, state: &State<O>, due: &[ListenerId]) {
        let mut events = Vec::new();
        self.store.for_each(|object| {
            let (old, new) = (Arc::clone(object), Arc::clone(object));
            events.push(Event::Updated { old, new, cause: Cause::Resync });
        });
        for listening in due.iter().filter_map(|id| state.listeners.get(id)) {
            listening.listener.push(events.iter().cloned());
        }
    }
}

/// An informer that nobody can run any more tells nobody anything.
impl<O: Object> Drop for Processor<O> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<O: Object> State<O> {
    fn tell(&self, events: &[Event<O>]) {
        if !events.is_empty() {
            self.listeners.values().for_each(|listening| listening.listener.push(events.iter().cloned()));
        }
    }

    /// What somebody asks for, and gets. Before the start everybody can make it be looked more often.
    fn period(&mut self, asked: Option<Duration>) -> (Duration, Duration) {
        let asked = match asked.unwrap_or(self.resync) {
            Duration::ZERO => Duration::ZERO,
            asked => asked.max(RESYNC_MIN),
        };
        if self.life == Life::New && !asked.is_zero() && asked < self.check {
            self.check = asked;
            let check = self.check;
            let listeners = self.listeners.values_mut();
            listeners.for_each(|listening| listening.period = granted(listening.asked, check));
        }
        (asked, granted(asked, self.check))
    }
}

/// Nobody is told more often than it is looked.
fn granted(asked: Duration, check: Duration) -> Duration {
    if asked.is_zero() || check.is_zero() { Duration::ZERO } else { asked.max(check) }
}
