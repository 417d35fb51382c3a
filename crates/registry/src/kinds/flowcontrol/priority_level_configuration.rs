//! PriorityLevelConfiguration.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "flowcontrol.apiserver.k8s.io",
        "flowcontrol.v1.PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    )
    .cluster_scoped()
    .subresources([Subresource::status()])
    .generation(Generation::Spec)
    .status_keeps_metadata()
}
