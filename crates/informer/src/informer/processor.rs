//! Applies batches to the store and notifies every listener.
//!
//! Invariant: the store is written and the events are queued for all listeners in one critical section. So a listener
//! that is added late receives every existing object and then every change, without gaps or duplicates. Queueing
//! never waits for a listener.

use crate::{
    deadline::after,
    informer::{
        Cause, Event, Overflow,
        listener::{Listener, SyncState},
    },
    object::{Object, ObjectKey},
    reflector::{Batch, DeletedObject, Delta, Entry},
    store::{Store, Write},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The id of a listener.
pub(crate) type ListenerId = u64;

/// The events that are delivered besides changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NotifyOptions {
    /// Whether an object that a relist did not change is delivered as an update, as in client-go.
    pub(crate) unchanged_on_relist: bool,
    /// Whether the deletion of an object that was not in the store is delivered, as in client-go.
    pub(crate) unknown_deletes: bool,
}

pub(crate) struct Processor<O: Object> {
    store: Store<O>,
    options: NotifyOptions,
    state: Mutex<State<O>>,
    sync_state: watch::Sender<SyncState>,
}

struct State<O> {
    listeners: BTreeMap<ListenerId, ListenerEntry<O>>,
    next_id: ListenerId,
    /// Whether the first list of each scope was applied.
    synced_scopes: Vec<bool>,
    run_state: RunState,
    /// The default resync period of listeners; zero disables resyncs.
    resync: Duration,
    /// The interval at which listeners are checked: the shortest period that was requested before the start.
    check: Duration,
    /// The earliest time of the next check.
    next_check: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunState {
    New,
    Running,
    Stopped,
}

struct ListenerEntry<O> {
    listener: Arc<Listener<O>>,
    /// The requested period.
    requested: Duration,
    /// The actual period; zero disables resyncs.
    period: Duration,
    next: Instant,
    /// Whether the listener was due at the last check. True until its first check.
    is_syncing: bool,
}

/// The informer has stopped, so no listener can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the informer is stopped")
    }
}

impl std::error::Error for Stopped {}

/// The shortest resync period of a listener.
const RESYNC_MIN: Duration = Duration::from_secs(1);

impl<O: Object> Processor<O> {
    pub(crate) fn new(store: Store<O>, scopes: usize, resync: Duration, options: NotifyOptions) -> Self {
        let state = State {
            listeners: BTreeMap::new(),
            next_id: 0,
            synced_scopes: vec![false; scopes],
            run_state: RunState::New,
            resync,
            check: resync,
            next_check: None,
        };
        Processor {
            store,
            options,
            state: Mutex::new(state),
            sync_state: watch::Sender::new(SyncState::Waiting),
        }
    }

    pub(crate) fn synced(&self) -> watch::Receiver<SyncState> {
        self.sync_state.subscribe()
    }

    /// Returns whether this is the first start.
    pub(crate) fn start(&self) -> bool {
        let mut state = self.state.lock();
        let is_new = state.run_state == RunState::New;
        if is_new {
            state.run_state = RunState::Running;
            let now = Instant::now();
            state.listeners.values_mut().for_each(|entry| entry.next = after(now, entry.period));
        }
        is_new
    }

    /// Stops: nothing is applied and no listener can be added after this. Events that still wait are dropped.
    pub(crate) fn stop(&self) {
        let listeners = {
            let mut state = self.state.lock();
            state.run_state = RunState::Stopped;
            std::mem::take(&mut state.listeners)
        };
        SyncState::Stopped.send_to(&self.sync_state);
        listeners.into_values().for_each(|entry| entry.listener.close());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().run_state == RunState::Stopped
    }

    /// Adds a listener. It first receives every object of the store. Its resync period is the informer's, unless it
    /// sets its own.
    pub(crate) fn add_listener(
        &self,
        resync: Option<Duration>,
        overflow: Overflow,
    ) -> Result<Arc<Listener<O>>, Stopped> {
        let mut state = self.state.lock();
        if state.run_state == RunState::Stopped {
            return Err(Stopped);
        }
        let id = state.next_id;
        state.next_id += 1;
        let listener = Arc::new(Listener::new(id, overflow));
        let (requested, period) = state.period(resync);
        let next = after(Instant::now(), period);
        let entry =
            ListenerEntry { listener: Arc::clone(&listener), requested, period, next, is_syncing: true };
        state.listeners.insert(id, entry);
        let mut all = Vec::new();
        if state.run_state == RunState::Running {
            self.store.for_each(|object| all.push(Event::Added { obj: Arc::clone(object), initial: true }));
        }
        listener.push(all);
        if *self.sync_state.borrow() == SyncState::Synced {
            listener.informer_synced();
        }
        Ok(listener)
    }

    /// Removes a listener and drops its events.
    pub(crate) fn remove(&self, id: ListenerId) {
        let entry = self.state.lock().listeners.remove(&id);
        if let Some(entry) = entry {
            entry.listener.close();
        }
    }

    pub(crate) fn resync_period(&self) -> Duration {
        self.state.lock().resync
    }

    /// The interval at which to call [`Processor::due_for_resync`]; never if zero.
    pub(crate) fn check_period(&self) -> Duration {
        self.state.lock().check
    }

    /// The listeners that are due for a resync. Every scope calls this; listeners are checked at most once per check
    /// period.
    pub(crate) fn due_for_resync(&self, now: Instant) -> Vec<ListenerId> {
        let mut due = Vec::new();
        let state = &mut *self.state.lock();
        if state.next_check.is_some_and(|next| now < next) {
            return due;
        }
        state.next_check = Some(after(now, state.check));
        for (id, entry) in &mut state.listeners {
            entry.is_syncing = !entry.period.is_zero() && now >= entry.next;
            if entry.is_syncing {
                entry.next = after(now, entry.period);
                due.push(*id);
            }
        }
        due
    }

    /// The number of events that wait for each listener.
    pub(crate) fn pending(&self) -> Vec<(ListenerId, usize)> {
        let state = self.state.lock();
        state.listeners.iter().map(|(id, entry)| (*id, entry.listener.pending())).collect()
    }

    /// Applies a batch of a scope and notifies the listeners.
    pub(crate) fn apply(&self, scope: usize, namespace: Option<&str>, batch: Batch<O>) {
        let state = self.state.lock();
        let mut single = Vec::new();
        for entry in batch.entries {
            match entry {
                Entry::Delta(key, delta) => single.push((key, delta)),
                Entry::Replace { version, objects } => {
                    let events = self.replace(scope, namespace, version, objects, batch.initial);
                    self.notify_replaced(&state, events);
                }
                Entry::Resync { listeners } => self.resync(&state, &listeners),
                Entry::Bookmark { version } => self.store.set_version(scope, Some(version)),
            }
        }
        let events = self.write(scope, single, batch.initial);
        state.notify(&events);
    }

    /// Records that the first list of a scope was applied.
    pub(crate) fn scope_synced(&self, scope: usize) {
        let mut state = self.state.lock();
        state.synced_scopes[scope] = true;
        if state.synced_scopes.iter().all(|is_synced| *is_synced)
            && SyncState::Synced.send_to(&self.sync_state)
        {
            state.listeners.values().for_each(|entry| entry.listener.informer_synced());
        }
    }

    /// The last version of the batch becomes the version of the store, because deltas come in order.
    fn write(&self, scope: usize, deltas: Vec<(ObjectKey, Delta<O>)>, initial: bool) -> Vec<Event<O>> {
        if deltas.is_empty() {
            return Vec::new();
        }
        let version = deltas.iter().rev().find_map(|(_, delta)| match delta {
            Delta::Deleted(DeletedObject::FinalStateUnknown(..)) => None,
            delta => delta.object().map(|object| object.revision().to_owned()),
        });
        let writes = deltas.iter().map(|(key, delta)| match (delta.is_deletion(), delta.object()) {
            (false, Some(object)) => Write::Put(key.clone(), Arc::clone(object)),
            _ => Write::Remove(key.clone()),
        });
        let before = self.store.write(scope, writes, version);
        let changes = deltas.into_iter().zip(before);
        changes.filter_map(|((_, delta), before)| self.event(delta, before, initial)).collect()
    }

    fn event(&self, delta: Delta<O>, before: Option<Arc<O>>, initial: bool) -> Option<Event<O>> {
        match delta {
            Delta::Deleted(gone) => {
                let final_state_unknown = gone.is_final_state_unknown();
                let is_delivered = before.is_some() || self.options.unknown_deletes;
                let obj = gone.object().cloned().or(before)?;
                is_delivered.then_some(Event::Deleted { obj, final_state_unknown })
            }
            Delta::Added(new) | Delta::Updated(new) => Some(match before {
                Some(old) => Event::Updated { old, new, cause: Cause::Watch },
                None => Event::Added { obj: new, initial },
            }),
        }
    }

    fn replace(
        &self,
        scope: usize,
        namespace: Option<&str>,
        version: String,
        objects: Vec<(ObjectKey, Arc<O>)>,
        initial: bool,
    ) -> Vec<Event<O>> {
        let listed: Vec<Arc<O>> = objects.iter().map(|(_, object)| Arc::clone(object)).collect();
        let replaced = self.store.replace(scope, namespace, objects, version);
        let gone = replaced.gone.into_iter().map(|obj| Event::Deleted { obj, final_state_unknown: true });
        let there = listed.into_iter().zip(replaced.before).map(|(new, before)| match before {
            Some(old) => Event::Updated { old, new, cause: Cause::Relist },
            None => Event::Added { obj: new, initial },
        });
        gone.chain(there).collect()
    }

    /// Unchanged objects are delivered only to listeners that were due for a resync, and only if that is configured.
    fn notify_replaced(&self, state: &State<O>, events: Vec<Event<O>>) {
        if !self.options.unchanged_on_relist {
            let changed: Vec<_> = events.into_iter().filter(|event| !event.is_same_version()).collect();
            return state.notify(&changed);
        }
        for entry in state.listeners.values() {
            let wanted = events.iter().filter(|event| entry.is_syncing || !event.is_same_version());
            entry.listener.push(wanted.cloned());
        }
    }

    fn resync(&self, state: &State<O>, due: &[ListenerId]) {
        let mut events = Vec::new();
        self.store.for_each(|object| {
            let (old, new) = (Arc::clone(object), Arc::clone(object));
            events.push(Event::Updated { old, new, cause: Cause::Resync });
        });
        for entry in due.iter().filter_map(|id| state.listeners.get(id)) {
            entry.listener.push(events.iter().cloned());
        }
    }
}

/// Ends the streams of an informer that was dropped without being stopped.
impl<O: Object> Drop for Processor<O> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<O: Object> State<O> {
    fn notify(&self, events: &[Event<O>]) {
        if !events.is_empty() {
            self.listeners.values().for_each(|entry| entry.listener.push(events.iter().cloned()));
        }
    }

    /// The requested and the actual period. Before the start, a listener can shorten the check period for all.
    fn period(&mut self, requested: Option<Duration>) -> (Duration, Duration) {
        let requested = match requested.unwrap_or(self.resync) {
            Duration::ZERO => Duration::ZERO,
            requested => requested.max(RESYNC_MIN),
        };
        if self.run_state == RunState::New && !requested.is_zero() && requested < self.check {
            self.check = requested;
            let check = self.check;
            let listeners = self.listeners.values_mut();
            listeners.for_each(|entry| entry.period = granted(entry.requested, check));
        }
        (requested, granted(requested, self.check))
    }
}

/// A listener is not resynced more often than the check runs.
fn granted(requested: Duration, check: Duration) -> Duration {
    if requested.is_zero() || check.is_zero() { Duration::ZERO } else { requested.max(check) }
}
