//! Moments to come, however far somebody says they are.

use std::time::Duration;
use tokio::time::Instant;

/// What is further away than this never comes, for a program.
pub(crate) const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// So long after a moment.
pub(crate) fn after(moment: Instant, duration: Duration) -> Instant {
    moment.checked_add(duration.min(CENTURY)).unwrap_or(moment)
}
