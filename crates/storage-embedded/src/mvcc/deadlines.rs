//! The deadlines of keys with a time to live, by time and by key.

use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::Key;
use std::collections::{BTreeMap, HashMap};

/// The deadlines at which keys with a time to live are deleted.
#[derive(Default)]
pub(super) struct Deadlines {
    by_time: BTreeMap<(u64, ResourceVersion), Key>,
    by_key: HashMap<Key, (u64, ResourceVersion)>,
}

impl Deadlines {
    pub(super) fn set(&mut self, key: &Key, revision: ResourceVersion, expires_ms: Option<u64>) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&old);
        }
        if let Some(ms) = expires_ms {
            self.by_key.insert(key.clone(), (ms, revision));
            self.by_time.insert((ms, revision), key.clone());
        }
    }

    pub(super) fn give_back_unused(&mut self) {
        if self.by_key.capacity() > 4 * (self.by_key.len() + 4) {
            self.by_key.shrink_to(2 * self.by_key.len());
        }
    }

    /// The earliest deadline, in milliseconds of Unix time.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.by_time.first_key_value().map(|((ms, _), _)| *ms)
    }

    /// The keys whose deadline has passed, with the revision that set it.
    pub(super) fn passed(&self, now_ms: u64, limit: usize) -> Vec<(Key, ResourceVersion)> {
        let passed = self.by_time.iter().take_while(|((ms, _), _)| *ms <= now_ms).take(limit);
        passed.map(|((_, revision), key)| (key.clone(), *revision)).collect()
    }
}
