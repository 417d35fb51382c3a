//! ResourceSlice.

use crate::kind::{Generation, Kind, SelectableField, UnknownField};

pub(super) fn kind() -> Kind {
    Kind::of_type("resource.k8s.io", "resource.v1.ResourceSlice", "resourceslices")
        .cluster_scoped()
        .returns_deleted()
        .generation(Generation::Spec)
        .selectable(
            [SelectableField::new("spec.nodeName"), SelectableField::new("spec.driver")],
            UnknownField::NotSupportedForKind,
        )
}
