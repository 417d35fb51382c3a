//! The predicates of the watchers: equal ones are in memory once, and evaluated once for each event.
//!
//! A client may open thousands of watches with the same selector of thousands of terms. Their watchers share a
//! [`SharedPredicate`], which keeps its result for the event that is being dispatched.
//!
//! Kept true: of equal predicates that are in use one is kept; a predicate that is no longer in use takes no memory.

use crate::history::{Event, Matches};
use keepwatch_storage::{Attributes, Object, Predicate, WatchEvent};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    ops::Deref,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// The predicates that are in use.
#[derive(Default)]
pub(crate) struct Predicates {
    by_hash: Mutex<HashMap<u64, Weak<SharedPredicate>>>,
    hasher: RandomState,
}

/// The predicate of one or more watchers.
pub(crate) struct SharedPredicate {
    predicate: Predicate,
    hash: u64,
    predicates: Weak<Predicates>,
    /// The number of the event for which the predicate was evaluated last, and the result in the two lowest bits.
    last_result: AtomicU64,
}

impl Predicates {
    /// The predicate, in the same memory as an equal one that is in use.
    pub(crate) fn share(self: &Arc<Self>, predicate: Predicate) -> Arc<SharedPredicate> {
        let hash = self.hasher.hash_one(&predicate);
        let new = Arc::new(SharedPredicate::new(predicate, hash, Arc::downgrade(self)));
        let in_use = {
            let mut by_hash = self.by_hash.lock();
            let in_use = by_hash.get(&hash).and_then(Weak::upgrade);
            if in_use.is_none() {
                by_hash.insert(hash, Arc::downgrade(&new));
            }
            in_use
        };
        // Two different predicates with one hash are rare; the second is not shared. It is compared, and dropped, without
        // the lock, which its `drop` takes.
        in_use.filter(|in_use| in_use.predicate == new.predicate).unwrap_or(new)
    }
}

impl SharedPredicate {
    fn new(predicate: Predicate, hash: u64, predicates: Weak<Predicates>) -> Self {
        Self { predicate, hash, predicates, last_result: AtomicU64::new(0) }
    }

    /// A predicate that is not shared with later watchers.
    #[cfg(test)]
    pub(crate) fn unshared(predicate: Predicate) -> Arc<Self> {
        Arc::new(Self::new(predicate, 0, Weak::new()))
    }

    fn terms(&self) -> usize {
        self.predicate.labels.requirements().len() + self.predicate.fields.terms().len()
    }
}

impl Deref for SharedPredicate {
    type Target = Predicate;

    fn deref(&self) -> &Predicate {
        &self.predicate
    }
}

impl Drop for SharedPredicate {
    fn drop(&mut self) {
        let Some(predicates) = self.predicates.upgrade() else { return };
        let mut by_hash = predicates.by_hash.lock();
        // An equal predicate may have come into use in the meantime.
        if by_hash.get(&self.hash).is_some_and(|in_use| in_use.strong_count() == 0) {
            by_hash.remove(&self.hash);
        }
        let len = by_hash.len();
        if len * 4 < by_hash.capacity() {
            by_hash.shrink_to(len * 2);
        }
    }
}

/// An event that is being dispatched to watchers, while the state is locked.
pub(crate) struct Dispatch<'a> {
    pub(crate) event: Arc<Event>,
    old: Option<Version<'a>>,
    new: Option<Version<'a>>,
    /// A later event has a higher number. The first has the number one.
    number: u64,
    /// The number of watchers that the event was dispatched to, and of the terms of selectors that were evaluated for it.
    pub(crate) watchers: usize,
    pub(crate) terms: usize,
}

/// The object before or after an event.
struct Version<'a> {
    attributes: &'a Attributes,
    /// The labels by name, if there are many.
    labels: Option<HashMap<&'a str, &'a str>>,
}

impl<'a> Version<'a> {
    fn of(object: &'a Object) -> Self {
        Self { attributes: &object.attributes, labels: object.attributes.labels.by_name_if_many() }
    }

    fn matches(&self, predicate: &Predicate) -> bool {
        match &self.labels {
            _ if predicate.is_everything() => true,
            Some(labels) => predicate.matches_labels(labels, self.attributes),
            None => predicate.matches(self.attributes),
        }
    }
}

impl<'a> Dispatch<'a> {
    /// An event with its objects. No earlier event has the same number.
    pub(crate) fn new(
        event: Arc<Event>,
        number: u64,
        old: Option<&'a Object>,
        new: Option<&'a Object>,
    ) -> Self {
        Self { event, old: old.map(Version::of), new: new.map(Version::of), number, watchers: 0, terms: 0 }
    }

    /// The event that a watcher with this predicate receives, if any. The predicate is evaluated when this is called with
    /// it for the first time.
    pub(crate) fn watch_event(&mut self, predicate: &SharedPredicate) -> Option<WatchEvent> {
        self.watchers += 1;
        // Only the owner of the state's lock dispatches, so no other thread changes the result in between.
        let last = predicate.last_result.load(Ordering::Relaxed);
        let matches = if last >> Matches::BITS == self.number {
            Matches::from_bits(last)
        } else {
            let matches = |version: &Option<Version<'_>>| {
                version.as_ref().is_some_and(|version| version.matches(predicate))
            };
            let matches = Matches { old: matches(&self.old), new: matches(&self.new) };
            predicate.last_result.store(self.number << Matches::BITS | matches.bits(), Ordering::Relaxed);
            self.terms += predicate.terms();
            matches
        };
        self.event.watch_event_if(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, Limits};
    use keepwatch_apimachinery::{ResourceVersion, selector::LabelSelector};
    use keepwatch_storage::{Key, Version};
    use std::time::Duration;
    use tokio::time::Instant;

    fn predicate(labels: &str) -> Predicate {
        Predicate { labels: LabelSelector::parse(labels).unwrap(), ..Predicate::default() }
    }

    fn long_selector() -> String {
        (0..4000).map(|number| format!("a{number} notin (b)")).collect::<Vec<_>>().join(",")
    }

    fn object(revision: u64, labels: &[(&str, &str)]) -> Object {
        let revision = ResourceVersion::new(revision).unwrap();
        let attributes = Attributes { labels: labels.iter().copied().collect(), ..Attributes::default() };
        Version { key: Key::from_backend("/a"), value: "{}".into(), revision, attributes: attributes.into() }
            .into()
    }

    fn kind(event: Option<WatchEvent>) -> &'static str {
        match event {
            Some(WatchEvent::Modified(_)) => "MODIFIED",
            Some(WatchEvent::Added(_)) => "ADDED",
            Some(WatchEvent::Deleted(_)) => "DELETED",
            _ => "nothing",
        }
    }

    /// An update of an object, with this number.
    fn update<'a>(number: u64, old: &'a Object, new: &'a Object) -> Dispatch<'a> {
        let limits = Limits::new(Duration::ZERO, usize::MAX);
        let mut history = History::new(ResourceVersion::new(1).unwrap(), limits);
        let now = Instant::now();
        let event = history.record(new.revision, Some(old.clone()), Some(new.clone()), now).0;
        Dispatch::new(event, number, Some(old), Some(new))
    }

    /// Each of 1,800 watches with a selector of 30 KB had its own copy of it, with 4,000 strings.
    #[test]
    fn equal_predicates_are_in_memory_once_while_they_are_in_use() {
        let predicates = Arc::new(Predicates::default());
        let shared: Vec<_> = (0..20).map(|_| predicates.share(predicate(&long_selector()))).collect();
        assert!(shared.iter().all(|other| Arc::ptr_eq(other, &shared[0])));
        let other = predicates.share(predicate("app=web"));
        assert!(!Arc::ptr_eq(&other, &shared[0]));
        assert_eq!(predicates.by_hash.lock().len(), 2);
        drop(shared);
        assert_eq!(predicates.by_hash.lock().len(), 1);
        drop(other);
        assert_eq!(predicates.by_hash.lock().capacity(), 0);
        assert_eq!(predicates.share(predicate("app=web")).predicate, predicate("app=web"));
    }

    #[test]
    fn different_predicates_of_one_hash_are_kept_apart() {
        let predicates = Arc::new(Predicates::default());
        let web = predicates.share(predicate("app=web"));
        let hash = predicates.hasher.hash_one(predicate("app=db"));
        predicates.by_hash.lock().insert(hash, Arc::downgrade(&web));
        let db = predicates.share(predicate("app=db"));
        assert_eq!((&web.predicate, &db.predicate), (&predicate("app=web"), &predicate("app=db")));
        drop(db);
        assert!(predicates.by_hash.lock().contains_key(&hash), "it is that of the other");
    }

    #[test]
    fn an_object_of_many_labels_matches_as_one_of_few_does() {
        let names: Vec<_> = (0..1000).map(|number| format!("a{number}")).collect();
        let labels: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let predicates = Arc::new(Predicates::default());
        let (many, few) = (object(3, &labels), object(2, &[("a7", "x")]));
        for (selector, expected) in
            [("a7=x", "MODIFIED"), ("a8", "ADDED"), ("!a9", "DELETED"), ("b", "nothing")]
        {
            let mut dispatch = update(1, &few, &many);
            let event = dispatch.watch_event(&predicates.share(predicate(selector)));
            assert_eq!(kind(event), expected, "{selector}");
        }
    }

    /// A thousand watches with one selector of 250 terms delayed every event by milliseconds.
    #[test]
    fn a_predicate_that_many_watchers_share_is_evaluated_once_for_each_event() {
        let predicates = Arc::new(Predicates::default());
        let watchers: Vec<_> = (0..1800).map(|_| predicates.share(predicate(&long_selector()))).collect();
        let (without, with) = (&[("a", "b")][..], &[("a7", "b")][..]);
        let cases = [(without, without, "MODIFIED"), (with, without, "ADDED"), (without, with, "DELETED")];
        for (number, (old, new, expected)) in (1..).zip(cases) {
            let (old, new) = (object(2, old), object(3, new));
            let mut dispatch = update(number, &old, &new);
            for watcher in &watchers {
                assert_eq!(kind(dispatch.watch_event(watcher)), expected);
            }
            assert_eq!((dispatch.watchers, dispatch.terms), (1800, 4000));
        }
        let (old, new) = (object(2, with), object(3, with));
        let mut unwanted = update(4, &old, &new);
        assert!(watchers.iter().all(|watcher| unwanted.watch_event(watcher).is_none()));
        assert_eq!(unwanted.terms, 4000);
    }
}
