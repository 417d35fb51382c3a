//! The options of a cache.

use crate::{history::FRESH_DURATION_MIN, history_pages::HistoryReadLimits};
use std::{sync::Arc, time::Duration};

/// How a cache behaves.
#[derive(Clone, Debug)]
pub struct CacherOptions {
    /// The fields that have an index: a list that selects an exact value of one reads only the objects with that value.
    pub indexed_fields: Vec<Arc<str>>,
    /// How long events are kept in memory, if there is room; at least 75 seconds.
    pub fresh_for: Duration,
    /// How many bytes the history in memory may take. Older changes are read from storage.
    pub history_bytes_max: usize,
    /// How much of storage's history is read and cached at a time. All caches of a server should share these limits.
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
