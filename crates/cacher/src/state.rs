//! The cached state of one resource as plain data: its objects, its recent events and its watchers.
//!
//! Kept true by [`State::apply`] and [`State::replace`], which the feed alone calls, and by [`State::advance`]:
//! - `store` holds the objects that storage had at `revision`, and `history` ends there;
//! - every change is dispatched to the watchers while the caller holds the state's lock. So a watcher that is added, or
//!   that finds nothing more in the history, misses no event and receives none twice.

use crate::{
    bookmark::Bookmarks,
    history::{Event, History, Limits, Resized, TooOld},
    predicates::Dispatch,
    ready::Readiness,
    snapshots::{PastState, Snapshots},
    store::Store,
    watcher::{Wakers, Watcher},
    watcher_index::WatcherIndex,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Frontier, Key, Object};
use std::{collections::VecDeque, sync::Arc};
use tokio::time::Instant;

/// The revision of a store before its first write.
pub(crate) const BEFORE_ALL: ResourceVersion = ResourceVersion::new(1).expect("one is not zero");

pub(crate) struct State {
    /// Watchers are added only while the cache is ready, and all watches are ended before the state is replaced.
    pub(crate) ready: Readiness,
    pub(crate) store: Store,
    pub(crate) revision: ResourceVersion,
    pub(crate) history: History,
    pub(crate) watchers: WatcherIndex<Watcher>,
    pub(crate) bookmarks: Bookmarks,
    snapshots: Snapshots,
    /// Data that is no longer needed. It is dropped after the lock is released, because dropping it takes a while.
    garbage: Vec<Garbage>,
    last_watcher_number: u64,
    last_event_number: u64,
}

/// Large data that is no longer needed.
pub(crate) enum Garbage {
    Store(#[expect(dead_code, reason = "it is only there to be dropped")] Store),
    Events(#[expect(dead_code, reason = "it is only there to be dropped")] VecDeque<Arc<Event>>),
}

/// A change of one object.
pub(crate) enum Change {
    Put(Object),
    Deleted { key: Key, revision: ResourceVersion },
}

/// The outcome of a change.
pub(crate) struct Applied {
    pub(crate) resized: Resized,
    /// The number of watchers that the event was dispatched to, and of the terms of selectors that were evaluated for it.
    pub(crate) watchers: usize,
    pub(crate) terms: usize,
}

impl State {
    /// An empty state before the first revision.
    pub(crate) fn new(indexed_fields: &[Arc<str>], limits: Limits, now: Instant) -> Self {
        Self {
            ready: Readiness::new(now),
            store: Store::new(indexed_fields),
            revision: BEFORE_ALL,
            history: History::new(BEFORE_ALL, limits),
            watchers: WatcherIndex::default(),
            bookmarks: Bookmarks::default(),
            snapshots: Snapshots::default(),
            garbage: Vec::new(),
            last_watcher_number: 0,
            last_event_number: 0,
        }
    }

    /// Replaces everything by the result of a list. The events before its revision are not known.
    pub(crate) fn replace(&mut self, store: Store, revision: ResourceVersion) {
        self.revision = revision;
        self.garbage.push(Garbage::Events(self.history.reset(revision)));
        self.garbage.extend(self.snapshots.clear().map(Garbage::Store));
        self.garbage.push(Garbage::Store(std::mem::replace(&mut self.store, store)));
    }

    /// Takes the data that the caller drops after it has released the lock.
    pub(crate) fn take_garbage(&mut self) -> Vec<Garbage> {
        std::mem::take(&mut self.garbage)
    }

    /// Applies the next change and dispatches its event to the watchers. Adds the wakers of those that have something to
    /// read now to `wakers`.
    pub(crate) fn apply(&mut self, change: Change, now: Instant, wakers: &mut Wakers) -> Applied {
        let (revision, old, new) = match change {
            Change::Put(object) => (object.revision, self.store.put(object.clone()), Some(object)),
            Change::Deleted { key, revision } => (revision, self.store.remove(&key), None),
        };
        self.revision = self.revision.max(revision);
        if old.is_none() && new.is_none() {
            return Applied { resized: Resized::No, watchers: 0, terms: 0 };
        }
        if let Some(old) = &old {
            self.snapshots.object_replaced(old);
        }
        let (event, resized) = self.history.record(revision, old.clone(), new.clone(), now);
        self.last_event_number += 1;
        let mut dispatch = Dispatch::new(event, self.last_event_number, old.as_ref(), new.as_ref());
        self.watchers.dispatch(old.as_ref(), new.as_ref(), |watcher| watcher.enqueue(&mut dispatch, wakers));
        self.remove_costly_snapshots();
        Applied { resized, watchers: dispatch.watchers, terms: dispatch.terms }
    }

    /// Advances to the revision of storage, if the state holds the last change of the resource.
    pub(crate) fn advance_to(&mut self, frontier: Frontier) {
        if self.revision >= frontier.last_change {
            self.advance(frontier.current);
        }
    }

    /// Advances to a revision up to which the resource has not changed.
    pub(crate) fn advance(&mut self, revision: ResourceVersion) {
        self.revision = self.revision.max(revision);
    }

    /// Takes a snapshot of the current state, because a client is going to ask for it again.
    pub(crate) fn snapshot(&mut self) {
        self.keep_snapshot(self.revision, self.store.clone(), false);
    }

    /// Keeps a state as a snapshot, if the history reaches its revision. A snapshot that a client has asked for may cost
    /// more (`is_read`). When there are too many, the least recently used one is removed.
    pub(crate) fn keep_snapshot(&mut self, revision: ResourceVersion, store: Store, is_read: bool) {
        if self.history.check_reaches(revision).is_err() || revision > self.revision {
            return self.garbage.push(Garbage::Store(store));
        }
        let removed = self.snapshots.insert(revision, store, is_read, &self.history);
        self.garbage.extend(removed.map(Garbage::Store));
        self.remove_costly_snapshots();
    }

    /// Removes the snapshots that are older than the history or hold too many bytes.
    fn remove_costly_snapshots(&mut self) {
        let removed = self.snapshots.remove_costly(self.history.begins_after());
        self.garbage.extend(removed.map(Garbage::Store));
    }

    /// The state at a revision, if the history reaches it. A revision in the future is an error, too.
    pub(crate) fn past(&self, revision: ResourceVersion) -> Result<PastState, TooOld> {
        self.history.check_reaches(revision)?;
        if revision > self.revision {
            return Err(TooOld(self.history.begins_after()));
        }
        let snapshot = self.snapshots.at_or_after(revision);
        let (from, later) = snapshot.unwrap_or_else(|| (self.revision, self.store.clone()));
        let events = self.history.after(revision)?.take_while(|event| event.revision <= from);
        Ok(PastState { later, events: events.cloned().collect() })
    }

    /// All watchers, in the order in which they were added.
    pub(crate) fn watchers_in_order(&self) -> Vec<&Arc<Watcher>> {
        let mut watchers: Vec<_> = self.watchers.iter().collect();
        watchers.sort_unstable_by_key(|watcher| watcher.number);
        watchers
    }

    /// Ends all watches after the events up to now.
    pub(crate) fn finish_watches(&mut self, wakers: &mut Wakers) {
        self.watchers_in_order().into_iter().for_each(|watcher| watcher.finish(wakers));
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&mut self, wakers: &mut Wakers) {
        self.watchers_in_order().into_iter().for_each(|watcher| watcher.end(wakers));
    }

    /// A number for a new watcher, higher than all before.
    pub(crate) fn next_watcher_number(&mut self) -> u64 {
        self.last_watcher_number += 1;
        self.last_watcher_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots::{SNAPSHOTS_MAX, UNREAD_SNAPSHOT_BYTES_MAX};
    use keepwatch_storage::{Attributes, Version};
    use proptest::{collection::vec, prelude::*, sample::select};
    use std::{collections::BTreeMap, time::Duration};

    const KEYS: [&str; 5] = ["/r/pods/n/a", "/r/pods/n/b", "/r/pods/n/c", "/r/pods/m/a", "/r/pods/m/b"];

    fn store_at(state: &State, revision: ResourceVersion) -> Result<Store, TooOld> {
        state.past(revision).map(PastState::restore)
    }

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(number).unwrap()
    }

    fn object(key: &str, revision: ResourceVersion) -> Object {
        let (key, attributes) = (Key::from_backend(key), Attributes::default());
        Version { key, value: "{}".into(), revision, attributes: attributes.into() }.into()
    }

    /// A state whose history holds this many events.
    fn state(events: usize) -> State {
        let limits =
            Limits { fresh: Duration::from_secs(75), lower: events, upper: events, bytes_max: usize::MAX };
        State::new(&[], limits, Instant::now())
    }

    /// Replaces the state by a list at a revision, with objects that were last written at it.
    fn fill(state: &mut State, keys: &[&str], revision: u64) {
        let mut store = Store::new(&[]);
        for key in keys {
            store.put(object(key, version(revision)));
        }
        state.replace(store, version(revision));
    }

    /// The objects in a store, with the revisions of their last writes.
    fn content(store: &Store) -> BTreeMap<Key, ResourceVersion> {
        store.iter().map(|object| (object.key.clone(), object.revision)).collect()
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(&'static str),
        Delete(&'static str),
        /// Another resource is written.
        Progress,
        /// A client reads a page.
        Snapshot,
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
        let step = prop_oneof![
            4 => select(&KEYS).prop_map(Step::Put),
            2 => select(&KEYS).prop_map(Step::Delete),
            1 => Just(Step::Progress),
            1 => Just(Step::Snapshot),
        ];
        vec((step, 1_u64..4), 0..120)
    }

    proptest! {
        /// For any writes and snapshots, an earlier state is restored as it was, or is reported as too old.
        #[test]
        fn an_earlier_state_is_restored_exactly(steps in steps(), events in 1_usize..40) {
            let mut state = state(events);
            fill(&mut state, &KEYS[..2], 7);
            let mut past = vec![(state.revision, content(&state.store))];
            for (step, gap) in steps {
                let revision = version(state.revision.get() + gap);
                let change = match step {
                    Step::Put(key) => Change::Put(object(key, revision)),
                    Step::Delete(key) => Change::Deleted { key: Key::from_backend(key), revision },
                    Step::Progress => {
                        state.advance(revision);
                        continue;
                    }
                    Step::Snapshot => {
                        state.snapshot();
                        continue;
                    }
                };
                state.apply(change, Instant::now(), &mut Wakers::default());
                prop_assert_eq!(state.revision, revision);
                past.push((revision, content(&state.store)));
            }
            let oldest = state.history.begins_after();
            for revision in (6..=state.revision.get()).map(version) {
                let found = store_at(&state, revision).map(|store| content(&store));
                let expected = past.iter().rfind(|(then, _)| *then <= revision).map(|(_, content)| content);
                match expected.filter(|_| revision >= oldest) {
                    Some(expected) => prop_assert_eq!(found.as_ref(), Ok(expected), "at {}", revision),
                    None => prop_assert_eq!(found, Err(TooOld(oldest)), "at {}", revision),
                }
            }
        }
    }

    /// Some states have a snapshot, which is removed with the events before it.
    #[test]
    fn earlier_states_are_restored_across_many_events() {
        let mut state = state(4096);
        for revision in 2..=9000 {
            let key = KEYS[revision as usize % KEYS.len()];
            state.apply(Change::Put(object(key, version(revision))), Instant::now(), &mut Wakers::default());
            if revision % 250 == 0 {
                state.snapshot();
            }
        }
        let oldest = 9000 - 4096;
        assert_eq!(store_at(&state, version(oldest - 1)).err(), Some(TooOld(version(oldest))));
        assert_eq!(state.snapshots.revisions().count(), SNAPSHOTS_MAX);
        assert!(state.snapshots.revisions().all(|revision| revision.get() >= oldest));
        for revision in (oldest..=9000).step_by(61) {
            let newest =
                (revision - 4..=revision).map(|at| (Key::from_backend(KEYS[at as usize % 5]), version(at)));
            assert_eq!(
                content(&store_at(&state, version(revision)).unwrap()),
                newest.collect(),
                "at {revision}"
            );
        }
    }

    /// A snapshot costs the objects that have changed since, each of them once. One that is being read may cost more.
    #[test]
    fn a_snapshot_is_kept_while_it_is_cheap_or_read() {
        let update = |state: &mut State, key: &str, bytes: usize| {
            let revision = version(state.revision.get() + 1);
            let (key, value) = (Key::from_backend(key), vec![b'x'; bytes].into());
            let object = Version { key, value, revision, attributes: Arc::default() }.into();
            state.apply(Change::Put(object), Instant::now(), &mut Wakers::default());
        };
        for is_read in [false, true] {
            let mut state = state(1000);
            KEYS.iter().for_each(|key| update(&mut state, key, UNREAD_SNAPSHOT_BYTES_MAX / 3));
            let (then, expected) = (state.revision, content(&state.store));
            state.snapshot();
            for _ in 0..100 {
                update(&mut state, KEYS[0], 10);
            }
            assert!(state.snapshots.bytes_at(then).is_some(), "one object has changed");
            if is_read {
                assert_eq!(content(&store_at(&state, then).unwrap()), expected);
            }
            KEYS[1..].iter().for_each(|key| update(&mut state, key, 10));
            assert_eq!(state.snapshots.bytes_at(then).is_some(), is_read);
            let rebuilt = store_at(&state, then).unwrap();
            assert_eq!(content(&rebuilt), expected);
            state.keep_snapshot(then, rebuilt, true);
            assert!(state.snapshots.bytes_at(then).is_some(), "a client has read it");
            state.snapshot();
            assert_eq!(state.snapshots.bytes_at(then), Some(KEYS.len() * (UNREAD_SNAPSHOT_BYTES_MAX / 3)));
        }
    }

    /// etcd deletes all objects of a lease at one revision, and a reader may read while the feed applies those deletions. A
    /// reader that takes the first of them, and then stops until its queue is full, still receives the others.
    #[cfg(not(feature = "loom"))]
    #[test]
    fn a_reader_that_takes_one_event_of_a_revision_early_receives_the_others() {
        use crate::predicates::SharedPredicate;
        use crate::{
            sync::RwLock,
            watcher::{WATCHER_QUEUE_EVENTS_MAX, WatchPosition},
        };
        use keepwatch_storage::{Predicate, Scope};
        use std::task::{Context, Poll, Waker};

        let state = RwLock::new(state(10_000));
        fill(&mut state.write(), &KEYS, 7);
        let scope = Scope::Children(Key::from_backend("/r/pods/"));
        let start = WatchPosition::After(version(7));
        let everything = SharedPredicate::unshared(Predicate::everything());
        let (_, mut reader) = Watcher::add(&mut state.write(), scope, everything, start, None, false);
        let mut next = || loop {
            match reader.poll_next(&state, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(event) => return event.expect("an event follows").revision().get(),
                Poll::Pending => {}
            }
        };
        let apply = |change| {
            state.write().apply(change, Instant::now(), &mut Wakers::default());
        };
        let deleted = |key| Change::Deleted { key: Key::from_backend(key), revision: version(8) };

        apply(deleted(KEYS[0]));
        let mut delivered = vec![next()];
        apply(deleted(KEYS[1]));
        let last = 9 + WATCHER_QUEUE_EVENTS_MAX as u64;
        (9..=last).for_each(|revision| apply(Change::Put(object(KEYS[2], version(revision)))));
        while delivered.last() != Some(&last) {
            delivered.push(next());
        }
        assert_eq!((delivered.iter().filter(|revision| **revision == 8).count(), delivered.len()), (2, 131));
    }

    #[test]
    fn a_list_replaces_the_whole_state() {
        let mut state = state(100);
        for revision in 2..=9 {
            state.apply(
                Change::Put(object(KEYS[0], version(revision))),
                Instant::now(),
                &mut Wakers::default(),
            );
            state.snapshot();
        }
        fill(&mut state, &KEYS[1..2], 20);
        assert_eq!(content(&state.store), BTreeMap::from([(Key::from_backend(KEYS[1]), version(20))]));
        assert_eq!(store_at(&state, version(19)).err(), Some(TooOld(version(20))));
        assert_eq!(content(&store_at(&state, version(20)).unwrap()), content(&state.store));
    }

    #[test]
    fn a_deletion_of_an_absent_object_only_advances_the_revision() {
        let mut state = state(100);
        let change = Change::Deleted { key: Key::from_backend(KEYS[0]), revision: version(5) };
        state.apply(change, Instant::now(), &mut Wakers::default());
        assert_eq!((state.revision, state.history.after(version(1)).unwrap().count()), (version(5), 0));
    }

    #[test]
    fn the_revision_of_storage_is_adopted_only_after_the_last_change() {
        let frontier =
            |last_change, current| Frontier { current: version(current), last_change: version(last_change) };
        let mut state = state(100);
        fill(&mut state, &[], 5);
        for (frontier, reached) in [(frontier(6, 9), 5), (frontier(5, 9), 9), (frontier(5, 7), 9)] {
            state.advance_to(frontier);
            assert_eq!(state.revision, version(reached));
        }
    }
}
