//! What an informer counts about itself, for whoever wants to measure it.

use crate::{Histogram, InformerError};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// Upper bounds of how long it takes to apply what was read, in seconds: those of client-go.
const PROCESSING_BOUNDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What an informer has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// How many lists were fetched.
    pub lists: u64,
    /// How long that took, together.
    pub list_seconds: f64,
    /// How many objects the last whole state had, listed or sent by a watch.
    pub last_list_objects: u64,
    /// How many whole states there were, listed or sent by a watch.
    pub states: u64,
    /// How often the state was asked for anew, by what made that necessary: the class of the failure before, or `ended` if
    /// there was none.
    pub relists: BTreeMap<&'static str, u64>,
    /// How many watches were opened, or tried to.
    pub watches: u64,
    /// How many of those that were read from have ended.
    pub watches_ended: u64,
    /// How long those lasted that have ended, together.
    pub watch_seconds: f64,
    /// How many events were heard, bookmarks included.
    pub events: u64,
    /// How long ago the last one was.
    pub since_last_event: Option<Duration>,
    /// How many things that were read wait to be applied.
    pub queued: u64,
    /// How long it took from when something was read until it was in the store and handed to all listeners. What is
    /// applied together counts once, from when the first of it was read; a whole state from when all of it was.
    pub processing: Histogram,
    /// How often objects were told once more.
    pub resyncs: u64,
    /// What went wrong how often, by phase and class.
    pub errors: BTreeMap<(&'static str, &'static str), u64>,
    /// How long the informer waits, or waited last, after a failure.
    pub backoff: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Stats {
    lists: AtomicU64,
    list_nanos: AtomicU64,
    last_list_objects: AtomicU64,
    states: AtomicU64,
    watches: AtomicU64,
    watches_ended: AtomicU64,
    watch_nanos: AtomicU64,
    events: AtomicU64,
    queued: AtomicU64,
    processing: Mutex<Histogram>,
    resyncs: AtomicU64,
    last_heard: Mutex<Option<Instant>>,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    counts: BTreeMap<(&'static str, &'static str), u64>,
    relists: BTreeMap<&'static str, u64>,
    backoff: Duration,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Stats { processing: Mutex::new(Histogram::new(&PROCESSING_BOUNDS)), ..Stats::default() }
    }

    pub(crate) fn listed(&self, took: Duration, objects: usize) {
        self.lists.fetch_add(1, Relaxed);
        self.list_nanos.fetch_add(nanos(took), Relaxed);
        self.listed_by_watch(objects);
    }

    pub(crate) fn listed_by_watch(&self, objects: usize) {
        self.states.fetch_add(1, Relaxed);
        self.last_list_objects.store(objects as u64, Relaxed);
    }

    /// The state is asked for anew.
    pub(crate) fn relists(&self, cause: &'static str) {
        *self.failures.lock().relists.entry(cause).or_default() += 1;
    }

    pub(crate) fn watch_started(&self) {
        self.watches.fetch_add(1, Relaxed);
    }

    pub(crate) fn watch_ended(&self, lasted: Duration) {
        self.watches_ended.fetch_add(1, Relaxed);
        self.watch_nanos.fetch_add(nanos(lasted), Relaxed);
    }

    pub(crate) fn heard(&self) {
        self.events.fetch_add(1, Relaxed);
    }

    /// Something was read just now.
    pub(crate) fn heard_at(&self, now: Instant) {
        *self.last_heard.lock() = Some(now);
    }

    /// So many things are about to be applied.
    pub(crate) fn queued(&self, count: usize) {
        self.queued.fetch_add(count as u64, Relaxed);
    }

    /// So many of them were.
    pub(crate) fn applied(&self, count: usize) {
        self.queued.fetch_sub(count as u64, Relaxed);
    }

    /// Everything that was read was applied, which took so long.
    pub(crate) fn processed(&self, took: Duration) {
        self.processing.lock().observe(took);
    }

    pub(crate) fn resynced(&self) {
        self.resyncs.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self, error: &InformerError) {
        let mut failures = self.failures.lock();
        *failures.counts.entry((error.phase.as_str(), error.error.class.as_str())).or_default() += 1;
        failures.backoff = error.next_delay.unwrap_or(failures.backoff);
    }

    pub(crate) fn counts(&self) -> Counts {
        let seconds = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Relaxed)).as_secs_f64();
        let failures = self.failures.lock();
        Counts {
            lists: self.lists.load(Relaxed),
            list_seconds: seconds(&self.list_nanos),
            last_list_objects: self.last_list_objects.load(Relaxed),
            states: self.states.load(Relaxed),
            relists: failures.relists.clone(),
            watches: self.watches.load(Relaxed),
            watches_ended: self.watches_ended.load(Relaxed),
            watch_seconds: seconds(&self.watch_nanos),
            events: self.events.load(Relaxed),
            queued: self.queued.load(Relaxed),
            processing: self.processing.lock().clone(),
            since_last_event: self.last_heard.lock().map(|last| last.elapsed()),
            resyncs: self.resyncs.load(Relaxed),
            errors: failures.counts.clone(),
            backoff: failures.backoff,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
