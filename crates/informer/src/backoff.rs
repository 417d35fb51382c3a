//! The waits after failures.

use crate::deadline::CENTURY;
use std::time::Duration;
use tokio::time::Instant;

/// A source of random numbers from 0 to 1, excluding 1. Tests set their own.
pub type Random = Box<dyn FnMut() -> f64 + Send>;

pub(crate) fn random() -> Random {
    Box::new(rand::random::<f64>)
}

/// The growth of waits with consecutive failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The first wait.
    pub base: Duration,
    /// The longest wait, without jitter.
    pub cap: Duration,
    /// The factor from one wait to the next.
    pub factor: f64,
    /// The maximum jitter, as a share of the wait.
    pub jitter: f64,
    /// The number of times that waits grow, after which they stay the same. If absent, they grow up to the cap.
    pub steps: Option<u32>,
    /// After this time without a failure, waits start again at the base.
    pub reset: Duration,
}

impl Default for BackoffPolicy {
    /// Waits double from 0.8 s to 30 s, with up to 100 % jitter, and start again after two minutes without a failure.
    fn default() -> Self {
        BackoffPolicy {
            base: Duration::from_millis(800),
            cap: Duration::from_secs(30),
            factor: 2.0,
            jitter: 1.0,
            steps: None,
            reset: Duration::from_secs(120),
        }
    }
}

/// The waits after consecutive failures.
pub struct Backoff {
    policy: BackoffPolicy,
    current: Duration,
    steps: u32,
    last: Option<Instant>,
    random: Random,
}

impl std::fmt::Debug for Backoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backoff")
            .field("policy", &self.policy)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl Backoff {
    /// A backoff with this policy.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self::with_random(policy, random())
    }

    /// The same, with its own source of randomness.
    pub fn with_random(policy: BackoffPolicy, random: Random) -> Self {
        Backoff { policy, current: policy.base.min(policy.cap), steps: 0, last: None, random }
    }

    /// The wait after a failure at this time.
    pub fn next(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > self.policy.reset) {
            self.current = self.policy.base.min(self.policy.cap);
            self.steps = 0;
        }
        self.last = Some(now);
        let base = self.current;
        if self.policy.steps.is_none_or(|steps| self.steps < steps) {
            self.steps = self.steps.saturating_add(1);
            self.current = times(base, self.policy.factor).min(self.policy.cap);
        }
        base.saturating_add(times(base, self.policy.jitter * (self.random)())).min(CENTURY)
    }
}

/// A product that does not fit a duration leaves it unchanged.
fn times(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Case 23.
    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_30_seconds_plus_jitter() {
        for (random, expected) in [
            (0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]),
            (0.5, [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0]),
        ] {
            let mut backoff = Backoff::with_random(BackoffPolicy::default(), Box::new(move || random));
            let now = Instant::now();
            for expected in expected {
                assert!((backoff.next(now).as_secs_f64() - expected).abs() < 1e-6);
            }
        }
    }

    /// Case 24.
    #[tokio::test(start_paused = true)]
    async fn no_wait_reaches_a_minute_and_two_minutes_without_failure_reset_the_backoff() {
        let mut backoff = Backoff::new(BackoffPolicy::default());
        let mut now = Instant::now();
        for failure in 0..40 {
            let wait = backoff.next(now);
            assert!(wait < 60 * SECOND);
            assert!(failure < 6 || wait >= 30 * SECOND, "{failure}: {wait:?}");
            now += wait;
        }
        assert!(backoff.next(now + 121 * SECOND) < 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_stop_growing_after_the_configured_steps() {
        let policy =
            BackoffPolicy { base: SECOND, factor: 3.0, jitter: 0.0, steps: Some(2), ..Default::default() };
        let mut backoff = Backoff::new(policy);
        let now = Instant::now();
        let waits: Vec<_> = (0..5).map(|_| backoff.next(now).as_secs()).collect();
        assert_eq!(waits, [1, 3, 9, 9, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_possible_waits_do_not_overflow() {
        let policy = BackoffPolicy { base: Duration::MAX, cap: Duration::MAX, ..BackoffPolicy::default() };
        assert_eq!(Backoff::new(policy).next(Instant::now()), CENTURY);
    }
}
