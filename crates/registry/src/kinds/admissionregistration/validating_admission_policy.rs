//! ValidatingAdmissionPolicy.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "admissionregistration.k8s.io",
        "admissionregistration.v1.ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    )
    .cluster_scoped()
    .categories(&["api-extensions"])
    .subresources([Subresource::status()])
    .requires_version()
    .generation(Generation::Spec)
    .status_keeps_metadata()
}
