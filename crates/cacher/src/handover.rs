//! Every order in which the feed and a reader can take their locks, tried by loom: a watcher is told everything once and
//! in order while it falls behind, catches up and is live again, and none sleeps while there is something to tell.
//!
//! Run: `./test handover`. Inboxes hold one event here, so that falling behind is what happens all the time.

use crate::{
    history::Limits,
    state::{Change, State},
    sync::RwLock,
    watcher::{Reader, Start, Wakers, Watcher},
};
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Attributes, Key, Predicate, Scope, StorageError, Version, WatchEvent};
use loom::{future::block_on, sync::Arc, thread};
use std::{future::poll_fn, time::Duration};
use tokio::time::Instant;

fn try_every_order(run: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(run);
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::new(number).unwrap()
}

fn everything() -> Scope {
    Scope::Children(Key::from_backend("/r/pods/"))
}

struct Cache(RwLock<State>);

impl Cache {
    /// With room for so many events.
    fn new(history_events: usize) -> Arc<Self> {
        let limits = Limits {
            fresh: Duration::ZERO,
            lower: history_events,
            upper: history_events,
            bytes_max: usize::MAX,
        };
        Arc::new(Self(RwLock::new(State::new(&[], limits, Instant::now()))))
    }

    fn watch(&self, start: impl FnOnce(&State) -> Start) -> Reader {
        let mut state = self.0.write();
        let start = start(&state);
        Watcher::add(&mut state, everything(), Predicate::everything(), start, None, false).unwrap().1
    }

    /// Writes an object whose name is its revision.
    fn write(&self, revision: u64) {
        let key = Key::from_backend(format!("/r/pods/{revision}"));
        let attributes = Attributes::default();
        let object = Version { key, value: "{}".into(), revision: version(revision), attributes }.into();
        let mut wakers = Wakers::default();
        self.0.write().apply(Change::Put(object), Instant::now(), &mut wakers);
    }

    fn end_watches(&self) {
        let mut wakers = Wakers::default();
        self.0.write().end_watches(&mut wakers);
    }

    fn next(&self, reader: &mut Reader) -> Option<Result<WatchEvent, StorageError>> {
        block_on(poll_fn(|context| reader.poll_next(&self.0, context)))
    }

    /// What is told up to a revision.
    fn told_until(&self, reader: &mut Reader, last: u64) -> Vec<u64> {
        let mut told = Vec::new();
        while told.last() != Some(&last) {
            told.push(self.next(reader).expect("there is more").expect("all is well").revision().get());
        }
        told
    }
}

#[test]
fn a_watcher_that_falls_behind_is_told_everything_once() {
    try_every_order(|| {
        let cache = Cache::new(100);
        let mut reader = cache.watch(|_| Start::After(version(1)));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (2..=4).for_each(|revision| cache.write(revision))
        });
        assert_eq!(cache.told_until(&mut reader, 4), [2, 3, 4]);
        feed.join().unwrap();
    });
}

#[test]
fn a_watcher_that_begins_with_the_state_is_told_the_rest_once() {
    try_every_order(|| {
        let cache = Cache::new(100);
        cache.write(2);
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (3..=4).for_each(|revision| cache.write(revision))
        });
        let mut reader = cache.watch(|state| Start::State { revision: state.revision, end_bookmark: false });
        assert_eq!(cache.told_until(&mut reader, 4), [2, 3, 4]);
        feed.join().unwrap();
    });
}

#[test]
fn a_watcher_that_resumes_is_told_what_it_missed_and_what_follows_once() {
    try_every_order(|| {
        let cache = Cache::new(100);
        (2..=3).for_each(|revision| cache.write(revision));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (4..=5).for_each(|revision| cache.write(revision))
        });
        let mut reader = cache.watch(|_| Start::After(version(2)));
        assert_eq!(cache.told_until(&mut reader, 5), [3, 4, 5]);
        feed.join().unwrap();
    });
}

#[test]
fn a_watcher_that_is_overtaken_is_told_so_and_nothing_after_it() {
    try_every_order(|| {
        let cache = Cache::new(1);
        let mut reader = cache.watch(|_| Start::After(version(1)));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || (2..=4).for_each(|revision| cache.write(revision))
        });
        let mut told = Vec::new();
        while told.last() != Some(&4) {
            match cache.next(&mut reader).expect("there is more, or an error") {
                Ok(event) => told.push(event.revision().get()),
                Err(error) => {
                    assert!(error.is_expired(), "{error:?}");
                    assert!(cache.next(&mut reader).is_none());
                    break;
                }
            }
        }
        // None left out on the way to where it ended.
        assert!((2..).zip(&told).all(|(due, told)| due == *told), "{told:?}");
        feed.join().unwrap();
    });
}

#[test]
fn a_watch_that_is_ended_wakes_its_reader_and_tells_nothing_twice() {
    try_every_order(|| {
        let cache = Cache::new(100);
        let mut reader = cache.watch(|_| Start::After(version(1)));
        let feed = thread::spawn({
            let cache = cache.clone();
            move || {
                (2..=3).for_each(|revision| cache.write(revision));
                cache.end_watches();
            }
        });
        let mut told = Vec::new();
        while let Some(event) = cache.next(&mut reader) {
            told.push(event.expect("no error").revision().get());
        }
        assert!((2..).zip(&told).all(|(due, told)| due == *told), "{told:?}");
        feed.join().unwrap();
    });
}

#[test]
fn a_bookmark_comes_after_everything_up_to_it() {
    try_every_order(|| {
        let cache = Cache::new(100);
        let mut state = cache.0.write();
        let start = Start::After(version(1));
        let (watcher, mut reader) =
            Watcher::add(&mut state, everything(), Predicate::everything(), start, None, true).unwrap();
        drop(state);
        let feed = thread::spawn({
            let cache = cache.clone();
            move || {
                cache.write(2);
                let mut wakers = Wakers::default();
                {
                    let state = cache.0.read();
                    watcher.offer_bookmark(state.revision, &mut wakers);
                }
                cache.write(3);
            }
        });
        let mut told = Vec::new();
        while told.last() != Some(&3) {
            match cache.next(&mut reader).expect("there is more").expect("all is well") {
                WatchEvent::Bookmark { revision, .. } => {
                    assert_eq!((revision.get(), &told[..]), (2, &[2][..]))
                }
                event => told.push(event.revision().get()),
            }
        }
        assert_eq!(told, [2, 3]);
        feed.join().unwrap();
    });
}
