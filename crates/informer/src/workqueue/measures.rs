//! What a queue with a name measures of itself.
//!
//! Kept true: an item that is asked for again before it was handed out counts once; an item counts as queued from when it
//! was asked for, even if it is being worked on then, as in client-go.
//!
//! How long work runs already is found out when somebody asks, so no task has to look now and then.

use crate::Histogram;
use std::time::Duration;

/// Ten bounds from 10 ns, each ten times the one before; in seconds.
const BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// What a queue has done so far, and does now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// The name of the queue.
    pub name: String,
    /// How many items have to be done and were not handed out yet, those included that are being worked on meanwhile.
    pub depth: usize,
    /// How often something was added that was not in the queue already.
    pub adds: u64,
    /// How often something was to be done later.
    pub retries: u64,
    /// How long items waited from when they had to be done until they were handed out.
    pub queue_duration: Histogram,
    /// How long work on items took that is done.
    pub work_duration: Histogram,
    /// How many seconds work runs already that is not done yet, together.
    pub unfinished_work_seconds: f64,
    /// How many seconds the longest of it runs.
    pub longest_running_processor_seconds: f64,
}

/// What a queue counts as it goes.
pub(super) struct Measures {
    name: String,
    adds: u64,
    retries: u64,
    queue_duration: Histogram,
    work_duration: Histogram,
}

impl Measures {
    pub(super) fn new(name: String) -> Self {
        let (queue_duration, work_duration) = (Histogram::new(&BOUNDS), Histogram::new(&BOUNDS));
        Measures { name, adds: 0, retries: 0, queue_duration, work_duration }
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

    /// Together with what is true just now: how many items have to be done, and for how long each is worked on.
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
