//! ResourceClaim.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.ResourceClaim", "resourceclaims")
        .subresources([Subresource::status()])
        .returns_deleted()
        .status_keeps_metadata()
}
