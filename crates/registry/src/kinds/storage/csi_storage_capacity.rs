//! CSIStorageCapacity.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.CSIStorageCapacity", "csistoragecapacities")
        .requires_version()
}
