//! What one listener was not told yet.
//!
//! Kept true: what happened to one object is told in order. Up to [`VERBATIM_MAX`] events wait as they are; beyond that,
//! what happens to one object is told as one event, so no more wait than there are objects.
//!
//! Plain data: whoever shares it puts a lock around it.

use crate::{Cause, Event, Object, ObjectKey};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How many events wait for a listener as they are. What comes beyond is merged with what waits of the same object.
pub const VERBATIM_MAX: usize = 1024;

/// What is done when more events wait for a listener than [`VERBATIM_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// What happens to one object is told as one event: memory is bounded by the number of objects.
    #[default]
    Coalesce,
    /// All of them wait, as in client-go. A listener that never comes back takes all memory there is.
    Unbounded,
}

pub(crate) struct Backlog<O> {
    overflow: Overflow,
    verbatim: VecDeque<Event<O>>,
    /// What came when there was no more room; told after all that is verbatim.
    merged: Merged<O>,
    /// How many events of the first state were not delivered yet.
    initial_left: usize,
}

/// One event for each object, in the order in which they came.
struct Merged<O> {
    events: BTreeMap<u64, Event<O>>,
    places: HashMap<ObjectKey, u64>,
    count: u64,
}

impl<O: Object> Backlog<O> {
    pub(crate) fn new(overflow: Overflow) -> Self {
        let merged = Merged { events: BTreeMap::new(), places: HashMap::new(), count: 0 };
        Backlog { overflow, verbatim: VecDeque::new(), merged, initial_left: 0 }
    }

    pub(crate) fn push(&mut self, event: Event<O>) {
        self.initial_left += usize::from(event.is_initial());
        let has_room = self.merged.events.is_empty() && self.verbatim.len() < VERBATIM_MAX;
        if has_room || self.overflow == Overflow::Unbounded {
            self.verbatim.push_back(event);
        } else {
            self.initial_left -= self.merged.push(event);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event<O>> {
        self.verbatim.pop_front().or_else(|| self.merged.pop())
    }

    /// An event of the first state was delivered.
    pub(crate) fn delivered_initial(&mut self) {
        self.initial_left = self.initial_left.saturating_sub(1);
    }

    /// Whether all of the first state was delivered, as far as it came.
    pub(crate) fn has_delivered_initial(&self) -> bool {
        self.initial_left == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.verbatim.len() + self.merged.events.len()
    }

    /// Nobody wants them any more.
    pub(crate) fn clear(&mut self) {
        *self = Backlog::new(self.overflow);
    }
}

impl<O: Object> Merged<O> {
    /// Returns how many events of the first state need not be delivered any more.
    fn push(&mut self, event: Event<O>) -> usize {
        let key = event.key();
        let Some(place) = self.places.get(&key).copied() else {
            self.count += 1;
            self.places.insert(key, self.count);
            self.events.insert(self.count, event);
            return 0;
        };
        let Some(before) = self.events.remove(&place) else { return 0 };
        let initial = usize::from(before.is_initial()) + usize::from(event.is_initial());
        match merge(before, event) {
            Some(merged) => {
                let left = usize::from(merged.is_initial());
                self.events.insert(place, merged);
                initial - left
            }
            None => {
                self.places.remove(&key);
                initial
            }
        }
    }

    fn pop(&mut self) -> Option<Event<O>> {
        let (_, event) = self.events.pop_first()?;
        self.places.remove(&event.key());
        Some(event)
    }
}

/// Two events of one object as one; nothing if it came and went.
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
    use crate::testing::{config_map, told};

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

    fn full() -> Backlog<crate::testing::Thing> {
        let mut backlog = Backlog::new(Overflow::Coalesce);
        (0..VERBATIM_MAX).for_each(|_| backlog.push(added("x@1")));
        backlog
    }

    /// What comes after all that is told as it came.
    fn rest(backlog: &mut Backlog<crate::testing::Thing>) -> String {
        let all = std::iter::from_fn(|| backlog.pop()).skip(VERBATIM_MAX);
        told(&all.collect::<Vec<_>>())
    }

    /// Case 46.
    #[test]
    fn beyond_the_limit_what_happens_to_one_object_is_one_event() {
        for (first, then, expected) in [
            (added("a@1"), updated("a@1", "a@2"), "added a@2"),
            (updated("a@1", "a@2"), updated("a@2", "a@3"), "updated a@1 a@3"),
            (added("a@1"), deleted("a@2"), ""),
            (updated("a@1", "a@2"), deleted("a@3"), "deleted a@3"),
            (deleted("a@1"), added("a@2"), "updated a@1 a@2"),
        ] {
            let mut backlog = full();
            backlog.push(first);
            backlog.push(added("b@1"));
            backlog.push(then);
            let expected = [expected, "added b@1"].into_iter().filter(|text| !text.is_empty());
            assert_eq!(rest(&mut backlog), expected.collect::<Vec<_>>().join(", "));
        }
    }

    /// Case 46.
    #[test]
    fn an_object_of_the_first_state_that_went_before_it_was_told_counts_as_delivered() {
        let mut backlog = full();
        backlog.push(initial("a@1"));
        backlog.push(initial("b@1"));
        assert!(!backlog.has_delivered_initial());
        backlog.push(deleted("a@2"));
        backlog.push(updated("b@1", "b@2"));
        assert!(!backlog.has_delivered_initial());
        assert_eq!(rest(&mut backlog), "initial b@2");
        backlog.delivered_initial();
        assert!(backlog.has_delivered_initial());
    }

    /// Case 45.
    #[test]
    fn no_more_events_wait_than_the_limit_and_one_for_each_object() {
        let mut backlog = full();
        for version in 0..10_000 {
            backlog.push(updated(&format!("a@{version}"), &format!("a@{}", version + 1)));
            backlog.push(added(&format!("b@{version}")));
            backlog.push(deleted(&format!("b@{version}")));
        }
        assert_eq!(backlog.len(), VERBATIM_MAX + 1);
        assert_eq!(rest(&mut backlog), "updated a@0 a@10000");
        backlog.push(added("c@1"));
        assert_eq!(
            (backlog.verbatim.len(), backlog.len()),
            (1, 1),
            "what waits is told, so there is room again"
        );
    }

    #[test]
    fn a_listener_may_ask_for_everything() {
        let mut backlog = Backlog::new(Overflow::Unbounded);
        (0..5000).for_each(|_| backlog.push(added("a@1")));
        assert_eq!(backlog.len(), 5000);
    }
}
