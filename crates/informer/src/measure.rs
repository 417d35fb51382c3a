//! How measurements are kept, whoever shows them in the end.
//!
//! Kept true: nothing here knows of a metrics crate; a histogram is plain data, and whoever shares one puts a lock around it.

use std::time::Duration;

/// How often something took how long: counts by upper bound, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Of each bound, what is above the one before. What is above all of them is in none.
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    /// One that counts by these bounds, in seconds and ascending.
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

    /// How often it happened.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many seconds it took, together.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Each upper bound in seconds, and how often it took at most so long.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let counts = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        self.bounds.iter().copied().zip(counts)
    }
}

/// Something that can be asked how it fares for as long as it is there.
#[cfg(feature = "metrics")]
pub(crate) trait Measured<M>: Send + Sync {
    /// Nothing if it does not measure itself.
    fn measures(&self) -> Option<M>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_exactly_as_long_as_a_bound_counts_to_it() {
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
