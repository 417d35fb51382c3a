//! The kinds of `policy`.

mod pod_disruption_budget;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![pod_disruption_budget::kind()]
}
