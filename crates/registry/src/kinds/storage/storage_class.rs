//! StorageClass.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.StorageClass", "storageclasses")
        .cluster_scoped()
        .short_names(&["sc"])
        .returns_deleted()
}
