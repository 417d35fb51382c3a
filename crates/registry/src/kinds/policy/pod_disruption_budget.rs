//! PodDisruptionBudget.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("policy", "policy.v1.PodDisruptionBudget", "poddisruptionbudgets")
        .short_names(&["pdb"])
        .subresources([Subresource::status()])
        .requires_version()
        .generation(Generation::Spec)
}
