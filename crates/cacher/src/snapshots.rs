//! Earlier states of a resource, so that the pages of a list and the initial state of a watch show one revision.
//!
//! A snapshot is a clone of the store, which shares every object that has not changed since. Of the objects that have
//! changed since, a snapshot holds the old versions, and that is what it costs. A state without a snapshot is rebuilt: the
//! next later store is taken, and the events between the two are undone ([`PastState`]).
//!
//! Kept true by [`Snapshots::insert`] and [`Snapshots::remove_costly`]: there are at most `SNAPSHOTS_MAX` snapshots, and
//! `bytes` of each is the size of the values that have been replaced or deleted since.

use crate::{
    history::{Event, History},
    store::Store,
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::Object;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The largest number of snapshots.
pub(crate) const SNAPSHOTS_MAX: usize = 16;
/// The size of the replaced values that a snapshot may hold that no client has read yet. It can be rebuilt.
pub(crate) const UNREAD_SNAPSHOT_BYTES_MAX: usize = 1 << 20;
/// The size of the replaced values that a snapshot may hold that a client reads page by page.
const READ_SNAPSHOT_BYTES_MAX: usize = 32 << 20;

#[derive(Default)]
pub(crate) struct Snapshots {
    by_revision: BTreeMap<ResourceVersion, Snapshot>,
    /// Counts the uses of all snapshots, to find the least recently used one.
    uses: AtomicU64,
}

struct Snapshot {
    store: Store,
    /// The size of the values that have been replaced or deleted since this revision.
    bytes: usize,
    is_read: AtomicBool,
    /// The value of `Snapshots::uses` when the snapshot was last used.
    last_use: AtomicU64,
}

impl Snapshots {
    /// Adds a snapshot whose revision `history` reaches. `is_read` means that a client has asked for it, and allows it more
    /// bytes. Returns the stores that are no longer needed.
    pub(crate) fn insert(
        &mut self,
        revision: ResourceVersion,
        store: Store,
        is_read: bool,
        history: &History,
    ) -> impl Iterator<Item = Store> + use<> {
        let (bytes, was_read) = match self.by_revision.get(&revision) {
            Some(before) => (before.bytes, before.is_read.load(Ordering::Relaxed)),
            None => {
                let since = history.after(revision).into_iter().flatten();
                (since.map(|event| event.old_value_bytes_at(revision)).sum(), false)
            }
        };
        let snapshot = Snapshot {
            store,
            bytes,
            is_read: AtomicBool::new(is_read || was_read),
            last_use: AtomicU64::new(self.next_use()),
        };
        let replaced = self.by_revision.insert(revision, snapshot);
        let too_many = self.by_revision.len() > SNAPSHOTS_MAX;
        let by_use =
            |(_, snapshot): &(&ResourceVersion, &Snapshot)| snapshot.last_use.load(Ordering::Relaxed);
        let least_used = self.by_revision.iter().min_by_key(by_use).map(|(revision, _)| *revision);
        let removed = least_used.filter(|_| too_many).and_then(|revision| self.by_revision.remove(&revision));
        replaced.into_iter().chain(removed).map(|snapshot| snapshot.store)
    }

    /// Removes the snapshots before `oldest` and those that hold too many bytes. Returns their stores.
    pub(crate) fn remove_costly(&mut self, oldest: ResourceVersion) -> impl Iterator<Item = Store> {
        let costly = self.by_revision.extract_if(.., move |revision, snapshot| {
            let is_read = snapshot.is_read.load(Ordering::Relaxed);
            let bytes_max = if is_read { READ_SNAPSHOT_BYTES_MAX } else { UNREAD_SNAPSHOT_BYTES_MAX };
            *revision < oldest || snapshot.bytes > bytes_max
        });
        costly.map(|(_, snapshot)| snapshot.store)
    }

    /// Removes all snapshots. Returns their stores.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = Store> + use<> {
        std::mem::take(&mut self.by_revision).into_values().map(|snapshot| snapshot.store)
    }

    /// Counts an object that was replaced or deleted as a cost of every snapshot that holds it.
    pub(crate) fn object_replaced(&mut self, old: &Object) {
        for (_, snapshot) in self.by_revision.range_mut(old.revision..) {
            snapshot.bytes += old.value.len();
        }
    }

    /// The first snapshot at or after a revision, with its own revision. It counts as read from now on.
    pub(crate) fn at_or_after(&self, revision: ResourceVersion) -> Option<(ResourceVersion, Store)> {
        let (found, snapshot) = self.by_revision.range(revision..).next()?;
        snapshot.last_use.store(self.next_use(), Ordering::Relaxed);
        snapshot.is_read.store(true, Ordering::Relaxed);
        Some((*found, snapshot.store.clone()))
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn revisions(&self) -> impl Iterator<Item = ResourceVersion> {
        self.by_revision.keys().copied()
    }

    /// The size of the values that the snapshot of a revision holds, if there is one.
    #[cfg(test)]
    pub(crate) fn bytes_at(&self, revision: ResourceVersion) -> Option<usize> {
        self.by_revision.get(&revision).map(|snapshot| snapshot.bytes)
    }
}

/// An earlier state: a later one, and the events between the two, oldest first.
pub(crate) struct PastState {
    pub(crate) later: Store,
    pub(crate) events: Vec<Arc<Event>>,
}

impl PastState {
    /// Whether there are no events to undo.
    pub(crate) fn is_materialized(&self) -> bool {
        self.events.is_empty()
    }

    /// Undoes the events. This may take a while, so the caller should not hold the state's lock.
    pub(crate) fn restore(self) -> Store {
        let (mut store, mut restored) = (self.later, HashSet::new());
        // The first event of each object has its version in the earlier state; later events of it do not matter.
        for event in self.events.iter().filter(|event| restored.insert(event.key())) {
            match event.old() {
                Some(old) => store.put(old),
                None => store.remove(event.key()),
            };
        }
        store
    }
}
