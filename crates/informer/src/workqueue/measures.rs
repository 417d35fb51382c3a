//! The measurements of a named queue.
//!
//! As in client-go, an item that is added again before it is handed out counts once, and its queue duration starts
//! when it is added, even if it is being processed at that time.
//!
//! The duration of running work is computed on demand, so no task has to update it.

use crate::stats::Histogram;
use std::time::Duration;

/// Ten bounds from 10 ns, each ten times the one before; in seconds.
const BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// The counters of a queue.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// The name of the queue.
    pub name: String,
    /// The number of items that were added and not handed out yet, including those that are being processed meanwhile.
    pub depth: usize,
    /// The number of times that an item was added that was not in the queue.
    pub adds: u64,
    /// The number of times that an item was added with a delay.
    pub retries: u64,
    /// The time that items waited in the queue.
    pub queue_duration: Histogram,
    /// The time that items were processed.
    pub work_duration: Histogram,
    /// The total time of the items that are being processed, in seconds.
    pub unfinished_work_seconds: f64,
    /// The longest time of an item that is being processed, in seconds.
    pub longest_running_processor_seconds: f64,
}

/// The counters that a queue updates.
pub(super) struct Measurements {
    name: String,
    adds: u64,
    retries: u64,
    queue_duration: Histogram,
    work_duration: Histogram,
}

impl Measurements {
    pub(super) fn new(name: String) -> Self {
        let (queue_duration, work_duration) = (Histogram::new(&BOUNDS), Histogram::new(&BOUNDS));
        Measurements { name, adds: 0, retries: 0, queue_duration, work_duration }
    }

    pub(super) fn added(&mut self) {
        self.adds += 1;
    }

    pub(super) fn retried(&mut self) {
        self.retries += 1;
    }

    pub(super) fn taken(&mut self, waited: Duration) {
        self.queue_duration.observe(waited);
    }

    pub(super) fn done(&mut self, took: Duration) {
        self.work_duration.observe(took);
    }

    /// All counters, together with the current depth and the durations of running work.
    pub(super) fn counts(&self, depth: usize, running: impl Iterator<Item = Duration>) -> QueueCounts {
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        for time in running {
            total = total.saturating_add(time);
            longest = longest.max(time);
        }
        QueueCounts {
            name: self.name.clone(),
            depth,
            adds: self.adds,
            retries: self.retries,
            queue_duration: self.queue_duration.clone(),
            work_duration: self.work_duration.clone(),
            unfinished_work_seconds: total.as_secs_f64(),
            longest_running_processor_seconds: longest.as_secs_f64(),
        }
    }
}
