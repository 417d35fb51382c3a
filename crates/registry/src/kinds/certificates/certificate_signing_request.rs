//! CertificateSigningRequest.

use crate::kind::{Kind, NameRule, SelectableField, Subresource, UnknownField};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "certificates.k8s.io",
        "certificates.v1.CertificateSigningRequest",
        "certificatesigningrequests",
    )
    .cluster_scoped()
    .short_names(&["csr"])
    .subresources([Subresource::new("approval", &["get", "patch", "update"]), Subresource::status()])
    .names(NameRule::PathSegment)
    .selectable([SelectableField::new("spec.signerName")], UnknownField::NotSupported)
}
