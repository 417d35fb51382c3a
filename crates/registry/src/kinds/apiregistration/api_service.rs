//! APIService.

use crate::kind::{Kind, NameRule, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("apiregistration.k8s.io", "apiregistration.v1.APIService", "apiservices")
        .cluster_scoped()
        .categories(&["api-extensions"])
        .subresources([Subresource::status()])
        .stored_at("apiregistration.k8s.io/apiservices")
        .names(NameRule::PathSegment)
        .requires_version()
        .status_keeps_metadata()
}
