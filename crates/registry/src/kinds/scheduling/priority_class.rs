//! PriorityClass.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("scheduling.k8s.io", "scheduling.v1.PriorityClass", "priorityclasses")
        .cluster_scoped()
        .short_names(&["pc"])
        .generation(Generation::Once)
}
