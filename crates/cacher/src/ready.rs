//! Whether the cache is ready, and the error that clients get while it is not.
//!
//! The cache is pending, then ready, pending again while it relists, and stopped for good when it is dropped.

use keepwatch_apimachinery::status::Status;
use keepwatch_storage::StorageError;
use std::time::Duration;
use tokio::time::Instant;

/// The limits of the retry delay that clients get. It grows with the time for which the cache has not been ready.
const RETRY_SECONDS_MIN: f64 = 1.0;
const RETRY_SECONDS_MAX: f64 = 30.0;
/// The exponent by which the delay grows per second.
const RETRY_GROWTH_PER_SECOND: f64 = 0.06;

pub(crate) struct Readiness {
    phase: Phase,
    since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Pending { last_error: Option<String> },
    Ready,
    Stopped,
}

impl Readiness {
    pub(crate) fn new(now: Instant) -> Self {
        Self { phase: Phase::Pending { last_error: None }, since: now }
    }

    pub(crate) fn ready(&mut self, now: Instant) {
        self.change(Phase::Ready, now);
    }

    /// Records that the cache is not ready, and why.
    pub(crate) fn pending(&mut self, last_error: Option<String>, now: Instant) {
        match &mut self.phase {
            Phase::Pending { last_error: reason } => *reason = last_error.or(reason.take()),
            _ => self.change(Phase::Pending { last_error }, now),
        }
    }

    pub(crate) fn stop(&mut self, now: Instant) {
        self.change(Phase::Stopped, now);
    }

    fn change(&mut self, phase: Phase, now: Instant) {
        if self.phase != Phase::Stopped {
            (self.phase, self.since) = (phase, now);
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::Pending { .. })
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Fails with the error for the client unless the cache is ready.
    pub(crate) fn check(&self, now: Instant) -> Result<(), StorageError> {
        let retry_after_seconds = retry_after_seconds(now.saturating_duration_since(self.since));
        let message = match &self.phase {
            Phase::Ready => return Ok(()),
            Phase::Pending { last_error } => {
                Status::unready(last_error.as_deref(), retry_after_seconds).message
            }
            Phase::Stopped => "apiserver cacher is stopped".to_owned(),
        };
        Err(StorageError::Unready { message, retry_after_seconds })
    }
}

fn retry_after_seconds(unready_for: Duration) -> u32 {
    let seconds = (RETRY_GROWTH_PER_SECOND * unready_for.as_secs_f64()).exp();
    seconds.clamp(RETRY_SECONDS_MIN, RETRY_SECONDS_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_delay_grows_with_the_time_unready() {
        for (seconds, retry) in [
            (0, 1),
            (10, 1),
            (14, 2),
            (20, 3),
            (30, 6),
            (40, 11),
            (56, 28),
            (57, 30),
            (540, 30),
            (u64::MAX / 4, 30),
        ] {
            assert_eq!(retry_after_seconds(Duration::from_secs(seconds)), retry, "{seconds}");
        }
    }

    #[test]
    fn the_error_names_the_cause_and_a_stopped_cache_stays_stopped() {
        let now = Instant::now();
        let mut readiness = Readiness::new(now);
        let message = |readiness: &Readiness| readiness.check(now).map_err(|error| error.to_string());
        assert_eq!(message(&readiness).unwrap_err(), "storage is (re)initializing");
        readiness.ready(now);
        assert!(readiness.is_ready() && message(&readiness).is_ok());
        readiness.pending(Some("no leader".to_owned()), now);
        readiness.pending(None, now);
        assert_eq!(message(&readiness).unwrap_err(), "storage is (re)initializing: no leader");
        readiness.stop(now);
        readiness.ready(now);
        assert_eq!(message(&readiness).unwrap_err(), "apiserver cacher is stopped");
    }
}
