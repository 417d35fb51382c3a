//! The results of all event checkers.
//!
//! Kept true: every fault is counted, and the first [`FAULTS_KEPT_MAX`] are kept in words.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of faults that are kept as text. One is enough to fail; more than these add nothing.
const FAULTS_KEPT_MAX: usize = 20;

/// Faults, and counts of what was checked.
#[derive(Debug, Default)]
pub struct Report {
    faults: Mutex<Vec<String>>,
    fault_count: AtomicU64,
    delivered: AtomicU64,
    skipped: AtomicU64,
    late_subscribers: AtomicU64,
    own_writes: AtomicU64,
}

impl Report {
    /// Counts a violation of a rule.
    pub fn fault(&self, what: String) {
        self.fault_count.fetch_add(1, Relaxed);
        let mut faults = self.faults.lock();
        if faults.len() < FAULTS_KEPT_MAX {
            faults.push(what);
        }
    }

    /// The first faults, in words.
    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().clone()
    }

    /// The number of faults.
    pub fn fault_count(&self) -> u64 {
        self.fault_count.load(Relaxed)
    }

    pub(crate) fn event(&self) {
        self.delivered.fetch_add(1, Relaxed);
    }

    /// The number of events that were delivered to listeners.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    pub(crate) fn skip(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// The number of them that replaced several, because their listener was slow, as far as versions show it.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    pub(crate) fn late_subscriber(&self) {
        self.late_subscribers.fetch_add(1, Relaxed);
    }

    /// The number of subscribers that were added late and left early.
    pub fn late_subscribers(&self) -> u64 {
        self.late_subscribers.load(Relaxed)
    }

    pub(crate) fn own_write(&self) {
        self.own_writes.fetch_add(1, Relaxed);
    }

    /// The number of times that a client waited for a write of its own and found it in a store.
    pub fn own_writes(&self) -> u64 {
        self.own_writes.load(Relaxed)
    }
}
