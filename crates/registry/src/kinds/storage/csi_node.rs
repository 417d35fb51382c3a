//! CSINode.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.CSINode", "csinodes")
        .cluster_scoped()
        .requires_version()
        .returns_deleted()
}
