//! CSIDriver.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.CSIDriver", "csidrivers")
        .cluster_scoped()
        .requires_version()
        .returns_deleted()
        .generation(Generation::SpecOnceCreated)
}
