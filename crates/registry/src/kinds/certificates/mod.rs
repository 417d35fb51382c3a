//! The kinds of `certificates.k8s.io`.

mod certificate_signing_request;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![certificate_signing_request::kind()]
}
