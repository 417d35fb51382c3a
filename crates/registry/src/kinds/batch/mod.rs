//! The kinds of `batch`.

mod cron_job;
mod job;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![cron_job::kind(), job::kind()]
}
