//! VolumeAttributesClass.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.VolumeAttributesClass", "volumeattributesclasses")
        .cluster_scoped()
        .short_names(&["vac"])
        .returns_deleted()
}
