//! The queue of an informer: what happened, in the order in which it happened.
//!
//! Kept true: nothing is merged or left out; what is handed out together has every key at most once, so that it can be
//! applied in one step. A whole list is one entry: what it means is found out when it is applied, against what is cached
//! then.

use crate::{Delta, Gone, Known, ObjectKey};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// How many deltas are handed out at once at the most.
pub const BATCH_MAX: usize = 1000;

/// One entry of the queue.
#[derive(Debug)]
pub enum Entry<O> {
    /// Something happened to an object.
    One(ObjectKey, Delta<O>),
    /// These are all objects, at this version.
    ReplacedAll {
        /// The version of the list.
        version: String,
        /// Its objects.
        objects: Vec<(ObjectKey, Arc<O>)>,
    },
    /// Everything that is cached is to be told once more.
    SyncAll {
        /// Whom, by number.
        listeners: Vec<u64>,
    },
    /// Nothing else has happened up to this version.
    Bookmark {
        /// The version.
        version: String,
    },
}

/// A queue of entries. Plain data: whoever shares it puts a lock around it.
#[derive(Debug)]
pub struct OrderedQueue<O> {
    entries: VecDeque<Entry<O>>,
    is_populated: bool,
    /// How many entries of the first list were not applied yet.
    initial_left: usize,
}

/// What is handed out at once: one entry that stands alone, or some deltas of different keys.
#[derive(Debug)]
pub struct Batch<O> {
    /// The entries, in order.
    pub entries: Vec<Entry<O>>,
    /// Whether they belong to the first list.
    pub initial: bool,
}

impl<O> Default for OrderedQueue<O> {
    fn default() -> Self {
        OrderedQueue { entries: VecDeque::new(), is_populated: false, initial_left: 0 }
    }
}

impl<O> OrderedQueue<O> {
    /// Something happened to an object.
    pub fn push(&mut self, key: ObjectKey, delta: Delta<O>) {
        self.is_populated = true;
        self.entries.push_back(Entry::One(key, delta));
    }

    /// These are all objects, at this version.
    pub fn replace_all(&mut self, version: String, objects: Vec<(ObjectKey, Arc<O>)>) {
        self.entries.push_back(Entry::ReplacedAll { version, objects });
        self.populate();
    }

    /// Everything that is cached is to be told once more, to these listeners.
    pub fn sync_all(&mut self, listeners: Vec<u64>) {
        self.entries.push_back(Entry::SyncAll { listeners });
    }

    /// Nothing else has happened up to this version.
    pub fn bookmark(&mut self, version: String) {
        self.entries.push_back(Entry::Bookmark { version });
    }

    /// The same as [`OrderedQueue::replace_all`], but what it means is found out now: what is queued or known and not
    /// among these objects is gone, and that was missed.
    pub fn replace(&mut self, objects: Vec<(ObjectKey, Arc<O>)>, known: &impl Known<O>) {
        let listed: HashSet<&ObjectKey> = objects.iter().map(|(key, _)| key).collect();
        let mut first_seen = Vec::new();
        let mut last: HashMap<&ObjectKey, &Delta<O>> = HashMap::new();
        for entry in &self.entries {
            if let Entry::One(key, delta) = entry
                && last.insert(key, delta).is_none()
            {
                first_seen.push(key);
            }
        }
        let queued = first_seen.into_iter().filter(|key| !listed.contains(*key) && !last[*key].is_deletion());
        let queued = queued.map(|key| (key.clone(), last[key].object().cloned()));
        let unqueued = |key: &ObjectKey| !listed.contains(key) && !last.contains_key(key);
        let known = known.keys().into_iter().filter(unqueued).map(|key| {
            let last = known.get(&key);
            (key, last)
        });
        let gone: Vec<_> = queued.chain(known).collect();
        for (key, last) in gone {
            self.entries.push_back(Entry::One(key.clone(), Delta::Deleted(Gone::Missed(key, last))));
        }
        for (key, object) in objects {
            self.entries.push_back(Entry::One(key, Delta::Replaced(object)));
        }
        self.populate();
    }

    /// The first list counts, unless something else came before.
    fn populate(&mut self) {
        if !self.is_populated {
            self.is_populated = true;
            self.initial_left = self.entries.len();
        }
    }

    /// Takes what can be applied together, up to `max` deltas. Whoever applied it says so with [`OrderedQueue::applied`].
    pub fn pop_batch(&mut self, max: usize) -> Option<Batch<O>> {
        let initial = !self.has_synced();
        let mut keys: HashSet<ObjectKey> = HashSet::new();
        let room = if self.initial_left > 0 { self.initial_left.min(max) } else { max };
        let mut count = 0;
        for entry in &self.entries {
            match entry {
                Entry::One(key, _) if count < room && keys.insert(key.clone()) => count += 1,
                _ => break,
            }
        }
        // What stands alone is taken alone.
        let entries: Vec<Entry<O>> = self.entries.drain(..count.max(1).min(self.entries.len())).collect();
        (!entries.is_empty()).then_some(Batch { entries, initial })
    }

    /// So many entries were applied.
    pub fn applied(&mut self, count: usize) {
        self.initial_left = self.initial_left.saturating_sub(count);
    }

    /// Whether everything of the first list was applied, or something else came before any list.
    pub fn has_synced(&self) -> bool {
        self.is_populated && self.initial_left == 0
    }

    /// How many entries are queued.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cache, seen, thing, words};

    fn key(name: &str) -> ObjectKey {
        name.into()
    }

    fn object(key_and_text: &str) -> (ObjectKey, Arc<String>) {
        (key(&key_and_text[..1]), thing(key_and_text))
    }

    /// The next batch, in words; it is applied.
    fn next(queue: &mut OrderedQueue<String>, max: usize) -> Option<(String, bool)> {
        let batch = queue.pop_batch(max)?;
        queue.applied(batch.entries.len());
        let told = batch.entries.iter().map(|entry| match entry {
            Entry::One(_, delta) => words(std::slice::from_ref(delta)),
            Entry::ReplacedAll { version, objects } => format!("all {} at {version}", objects.len()),
            Entry::SyncAll { .. } => "sync all".to_owned(),
            Entry::Bookmark { version } => format!("bookmark {version}"),
        });
        Some((told.collect::<Vec<_>>().join(", "), batch.initial))
    }

    fn all(queue: &mut OrderedQueue<String>) -> Vec<String> {
        std::iter::from_fn(|| next(queue, 1)).map(|(told, _)| told).collect()
    }

    /// Case 37.
    #[test]
    fn of_a_list_what_is_gone_comes_first() {
        let known = Cache::of(&[("f", "foo"), ("r", "bar"), ("b", "baz")]);
        let mut queue = OrderedQueue::default();
        queue.push(key("b"), Delta::Deleted(seen("baz")));
        queue.replace(vec![object("foo")], &known);
        assert_eq!(all(&mut queue), ["deleted baz", "missed bar", "replaced foo"]);

        queue.push(key("b"), Delta::Added(thing("baz")));
        queue.replace(vec![object("foo")], &known);
        assert_eq!(all(&mut queue), ["added baz", "missed baz", "missed bar", "replaced foo"]);
    }

    /// Case 38.
    #[test]
    fn a_list_is_one_entry_and_an_empty_one_has_to_be_applied_too() {
        let mut queue = OrderedQueue::<String>::default();
        queue.replace_all("5".to_owned(), vec![]);
        assert!(!queue.has_synced());
        let batch = queue.pop_batch(BATCH_MAX).unwrap();
        assert!(batch.initial && !queue.has_synced(), "it is not applied yet");
        queue.applied(batch.entries.len());
        assert!(queue.has_synced());

        queue.push(key("a"), Delta::Added(thing("a1")));
        queue.replace_all("6".to_owned(), vec![object("a1")]);
        queue.replace_all("7".to_owned(), vec![]);
        assert_eq!(all(&mut queue), ["added a1", "all 1 at 6", "all 0 at 7"]);
    }

    /// Case 39.
    #[test]
    fn a_batch_has_every_key_once_and_ends_with_the_first_list() {
        let three = || vec![object("a1"), object("b1"), object("c1")];
        let mut queue = OrderedQueue::default();
        queue.replace(three(), &Cache::default());
        queue.push(key("b"), Delta::Updated(thing("b2")));
        assert_eq!(
            next(&mut queue, BATCH_MAX),
            Some(("replaced a1, replaced b1, replaced c1".to_owned(), true))
        );
        assert!(queue.has_synced());
        assert_eq!(next(&mut queue, BATCH_MAX), Some(("updated b2".to_owned(), false)));

        let mut queue = OrderedQueue::default();
        queue.replace(three(), &Cache::default());
        queue.push(key("d"), Delta::Added(thing("d1")));
        let batches: Vec<_> = std::iter::from_fn(|| next(&mut queue, 2)).collect();
        let expected = [("replaced a1, replaced b1", true), ("replaced c1", true), ("added d1", false)];
        assert_eq!(batches, expected.map(|(told, initial)| (told.to_owned(), initial)));
    }

    #[test]
    fn what_stands_alone_is_handed_out_alone() {
        let mut queue = OrderedQueue::default();
        queue.push(key("a"), Delta::Added(thing("a1")));
        queue.bookmark("7".to_owned());
        queue.sync_all(vec![]);
        queue.push(key("b"), Delta::Added(thing("b1")));
        queue.push(key("c"), Delta::Added(thing("c1")));
        let batches: Vec<_> =
            std::iter::from_fn(|| next(&mut queue, BATCH_MAX)).map(|(told, _)| told).collect();
        assert_eq!(batches, ["added a1", "bookmark 7", "sync all", "added b1, added c1"]);
    }

    #[test]
    fn a_bookmark_before_any_list_means_nothing() {
        let mut queue = OrderedQueue::<String>::default();
        queue.bookmark("7".to_owned());
        assert!(!queue.has_synced());
    }
}
