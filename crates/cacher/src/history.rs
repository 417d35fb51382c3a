//! Recent events of one resource, oldest first, so that a watch resumes without a new list.
//!
//! Kept true by [`History::record`] and [`History::reset`] alone: revisions never decrease (two events have the same
//! one only when etcd deletes several objects together); events are removed only at the old end; the history has at
//! most `capacity` events, and at most `bytes_max` bytes of old values unless there is only one event.
//!
//! Resuming after `r` needs every event after `r`. Once one of them has been removed, the answer is [`TooOld`]. Not
//! here: current objects (`store`) and watchers (`watcher_index`).

use crate::delta::HistoryObject;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Key, Object, OldObject, PastChange, Predicate, WatchEvent, WeakObject};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The minimum capacity.
const LOWER_BOUND_EVENTS: usize = 100;
/// The maximum capacity for a fresh duration of up to [`FRESH_DURATION_MIN`].
const UPPER_BOUND_EVENTS: usize = 102_400;
/// The number of times that the maximum capacity is doubled at most for a longer fresh duration.
const UPPER_BOUND_DOUBLINGS_MAX: u32 = 14;
/// The time for which events are kept at least, if there is room for them.
pub(crate) const FRESH_DURATION_MIN: Duration = Duration::from_secs(75);
/// The size of an event without the old value: the event, its entry in the history, and the delta of the object.
const EVENT_BYTES: usize = 480;

/// One change of an object, with the version before it.
pub(crate) struct Event {
    pub(crate) revision: ResourceVersion,
    /// Absent if the object was created, or if its old version was not read.
    old: Option<Arc<HistoryObject>>,
    /// Whether there was an old version that was not read. A watcher without a selector does not need it.
    is_old_unread: bool,
    /// Absent if the object was deleted.
    new: Option<Arc<HistoryObject>>,
    /// The old version with this event's revision, which a DELETED event carries. It is shared by all watchers that
    /// still hold it.
    deleted: Mutex<WeakObject>,
    arrived: Instant,
    /// The number of bytes that this event adds to the history. The new version is counted later, as the old version of
    /// the next event.
    bytes: usize,
}

impl Event {
    /// An event from storage's history. There is none if the change has neither an old object nor a new one.
    pub(crate) fn from_past_change(change: PastChange) -> Option<Self> {
        let PastChange { revision, old, new } = change;
        let (old, is_old_unread) = match old {
            OldObject::Absent => (None, false),
            OldObject::Unread => (None, true),
            OldObject::Read(old) => (Some(old), false),
        };
        if old.is_none() && new.is_none() {
            return None;
        }
        let [old, new] = [old, new].map(|object| Some(Arc::new(HistoryObject::new(object?, None))));
        let (deleted, arrived) = (Mutex::default(), Instant::now());
        Some(Self { revision, old, is_old_unread, new, deleted, arrived, bytes: 0 })
    }

    /// The key of the object.
    pub(crate) fn key(&self) -> &Key {
        let either = self.new.as_ref().or(self.old.as_ref());
        &either.expect("checked when it was recorded").key
    }

    /// The size of the object's value before the event, if that version existed at `revision`.
    pub(crate) fn old_value_bytes_at(&self, revision: ResourceVersion) -> usize {
        self.old.as_ref().filter(|old| old.revision <= revision).map_or(0, |old| old.value_bytes)
    }

    /// The object before the event.
    pub(crate) fn old(&self) -> Option<Object> {
        self.old.as_ref().map(|old| old.object())
    }

    /// The event that a watcher with this predicate receives, if any.
    pub(crate) fn watch_event(&self, predicate: &Predicate) -> Option<WatchEvent> {
        let matches = |object: &Option<Arc<HistoryObject>>| {
            object.as_ref().is_some_and(|object| object.matches(predicate))
        };
        self.watch_event_if(Matches { old: matches(&self.old), new: matches(&self.new) })
    }

    /// The event that a watcher receives, if any, if these versions of the object match its predicate.
    pub(crate) fn watch_event_if(&self, matches: Matches) -> Option<WatchEvent> {
        match (self.old.as_ref().filter(|_| matches.old), self.new.as_ref().filter(|_| matches.new)) {
            (None, None) => None,
            (None, Some(new)) if self.is_old_unread => Some(WatchEvent::Modified(new.object())),
            (None, Some(new)) => Some(WatchEvent::Added(new.object())),
            (Some(_), Some(new)) => Some(WatchEvent::Modified(new.object())),
            (Some(old), None) => Some(WatchEvent::Deleted(self.deleted_object(old))),
        }
    }

    fn deleted_object(&self, old: &HistoryObject) -> Object {
        let mut cached = self.deleted.lock();
        cached.upgrade().unwrap_or_else(|| {
            let deleted = old.object().at(self.revision);
            *cached = deleted.downgrade();
            deleted
        })
    }
}

/// Which versions of an object match a predicate: the one before an event, and the one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matches {
    pub(crate) old: bool,
    pub(crate) new: bool,
}

impl Matches {
    /// The number of bits that [`Matches::bits`] has.
    pub(crate) const BITS: u32 = 2;

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.old) << 1 | u64::from(self.new)
    }

    /// The matches in the lowest bits of a number.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { old: bits & 2 != 0, new: bits & 1 != 0 }
    }
}

/// The number of events that the history holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) fresh: Duration,
    pub(crate) lower: usize,
    pub(crate) upper: usize,
    pub(crate) bytes_max: usize,
}

impl Limits {
    /// The limits for events that are kept for `fresh`, or for [`FRESH_DURATION_MIN`] if that is longer.
    pub(crate) fn new(fresh: Duration, bytes_max: usize) -> Self {
        let fresh = fresh.max(FRESH_DURATION_MIN);
        let mut doublings = 0;
        while FRESH_DURATION_MIN * 2_u32.pow(doublings) < fresh && doublings < UPPER_BOUND_DOUBLINGS_MAX {
            doublings += 1;
        }
        Self { fresh, lower: LOWER_BOUND_EVENTS, upper: UPPER_BOUND_EVENTS << doublings, bytes_max }
    }
}

/// A position is older than the history. The field is the oldest position that is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooOld(pub(crate) ResourceVersion);

/// The change of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resized {
    No,
    Grown,
    Shrunk,
}

pub(crate) struct History {
    events: VecDeque<Arc<Event>>,
    limits: Limits,
    capacity: usize,
    bytes: usize,
    /// The history has every event after this revision.
    begins_after: ResourceVersion,
}

impl History {
    pub(crate) fn new(begins_after: ResourceVersion, limits: Limits) -> Self {
        Self { events: VecDeque::new(), limits, capacity: limits.lower, bytes: 0, begins_after }
    }

    /// Removes all events, because those between the old history and this revision are not known. Returns them, because
    /// dropping many of them takes a while.
    pub(crate) fn reset(&mut self, begins_after: ResourceVersion) -> VecDeque<Arc<Event>> {
        self.bytes = 0;
        self.begins_after = begins_after;
        std::mem::take(&mut self.events)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The oldest revision after which a watch can start.
    pub(crate) fn begins_after(&self) -> ResourceVersion {
        self.begins_after
    }

    /// Adds the newest event, and removes old ones if there is no room.
    ///
    /// # Panics
    /// If there is neither an old object nor a new one.
    pub(crate) fn record(
        &mut self,
        revision: ResourceVersion,
        old: Option<Object>,
        new: Option<Object>,
        arrived: Instant,
    ) -> (Arc<Event>, Resized) {
        assert!(old.is_some() || new.is_some(), "an event is about an object");
        let resized = self.resize(arrived);
        while self.events.len() >= self.capacity {
            self.remove_oldest();
        }
        let old =
            old.map(|old| self.find_version(&old).unwrap_or_else(|| Arc::new(HistoryObject::new(old, None))));
        let new = new.map(|new| Arc::new(HistoryObject::new(new, old.as_deref())));
        if let (Some(old), Some(new)) = (&old, &new) {
            old.supersede(new);
        }
        let bytes = EVENT_BYTES + old.as_ref().map_or(0, |old| old.bytes());
        let event = Arc::new(Event {
            revision,
            old,
            is_old_unread: false,
            new,
            deleted: Mutex::default(),
            arrived,
            bytes,
        });
        self.bytes += bytes;
        self.events.push_back(Arc::clone(&event));
        while self.bytes > self.limits.bytes_max && self.events.len() > 1 {
            self.remove_oldest();
        }
        (event, resized)
    }

    /// The version of an object that the history already has, as the new version of an earlier event.
    fn find_version(&self, object: &Object) -> Option<Arc<HistoryObject>> {
        let begin = self.events.partition_point(|event| event.revision < object.revision);
        let mut events = self.events.range(begin..).take_while(|event| event.revision == object.revision);
        events.find_map(|event| event.new.as_ref().filter(|new| new.is(object)).cloned())
    }

    /// A full history grows while its oldest event is fresh, and shrinks when most of its events are not.
    fn resize(&mut self, now: Instant) -> Resized {
        if self.events.len() < self.capacity {
            return Resized::No;
        }
        let age = |event: &Arc<Event>| now.saturating_duration_since(event.arrived);
        let three_quarters = self.events.len() - self.events.len() / 4;
        if self.events.front().is_some_and(|oldest| age(oldest) < self.limits.fresh) {
            let grown = (self.capacity * 2).min(self.limits.upper);
            let resized = if grown > self.capacity { Resized::Grown } else { Resized::No };
            self.capacity = grown;
            return resized;
        }
        if self.events.get(three_quarters).is_some_and(|event| age(event) > self.limits.fresh) {
            let shrunk = (self.capacity / 2).max(self.limits.lower);
            let resized = if shrunk < self.capacity { Resized::Shrunk } else { Resized::No };
            self.capacity = shrunk;
            while self.events.len() > self.capacity {
                self.remove_oldest();
            }
            self.events.shrink_to(self.capacity);
            return resized;
        }
        Resized::No
    }

    fn remove_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes -= oldest.bytes;
            // If the next event has the same revision, no watch may start between the two.
            self.begins_after = oldest.revision;
        }
    }

    /// Whether the history has every event after a revision.
    pub(crate) fn check_reaches(&self, revision: ResourceVersion) -> Result<(), TooOld> {
        if revision < self.begins_after { Err(TooOld(self.begins_after)) } else { Ok(()) }
    }

    /// The events after a revision, oldest first.
    pub(crate) fn after(
        &self,
        revision: ResourceVersion,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, TooOld> {
        self.check_reaches(revision)?;
        let begin = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(begin..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepwatch_storage::{Attributes, Key, Version};
    use proptest::{collection::vec, prelude::*};

    /// The shortest time for which events are kept.
    const F: Duration = FRESH_DURATION_MIN;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(number).unwrap()
    }

    fn object(revision: u64, bytes: usize) -> Object {
        let (key, value) = (Key::from_backend("/r/pods/n/a"), vec![b' '; bytes].into());
        let attributes = Attributes::default();
        Version { key, value, revision: version(revision), attributes: attributes.into() }.into()
    }

    /// Records an update at this revision, whose old value has this many bytes.
    fn update(history: &mut History, revision: u64, old_bytes: usize, arrived: Instant) -> Resized {
        let (old, new) = (object(revision - 1, old_bytes), object(revision, 0));
        history.record(version(revision), Some(old), Some(new), arrived).1
    }

    fn capacity_limits(lower: usize, upper: usize) -> Limits {
        Limits { fresh: F, lower, upper, bytes_max: usize::MAX }
    }

    /// The revisions of the events after one, or the oldest position that the history reaches.
    fn revisions_after(history: &History, revision: u64) -> Result<Vec<u64>, u64> {
        match history.after(version(revision)) {
            Ok(events) => Ok(events.map(|event| event.revision.get()).collect()),
            Err(TooOld(oldest)) => Err(oldest.get()),
        }
    }

    /// Records one event more than fits, at this distance in time. Checks the new capacity, and which of the events 1
    /// to 9 are left.
    fn check_spacing(capacity: usize, spacing: Duration, resized: Resized, left: (usize, &[u64])) {
        let mut history = History::new(version(10), capacity_limits(4, 16));
        history.capacity = capacity;
        let mut now = Instant::now();
        for revision in 11..11 + capacity as u64 {
            assert_eq!(update(&mut history, revision, 0, now), Resized::No);
            now += spacing;
        }
        assert_eq!(update(&mut history, 11 + capacity as u64, 0, now), resized, "{spacing:?}");
        let events: Vec<u64> = history.events.iter().map(|event| event.revision.get() - 10).collect();
        assert_eq!((history.capacity(), &*events), left, "{spacing:?}");
    }

    #[test]
    fn a_full_history_grows_while_its_oldest_event_is_fresh() {
        check_spacing(8, F / 9, Resized::Grown, (16, &[1, 2, 3, 4, 5, 6, 7, 8, 9]));
    }

    #[test]
    fn a_full_history_removes_its_oldest_event_when_that_is_no_longer_fresh() {
        check_spacing(8, F / 8, Resized::No, (8, &[2, 3, 4, 5, 6, 7, 8, 9]));
    }

    #[test]
    fn a_full_history_shrinks_when_only_a_quarter_of_its_events_is_fresh() {
        check_spacing(8, F / 2 + Duration::from_secs(1), Resized::Shrunk, (4, &[6, 7, 8, 9]));
    }

    #[test]
    fn the_capacity_stays_within_its_limits() {
        check_spacing(
            16,
            F / 100,
            Resized::No,
            (16, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]),
        );
        check_spacing(4, F * 2, Resized::No, (4, &[2, 3, 4, 5]));
    }

    #[test]
    fn a_history_starts_with_the_minimum_capacity() {
        let limits = Limits::new(F, usize::MAX);
        assert_eq!(History::new(version(1), limits).capacity(), 100);
        assert_eq!((limits.lower, limits.upper, limits.fresh), (100, 102_400, F));
    }

    #[test]
    fn a_longer_fresh_duration_raises_the_maximum_capacity() {
        for (seconds, kept_seconds, times) in [
            (0, 75, 1),
            (75, 75, 1),
            (76, 76, 2),
            (150, 150, 2),
            (151, 151, 4),
            (600, 600, 8),
            (75 << 14, 75 << 14, 1 << 14),
            (75 << 20, 75 << 20, 1 << 14),
        ] {
            let limits = Limits::new(Duration::from_secs(seconds), 0);
            let expected = (Duration::from_secs(kept_seconds), 102_400 * times);
            assert_eq!((limits.fresh, limits.upper), expected, "{seconds}");
        }
    }

    #[test]
    fn until_an_event_is_removed_a_watch_can_start_at_the_listed_revision() {
        let mut history = History::new(version(1), capacity_limits(4, 4));
        history.reset(version(10));
        assert_eq!((revisions_after(&history, 10), revisions_after(&history, 9)), (Ok(vec![]), Err(10)));
        for revision in 15..=17 {
            update(&mut history, revision, 0, Instant::now());
        }
        assert_eq!(
            (revisions_after(&history, 10), revisions_after(&history, 9)),
            (Ok(vec![15, 16, 17]), Err(10))
        );
        assert_eq!(revisions_after(&history, 16), Ok(vec![17]));
        assert_eq!(
            (revisions_after(&history, 17), revisions_after(&history, 1000)),
            (Ok(vec![]), Ok(vec![]))
        );
    }

    #[test]
    fn after_an_event_is_removed_a_watch_can_start_right_after_it() {
        let mut history = History::new(version(10), capacity_limits(4, 4));
        for revision in 11..=16 {
            update(&mut history, revision, 0, Instant::now());
        }
        assert_eq!(
            (revisions_after(&history, 12), revisions_after(&history, 11)),
            (Ok(vec![13, 14, 15, 16]), Err(12))
        );
        history.reset(version(20));
        assert_eq!((revisions_after(&history, 20), revisions_after(&history, 19)), (Ok(vec![]), Err(20)));
    }

    #[test]
    fn a_watch_can_start_at_any_revision_between_the_removed_event_and_the_next() {
        let mut history = History::new(version(10), capacity_limits(2, 2));
        for revision in [11, 20, 30] {
            update(&mut history, revision, 0, Instant::now());
        }
        assert_eq!(revisions_after(&history, 10), Err(11));
        for revision in 11..20 {
            assert_eq!(revisions_after(&history, revision), Ok(vec![20, 30]), "{revision}");
        }
    }

    #[test]
    fn no_watch_starts_between_two_events_of_one_revision() {
        let mut history = History::new(version(10), capacity_limits(2, 2));
        for revision in [11, 11, 12] {
            update(&mut history, revision, 0, Instant::now());
        }
        assert_eq!((revisions_after(&history, 10), revisions_after(&history, 11)), (Err(11), Ok(vec![12])));
    }

    #[test]
    fn old_events_are_removed_when_their_values_exceed_the_byte_limit() {
        let room_for_three = 3 * (EVENT_BYTES + 1000);
        let mut history =
            History::new(version(10), Limits { bytes_max: room_for_three, ..capacity_limits(100, 100) });
        for revision in 11..=15 {
            update(&mut history, revision, 1000, Instant::now());
        }
        assert_eq!(
            (revisions_after(&history, 12), revisions_after(&history, 11)),
            (Ok(vec![13, 14, 15]), Err(12))
        );
        update(&mut history, 16, room_for_three, Instant::now());
        assert_eq!((revisions_after(&history, 15), revisions_after(&history, 14)), (Ok(vec![16]), Err(15)));
    }

    #[test]
    fn all_watchers_receive_the_same_deleted_object() {
        let mut history = History::new(version(10), capacity_limits(4, 4));
        let (event, _) = history.record(version(12), Some(object(11, 0)), None, Instant::now());
        let delivered = || match event.watch_event(&Predicate::everything()) {
            Some(WatchEvent::Deleted(deleted)) => deleted,
            other => panic!("{other:?}"),
        };
        assert_eq!(delivered().revision, version(12));
        assert!(delivered().is(&delivered()));
    }

    proptest! {
        /// For events of any size at any distance, the history holds the newest of them, as many as its limits allow,
        /// and an older position is reported as too old.
        #[test]
        fn a_history_holds_the_newest_events(
            events in vec((0_u64..3, 0_u64..40, 0_usize..2000), 1..120),
            bytes_max in 0_usize..60_000,
        ) {
            let limits = Limits { bytes_max, ..capacity_limits(4, 32) };
            let mut history = History::new(version(10), limits);
            let (mut all, mut revision, mut now) = (Vec::new(), 10, Instant::now());
            for (step, seconds, bytes) in events {
                revision += step.max(u64::from(revision == 10));
                now += Duration::from_secs(seconds);
                all.push(revision);
                let (before, resized) = (history.capacity(), update(&mut history, revision, bytes, now));
                prop_assert_eq!(resized == Resized::Grown, history.capacity() > before);
                prop_assert_eq!(resized == Resized::Shrunk, history.capacity() < before);

                let left = history.events.len();
                prop_assert!((1..=history.capacity()).contains(&left));
                prop_assert!((4..=32).contains(&history.capacity()));
                let bytes: usize = history.events.iter().map(|event| event.bytes).sum();
                prop_assert_eq!(history.bytes, bytes);
                prop_assert!(left == 1 || bytes <= bytes_max);
                let revisions = history.events.iter().map(|event| event.revision.get());
                prop_assert!(all[all.len() - left..].iter().copied().eq(revisions));

                let removed = all[..all.len() - left].last().copied().unwrap_or(10);
                for asked in 9..=revision + 1 {
                    let newer = all.iter().copied().filter(|newer| *newer > asked);
                    let expected = if asked < removed { Err(removed) } else { Ok(newer.collect()) };
                    prop_assert_eq!(revisions_after(&history, asked), expected, "after {}", asked);
                }
            }
        }
    }
}
