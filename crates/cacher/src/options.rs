//! The options of a cache.

use crate::{history::FRESH_DURATION_MIN, history_pages::HistoryReadLimits};
use std::{sync::Arc, time::Duration};

/// The options of a cache.
#[derive(Clone, Debug)]
pub struct CacherOptions {
    /// The fields that have an index: a list that selects an exact value of one reads only the objects with that value.
    pub indexed_fields: Vec<Arc<str>>,
    /// The time for which events are kept in memory, if there is room; at least 75 seconds.
    pub fresh_for: Duration,
    /// The size that the history in memory may have. Older changes are read from storage.
    pub history_bytes_max: usize,
    /// The limits of what is read of storage's history and cached at a time. All caches of a server should share these
    /// limits.
    pub history_reads: HistoryReadLimits,
    /// The seed of the random numbers; if absent, the operating system gives one.
    pub seed: Option<u64>,
}

impl Default for CacherOptions {
    fn default() -> Self {
        Self {
            indexed_fields: Vec::new(),
            fresh_for: FRESH_DURATION_MIN,
            history_bytes_max: 32 << 20,
            history_reads: HistoryReadLimits::default(),
            seed: None,
        }
    }
}
