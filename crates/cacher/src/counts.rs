//! Counts the keys of an ordered map in a range, without a scan.
//!
//! The keys are divided into runs of neighbours, and the length of each run is stored. The count of a range is the sum
//! of the runs inside it, plus a scan of the two runs at its ends. A clone shares its data, like the map's, so each
//! snapshot has its own counts.
//!
//! Kept true by [`RangeCounts::key_added`] and [`RangeCounts::key_removed`]; the owner of the map calls one of them for
//! every key that is added or removed. A run starts at its key, ends before the next run, and has the stored length.
//! The first run starts before all keys. No run is longer than `RUN_KEYS_MAX`.

use imbl::OrdMap;
use keepwatch_storage::Key;
use std::ops::Bound;

/// The maximum length of a run, which limits the scan at each end of a range. A longer run is split in two.
const RUN_KEYS_MAX: usize = 512;

#[derive(Clone)]
pub(crate) struct RangeCounts {
    runs: OrdMap<Key, usize>,
}

impl RangeCounts {
    pub(crate) fn new() -> Self {
        Self { runs: OrdMap::unit(Key::from_backend(""), 0) }
    }

    /// Counts a key that was added to the map.
    pub(crate) fn key_added<V: Clone>(&mut self, key: &str, map: &OrdMap<Key, V>) {
        let Some((begin, length)) = self.runs.get_prev_mut(key) else { return };
        *length += 1;
        if *length <= RUN_KEYS_MAX {
            return;
        }
        // Most keys are added in order, so the first run is hardly added to any more, and may be longer.
        let (first, rest) = (RUN_KEYS_MAX * 3 / 4, *length - RUN_KEYS_MAX * 3 / 4);
        let middle = map
            .range::<_, str>((Bound::Included(begin.as_str()), Bound::Unbounded))
            .nth(first)
            .map(|(middle, _)| middle.clone());
        if let Some(middle) = middle {
            *length = first;
            self.runs.insert(middle, rest);
        }
    }

    /// Counts a key that was removed from the map.
    pub(crate) fn key_removed(&mut self, key: &str) {
        let Some((begin, length)) = self.runs.get_prev_mut(key) else { return };
        *length = length.saturating_sub(1);
        if *length == 0 && !begin.is_empty() {
            let begin = begin.clone();
            self.runs.remove(&begin);
        }
    }

    /// The number of keys from `begin` on and before `end`.
    pub(crate) fn count_between<V: Clone>(&self, begin: &str, end: &str, map: &OrdMap<Key, V>) -> usize {
        if begin >= end {
            return 0;
        }
        let scan =
            |from: &str, to: &str| map.range::<_, str>((Bound::Included(from), Bound::Excluded(to))).count();
        let mut inside = self.runs.range::<_, str>((Bound::Excluded(begin), Bound::Excluded(end)));
        let Some((first, mut length)) = inside.next() else { return scan(begin, end) };
        let (mut count, mut last) = (scan(begin, first), first);
        for (next, next_length) in inside {
            count += length;
            (last, length) = (next, next_length);
        }
        let ends_inside = map.get_max().is_some_and(|(max, _)| max.as_str() < end);
        let is_last = self.runs.get_max().is_some_and(|(max, _)| max == last);
        count + if is_last && ends_inside { *length } else { scan(last, end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn key(number: usize) -> Key {
        Key::from_backend(format!("/pods/n{}/p{number:06}", number % 7))
    }

    /// A map with its counts.
    #[derive(Clone)]
    struct Counted {
        map: OrdMap<Key, ()>,
        counts: RangeCounts,
    }

    impl Counted {
        fn new() -> Self {
            Self { map: OrdMap::new(), counts: RangeCounts::new() }
        }

        fn put(&mut self, key: Key) {
            if self.map.insert(key.clone(), ()).is_none() {
                self.counts.key_added(&key, &self.map);
            }
        }

        fn remove(&mut self, key: &Key) {
            if self.map.remove(key).is_some() {
                self.counts.key_removed(key);
            }
        }

        fn check(&self, begin: &str, end: &str) {
            let scanned = self.map.keys().filter(|key| key.as_str() >= begin && key.as_str() < end).count();
            assert_eq!(self.counts.count_between(begin, end, &self.map), scanned, "{begin} to {end}");
            assert!(self.counts.runs.values().all(|length| *length <= RUN_KEYS_MAX));
            assert_eq!(self.counts.runs.values().sum::<usize>(), self.map.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// For any keys that are added and removed, in any order, a count equals the result of a scan; and a clone
        /// counts the keys of the time when it was made.
        #[test]
        fn a_count_equals_the_result_of_a_scan(
            steps in vec((0_usize..8000, 1_usize..900, any::<bool>()), 1..40),
            ranges in vec((0_usize..9000, 0_usize..9000), 8),
        ) {
            let mut counted = Counted::new();
            let mut clones = vec![counted.clone()];
            for (first, count, is_put) in steps {
                for number in first..first + count {
                    if is_put { counted.put(key(number)) } else { counted.remove(&key(number)) }
                }
                clones.push(counted.clone());
            }
            for clone in clones {
                for (begin, end) in &ranges {
                    clone.check(&key(*begin), &key(*end));
                }
                for (begin, end) in [("", "~"), ("/pods/", "/pods0"), ("/pods/n3/", "/pods/n30"), ("/pods/n3", "/pods/n3/")] {
                    clone.check(begin, end);
                }
            }
        }
    }

    #[test]
    fn keys_added_in_order_make_few_runs_and_removed_keys_leave_none() {
        let mut counted = Counted::new();
        let keys: Vec<Key> =
            (0..100_000).map(|number| Key::from_backend(format!("/pods/{number:06}"))).collect();
        keys.iter().cloned().for_each(|key| counted.put(key));
        assert!(
            counted.counts.runs.len() <= 100_000 / (RUN_KEYS_MAX * 3 / 4) + 1,
            "{}",
            counted.counts.runs.len()
        );
        counted.check("/pods/050000", "/pods0");
        keys.iter().for_each(|key| counted.remove(key));
        assert_eq!(counted.counts.runs.len(), 1);
    }
}
