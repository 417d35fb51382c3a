//! Deadlines that do not overflow.

use std::time::Duration;
use tokio::time::Instant;

/// The longest duration. A longer one is treated as this.
pub(crate) const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The deadline this long after `start`.
pub(crate) fn after(start: Instant, duration: Duration) -> Instant {
    start.checked_add(duration.min(CENTURY)).unwrap_or(start)
}
