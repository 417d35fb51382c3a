//! What the cache knows of its resource, as plain data: the objects, the recent events and who is listening.
//!
//! Kept true by [`State::apply`] and [`State::replace`], which the feed alone calls, and by [`State::progress`]:
//! - `store` is what storage held at `revision`, and `history` leads up to it;
//! - whoever can change this data can tell the watchers, and does so in the same step. So a watcher that is added, or
//!   that finds nothing more in the history, misses nothing and hears nothing twice.

use crate::{
    bookmark::Bookmarks,
    history::{Event, History, Limits, Resized, TooOld},
    interest::Interest,
    ready::Readiness,
    store::Store,
    watcher::{Wakers, Watcher},
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Frontier, Key, Object};
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::time::Instant;

/// How many earlier states are at hand. Each keeps the objects that were current then, of which the history has only
/// what has changed since.
const SNAPSHOTS_MAX: usize = 16;
/// How many bytes of such objects an earlier state may keep that nobody has asked for yet. It can be made again.
const UNASKED_SNAPSHOT_BYTES_MAX: usize = 1 << 20;
/// How many bytes one may keep that somebody reads page by page.
const SNAPSHOT_BYTES_MAX: usize = 32 << 20;

/// An earlier state.
struct Snapshot {
    store: Store,
    /// How many bytes the values have that have ceased to be current since then.
    bytes: usize,
    is_asked_for: AtomicBool,
    /// The higher, the later it was asked for.
    asked_for: AtomicU64,
}

pub(crate) struct State {
    /// Watchers are added only while this is so, and all are ended before the state is replaced.
    pub(crate) ready: Readiness,
    pub(crate) store: Store,
    pub(crate) revision: ResourceVersion,
    pub(crate) history: History,
    pub(crate) watchers: Interest<Watcher>,
    pub(crate) bookmarks: Bookmarks,
    snapshots: BTreeMap<ResourceVersion, Snapshot>,
    /// How often a snapshot was asked for.
    asked_for: AtomicU64,
    /// No longer needed. Who holds the state does not take the time to drop it.
    garbage: Vec<Garbage>,
    watchers_so_far: u64,
}

/// A past state: a later one, and the events that led to it from there.
pub(crate) struct Past {
    later: Store,
    since: Vec<Arc<Event>>,
}

/// Something large that is no longer needed.
pub(crate) enum Garbage {
    Store(#[expect(dead_code, reason = "it is only there to be dropped")] Store),
    Events(#[expect(dead_code, reason = "it is only there to be dropped")] VecDeque<Arc<Event>>),
}

impl Past {
    /// Whether there is nothing to undo.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.since.is_empty()
    }

    /// Undoes the events. May take a while, so the state should not be held.
    pub(crate) fn restore(self) -> Store {
        let (mut store, mut restored) = (self.later, HashSet::new());
        // Of each object only the first change matters: what was before it was there then.
        for event in self.since.iter().filter(|event| restored.insert(event.key())) {
            match event.old() {
                Some(old) => store.put(old),
                None => store.remove(event.key()),
            };
        }
        store
    }
}

/// What storage told of one object.
pub(crate) enum Change {
    Put(Object),
    Deleted { key: Key, revision: ResourceVersion },
}

/// What came of a change.
pub(crate) struct Applied {
    pub(crate) resized: Resized,
    /// How many watchers it was offered to.
    pub(crate) offered: usize,
}

impl State {
    /// An empty cache at the beginning of all revisions.
    pub(crate) fn new(indexed_fields: &[&'static str], limits: Limits, now: Instant) -> Self {
        Self {
            ready: Readiness::new(now),
            store: Store::new(indexed_fields),
            revision: BEFORE_ALL,
            history: History::new(BEFORE_ALL, limits),
            watchers: Interest::default(),
            bookmarks: Bookmarks::default(),
            snapshots: BTreeMap::new(),
            asked_for: AtomicU64::new(0),
            garbage: Vec::new(),
            watchers_so_far: 0,
        }
    }

    /// Takes in a list: nothing is known of what was before it.
    pub(crate) fn replace(&mut self, store: Store, revision: ResourceVersion) {
        self.revision = revision;
        self.garbage.push(Garbage::Events(self.history.reset(revision)));
        let snapshots = std::mem::take(&mut self.snapshots).into_values();
        self.garbage.extend(snapshots.map(|snapshot| Garbage::Store(snapshot.store)));
        self.garbage.push(Garbage::Store(std::mem::replace(&mut self.store, store)));
    }

    /// What is to be dropped once the state is let go of.
    pub(crate) fn take_garbage(&mut self) -> Vec<Garbage> {
        std::mem::take(&mut self.garbage)
    }

    /// Takes in the next change and offers it to the watchers that may care. Who is to be woken for it is added to
    /// `wakers`.
    pub(crate) fn apply(&mut self, change: Change, now: Instant, wakers: &mut Wakers) -> Applied {
        let (revision, old, new) = match change {
            Change::Put(object) => (object.revision, self.store.put(object.clone()), Some(object)),
            Change::Deleted { key, revision } => (revision, self.store.remove(&key), None),
        };
        self.revision = self.revision.max(revision);
        if old.is_none() && new.is_none() {
            return Applied { resized: Resized::No, offered: 0 };
        }
        if let Some(old) = &old {
            // Those that have it from when it was current.
            for (_, snapshot) in self.snapshots.range_mut(old.revision..) {
                snapshot.bytes += old.value.len();
            }
        }
        let (event, resized) = self.history.record(revision, old.clone(), new.clone(), now);
        let mut offered = 0;
        self.watchers.meet(old.as_ref(), new.as_ref(), |watcher| {
            watcher.offer(&event, wakers);
            offered += 1;
        });
        self.forget_costly_snapshots();
        Applied { resized, offered }
    }

    /// Takes in where storage is, if everything that has changed until then is known.
    pub(crate) fn reach(&mut self, frontier: Frontier) {
        if self.revision >= frontier.last_change {
            self.progress(frontier.current);
        }
    }

    /// Nothing else has changed up to this revision.
    pub(crate) fn progress(&mut self, revision: ResourceVersion) {
        self.revision = self.revision.max(revision);
    }

    /// Puts the present state aside, because somebody is going to ask for it again.
    pub(crate) fn put_aside(&mut self) {
        self.keep(self.revision, self.store.clone(), false);
    }

    /// Keeps a state at hand, if the history reaches as far back; for longer if somebody has come back for it. If there
    /// are too many, the one that nobody has asked for the longest is not kept any more.
    pub(crate) fn keep(&mut self, revision: ResourceVersion, store: Store, is_asked_for: bool) {
        if self.history.reaches(revision).is_err() || revision > self.revision {
            return self.garbage.push(Garbage::Store(store));
        }
        let (bytes, was_asked_for) = match self.snapshots.get(&revision) {
            Some(before) => (before.bytes, before.is_asked_for.load(Ordering::Relaxed)),
            None => {
                let since = self.history.after(revision).into_iter().flatten();
                (since.map(|event| event.bytes_at(revision)).sum(), false)
            }
        };
        let snapshot = Snapshot {
            store,
            bytes,
            is_asked_for: AtomicBool::new(is_asked_for || was_asked_for),
            asked_for: AtomicU64::new(self.now_asked_for()),
        };
        let replaced = self.snapshots.insert(revision, snapshot);
        let too_many = self.snapshots.len() > SNAPSHOTS_MAX;
        let stalest = self.snapshots.iter().min_by_key(|(_, kept)| kept.asked_for.load(Ordering::Relaxed));
        let stalest = stalest.map(|(revision, _)| *revision).filter(|_| too_many);
        let forgotten = stalest.and_then(|revision| self.snapshots.remove(&revision));
        self.garbage.extend(replaced.into_iter().chain(forgotten).map(|gone| Garbage::Store(gone.store)));
        self.forget_costly_snapshots();
    }

    fn now_asked_for(&self) -> u64 {
        self.asked_for.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets the snapshots that are older than the history, or keep too much.
    fn forget_costly_snapshots(&mut self) {
        let begins_after = self.history.begins_after();
        let costly = self.snapshots.extract_if(.., |revision, snapshot| {
            let is_asked_for = snapshot.is_asked_for.load(Ordering::Relaxed);
            let bytes_max = if is_asked_for { SNAPSHOT_BYTES_MAX } else { UNASKED_SNAPSHOT_BYTES_MAX };
            *revision < begins_after || snapshot.bytes > bytes_max
        });
        self.garbage.extend(costly.map(|(_, snapshot)| Garbage::Store(snapshot.store)));
    }

    /// The state at a revision, as far back as the history reaches. One in the future is not known either.
    pub(crate) fn past(&self, revision: ResourceVersion) -> Result<Past, TooOld> {
        self.history.reaches(revision)?;
        if revision > self.revision {
            return Err(TooOld(self.history.begins_after()));
        }
        let (from, later) = match self.snapshots.range(revision..).next() {
            Some((from, snapshot)) => {
                snapshot.asked_for.store(self.now_asked_for(), Ordering::Relaxed);
                snapshot.is_asked_for.store(true, Ordering::Relaxed);
                (*from, snapshot.store.clone())
            }
            None => (self.revision, self.store.clone()),
        };
        let since = self.history.after(revision)?.take_while(|event| event.revision <= from);
        Ok(Past { later, since: since.cloned().collect() })
    }

    /// All watchers, in the order in which they came.
    pub(crate) fn watchers_in_order(&self) -> Vec<&Arc<Watcher>> {
        let mut watchers: Vec<_> = self.watchers.iter().collect();
        watchers.sort_unstable_by_key(|watcher| watcher.number);
        watchers
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&mut self, wakers: &mut Wakers) {
        self.watchers_in_order().into_iter().for_each(|watcher| watcher.end(wakers));
    }

    /// A number that no other watcher has.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.watchers_so_far += 1;
        self.watchers_so_far
    }
}

/// The revision of a store that nobody has written to.
pub(crate) const BEFORE_ALL: ResourceVersion = ResourceVersion::new(1).expect("one is not zero");

#[cfg(test)]
mod tests {
    use super::*;
    use keepwatch_storage::{Attributes, Version};
    use proptest::{collection::vec, prelude::*, sample::select};
    use std::time::Duration;

    const KEYS: [&str; 5] = ["/r/pods/n/a", "/r/pods/n/b", "/r/pods/n/c", "/r/pods/m/a", "/r/pods/m/b"];

    fn at(state: &State, revision: ResourceVersion) -> Result<Store, TooOld> {
        state.past(revision).map(Past::restore)
    }

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(number).unwrap()
    }

    fn object(key: &str, revision: ResourceVersion) -> Object {
        let (key, attributes) = (Key::from_backend(key), Attributes::default());
        Version { key, value: "{}".into(), revision, attributes }.into()
    }

    /// A state whose history holds so many events.
    fn state(events: usize) -> State {
        let limits =
            Limits { fresh: Duration::from_secs(75), lower: events, upper: events, bytes_max: usize::MAX };
        State::new(&[], limits, Instant::now())
    }

    /// Takes in a list at a revision, with objects that were last written then.
    fn fill(state: &mut State, keys: &[&str], revision: u64) {
        let mut store = Store::new(&[]);
        for key in keys {
            store.put(object(key, version(revision)));
        }
        state.replace(store, version(revision));
    }

    /// The objects in a store, by the revisions of their last writes.
    fn content(store: &Store) -> BTreeMap<Key, ResourceVersion> {
        store.iter().map(|object| (object.key.clone(), object.revision)).collect()
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(&'static str),
        Delete(&'static str),
        /// Nothing happened but elsewhere.
        Progress,
        /// Somebody reads a page.
        PutAside,
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
        let step = prop_oneof![
            4 => select(&KEYS).prop_map(Step::Put),
            2 => select(&KEYS).prop_map(Step::Delete),
            1 => Just(Step::Progress),
            1 => Just(Step::PutAside),
        ];
        vec((step, 1_u64..4), 0..120)
    }

    proptest! {
        /// Whatever is written and whoever reads pages, an earlier state is the one that was there, or is known to be
        /// too old.
        #[test]
        fn an_earlier_state_is_what_was_there_then(steps in steps(), events in 1_usize..40) {
            let mut state = state(events);
            fill(&mut state, &KEYS[..2], 7);
            let mut past = vec![(state.revision, content(&state.store))];
            for (step, gap) in steps {
                let revision = version(state.revision.get() + gap);
                let change = match step {
                    Step::Put(key) => Change::Put(object(key, revision)),
                    Step::Delete(key) => Change::Deleted { key: Key::from_backend(key), revision },
                    Step::Progress => {
                        state.progress(revision);
                        continue;
                    }
                    Step::PutAside => {
                        state.put_aside();
                        continue;
                    }
                };
                state.apply(change, Instant::now(), &mut Wakers::default());
                prop_assert_eq!(state.revision, revision);
                past.push((revision, content(&state.store)));
            }
            let oldest = state.history.begins_after();
            for revision in (6..=state.revision.get()).map(version) {
                let found = at(&state, revision).map(|store| content(&store));
                let expected = past.iter().rfind(|(then, _)| *then <= revision).map(|(_, content)| content);
                match expected.filter(|_| revision >= oldest) {
                    Some(expected) => prop_assert_eq!(found.as_ref(), Ok(expected), "at {}", revision),
                    None => prop_assert_eq!(found, Err(TooOld(oldest)), "at {}", revision),
                }
            }
        }
    }

    /// Some of them put aside, and forgotten with the events that lead up to them.
    #[test]
    fn earlier_states_are_right_however_many_events_lie_between() {
        let mut state = state(4096);
        for revision in 2..=9000 {
            let key = KEYS[revision as usize % KEYS.len()];
            state.apply(Change::Put(object(key, version(revision))), Instant::now(), &mut Wakers::default());
            if revision % 250 == 0 {
                state.put_aside();
            }
        }
        let oldest = 9000 - 4096;
        assert_eq!(at(&state, version(oldest - 1)).err(), Some(TooOld(version(oldest))));
        assert_eq!(state.snapshots.len(), SNAPSHOTS_MAX);
        assert!(state.snapshots.keys().all(|revision| revision.get() >= oldest));
        for revision in (oldest..=9000).step_by(61) {
            let newest =
                (revision - 4..=revision).map(|at| (Key::from_backend(KEYS[at as usize % 5]), version(at)));
            assert_eq!(content(&at(&state, version(revision)).unwrap()), newest.collect(), "at {revision}");
        }
    }

    /// An earlier state costs the objects that have changed since, each of them once. One that is being read may cost more.
    #[test]
    fn an_earlier_state_is_kept_as_long_as_it_costs_little_or_is_read() {
        let update = |state: &mut State, key: &str, bytes: usize| {
            let revision = version(state.revision.get() + 1);
            let (key, value) = (Key::from_backend(key), vec![b'x'; bytes].into());
            let object = Version { key, value, revision, attributes: Attributes::default() }.into();
            state.apply(Change::Put(object), Instant::now(), &mut Wakers::default());
        };
        for is_read in [false, true] {
            let mut state = state(1000);
            KEYS.iter().for_each(|key| update(&mut state, key, UNASKED_SNAPSHOT_BYTES_MAX / 3));
            let (then, expected) = (state.revision, content(&state.store));
            state.put_aside();
            for _ in 0..100 {
                update(&mut state, KEYS[0], 10);
            }
            assert!(state.snapshots.contains_key(&then), "one object has changed");
            if is_read {
                assert_eq!(content(&at(&state, then).unwrap()), expected);
            }
            KEYS[1..].iter().for_each(|key| update(&mut state, key, 10));
            assert_eq!(state.snapshots.contains_key(&then), is_read);
            let made_again = at(&state, then).unwrap();
            assert_eq!(content(&made_again), expected);
            state.keep(then, made_again, true);
            assert!(state.snapshots.contains_key(&then), "somebody came back for it");
            state.put_aside();
            assert_eq!(state.snapshots[&then].bytes, KEYS.len() * (UNASKED_SNAPSHOT_BYTES_MAX / 3));
        }
    }

    /// etcd deletes at one revision what expires together, and readers look while that is being taken in. One that has
    /// taken the first of those events, and then stops until its inbox is too small, still has to be told the others.
    #[cfg(not(feature = "loom"))]
    #[test]
    fn events_of_one_revision_are_all_told_to_a_reader_that_takes_one_of_them_early() {
        use crate::{
            sync::RwLock,
            watcher::{INBOX_EVENTS_MAX, Start},
        };
        use keepwatch_storage::{Predicate, Scope};
        use std::task::{Context, Poll, Waker};

        let state = RwLock::new(state(10_000));
        fill(&mut state.write(), &KEYS, 7);
        let scope = Scope::Children(Key::from_backend("/r/pods/"));
        let start = Start::After(version(7));
        let (_, mut reader) =
            Watcher::add(&mut state.write(), scope, Predicate::everything(), start, None, false);
        let mut next = || loop {
            match reader.poll_next(&state, &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(event) => return event.expect("there is more").revision().get(),
                Poll::Pending => {}
            }
        };
        let apply = |change| {
            state.write().apply(change, Instant::now(), &mut Wakers::default());
        };
        let deleted = |key| Change::Deleted { key: Key::from_backend(key), revision: version(8) };

        apply(deleted(KEYS[0]));
        let mut told = vec![next()];
        apply(deleted(KEYS[1]));
        let last = 9 + INBOX_EVENTS_MAX as u64;
        (9..=last).for_each(|revision| apply(Change::Put(object(KEYS[2], version(revision)))));
        while told.last() != Some(&last) {
            told.push(next());
        }
        assert_eq!((told.iter().filter(|revision| **revision == 8).count(), told.len()), (2, 131));
    }

    #[test]
    fn a_list_takes_the_place_of_everything_known() {
        let mut state = state(100);
        for revision in 2..=9 {
            state.apply(
                Change::Put(object(KEYS[0], version(revision))),
                Instant::now(),
                &mut Wakers::default(),
            );
            state.put_aside();
        }
        fill(&mut state, &KEYS[1..2], 20);
        assert_eq!(content(&state.store), BTreeMap::from([(Key::from_backend(KEYS[1]), version(20))]));
        assert_eq!(at(&state, version(19)).err(), Some(TooOld(version(20))));
        assert_eq!(content(&at(&state, version(20)).unwrap()), content(&state.store));
    }

    #[test]
    fn a_deletion_of_what_is_not_there_is_only_progress() {
        let mut state = state(100);
        let change = Change::Deleted { key: Key::from_backend(KEYS[0]), revision: version(5) };
        state.apply(change, Instant::now(), &mut Wakers::default());
        assert_eq!((state.revision, state.history.after(version(1)).unwrap().count()), (version(5), 0));
    }

    #[test]
    fn where_storage_is_counts_only_for_who_has_seen_the_last_change() {
        let frontier =
            |last_change, current| Frontier { current: version(current), last_change: version(last_change) };
        let mut state = state(100);
        fill(&mut state, &[], 5);
        for (told, reached) in [(frontier(6, 9), 5), (frontier(5, 9), 9), (frontier(5, 7), 9)] {
            state.reach(told);
            assert_eq!(state.revision, version(reached));
        }
    }
}
