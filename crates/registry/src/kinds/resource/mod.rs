//! The kinds of `resource.k8s.io`.

pub(crate) mod devices;
mod device_class;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        device_class::kind(),
        resource_claim::kind(),
        resource_claim_template::kind(),
        resource_slice::kind(),
    ]
}
