//! ReplicationController.

use crate::kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ReplicationController", "replicationcontrollers")
        .short_names(&["rc"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .stored_at("controllers")
        .orphans_dependents()
        .generation(Generation::Spec)
        .selectable(
            [
                SelectableField::namespace(),
                SelectableField::new("status.replicas").at(At::Number(path("status.replicas"))),
            ],
            UnknownField::NotSupported,
        )
}
