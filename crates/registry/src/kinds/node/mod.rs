//! The kinds of `node.k8s.io`.

mod runtime_class;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![runtime_class::kind()]
}
