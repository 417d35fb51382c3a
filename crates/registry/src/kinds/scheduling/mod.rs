//! The kinds of `scheduling.k8s.io`.

mod priority_class;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![priority_class::kind()]
}
