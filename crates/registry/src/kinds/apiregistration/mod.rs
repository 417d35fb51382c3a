//! The kinds of `apiregistration.k8s.io`.

mod api_service;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![api_service::kind()]
}
