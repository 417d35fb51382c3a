//! PersistentVolume.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.PersistentVolume", "persistentvolumes")
        .cluster_scoped()
        .short_names(&["pv"])
        .subresources([Subresource::status()])
        .returns_deleted()
}
