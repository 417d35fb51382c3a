//! Deployment.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.Deployment", "deployments")
        .short_names(&["deploy"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .generation(Generation::SpecOrAnnotations)
}
