//! The kinds of `apiextensions.k8s.io`.

mod custom_resource_definition;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![custom_resource_definition::kind()]
}
