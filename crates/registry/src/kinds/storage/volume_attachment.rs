//! VolumeAttachment.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.VolumeAttachment", "volumeattachments")
        .cluster_scoped()
        .subresources([Subresource::status()])
        .requires_version()
        .returns_deleted()
        .status_keeps_metadata()
}
