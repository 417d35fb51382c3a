//! PersistentVolumeClaim.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.PersistentVolumeClaim", "persistentvolumeclaims")
        .short_names(&["pvc"])
        .subresources([Subresource::status()])
        .returns_deleted()
}
