//! Tests of every interleaving in which the feed and a reader take their locks, with loom: a watcher receives every
//! event once and in order while it lags, reads the history in memory and in storage and becomes live again; and a
//! reader that has an event to deliver is always woken.
//!
//! Run: `./test loom`. A queue holds one event here, so that watchers lag all the time.

use crate::{
    history::{Event, Limits},
    history_pages::Page,
    predicates::SharedPredicate,
    state::{Change, State},
    sync::{Mutex, RwLock},
    watcher::{Reader, StorageRequest, Wakers, WatchPosition, Watcher},
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Attributes, Key, Object, OldObject, PastChange, Predicate, Scope, Version, WatchEvent,
};
use loom::{future::block_on, sync::Arc, thread};
use std::{future::poll_fn, task::Poll, time::Duration};
use tokio::time::Instant;

fn check_every_interleaving(run: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(run);
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::new(number).unwrap()
}

fn everything() -> std::sync::Arc<SharedPredicate> {
    SharedPredicate::unshared(Predicate::everything())
}

fn all_pods() -> Scope {
    Scope::Children(Key::from_backend("/r/pods/"))
}

/// A cache, and the storage behind it, which has every object before the cache does.
struct Cache {
    state: RwLock<State>,
    storage: Mutex<Vec<Object>>,
}

impl Cache {
    /// A cache whose history holds this many events.
    fn new(history_events: usize) -> Arc<Self> {
        let limits = Limits {
            fresh: Duration::ZERO,
            lower: history_events,
            upper: history_events,
            bytes_max: usize::MAX,
        };
        let state = RwLock::new(State::new(&[], limits, Instant::now()));
        Arc::new(Self { state, storage: Mutex::new(Vec::new()) })
    }

    fn watch(&self, start: impl FnOnce(&State) -> WatchPosition) -> Reader {
        let mut state = self.state.write();
        let start = start(&state);
        Watcher::add(&mut state, all_pods(), everything(), start, None, false).1
    }

    /// Writes an object whose name is its revision.
    fn write(&self, revision: u64) {
        let key = Key::from_backend(format!("/r/pods/{revision}"));
        let attributes = Attributes::default();
        let object: Object =
            Version { key, value: "{}".into(), revision: version(revision), attributes: attributes.into() }
                .into();
        self.storage.lock().push(object.clone());
        let mut wakers = Wakers::default();
        self.state.write().apply(Change::Put(object), Instant::now(), &mut wakers);
    }

    /// The next page of storage's history: one event, or none if there is none before the page ends.
    fn page(&self, after: ResourceVersion, until: ResourceVersion) -> Page {
        let storage = self.storage.lock();
        let next = storage.iter().find(|object| object.revision > after && object.revision <= until);
        let through = next.map_or(until, |object| object.revision);
        let change = |new: &Object| PastChange {
            revision: new.revision,
            old: OldObject::Absent,
            new: Some(new.clone()),
        };
        Page::new(after, through, next.map(change).and_then(Event::from_past_change).into_iter().collect())
    }

    fn end_watches(&self) {
        let mut wakers = Wakers::default();
        self.state.write().end_watches(&mut wakers);
    }

    /// The next event; none when the watch has ended. Events that the cache does not hold come from storage.
    fn next(&self, reader: &mut Reader) -> Option<WatchEvent> {
        loop {
            let read = block_on(poll_fn(|context| match reader.poll_next(&self.state, context) {
                Poll::Ready(event) => Poll::Ready(Ok(event)),
                Poll::Pending => {
                    reader.take_storage_request().map_or(Poll::Pending, |request| Poll::Ready(Err(*request)))
                }
            }));
            match read {
                Ok(event) => return event,
                Err(StorageRequest::Changes { after, until }) => reader.take_page(&self.page(after, until)),
                Err(StorageRequest::State { .. }) => panic!("the state is in the cache"),
            }
        }
    }

    /// The revisions of the events up to a revision.
    fn revisions_until(&self, reader: &mut Reader, last: u64) -> Vec<u64> {
        let mut delivered = Vec::new();
        while delivered.last() != Some(&last) {
            delivered.push(self.next(reader).expect("there is more").revision().get());
        }
        delivered
    }
}

#[test]
fn a_lagging_watcher_receives_every_event_once() {
    check_every_interleaving(|| {
        let cache = Cache::new(100);
        let mut reader = cache.watch(|_| WatchPosition::After(version(1)));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (2..=4).for_each(|revision| cache.write(revision))
        });
        assert_eq!(cache.revisions_until(&mut reader, 4), [2, 3, 4]);
        feed.join().unwrap();
    });
}

#[test]
fn a_watcher_that_starts_with_the_state_receives_later_events_once() {
    check_every_interleaving(|| {
        let cache = Cache::new(100);
        cache.write(2);
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (3..=4).for_each(|revision| cache.write(revision))
        });
        let mut reader =
            cache.watch(|state| WatchPosition::State { revision: state.revision, end_bookmark: false });
        assert_eq!(cache.revisions_until(&mut reader, 4), [2, 3, 4]);
        feed.join().unwrap();
    });
}

#[test]
fn a_resumed_watcher_receives_missed_and_later_events_once() {
    check_every_interleaving(|| {
        let cache = Cache::new(100);
        (2..=3).for_each(|revision| cache.write(revision));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (4..=5).for_each(|revision| cache.write(revision))
        });
        let mut reader = cache.watch(|_| WatchPosition::After(version(2)));
        assert_eq!(cache.revisions_until(&mut reader, 5), [3, 4, 5]);
        feed.join().unwrap();
    });
}

/// The history holds one event, so that it moves past the reader while that reads storage's history.
#[test]
fn a_watcher_that_reads_from_storage_receives_every_event_once_and_becomes_live() {
    check_every_interleaving(|| {
        let cache = Cache::new(1);
        let mut reader = cache.watch(|_| WatchPosition::After(version(1)));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (2..=4).for_each(|revision| cache.write(revision))
        });
        assert_eq!(cache.revisions_until(&mut reader, 4), [2, 3, 4]);
        feed.join().unwrap();
        assert!(cache.state.read().history.check_reaches(version(2)).is_err(), "the window has moved on");
    });
}

#[test]
fn a_watcher_that_starts_before_the_history_receives_every_event_once() {
    check_every_interleaving(|| {
        let cache = Cache::new(1);
        (2..=3).for_each(|revision| cache.write(revision));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || cache.write(4)
        });
        let mut reader = cache.watch(|_| WatchPosition::After(version(1)));
        assert_eq!(cache.revisions_until(&mut reader, 4), [2, 3, 4]);
        feed.join().unwrap();
    });
}

#[test]
fn a_watch_that_is_ended_wakes_its_reader_and_delivers_nothing_twice() {
    check_every_interleaving(|| {
        let cache = Cache::new(100);
        let mut reader = cache.watch(|_| WatchPosition::After(version(1)));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || {
                (2..=3).for_each(|revision| cache.write(revision));
                cache.end_watches();
            }
        });
        let mut delivered = Vec::new();
        while let Some(event) = cache.next(&mut reader) {
            delivered.push(event.revision().get());
        }
        assert!((2..).zip(&delivered).all(|(due, delivered)| due == *delivered), "{delivered:?}");
        feed.join().unwrap();
    });
}

#[test]
fn a_bookmark_follows_every_event_up_to_it() {
    check_every_interleaving(|| {
        let cache = Cache::new(100);
        let mut state = cache.state.write();
        let start = WatchPosition::After(version(1));
        let (watcher, mut reader) = Watcher::add(&mut state, all_pods(), everything(), start, None, true);
        drop(state);
        let feed = thread::spawn({
            let cache = cache.clone();
            move || {
                cache.write(2);
                let mut wakers = Wakers::default();
                {
                    let state = cache.state.read();
                    watcher.enqueue_bookmark(state.revision, &mut wakers);
                }
                cache.write(3);
            }
        });
        let mut delivered = Vec::new();
        while delivered.last() != Some(&3) {
            match cache.next(&mut reader).expect("there is more") {
                WatchEvent::Bookmark { revision, .. } => {
                    assert_eq!((revision.get(), &delivered[..]), (2, &[2][..]))
                }
                event => delivered.push(event.revision().get()),
            }
        }
        assert_eq!(delivered, [2, 3]);
        feed.join().unwrap();
    });
}
