//! What the cache knows of its resource, as plain data: the objects, the recent events and who is listening.
//!
//! Kept true by [`State::apply`], [`State::progress`] and [`State::replace`], which the feed alone calls:
//! - `store` is what storage held at `revision`, and `history` leads up to it;
//! - whoever can change this data can tell the watchers, and does so in the same step. So a watcher that is added, or
//!   that finds nothing more in the history, misses nothing and hears nothing twice.

use crate::{
    bookmark::Bookmarks,
    history::{Event, History, Limits, Resized, TooOld},
    interest::Interest,
    ready::Readiness,
    store::Store,
    watcher::Watcher,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Frontier, Key, Object};
use std::{collections::BTreeMap, sync::Arc, task::Waker};
use tokio::time::Instant;

/// How many earlier states are at hand. Each costs what was written between it and the next, at the most.
const SNAPSHOTS_MAX: usize = 64;
/// After how many events a state is put aside at the least, so that any that the history reaches is made from one with
/// not many more steps.
const SNAPSHOT_EVERY_EVENTS_MIN: usize = 1024;

pub(crate) struct State {
    /// Watchers are added only while this is so, and all are ended before the state is replaced.
    pub(crate) ready: Readiness,
    pub(crate) store: Store,
    pub(crate) revision: ResourceVersion,
    pub(crate) history: History,
    pub(crate) watchers: Interest<Watcher>,
    pub(crate) bookmarks: Bookmarks,
    snapshots: BTreeMap<ResourceVersion, Store>,
    events_since_snapshot: usize,
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
            events_since_snapshot: 0,
        }
    }

    /// Takes in a list: nothing is known of what was before it.
    pub(crate) fn replace(&mut self, objects: impl IntoIterator<Item = Object>, revision: ResourceVersion) {
        self.store = self.store.emptied();
        for object in objects {
            self.store.put(object);
        }
        self.revision = revision;
        self.history.reset(revision);
        self.snapshots.clear();
        self.events_since_snapshot = 0;
    }

    /// Takes in the next change and offers it to the watchers that may care. Who is to be woken for it is added to
    /// `wakers`.
    pub(crate) fn apply(&mut self, change: Change, now: Instant, wakers: &mut Vec<Waker>) -> Applied {
        let (revision, old, new) = match change {
            Change::Put(object) => (object.revision, self.store.put(object.clone()), Some(object)),
            Change::Deleted { key, revision } => (revision, self.store.remove(&key), None),
        };
        self.revision = self.revision.max(revision);
        if old.is_none() && new.is_none() {
            return Applied { resized: Resized::No, offered: 0 };
        }
        let event = Arc::new(Event::new(revision, old, new, now));
        let mut offered = 0;
        self.watchers.meet(event.old.as_ref(), event.new.as_ref(), |watcher| {
            watcher.offer(&event, wakers);
            offered += 1;
        });
        let resized = self.history.push(event);
        self.take_snapshot_in_time();
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

    fn take_snapshot_in_time(&mut self) {
        self.events_since_snapshot += 1;
        if self.events_since_snapshot >= SNAPSHOT_EVERY_EVENTS_MIN.max(self.history.capacity() / 32) {
            self.put_aside();
        }
    }

    /// Puts the present state aside, because somebody is going to ask for it again.
    pub(crate) fn put_aside(&mut self) {
        self.events_since_snapshot = 0;
        self.snapshots.insert(self.revision, self.store.clone());
        let oldest = self.history.begins_after();
        self.snapshots = self.snapshots.split_off(&oldest);
        while self.snapshots.len() > SNAPSHOTS_MAX {
            self.snapshots.pop_first();
        }
    }

    /// The state at a revision that is not in the future, as far back as the history reaches: the next one that is at
    /// hand, with the events between undone.
    pub(crate) fn at(&self, revision: ResourceVersion) -> Result<Store, TooOld> {
        debug_assert!(revision <= self.revision);
        let (from, mut store) = match self.snapshots.range(revision..).next() {
            Some((from, store)) => (*from, store.clone()),
            None => (self.revision, self.store.clone()),
        };
        for event in self.history.after(revision)?.rev().skip_while(|event| event.revision > from) {
            match &event.old {
                Some(old) => store.put(old.clone()),
                None => store.remove(&event.object().key),
            };
        }
        Ok(store)
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&mut self, wakers: &mut Vec<Waker>) {
        self.watchers.for_each(|watcher| watcher.end(wakers));
    }
}

/// The revision of a store that nobody has written to.
const BEFORE_ALL: ResourceVersion = ResourceVersion::new(1).expect("one is not zero");
