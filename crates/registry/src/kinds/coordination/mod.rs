//! The kinds of `coordination.k8s.io`.

mod lease;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![lease::kind()]
}
