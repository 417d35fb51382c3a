//! CustomResourceDefinition.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "apiextensions.k8s.io",
        "apiextensions.v1.CustomResourceDefinition",
        "customresourcedefinitions",
    )
    .cluster_scoped()
    .short_names(&["crd", "crds"])
    .categories(&["api-extensions"])
    .subresources([Subresource::status()])
    .stored_at("apiextensions.k8s.io/customresourcedefinitions")
    .requires_version()
    .generation(Generation::Spec)
    .status_keeps_metadata()
}
