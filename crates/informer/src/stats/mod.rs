//! The statistics of an informer.

pub(crate) mod histogram;

pub use histogram::Histogram;

use crate::error::InformerError;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// The bounds of the processing histogram, in seconds: those of client-go.
const PROCESSING_BOUNDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The counters of an informer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of lists that were fetched.
    pub lists: u64,
    /// The total duration of those lists.
    pub list_seconds: f64,
    /// The number of objects in the last list, whether requested or streamed.
    pub last_list_objects: u64,
    /// The number of complete lists, whether requested or streamed.
    pub states: u64,
    /// The number of relists, by reason: the class of the failure before, or `ended` if there was none.
    pub relists: BTreeMap<&'static str, u64>,
    /// The number of watches that were requested.
    pub watches: u64,
    /// The number of watches that ended after events were read from them.
    pub watches_ended: u64,
    /// The total duration of the ended watches.
    pub watch_seconds: f64,
    /// The number of watch events received, including bookmarks.
    pub events: u64,
    /// The time since the last event was received.
    pub since_last_event: Option<Duration>,
    /// The number of entries that were read and are not applied yet.
    pub queued: u64,
    /// The time from reading an event until it was in the store and in the queue of every listener. A batch counts
    /// once, from its first event; a list from when it was complete.
    pub processing: Histogram,
    /// The number of resyncs.
    pub resyncs: u64,
    /// The number of errors, by phase and class.
    pub errors: BTreeMap<(&'static str, &'static str), u64>,
    /// The current or last wait after a failure.
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
    last_event: Mutex<Option<Instant>>,
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

    /// Counts a relist.
    pub(crate) fn relisted(&self, cause: &'static str) {
        *self.failures.lock().relists.entry(cause).or_default() += 1;
    }

    pub(crate) fn watch_started(&self) {
        self.watches.fetch_add(1, Relaxed);
    }

    pub(crate) fn watch_ended(&self, lasted: Duration) {
        self.watches_ended.fetch_add(1, Relaxed);
        self.watch_nanos.fetch_add(nanos(lasted), Relaxed);
    }

    pub(crate) fn event_received(&self) {
        self.events.fetch_add(1, Relaxed);
    }

    /// Records when the last event was received.
    pub(crate) fn received_at(&self, now: Instant) {
        *self.last_event.lock() = Some(now);
    }

    /// Counts entries that were queued.
    pub(crate) fn queued(&self, count: usize) {
        self.queued.fetch_add(count as u64, Relaxed);
    }

    /// Counts entries that were applied.
    pub(crate) fn applied(&self, count: usize) {
        self.queued.fetch_sub(count as u64, Relaxed);
    }

    /// Records how long a batch took.
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
            since_last_event: self.last_event.lock().map(|last| last.elapsed()),
            resyncs: self.resyncs.load(Relaxed),
            errors: failures.counts.clone(),
            backoff: failures.backoff,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
