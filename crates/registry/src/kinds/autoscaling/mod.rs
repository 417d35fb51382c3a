//! The kinds of `autoscaling`.

mod annotations;
mod horizontal_pod_autoscaler;
mod horizontal_pod_autoscaler_v1;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![horizontal_pod_autoscaler::kind(), horizontal_pod_autoscaler_v1::kind()]
}
