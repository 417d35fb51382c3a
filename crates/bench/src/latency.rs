//! Latencies, counted by many tasks at once.

use crate::results::Latency;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::time::Duration;

/// The number of tasks that can count at the same time without waiting for one another.
const SHARDS: usize = 16;
/// Longer times count as this long.
const LONGEST: Duration = Duration::from_secs(600);
/// The number of exact digits of a time.
const DIGITS: u8 = 2;
/// The number of points of the curve that are kept between one share and half of the remaining one.
const POINTS_PER_HALVING: u32 = 4;

/// Times, in microseconds.
pub(crate) struct Latencies {
    shards: Vec<Mutex<Histogram<u64>>>,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { shards: (0..SHARDS).map(|_| Mutex::new(histogram())).collect() }
    }
}

fn histogram() -> Histogram<u64> {
    let longest = LONGEST.as_micros() as u64;
    Histogram::new_with_max(longest, DIGITS).expect("the limits are those of a histogram")
}

impl Latencies {
    /// `who` is the number of the recording task.
    pub(crate) fn record(&self, who: usize, micros: u64) {
        self.shards[who % SHARDS].lock().saturating_record(micros);
    }

    /// The number of latencies.
    pub(crate) fn count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// All of them; absent if there are none.
    pub(crate) fn summary(&self) -> Option<Latency> {
        let mut all = histogram();
        self.shards.iter().for_each(|shard| all.add(&*shard.lock()).expect("all have the same limits"));
        if all.is_empty() {
            return None;
        }
        let at = |share: f64| all.value_at_quantile(share) as f64;
        let points = all.iter_quantiles(POINTS_PER_HALVING);
        Some(Latency {
            count: all.len(),
            mean: all.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: all.max() as f64,
            curve: points
                .map(|point| (point.quantile_iterated_to(), point.value_iterated_to() as f64))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_tasks_are_one_distribution() {
        let latencies = Latencies::default();
        assert!(latencies.summary().is_none());
        (1..=1000).for_each(|micros| latencies.record(micros, micros as u64 * 10));
        let all = latencies.summary().unwrap();
        assert_eq!(all.count, 1000);
        for (found, expected) in
            [(all.p50, 5000.0), (all.p90, 9000.0), (all.p99, 9900.0), (all.max, 10_000.0), (all.mean, 5005.0)]
        {
            assert!((found / expected - 1.0_f64).abs() < 0.02, "{found} is not {expected}");
        }
        assert!(all.curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert_eq!(all.curve.last().map(|point| point.0), Some(1.0));
    }

    #[test]
    fn nothing_takes_longer_than_the_longest() {
        let latencies = Latencies::default();
        latencies.record(0, u64::MAX);
        let longest = LONGEST.as_micros() as f64;
        assert!((latencies.summary().unwrap().max / longest - 1.0).abs() < 0.02);
    }
}
