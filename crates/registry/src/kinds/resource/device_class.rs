//! DeviceClass.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.DeviceClass", "deviceclasses")
        .cluster_scoped()
        .returns_deleted()
        .generation(Generation::Spec)
}
