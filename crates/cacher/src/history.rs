//! Recent events of one resource, oldest first, so that a watch resumes without listing again.
//!
//! Kept true by [`History::push`] and [`History::reset`] alone: revisions never fall (and rise, but for what etcd
//! deletes together); an event leaves only at the old end; at most `capacity` events are kept, and at most
//! `bytes_max` bytes of values that nobody else needs, the newest event aside.
//!
//! Resuming after `r` needs every event after `r`; once one of them is gone the answer is [`TooOld`].
//! Not here: current objects (`store`), who is listening (`interest`).

use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Object, Predicate, WatchEvent};
use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::Instant;

/// Fewer events are never made room for.
const LOWER_BOUND_EVENTS: usize = 100;
/// More events are not kept, for a fresh duration of up to [`FRESH_DURATION_MIN`].
const UPPER_BOUND_EVENTS: usize = 102_400;
/// How often the upper bound is doubled at the most for a longer fresh duration.
const UPPER_BOUND_DOUBLINGS_MAX: u32 = 14;
/// The shortest time that events are to be kept for, if there is room for them.
pub(crate) const FRESH_DURATION_MIN: Duration = Duration::from_secs(75);
/// What an event costs beside the old value: itself, its place and the old object's metadata.
const EVENT_BYTES: usize = 256;

/// One change, with what was before it.
pub(crate) struct Event {
    pub(crate) revision: ResourceVersion,
    /// Absent if it was created.
    pub(crate) old: Option<Object>,
    /// Absent if it was deleted.
    pub(crate) new: Option<Object>,
    /// The old object with this event's revision: how its going out of sight is told. Made once, for all.
    gone: OnceLock<Object>,
    arrived: Instant,
}

impl Event {
    /// # Panics
    /// If there is neither an old object nor a new one.
    pub(crate) fn new(
        revision: ResourceVersion,
        old: Option<Object>,
        new: Option<Object>,
        arrived: Instant,
    ) -> Self {
        assert!(old.is_some() || new.is_some(), "an event is about an object");
        Self { revision, old, new, gone: OnceLock::new(), arrived }
    }

    /// The object before or after the event, whichever there is.
    pub(crate) fn object(&self) -> &Object {
        self.new.as_ref().or(self.old.as_ref()).expect("checked when it was made")
    }

    /// What a watcher is told who sees only what `predicate` lets pass.
    pub(crate) fn seen_through(&self, predicate: &Predicate) -> Option<WatchEvent> {
        let sees = |object: &&Object| predicate.is_everything() || predicate.matches(&object.attributes);
        match (self.old.as_ref().filter(sees), self.new.as_ref().filter(sees)) {
            (None, None) => None,
            (None, Some(new)) => Some(WatchEvent::Added(new.clone())),
            (Some(_), Some(new)) => Some(WatchEvent::Modified(new.clone())),
            (Some(old), None) => {
                Some(WatchEvent::Deleted(self.gone.get_or_init(|| old.at(self.revision)).clone()))
            }
        }
    }

    /// What keeping it costs: the new object is current, or the next event's old one.
    fn bytes(&self) -> usize {
        EVENT_BYTES + self.old.as_ref().map_or(0, |old| old.value.len())
    }
}

/// How much history is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) fresh: Duration,
    pub(crate) lower: usize,
    pub(crate) upper: usize,
    pub(crate) bytes_max: usize,
}

impl Limits {
    /// Those for events that are to be kept for `fresh`, or [`FRESH_DURATION_MIN`] if that is longer.
    pub(crate) fn new(fresh: Duration, bytes_max: usize) -> Self {
        let fresh = fresh.max(FRESH_DURATION_MIN);
        let mut doublings = 0;
        while FRESH_DURATION_MIN * 2_u32.pow(doublings) < fresh && doublings < UPPER_BOUND_DOUBLINGS_MAX {
            doublings += 1;
        }
        Self { fresh, lower: LOWER_BOUND_EVENTS, upper: UPPER_BOUND_EVENTS << doublings, bytes_max }
    }
}

/// A position is older than the history. This is the oldest one that is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooOld(pub(crate) ResourceVersion);

/// How the capacity changed.
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
    /// Every event after this revision is here.
    begins_after: ResourceVersion,
}

impl History {
    pub(crate) fn new(begins_after: ResourceVersion, limits: Limits) -> Self {
        Self { events: VecDeque::new(), limits, capacity: limits.lower, bytes: 0, begins_after }
    }

    /// Forgets all events: the next ones come after this revision, and what was between is not known.
    pub(crate) fn reset(&mut self, begins_after: ResourceVersion) {
        self.events.clear();
        self.bytes = 0;
        self.begins_after = begins_after;
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The oldest revision after which a watch can begin.
    pub(crate) fn begins_after(&self) -> ResourceVersion {
        self.begins_after
    }

    /// Adds the newest event, forgetting old ones where that is needed.
    pub(crate) fn push(&mut self, event: Arc<Event>) -> Resized {
        let resized = self.resize(event.arrived);
        while self.events.len() >= self.capacity {
            self.forget_oldest();
        }
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.bytes > self.limits.bytes_max && self.events.len() > 1 {
            self.forget_oldest();
        }
        resized
    }

    /// A full history grows while its oldest event is still fresh, and shrinks when most are not.
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
                self.forget_oldest();
            }
            self.events.shrink_to(self.capacity);
            return resized;
        }
        Resized::No
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes -= oldest.bytes();
            // If the next one has the same revision, nobody may begin between the two.
            self.begins_after = oldest.revision;
        }
    }

    /// Whether a watch can begin after a revision.
    pub(crate) fn reaches(&self, revision: ResourceVersion) -> Result<(), TooOld> {
        if revision < self.begins_after { Err(TooOld(self.begins_after)) } else { Ok(()) }
    }

    /// The events after a revision, oldest first.
    pub(crate) fn after(
        &self,
        revision: ResourceVersion,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, TooOld> {
        self.reaches(revision)?;
        let begin = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(begin..))
    }
}
