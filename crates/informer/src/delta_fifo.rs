//! The classic queue of an informer: what happened to each object, taken together.
//!
//! Kept true: keys are handed out in the order in which they were first queued, each with everything that happened to its
//! object since it was last handed out, in order; only of two deletions in a row one is left out.

use crate::{Delta, Gone, Known, ObjectKey};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// A queue of deltas by key. Plain data: whoever shares it puts a lock around it.
#[derive(Debug)]
pub struct DeltaFifo<O> {
    deltas: HashMap<ObjectKey, Vec<Delta<O>>>,
    queue: VecDeque<ObjectKey>,
    is_populated: bool,
    /// How many of the first list's keys were not handed out yet.
    initial_left: usize,
}

/// What is handed out for a key.
#[derive(Debug)]
pub struct Popped<O> {
    /// Whose object.
    pub key: ObjectKey,
    /// What happened to it, oldest first.
    pub deltas: Vec<Delta<O>>,
    /// Whether it belongs to the first list.
    pub initial: bool,
}

impl<O> Default for DeltaFifo<O> {
    fn default() -> Self {
        DeltaFifo { deltas: HashMap::new(), queue: VecDeque::new(), is_populated: false, initial_left: 0 }
    }
}

impl<O> DeltaFifo<O> {
    /// An object was created.
    pub fn add(&mut self, key: ObjectKey, object: Arc<O>) {
        self.is_populated = true;
        self.push(key, Delta::Added(object));
    }

    /// An object was changed.
    pub fn update(&mut self, key: ObjectKey, object: Arc<O>) {
        self.is_populated = true;
        self.push(key, Delta::Updated(object));
    }

    /// An object is gone. If nobody has heard of it, nobody needs to.
    pub fn delete(&mut self, key: ObjectKey, gone: Gone<O>, known: &impl Known<O>) {
        self.is_populated = true;
        if self.deltas.contains_key(&key) || known.get(&key).is_some() {
            self.push(key, Delta::Deleted(gone));
        }
    }

    /// These are all objects: others that are queued or known are gone, and that was missed.
    pub fn replace(&mut self, objects: Vec<(ObjectKey, Arc<O>)>, known: &impl Known<O>) {
        let listed: HashSet<ObjectKey> = objects.iter().map(|(key, _)| key.clone()).collect();
        let queued_gone: Vec<(ObjectKey, Option<Arc<O>>)> = self
            .queue
            .iter()
            .filter(|key| !listed.contains(*key))
            .map(|key| (key.clone(), self.deltas[key].last().and_then(Delta::object).cloned()))
            .collect();
        let is_unqueued = |key: &ObjectKey| !listed.contains(key) && !self.deltas.contains_key(key);
        let known_gone: Vec<ObjectKey> = known.keys().into_iter().filter(is_unqueued).collect();
        let known_gone = known_gone.into_iter().map(|key| {
            let last = known.get(&key);
            (key, last)
        });
        let gone: Vec<_> = queued_gone.into_iter().chain(known_gone).collect();
        if !self.is_populated {
            self.is_populated = true;
            self.initial_left = listed.len() + gone.len();
        }
        for (key, object) in objects {
            self.push(key, Delta::Replaced(object));
        }
        for (key, last) in gone {
            self.push(key.clone(), Delta::Deleted(Gone::Missed(key, last)));
        }
    }

    /// Tells once more of everything that is known and of which nothing is queued.
    pub fn resync(&mut self, known: &impl Known<O>) {
        for key in known.keys() {
            if !self.deltas.contains_key(&key)
                && let Some(object) = known.get(&key)
            {
                self.push(key, Delta::Sync(object));
            }
        }
    }

    /// Takes the next key with all that happened to its object.
    pub fn pop(&mut self) -> Option<Popped<O>> {
        let key = self.queue.pop_front()?;
        let initial = !self.has_synced();
        self.initial_left = self.initial_left.saturating_sub(1);
        let deltas = self.deltas.remove(&key).unwrap_or_default();
        Some(Popped { key, deltas, initial })
    }

    /// Whether everything of the first list was handed out, or something else came before any list.
    pub fn has_synced(&self) -> bool {
        self.is_populated && self.initial_left == 0
    }

    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn push(&mut self, key: ObjectKey, delta: Delta<O>) {
        let deltas = self.deltas.entry(key.clone()).or_insert_with(|| {
            self.queue.push_back(key);
            Vec::new()
        });
        match (deltas.last_mut(), &delta) {
            // Of two deletions the one counts that was seen, else the first.
            (Some(Delta::Deleted(before)), Delta::Deleted(now)) => {
                if before.is_missed() {
                    *before = now.clone();
                }
            }
            _ => deltas.push(delta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cache, seen, thing, words};

    fn key(name: &str) -> ObjectKey {
        name.into()
    }

    /// Everything that comes out, in words.
    fn popped(queue: &mut DeltaFifo<String>) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|popped| format!("{}: {}", popped.key, words(&popped.deltas)))
            .collect()
    }

    /// Case 34.
    #[test]
    fn what_happens_to_one_object_is_told_at_once_and_its_end_once() {
        let (mut queue, known) = (DeltaFifo::default(), Cache::default());
        queue.add(key("a"), thing("a1"));
        queue.add(key("b"), thing("b1"));
        queue.update(key("a"), thing("a2"));
        queue.delete(key("a"), seen("a3"), &known);
        queue.delete(key("a"), seen("a4"), &known);
        assert_eq!(popped(&mut queue), ["a: added a1, updated a2, deleted a3", "b: added b1"]);

        queue.add(key("a"), thing("a1"));
        queue.delete(key("a"), Gone::Missed(key("a"), None), &known);
        queue.delete(key("a"), seen("a2"), &known);
        assert_eq!(popped(&mut queue), ["a: added a1, deleted a2"]);
    }

    /// Case 35.
    #[test]
    fn the_end_of_what_nobody_knows_is_not_told() {
        let mut queue = DeltaFifo::<String>::default();
        assert!(!queue.has_synced());
        queue.delete(key("a"), seen("a1"), &Cache::default());
        assert!(queue.is_empty() && queue.has_synced());
        queue.delete(key("a"), seen("a1"), &Cache::of(&[("a", "a0")]));
        assert_eq!(popped(&mut queue), ["a: deleted a1"]);
    }

    /// Case 36.
    #[test]
    fn what_is_not_in_a_list_is_gone() {
        let known = Cache::of(&[("f", "foo"), ("r", "bar"), ("b", "baz")]);
        let mut queue = DeltaFifo::default();
        queue.delete(key("b"), seen("baz"), &known);
        queue.replace(vec![(key("f"), thing("foo"))], &known);
        assert_eq!(popped(&mut queue), ["b: deleted baz", "f: replaced foo", "r: missed bar"]);

        let mut queue = DeltaFifo::default();
        queue.replace(vec![(key("f"), thing("foo"))], &known);
        let mut told = Vec::new();
        for left in [2, 1, 0] {
            let popped = queue.pop().unwrap();
            assert!(popped.initial);
            told.push(popped.key.to_string());
            assert_eq!(queue.has_synced(), left == 0);
        }
        told[1..].sort();
        assert_eq!(told, ["f", "b", "r"]);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn a_missed_deletion_has_the_last_that_was_queued() {
        let mut queue = DeltaFifo::default();
        queue.add(key("a"), thing("a1"));
        queue.replace(vec![], &Cache::default());
        queue.add(key("b"), thing("b1"));
        queue.replace(vec![], &Cache::default());
        assert_eq!(popped(&mut queue), ["a: added a1, missed a1", "b: added b1, missed b1"]);
    }

    #[test]
    fn an_empty_first_list_is_all_there_is() {
        let mut queue = DeltaFifo::<String>::default();
        queue.replace(vec![], &Cache::default());
        assert!(queue.has_synced() && queue.pop().is_none());
    }

    /// Case 40.
    #[test]
    fn only_what_is_not_queued_is_told_again() {
        let mut queue = DeltaFifo::default();
        queue.update(key("a"), thing("a2"));
        queue.resync(&Cache::of(&[("a", "a1"), ("b", "b1")]));
        assert_eq!(popped(&mut queue), ["a: updated a2", "b: sync b1"]);
        assert!(queue.has_synced());
    }
}
