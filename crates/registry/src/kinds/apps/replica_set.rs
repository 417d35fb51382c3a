//! ReplicaSet.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.ReplicaSet", "replicasets")
        .short_names(&["rs"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .generation(Generation::Spec)
}
