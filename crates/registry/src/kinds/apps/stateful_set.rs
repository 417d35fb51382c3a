//! StatefulSet.

use crate::kind::{Generation, Kind, NameRule, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.StatefulSet", "statefulsets")
        .short_names(&["sts"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .names(NameRule::Label)
        .generation(Generation::Spec)
}
