//! ResourceClaimTemplate.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.ResourceClaimTemplate", "resourceclaimtemplates")
        .returns_deleted()
}
