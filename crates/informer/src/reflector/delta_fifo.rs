//! The queue between a watch and the store: deltas in the order in which the server sent them.
//!
//! client-go has two such queues, and its feature gate `InOrderInformers` selects one: `DeltaFIFO` groups deltas by
//! object, `RealFIFO` keeps the order of the watch. This one keeps the order. Grouping would change nothing but the order
//! between objects, because the task that reads a watch applies the queue before it reads on.
//!
//! Invariants: no entry is merged or dropped; a batch holds every key at most once, so that it can be applied in one step.
//! A list is one entry: which objects it deletes is decided when it is applied, by comparison with the store at that time.

use super::Delta;
use crate::object::ObjectKey;
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

/// The most deltas in one batch.
pub const BATCH_MAX: usize = 1000;

/// One entry of a [`DeltaFifo`].
#[derive(Debug)]
pub enum Entry<O> {
    /// One object changed.
    Delta(ObjectKey, Delta<O>),
    /// A list replaces all objects.
    Replace {
        /// The resource version of the list.
        version: String,
        /// The objects of the list.
        objects: Vec<(ObjectKey, Arc<O>)>,
    },
    /// A resync: every object in the store is delivered again.
    Resync {
        /// The ids of the listeners that are due for a resync.
        listeners: Vec<u64>,
    },
    /// A bookmark: the server has sent every change up to this resource version.
    Bookmark {
        /// The resource version.
        version: String,
    },
}

/// A first-in, first-out queue of deltas. It is plain data: the caller provides locking.
#[derive(Debug)]
pub struct DeltaFifo<O> {
    entries: VecDeque<Entry<O>>,
    is_populated: bool,
    /// The number of entries up to the end of the first list that are not applied yet.
    initial_left: usize,
}

/// Entries to apply in one step: either several deltas of different objects, or one entry of another type.
#[derive(Debug)]
pub struct Batch<O> {
    /// The entries, in order.
    pub entries: Vec<Entry<O>>,
    /// Whether the entries belong to the first list.
    pub initial: bool,
}

impl<O> Default for DeltaFifo<O> {
    fn default() -> Self {
        DeltaFifo { entries: VecDeque::new(), is_populated: false, initial_left: 0 }
    }
}

impl<O> DeltaFifo<O> {
    /// Queues a change of one object.
    pub fn push(&mut self, key: ObjectKey, delta: Delta<O>) {
        self.is_populated = true;
        self.entries.push_back(Entry::Delta(key, delta));
    }

    /// Queues a list. Objects that are in the store and not in the list were deleted.
    pub fn replace(&mut self, version: String, objects: Vec<(ObjectKey, Arc<O>)>) {
        self.entries.push_back(Entry::Replace { version, objects });
        if !self.is_populated {
            self.is_populated = true;
            self.initial_left = self.entries.len();
        }
    }

    /// Queues a resync for these listeners.
    pub fn resync(&mut self, listeners: Vec<u64>) {
        self.entries.push_back(Entry::Resync { listeners });
    }

    /// Queues a bookmark.
    pub fn bookmark(&mut self, version: String) {
        self.entries.push_back(Entry::Bookmark { version });
    }

    /// Takes the next batch, with at most `max` deltas. The caller applies it and then calls [`DeltaFifo::applied`].
    pub fn pop_batch(&mut self, max: usize) -> Option<Batch<O>> {
        let initial = !self.has_synced();
        let mut keys: HashSet<ObjectKey> = HashSet::new();
        let room = if self.initial_left > 0 { self.initial_left.min(max) } else { max };
        let mut count = 0;
        for entry in &self.entries {
            match entry {
                Entry::Delta(key, _) if count < room && keys.insert(key.clone()) => count += 1,
                _ => break,
            }
        }
        // Entries of other types form a batch of their own.
        let entries: Vec<Entry<O>> = self.entries.drain(..count.max(1).min(self.entries.len())).collect();
        (!entries.is_empty()).then_some(Batch { entries, initial })
    }

    /// Records that the caller has applied this many entries.
    pub fn applied(&mut self, count: usize) {
        self.initial_left = self.initial_left.saturating_sub(count);
    }

    /// Whether the first list is applied. A delta before any list counts as synced, as in client-go.
    pub fn has_synced(&self) -> bool {
        self.is_populated && self.initial_left == 0
    }

    /// The number of queued entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        informer::{
            Overflow,
            listener::Listener,
            processor::{NotifyOptions, Processor},
        },
        object::Object,
        reflector::DeletedObject,
        store::Store,
        testing::{Thing, config_map, describe},
    };
    use futures::FutureExt;
    use std::time::Duration;

    /// A queue and its consumer: the store and one listener of an informer.
    struct Pipeline {
        queue: DeltaFifo<Thing>,
        processor: Processor<Thing>,
        listener: Arc<Listener<Thing>>,
    }

    impl Pipeline {
        /// The store holds these objects before the first delta.
        fn with(objects: &[&str]) -> Self {
            let store = Store::new("configmaps".to_owned(), 1);
            let processor = Processor::new(store.clone(), 1, Duration::ZERO, NotifyOptions::default());
            let objects = objects.iter().map(|text| keyed(text));
            store.replace(0, None, objects, String::new());
            let listener = processor.add_listener(None, Overflow::Coalesce).unwrap();
            processor.start();
            Pipeline { queue: DeltaFifo::default(), processor, listener }
        }

        fn added(&mut self, text: &str) {
            let (key, object) = keyed(text);
            self.queue.push(key, Delta::Added(object));
        }

        fn updated(&mut self, text: &str) {
            let (key, object) = keyed(text);
            self.queue.push(key, Delta::Updated(object));
        }

        fn deleted(&mut self, text: &str) {
            let (key, object) = keyed(text);
            self.queue.push(key, Delta::Deleted(DeletedObject::FinalState(object)));
        }

        fn replace(&mut self, texts: &[&str]) {
            self.queue.replace("7".to_owned(), texts.iter().map(|text| keyed(text)).collect());
        }

        /// Applies all entries and returns the events that the listener received.
        fn delivered(&mut self) -> String {
            while let Some(batch) = self.queue.pop_batch(BATCH_MAX) {
                let count = batch.entries.len();
                self.processor.apply(0, None, batch);
                self.queue.applied(count);
            }
            let next = || self.listener.next().now_or_never().flatten();
            describe(&std::iter::from_fn(next).collect::<Vec<_>>())
        }
    }

    fn keyed(text: &str) -> (ObjectKey, Arc<Thing>) {
        let object = config_map(text);
        (object.key(), object)
    }

    /// The next batch as text. It counts as applied.
    fn next_batch(queue: &mut DeltaFifo<Thing>, max: usize) -> Option<(String, bool)> {
        let batch = queue.pop_batch(max)?;
        queue.applied(batch.entries.len());
        let texts = batch.entries.iter().map(|entry| match entry {
            Entry::Delta(key, delta) => {
                format!("{} {key}", if delta.is_deletion() { "deleted" } else { "put" })
            }
            Entry::Replace { version, objects } => format!("replace {} at {version}", objects.len()),
            Entry::Resync { .. } => "resync".to_owned(),
            Entry::Bookmark { version } => format!("bookmark {version}"),
        });
        Some((texts.collect::<Vec<_>>().join(", "), batch.initial))
    }

    /// Case 34.
    #[tokio::test]
    async fn deltas_of_one_object_are_delivered_in_order_and_its_deletion_once() {
        let mut pipeline = Pipeline::with(&[]);
        pipeline.added("a@1");
        pipeline.added("b@1");
        pipeline.updated("a@2");
        pipeline.deleted("a@3");
        pipeline.deleted("a@4");
        assert_eq!(pipeline.delivered(), "added a@1, added b@1, updated a@1 a@2, deleted a@3");

        pipeline.added("a@5");
        pipeline.queue.push("a".into(), Delta::Deleted(DeletedObject::FinalStateUnknown("a".into(), None)));
        pipeline.deleted("a@6");
        assert_eq!(pipeline.delivered(), "added a@5, missed a@5");
    }

    /// Case 35.
    #[tokio::test]
    async fn the_deletion_of_an_unknown_object_is_not_delivered() {
        let mut pipeline = Pipeline::with(&["b@0"]);
        assert!(!pipeline.queue.has_synced());
        pipeline.deleted("a@1");
        assert_eq!(pipeline.delivered(), "");
        assert!(pipeline.queue.has_synced());
        pipeline.deleted("b@1");
        assert_eq!(pipeline.delivered(), "deleted b@1");
    }

    /// Case 36.
    #[tokio::test]
    async fn an_object_that_is_missing_from_a_list_is_deleted() {
        let mut pipeline = Pipeline::with(&["f@1", "r@1", "b@1"]);
        pipeline.deleted("b@2");
        pipeline.replace(&["f@2"]);
        assert_eq!(pipeline.delivered(), "deleted b@2, missed r@1, updated f@1 f@2");

        let mut pipeline = Pipeline::with(&["f@1", "r@1"]);
        pipeline.replace(&["f@2", "n@2"]);
        assert!(!pipeline.queue.has_synced());
        assert_eq!(pipeline.delivered(), "missed r@1, updated f@1 f@2, initial n@2");
        assert!(pipeline.queue.has_synced());
    }

    #[tokio::test]
    async fn a_missed_deletion_has_the_last_state_that_was_queued() {
        let mut pipeline = Pipeline::with(&[]);
        pipeline.added("a@1");
        pipeline.replace(&[]);
        pipeline.added("b@1");
        pipeline.updated("b@2");
        pipeline.replace(&[]);
        assert_eq!(pipeline.delivered(), "added a@1, missed a@1, added b@1, updated b@1 b@2, missed b@2");
    }

    /// Case 37.
    #[tokio::test]
    async fn the_deletions_of_a_list_are_delivered_before_its_objects() {
        let mut pipeline = Pipeline::with(&["r@1"]);
        pipeline.added("b@2");
        pipeline.deleted("r@2");
        pipeline.added("s@2");
        pipeline.replace(&["f@3", "b@3"]);
        let expected = "added b@2, deleted r@2, added s@2, missed s@2, added f@3, updated b@2 b@3";
        assert_eq!(pipeline.delivered(), expected);
    }

    /// Case 38.
    #[test]
    fn a_list_is_one_entry_and_the_queue_is_synced_once_it_is_applied() {
        let mut queue = DeltaFifo::<Thing>::default();
        queue.replace("5".to_owned(), vec![]);
        assert!(!queue.has_synced());
        let batch = queue.pop_batch(BATCH_MAX).unwrap();
        assert!(batch.initial && !queue.has_synced(), "the list is not applied yet");
        queue.applied(batch.entries.len());
        assert!(queue.has_synced() && queue.pop_batch(BATCH_MAX).is_none());

        queue.push("a".into(), Delta::Added(config_map("a@1")));
        queue.replace("6".to_owned(), vec![keyed("a@1")]);
        queue.replace("7".to_owned(), vec![]);
        let batches: Vec<_> = std::iter::from_fn(|| next_batch(&mut queue, BATCH_MAX)).collect();
        let expected = ["put a", "replace 1 at 6", "replace 0 at 7"];
        assert_eq!(batches, expected.map(|text| (text.to_owned(), false)));
    }

    /// Case 39.
    #[test]
    fn a_batch_holds_every_key_once_and_no_more_deltas_than_the_limit() {
        let mut queue = DeltaFifo::default();
        for text in ["a@1", "b@1", "c@1", "b@2", "d@1"] {
            let (key, object) = keyed(text);
            queue.push(key, Delta::Updated(object));
        }
        assert_eq!(next_batch(&mut queue, BATCH_MAX), Some(("put a, put b, put c".to_owned(), false)));
        assert_eq!(next_batch(&mut queue, 1), Some(("put b".to_owned(), false)));
        assert_eq!(next_batch(&mut queue, 1), Some(("put d".to_owned(), false)));
        assert_eq!(next_batch(&mut queue, 1), None);
    }

    /// Case 39.
    #[test]
    fn the_batches_of_the_first_list_end_with_it() {
        let mut queue = DeltaFifo::default();
        queue.bookmark("3".to_owned());
        queue.replace("5".to_owned(), vec![keyed("a@1")]);
        queue.push("d".into(), Delta::Added(config_map("d@6")));
        let batches: Vec<_> = std::iter::from_fn(|| next_batch(&mut queue, BATCH_MAX)).collect();
        let expected = [("bookmark 3", true), ("replace 1 at 5", true), ("put d", false)];
        assert_eq!(batches, expected.map(|(text, initial)| (text.to_owned(), initial)));
    }

    /// Case 40.
    #[tokio::test]
    async fn a_resync_delivers_the_state_after_the_queued_deltas() {
        let mut pipeline = Pipeline::with(&["a@1"]);
        pipeline.updated("a@2");
        pipeline.queue.resync(vec![pipeline.listener.id()]);
        pipeline.queue.resync(vec![pipeline.listener.id() + 1]);
        assert_eq!(pipeline.delivered(), "updated a@1 a@2, updated a@2 a@2");
        assert!(pipeline.queue.has_synced());
    }

    #[test]
    fn entries_other_than_deltas_are_batches_of_their_own() {
        let mut queue = DeltaFifo::default();
        queue.push("a".into(), Delta::Added(config_map("a@1")));
        queue.bookmark("7".to_owned());
        queue.resync(vec![]);
        queue.push("b".into(), Delta::Added(config_map("b@1")));
        queue.push("c".into(), Delta::Added(config_map("c@1")));
        let batches: Vec<_> =
            std::iter::from_fn(|| next_batch(&mut queue, BATCH_MAX)).map(|(text, _)| text).collect();
        assert_eq!(batches, ["put a", "bookmark 7", "resync", "put b, put c"]);
    }

    #[test]
    fn a_bookmark_alone_does_not_make_the_queue_synced() {
        let mut queue = DeltaFifo::<Thing>::default();
        queue.bookmark("7".to_owned());
        assert!(!queue.has_synced());
    }
}
