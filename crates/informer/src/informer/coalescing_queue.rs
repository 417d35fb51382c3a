//! The events that one listener has not received yet.
//!
//! Invariants: the events of one object are delivered in order. Up to [`UNMERGED_EVENTS_MAX`] events wait unmerged;
//! beyond that the events of one object are merged into one, so the queue never holds more than that number plus one
//! event per object.
//!
//! This is plain data: the caller provides locking.

use crate::{
    informer::{Cause, Event},
    object::{Object, ObjectKey},
};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The number of events that wait for a listener unmerged. Later events are merged with the waiting event of the same
/// object.
pub const UNMERGED_EVENTS_MAX: usize = 1024;

/// The behaviour when more than [`UNMERGED_EVENTS_MAX`] events wait for a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The events of one object are merged into one, so memory is bounded by the number of objects.
    #[default]
    Coalesce,
    /// All events are queued, as in client-go. A handler that never returns makes the queue grow without limit.
    Unbounded,
}

pub(crate) struct CoalescingQueue<O> {
    overflow: Overflow,
    unmerged: VecDeque<Event<O>>,
    /// Events that arrived while the queue was full. They are delivered after the unmerged ones.
    coalesced: Coalesced<O>,
    /// The number of initial events that are not delivered yet.
    initial_left: usize,
}

/// One event per object, in the order of their first events.
struct Coalesced<O> {
    events: BTreeMap<u64, Event<O>>,
    positions: HashMap<ObjectKey, u64>,
    count: u64,
}

impl<O: Object> CoalescingQueue<O> {
    pub(crate) fn new(overflow: Overflow) -> Self {
        let coalesced = Coalesced { events: BTreeMap::new(), positions: HashMap::new(), count: 0 };
        CoalescingQueue { overflow, unmerged: VecDeque::new(), coalesced, initial_left: 0 }
    }

    pub(crate) fn push(&mut self, event: Event<O>) {
        self.initial_left += usize::from(event.is_initial());
        let has_room = self.coalesced.events.is_empty() && self.unmerged.len() < UNMERGED_EVENTS_MAX;
        if has_room || self.overflow == Overflow::Unbounded {
            self.unmerged.push_back(event);
        } else {
            self.initial_left -= self.coalesced.push(event);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event<O>> {
        self.unmerged.pop_front().or_else(|| self.coalesced.pop())
    }

    /// Records that an initial event was delivered.
    pub(crate) fn delivered_initial(&mut self) {
        self.initial_left = self.initial_left.saturating_sub(1);
    }

    /// Whether all initial events that were queued are delivered.
    pub(crate) fn has_delivered_initial(&self) -> bool {
        self.initial_left == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.unmerged.len() + self.coalesced.events.len()
    }

    /// Drops all events.
    pub(crate) fn clear(&mut self) {
        *self = CoalescingQueue::new(self.overflow);
    }
}

impl<O: Object> Coalesced<O> {
    /// Returns how many initial events no longer have to be delivered.
    fn push(&mut self, event: Event<O>) -> usize {
        let key = event.key();
        let Some(position) = self.positions.get(&key).copied() else {
            self.count += 1;
            self.positions.insert(key, self.count);
            self.events.insert(self.count, event);
            return 0;
        };
        let Some(before) = self.events.remove(&position) else { return 0 };
        let initial = usize::from(before.is_initial()) + usize::from(event.is_initial());
        match merge(before, event) {
            Some(merged) => {
                let left = usize::from(merged.is_initial());
                self.events.insert(position, merged);
                initial - left
            }
            None => {
                self.positions.remove(&key);
                initial
            }
        }
    }

    fn pop(&mut self) -> Option<Event<O>> {
        let (_, event) = self.events.pop_first()?;
        self.positions.remove(&event.key());
        Some(event)
    }
}

/// Merges two events of one object; nothing if the object was added and deleted.
fn merge<O>(first: Event<O>, then: Event<O>) -> Option<Event<O>> {
    use Event::{Added, Deleted, Updated};
    Some(match (first, then) {
        (Added { initial, .. }, Updated { new, .. } | Added { obj: new, .. }) => Added { obj: new, initial },
        (Added { .. }, Deleted { .. }) => return None,
        (Updated { old, cause, .. }, Updated { new, cause: then, .. }) => {
            Updated { old, new, cause: cause.max(then) }
        }
        (Updated { .. }, deleted @ Deleted { .. }) => deleted,
        (Updated { old, .. } | Deleted { obj: old, .. }, Added { obj: new, .. }) => {
            Updated { old, new, cause: Cause::Watch }
        }
        (Deleted { .. }, other) => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config_map, describe};

    fn added(text: &str) -> Event<crate::testing::Thing> {
        Event::Added { obj: config_map(text), initial: false }
    }

    fn initial(text: &str) -> Event<crate::testing::Thing> {
        Event::Added { obj: config_map(text), initial: true }
    }

    fn updated(old: &str, new: &str) -> Event<crate::testing::Thing> {
        Event::Updated { old: config_map(old), new: config_map(new), cause: Cause::Watch }
    }

    fn deleted(text: &str) -> Event<crate::testing::Thing> {
        Event::Deleted { obj: config_map(text), final_state_unknown: false }
    }

    fn full() -> CoalescingQueue<crate::testing::Thing> {
        let mut queue = CoalescingQueue::new(Overflow::Coalesce);
        (0..UNMERGED_EVENTS_MAX).for_each(|_| queue.push(added("x@1")));
        queue
    }

    /// The events behind the unmerged ones, as text.
    fn rest(queue: &mut CoalescingQueue<crate::testing::Thing>) -> String {
        let all = std::iter::from_fn(|| queue.pop()).skip(UNMERGED_EVENTS_MAX);
        describe(&all.collect::<Vec<_>>())
    }

    /// Case 46.
    #[test]
    fn beyond_the_limit_the_events_of_one_object_are_merged() {
        for (first, then, expected) in [
            (added("a@1"), updated("a@1", "a@2"), "added a@2"),
            (updated("a@1", "a@2"), updated("a@2", "a@3"), "updated a@1 a@3"),
            (added("a@1"), deleted("a@2"), ""),
            (updated("a@1", "a@2"), deleted("a@3"), "deleted a@3"),
            (deleted("a@1"), added("a@2"), "updated a@1 a@2"),
        ] {
            let mut queue = full();
            queue.push(first);
            queue.push(added("b@1"));
            queue.push(then);
            let expected = [expected, "added b@1"].into_iter().filter(|text| !text.is_empty());
            assert_eq!(rest(&mut queue), expected.collect::<Vec<_>>().join(", "));
        }
    }

    /// Case 46.
    #[test]
    fn an_initial_object_that_is_deleted_before_delivery_counts_as_delivered() {
        let mut queue = full();
        queue.push(initial("a@1"));
        queue.push(initial("b@1"));
        assert!(!queue.has_delivered_initial());
        queue.push(deleted("a@2"));
        queue.push(updated("b@1", "b@2"));
        assert!(!queue.has_delivered_initial());
        assert_eq!(rest(&mut queue), "initial b@2");
        queue.delivered_initial();
        assert!(queue.has_delivered_initial());
    }

    /// Case 45.
    #[test]
    fn the_queue_holds_at_most_the_limit_and_one_event_per_object() {
        let mut queue = full();
        for version in 0..10_000 {
            queue.push(updated(&format!("a@{version}"), &format!("a@{}", version + 1)));
            queue.push(added(&format!("b@{version}")));
            queue.push(deleted(&format!("b@{version}")));
        }
        assert_eq!(queue.len(), UNMERGED_EVENTS_MAX + 1);
        assert_eq!(rest(&mut queue), "updated a@0 a@10000");
        queue.push(added("c@1"));
        assert_eq!(
            (queue.unmerged.len(), queue.len()),
            (1, 1),
            "the waiting events were taken, so there is room again"
        );
    }

    #[test]
    fn a_listener_can_ask_for_every_event() {
        let mut queue = CoalescingQueue::new(Overflow::Unbounded);
        (0..5000).for_each(|_| queue.push(added("a@1")));
        assert_eq!(queue.len(), 5000);
    }
}
