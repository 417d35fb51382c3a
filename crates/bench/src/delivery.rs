//! Checks that every watcher received every event, by comparing digests of the writes and of the received events.
//!
//! Versions rise in every watch, so no event is repeated or out of order if each version is larger than the one before;
//! and none is missing if there are as many as writes, with the same sum of their hashes. So a few words of memory are
//! enough for a watcher, however much it receives. A write that was not answered may or may not have happened: one
//! event more for each is no fault. The rest of an event's object is not checked, nor whether the event is ADDED or
//! MODIFIED.

use crate::events::{EventType, WatchEvent};
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The number of changes and a checksum of their versions, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) changes: u64,
    sum: u64,
    /// Deletions are only counted: the response to a delete does not contain the version.
    pub(crate) deletions: u64,
    /// The number of writes without an answer, each of which may have been made.
    pub(crate) unanswered: u64,
}

impl Digest {
    pub(crate) fn total(&self) -> u64 {
        self.changes + self.deletions
    }
}

/// The writes of all clients: to all objects together, and to each of the first ones.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    all: Counters,
    each: Vec<Counters>,
    not_created: Mutex<HashSet<usize>>,
}

#[derive(Debug, Default)]
struct Counters {
    changes: AtomicU64,
    sum: AtomicU64,
    deletions: AtomicU64,
    unanswered: AtomicU64,
}

impl Writes {
    /// Counts the first so many objects separately.
    pub(crate) fn of_each(objects: usize) -> Self {
        Writes { each: (0..objects).map(|_| Counters::default()).collect(), ..Writes::default() }
    }

    pub(crate) fn changed(&self, object: usize, version: u64) {
        for counters in self.counters(object) {
            counters.sum.fetch_add(mixed(version), Relaxed);
            counters.changes.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn deleted(&self, object: usize) {
        for counters in self.counters(object) {
            counters.deletions.fetch_add(1, Relaxed);
        }
    }

    /// Records a write to the object that may or may not have happened: it was not answered.
    pub(crate) fn unanswered(&self, object: usize) {
        for counters in self.counters(object) {
            counters.unanswered.fetch_add(1, Relaxed);
        }
    }

    /// Records that the creation of an object failed.
    pub(crate) fn not_created(&self, object: usize) {
        self.not_created.lock().insert(object);
    }

    pub(crate) fn may_be_missing(&self, object: usize) -> bool {
        self.not_created.lock().contains(&object)
    }

    fn counters(&self, object: usize) -> impl Iterator<Item = &Counters> {
        std::iter::once(&self.all).chain(self.each.get(object))
    }

    pub(crate) fn digest(&self) -> Digest {
        self.all.digest()
    }

    /// The writes to one of the objects that are counted separately.
    pub(crate) fn of(&self, object: usize) -> Digest {
        self.each.get(object).map(Counters::digest).unwrap_or_default()
    }
}

impl Counters {
    fn digest(&self) -> Digest {
        Digest {
            changes: self.changes.load(Relaxed),
            sum: self.sum.load(Relaxed),
            deletions: self.deletions.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
        }
    }
}

/// The events that one watcher received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) digest: Digest,
    /// The version from which a broken watch is resumed.
    pub(crate) version: u64,
    /// The first fault.
    pub(crate) fault: Option<String>,
}

impl Received {
    /// From this version on.
    pub(crate) fn after(version: u64) -> Self {
        Received { version, ..Received::default() }
    }

    pub(crate) fn receive(&mut self, event: &WatchEvent<'_>) {
        let is_new = if event.event_type == EventType::Bookmark {
            event.version >= self.version
        } else {
            event.version > self.version
        };
        if !is_new && self.fault.is_none() {
            self.fault =
                Some(format!("version {} of {} came after {}", event.version, event.name, self.version));
        }
        self.version = event.version;
        match event.event_type {
            EventType::Changed => {
                self.digest.changes += 1;
                self.digest.sum = self.digest.sum.wrapping_add(mixed(event.version));
            }
            EventType::Deleted => self.digest.deletions += 1,
            EventType::Bookmark | EventType::Expired => {}
        }
    }

    /// The difference to the writes that it should have received, if there is one.
    pub(crate) fn fault(&self, written: &Digest) -> Option<String> {
        self.fault.clone().or_else(|| {
            let (received, all) = (self.digest.total(), written.total());
            let is_same = Digest { unanswered: 0, ..*written } == self.digest;
            match received {
                _ if received < all => Some(format!("{} of {all} events did not come", all - received)),
                _ if received > all + written.unanswered => {
                    Some(format!("{} events came that nobody wrote", received - all - written.unanswered))
                }
                _ if received == all && !is_same => Some("other events came than were written".to_owned()),
                _ => None,
            }
        })
    }
}

/// Mixes the bits, so that sums of different versions are different.
fn mixed(version: u64) -> u64 {
    let mixed = version.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(version: u64) -> WatchEvent<'static> {
        WatchEvent { event_type: EventType::Changed, name: "a", version, sent: None }
    }

    fn digest_of(versions: &[u64]) -> Digest {
        let written = Writes::default();
        versions.iter().for_each(|version| written.changed(0, *version));
        written.digest()
    }

    fn fault(received: &[u64], wrote: &[u64]) -> Option<String> {
        let mut own = Received::after(1);
        received.iter().for_each(|version| own.receive(&event(*version)));
        own.fault(&digest_of(wrote))
    }

    #[test]
    fn a_watcher_that_received_everything_in_order_is_correct() {
        assert_eq!(fault(&[2, 3, 5], &[5, 2, 3]), None);
        assert_eq!(fault(&[], &[]), None);
        let mut received = Received::after(7);
        received.receive(&WatchEvent { event_type: EventType::Bookmark, ..event(7) });
        received.receive(&WatchEvent { event_type: EventType::Deleted, ..event(8) });
        let written = Writes::default();
        written.deleted(0);
        assert_eq!(received.fault(&written.digest()), None);
    }

    #[test]
    fn missing_repeated_and_unordered_events_are_found() {
        assert_eq!(fault(&[2, 5], &[2, 3, 5]).as_deref(), Some("1 of 3 events did not come"));
        assert_eq!(fault(&[2, 3, 4, 5], &[2, 3, 5]).as_deref(), Some("1 events came that nobody wrote"));
        assert_eq!(fault(&[2, 4, 5], &[2, 3, 5]).as_deref(), Some("other events came than were written"));
        assert_eq!(fault(&[2, 2, 3], &[2, 3]).as_deref(), Some("version 2 of a came after 2"));
        assert_eq!(fault(&[3, 2], &[2, 3]).as_deref(), Some("version 2 of a came after 3"));
        assert_eq!(fault(&[1], &[1]).as_deref(), Some("version 1 of a came after 1"));
    }

    #[test]
    fn an_unanswered_write_may_have_happened() {
        let written = Writes::default();
        [2, 3].into_iter().for_each(|version| written.changed(0, version));
        written.unanswered(0);
        let fault = |versions: &[u64]| {
            let mut own = Received::after(1);
            versions.iter().for_each(|version| own.receive(&event(*version)));
            own.fault(&written.digest())
        };
        assert_eq!((fault(&[2, 3]), fault(&[2, 3, 4])), (None, None));
        assert_eq!(fault(&[2]).as_deref(), Some("1 of 2 events did not come"));
        assert_eq!(fault(&[2, 4]).as_deref(), Some("other events came than were written"));
        assert_eq!(fault(&[2, 3, 4, 5]).as_deref(), Some("1 events came that nobody wrote"));
    }

    #[test]
    fn changes_are_counted_per_object_on_request() {
        let written = Writes::of_each(2);
        [(0, 5), (1, 6), (0, 7), (9, 8)]
            .into_iter()
            .for_each(|(object, version)| written.changed(object, version));
        written.deleted(1);
        let counts = |digest: Digest| (digest.changes, digest.deletions);
        assert_eq!(
            (counts(written.of(0)), counts(written.of(1)), counts(written.of(9))),
            ((2, 0), (1, 1), (0, 0))
        );
        assert_eq!((counts(written.digest()), written.of(0)), ((4, 1), digest_of(&[5, 7])));
    }
}
