//! The kinds of `discovery.k8s.io`.

mod endpoint_slice;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![endpoint_slice::kind()]
}
