//! Histograms of durations, independent of any metrics crate. A histogram is plain data: the caller provides locking.

use std::time::Duration;

/// Counts durations by upper bound, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// The count of each bucket, not cumulative. Durations above the last bound are in none.
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    /// A histogram with these bounds, in ascending seconds.
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len()], count: 0, sum: 0.0 }
    }

    pub(crate) fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the durations, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Each upper bound in seconds, with the cumulative count.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let counts = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        self.bounds.iter().copied().zip(counts)
    }
}

/// A source of measurements that metrics do not keep alive.
#[cfg(feature = "metrics")]
pub(crate) trait MetricsSource<M>: Send + Sync {
    /// The measurements; nothing if it does not measure itself.
    fn measures(&self) -> Option<M>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_equal_to_a_bound_counts_in_its_bucket() {
        let mut histogram = Histogram::new(&[0.001, 0.01]);
        [0, 1, 2, 10, 11].into_iter().for_each(|ms| histogram.observe(Duration::from_millis(ms)));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(0.001, 2), (0.01, 4)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum() - 0.024).abs() < 1e-9);
    }

    #[test]
    fn a_histogram_without_bounds_still_counts() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::from_secs(1));
        assert_eq!((histogram.count(), histogram.buckets().count()), (1, 0));
    }
}
