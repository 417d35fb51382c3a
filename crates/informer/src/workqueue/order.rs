//! The order in which items are handed out.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};
use tokio::time::Instant;

/// An order of items. It holds every item at most once.
pub trait Order<T>: Send {
    /// Adds an item.
    fn push(&mut self, item: T, priority: i32, now: Instant);

    /// An item that is already in the order was added again.
    fn touch(&mut self, item: &T, priority: i32);

    /// Removes and returns the next item.
    fn pop(&mut self) -> Option<T>;

    /// The number of items.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// First in, first out. Priorities are ignored.
#[derive(Debug)]
pub struct Fifo<T>(VecDeque<T>);

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo(VecDeque::new())
    }
}

impl<T: Send> Order<T> for Fifo<T> {
    fn push(&mut self, item: T, _: i32, _: Instant) {
        self.0.push_back(item);
    }

    fn touch(&mut self, _: &T, _: i32) {}

    fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Higher priorities first, with aging: an item that has waited one step longer equals one with a priority higher by
/// one. So every item is handed out eventually.
///
/// All items age at the same rate, so the order of two items never changes and is computed only once.
#[derive(Debug)]
pub struct Aged<T> {
    step: Duration,
    began: Instant,
    items: BTreeMap<Rank, T>,
    ranks: HashMap<T, (Rank, i32)>,
    pushed: u64,
}

/// The time at which an item of priority zero would have the same rank, in nanoseconds; and a sequence number.
type Rank = (i128, u64);

impl<T: Clone + Eq + Hash> Aged<T> {
    /// An order in which waiting for `step` equals one degree of priority.
    pub fn new(step: Duration) -> Self {
        Aged { step, began: Instant::now(), items: BTreeMap::new(), ranks: HashMap::new(), pushed: 0 }
    }

    fn insert(&mut self, item: T, rank: Rank, priority: i32) {
        self.ranks.insert(item.clone(), (rank, priority));
        self.items.insert(rank, item);
    }

    fn head_start(&self, priority: i32) -> i128 {
        i128::try_from(self.step.as_nanos()).unwrap_or(i128::MAX).saturating_mul(i128::from(priority))
    }
}

impl<T: Clone + Eq + Hash + Send> Order<T> for Aged<T> {
    fn push(&mut self, item: T, priority: i32, now: Instant) {
        let age = i128::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(i128::MAX);
        self.pushed += 1;
        let rank = (age.saturating_sub(self.head_start(priority)), self.pushed);
        self.insert(item, rank, priority);
    }

    /// The higher priority counts, with the age of the item.
    fn touch(&mut self, item: &T, priority: i32) {
        let Some((rank, before)) = self.ranks.get(item).copied().filter(|(_, before)| *before < priority)
        else {
            return;
        };
        if let Some(item) = self.items.remove(&rank) {
            let gained = self.head_start(priority).saturating_sub(self.head_start(before));
            self.insert(item, (rank.0.saturating_sub(gained), rank.1), priority);
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (_, item) = self.items.pop_first()?;
        self.ranks.remove(&item);
        Some(item)
    }

    fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(10);

    /// The order of items that are added at these seconds with these priorities.
    fn popped(items: &[(&'static str, i32, u64)]) -> Vec<&'static str> {
        let mut order = Aged::new(STEP);
        for (item, priority, second) in items {
            let now = order.began + Duration::from_secs(*second);
            order.push(*item, *priority, now);
        }
        std::iter::from_fn(|| order.pop()).collect()
    }

    #[tokio::test]
    async fn higher_priorities_come_first_and_equal_ones_in_order() {
        assert_eq!(
            popped(&[("a", 0, 0), ("b", 5, 1), ("c", 0, 0), ("d", 5, 1), ("e", -1, 0)]),
            ["b", "d", "a", "c", "e"]
        );
    }

    #[tokio::test]
    async fn an_item_that_has_waited_long_enough_is_not_overtaken() {
        assert_eq!(popped(&[("old", 0, 0), ("early", 1, 9), ("late", 1, 11)]), ["early", "old", "late"]);
    }

    #[tokio::test]
    async fn an_item_that_is_added_again_keeps_its_age_and_the_higher_priority() {
        let mut order = Aged::new(STEP);
        let now = order.began;
        order.push("a", 0, now);
        order.push("b", 1, now);
        order.touch(&"a", 2);
        order.touch(&"a", 1);
        order.touch(&"z", 9);
        assert_eq!((order.len(), order.pop(), order.pop(), order.pop()), (2, Some("a"), Some("b"), None));
    }

    #[tokio::test]
    async fn extreme_priorities_do_not_overflow() {
        let mut order = Aged::new(Duration::MAX);
        let now = order.began;
        order.push("low", i32::MIN, now);
        order.push("high", i32::MAX, now);
        order.touch(&"low", i32::MAX);
        assert_eq!(order.len(), 2);
    }
}
