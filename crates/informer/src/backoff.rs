//! How long to wait after a failure.

use crate::moment::{CENTURY, after};
use std::{collections::HashMap, hash::Hash, time::Duration};
use tokio::time::Instant;

/// Chance, as numbers from 0 up to but not including 1. Tests bring their own.
pub type Random = Box<dyn FnMut() -> f64 + Send>;

pub(crate) fn random() -> Random {
    Box::new(rand::random::<f64>)
}

/// How waits grow from failure to failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The first wait.
    pub base: Duration,
    /// No wait is longer than this, but for what chance adds.
    pub cap: Duration,
    /// By what each wait is longer than the one before.
    pub factor: f64,
    /// How much chance adds to a wait at the most, as a share of it.
    pub jitter: f64,
    /// How often waits grow; they stay as they are after that. As long as the cap allows if absent.
    pub steps: Option<u32>,
    /// After so long without a failure waits start anew.
    pub reset: Duration,
}

impl Default for BackoffPolicy {
    /// From 0.8 s to 30 s, doubling, and as much again by chance; anew after two minutes.
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

/// Waits after one failure and the next.
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
    /// Waits that grow so.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self::with_random(policy, random())
    }

    /// The same, with chance of one's own.
    pub fn with_random(policy: BackoffPolicy, random: Random) -> Self {
        Backoff { policy, current: policy.base.min(policy.cap), steps: 0, last: None, random }
    }

    /// How long to wait after a failure now.
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

/// What is too long for a clock, or no number, is as it was.
fn times(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(duration)
}

/// Waits for many things, each of its own. What is not asked for in twice the longest wait is forgotten.
pub struct KeyedBackoff<T> {
    initial: Duration,
    max: Duration,
    jitter: f64,
    random: Random,
    entries: HashMap<T, (Duration, Instant)>,
    /// With how many entries what is old is looked for again.
    sweep_at: usize,
}

/// With fewer entries nothing has to be forgotten.
const SWEEP_MIN: usize = 64;

impl<T> std::fmt::Debug for KeyedBackoff<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedBackoff").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl<T: Clone + Eq + Hash> KeyedBackoff<T> {
    /// Waits that double from `initial` to `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        let max = max.min(CENTURY);
        let initial = initial.min(max);
        KeyedBackoff {
            initial,
            max,
            jitter: 0.0,
            random: random(),
            entries: HashMap::new(),
            sweep_at: SWEEP_MIN,
        }
    }

    /// Chance adds to a wait up to this share of it.
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// How long the current wait of something is; none if it has not failed lately.
    pub fn get(&self, id: &T) -> Duration {
        self.entries.get(id).map_or(Duration::ZERO, |(wait, _)| *wait)
    }

    /// Something failed: it waits, or waits twice as long as before.
    pub fn next(&mut self, id: &T, now: Instant) -> Duration {
        self.forget_old(now);
        let wait = match self.entries.get(id) {
            Some((wait, last)) if !self.is_old(*last, now) => (*wait * 2).min(self.max),
            _ => self.initial,
        };
        let wait = wait + times(wait, self.jitter * (self.random)());
        self.entries.insert(id.clone(), (wait, now));
        wait
    }

    /// Whether something that happens now is within the wait that began with its last failure.
    pub fn is_waiting(&self, id: &T, now: Instant) -> bool {
        let is_waiting =
            |(wait, last): &(Duration, Instant)| !self.is_old(*last, now) && now < after(*last, *wait);
        self.entries.get(id).is_some_and(is_waiting)
    }

    /// Something went well.
    pub fn forget(&mut self, id: &T) {
        self.entries.remove(id);
    }

    fn forget_old(&mut self, now: Instant) {
        if self.entries.len() >= self.sweep_at {
            let longest = self.max * 2;
            self.entries.retain(|_, (_, last)| now.duration_since(*last) <= longest);
            self.sweep_at = (self.entries.len() * 2).max(SWEEP_MIN);
        }
    }

    fn is_old(&self, last: Instant, now: Instant) -> bool {
        now.duration_since(last) > self.max * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Case 23.
    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_half_a_minute_and_chance_adds_as_much_again() {
        for (chance, expected) in [
            (0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]),
            (0.5, [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0]),
        ] {
            let mut backoff = Backoff::with_random(BackoffPolicy::default(), Box::new(move || chance));
            let now = Instant::now();
            for expected in expected {
                assert!((backoff.next(now).as_secs_f64() - expected).abs() < 1e-6);
            }
        }
    }

    /// Case 24.
    #[tokio::test(start_paused = true)]
    async fn no_wait_is_a_minute_and_two_minutes_of_peace_start_anew() {
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
    async fn waits_stop_growing_after_as_many_steps_as_were_asked_for() {
        let policy =
            BackoffPolicy { base: SECOND, factor: 3.0, jitter: 0.0, steps: Some(2), ..Default::default() };
        let mut backoff = Backoff::new(policy);
        let now = Instant::now();
        let waits: Vec<_> = (0..5).map(|_| backoff.next(now).as_secs()).collect();
        assert_eq!(waits, [1, 3, 9, 9, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn everything_waits_for_itself() {
        let mut backoff = KeyedBackoff::new(SECOND, 5 * SECOND);
        let now = Instant::now();
        let waits: Vec<_> = (0..4).map(|_| backoff.next(&"a", now).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5]);
        assert_eq!((backoff.next(&"b", now), backoff.get(&"c")), (SECOND, Duration::ZERO));
        assert!(backoff.is_waiting(&"a", now + 4 * SECOND) && !backoff.is_waiting(&"a", now + 5 * SECOND));
        assert_eq!(backoff.next(&"a", now + 11 * SECOND), SECOND, "what was long ago is forgotten");
        backoff.forget(&"a");
        assert_eq!(backoff.get(&"a"), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_long_gone_takes_no_memory() {
        let mut backoff = KeyedBackoff::new(SECOND, SECOND).jitter(0.5);
        for number in 0..100_000_u64 {
            let wait = backoff.next(&number, Instant::now());
            assert!((SECOND..=SECOND * 3 / 2).contains(&wait));
            tokio::time::advance(SECOND / 10).await;
        }
        assert!(backoff.entries.len() <= 2 * SWEEP_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_waits_one_can_ask_for_are_no_trouble() {
        let policy = BackoffPolicy { base: Duration::MAX, cap: Duration::MAX, ..BackoffPolicy::default() };
        assert_eq!(Backoff::new(policy).next(Instant::now()), CENTURY);
        assert_eq!(KeyedBackoff::new(Duration::MAX, Duration::MAX).next(&1, Instant::now()), CENTURY);
    }
}
