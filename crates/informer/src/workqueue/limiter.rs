//! The waits of items before a retry.

use std::{collections::HashMap, fmt, hash::Hash, time::Duration};
use tokio::time::Instant;

/// Decides the waits of items.
pub trait RateLimiter<T>: Send {
    /// The wait of this item. Every call counts as a failure.
    fn when(&mut self, item: &T) -> Duration;

    /// Forgets the failures of an item.
    fn forget(&mut self, item: &T);

    /// The number of failures of an item.
    fn num_requeues(&self, item: &T) -> u32;
}

/// A boxed limiter.
pub type BoxLimiter<T> = Box<dyn RateLimiter<T>>;

/// Doubles the wait with every failure of an item.
#[derive(Debug)]
pub struct Exponential<T> {
    base: Duration,
    max: Duration,
    failures: HashMap<T, u32>,
}

impl<T> Exponential<T> {
    /// Waits double from `base` to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Exponential { base, max, failures: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for Exponential<T> {
    fn when(&mut self, item: &T) -> Duration {
        let failures = count(&mut self.failures, item);
        let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        // A larger factor would exceed any useful maximum.
        if failures >= u32::BITS { self.max } else { self.base.saturating_mul(factor).min(self.max) }
    }

    fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

/// Increments the failures of an item and returns their previous number.
fn count<T: Clone + Eq + Hash>(failures: &mut HashMap<T, u32>, item: &T) -> u32 {
    match failures.get_mut(item) {
        Some(failures) => {
            let before = *failures;
            *failures = before.saturating_add(1);
            before
        }
        None => {
            failures.insert(item.clone(), 1);
            0
        }
    }
}

/// A token bucket for the whole queue.
#[derive(Debug)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    /// The tokens at time `at`; negative if some were promised in advance.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// `per_second` items in the long run, and up to `burst` at once.
    pub fn new(per_second: f64, burst: u32) -> Self {
        Bucket { per_second, burst: f64::from(burst), tokens: f64::from(burst), at: Instant::now() }
    }
}

impl<T> RateLimiter<T> for Bucket {
    fn when(&mut self, _: &T) -> Duration {
        let now = Instant::now();
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + earned).min(self.burst) - 1.0;
        self.at = now;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::MAX)
    }

    fn forget(&mut self, _: &T) {}

    fn num_requeues(&self, _: &T) -> u32 {
        0
    }
}

/// A short wait for the first failures, and a long one after that.
#[derive(Debug)]
pub struct FastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: HashMap<T, u32>,
}

impl<T> FastSlow<T> {
    /// `fast_attempts` times `fast`, then `slow`.
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        FastSlow { fast, slow, fast_attempts, failures: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for FastSlow<T> {
    fn when(&mut self, item: &T) -> Duration {
        if count(&mut self.failures, item) < self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }
}

/// The longest wait of several limiters.
pub struct MaxOf<T>(Vec<BoxLimiter<T>>);

impl<T> MaxOf<T> {
    /// Asks all of these limiters.
    pub fn new(limiters: Vec<BoxLimiter<T>>) -> Self {
        MaxOf(limiters)
    }
}

impl<T> fmt::Debug for MaxOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MaxOf").field(&self.0.len()).finish()
    }
}

impl<T: Send> RateLimiter<T> for MaxOf<T> {
    fn when(&mut self, item: &T) -> Duration {
        self.0.iter_mut().map(|limiter| limiter.when(item)).max().unwrap_or_default()
    }

    fn forget(&mut self, item: &T) {
        self.0.iter_mut().for_each(|limiter| limiter.forget(item));
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.0.iter().map(|limiter| limiter.num_requeues(item)).max().unwrap_or(0)
    }
}

/// The wait of another limiter, up to a maximum.
pub struct MaxWait<T> {
    limiter: BoxLimiter<T>,
    max: Duration,
}

impl<T> MaxWait<T> {
    /// At most `max`.
    pub fn new(limiter: BoxLimiter<T>, max: Duration) -> Self {
        MaxWait { limiter, max }
    }
}

impl<T> fmt::Debug for MaxWait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxWait").field("max", &self.max).finish_non_exhaustive()
    }
}

impl<T: Send> RateLimiter<T> for MaxWait<T> {
    fn when(&mut self, item: &T) -> Duration {
        self.limiter.when(item).min(self.max)
    }

    fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

/// client-go's default: 5 ms doubling up to 1,000 s for an item, and 10 a second with bursts of 100 for the queue.
pub fn controller_default<T: Clone + Eq + Hash + Send + 'static>() -> BoxLimiter<T> {
    let item = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));
    Box::new(MaxOf::new(vec![Box::new(item), Box::new(Bucket::new(10.0, 100))]))
}

/// 1 ms doubling up to 1,000 s for an item.
pub fn item_default<T: Clone + Eq + Hash + Send + 'static>() -> BoxLimiter<T> {
    Box::new(Exponential::new(Duration::from_millis(1), Duration::from_secs(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn times(limiter: &mut impl RateLimiter<&'static str>, item: &'static str, count: usize) -> Vec<u128> {
        (0..count).map(|_| limiter.when(&item).as_millis()).collect()
    }

    /// Case 56.
    #[test]
    fn the_wait_doubles_up_to_its_maximum_until_it_is_forgotten() {
        let mut limiter = Exponential::new(MS, 1000 * MS);
        assert_eq!(times(&mut limiter, "a", 5), [1, 2, 4, 8, 16]);
        assert_eq!((limiter.num_requeues(&"a"), limiter.num_requeues(&"b")), (5, 0));
        assert_eq!(times(&mut limiter, "b", 2), [1, 2]);
        limiter.forget(&"a");
        assert_eq!(times(&mut limiter, "a", 1), [1]);
        assert_eq!(times(&mut limiter, "a", 100).last(), Some(&1000));
        let mut endless = Exponential::new(Duration::from_secs(1), Duration::MAX);
        times(&mut endless, "a", 100);
        assert_eq!(endless.when(&"a"), Duration::MAX);
    }

    /// Case 56.
    #[tokio::test(start_paused = true)]
    async fn controllers_retry_100_items_at_once_and_10_a_second() {
        let mut limiter = controller_default::<u32>();
        let waits: Vec<u128> = (0..102).map(|item| limiter.when(&item).as_millis()).collect();
        assert!(waits[..100].iter().all(|wait| *wait == 5));
        assert_eq!(waits[100..], [100, 200]);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(limiter.when(&200).as_millis(), 5);
    }

    #[test]
    fn fast_attempts_come_before_slow_ones() {
        let mut limiter = FastSlow::new(MS, 50 * MS, 2);
        assert_eq!(times(&mut limiter, "a", 4), [1, 1, 50, 50]);
        limiter.forget(&"a");
        assert_eq!((times(&mut limiter, "a", 1), limiter.num_requeues(&"a")), (vec![1], 1));
    }

    #[test]
    fn the_longest_wait_of_several_limiters_applies_and_all_forget() {
        let limiters: Vec<BoxLimiter<&str>> =
            vec![Box::new(Exponential::new(MS, 1000 * MS)), Box::new(FastSlow::new(3 * MS, 5 * MS, 2))];
        let mut limiter = MaxWait::new(Box::new(MaxOf::new(limiters)), 12 * MS);
        assert_eq!(times(&mut limiter, "a", 6), [3, 3, 5, 8, 12, 12]);
        assert_eq!(limiter.num_requeues(&"a"), 6);
        limiter.forget(&"a");
        assert_eq!(times(&mut limiter, "a", 1), [3]);
    }
}
