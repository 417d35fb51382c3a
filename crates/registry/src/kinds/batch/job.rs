//! Job.

use crate::kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path};

pub(super) fn kind() -> Kind {
    Kind::of_type("batch", "batch.v1.Job", "jobs")
        .categories(&["all"])
        .subresources([Subresource::status()])
        .orphans_dependents()
        .generation(Generation::Spec)
        .selectable(
            [
                SelectableField::namespace(),
                SelectableField::new("status.successful").at(At::Number(path("status.succeeded"))),
            ],
            UnknownField::NotSupportedFor("Job"),
        )
}
