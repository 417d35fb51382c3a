//! NetworkPolicy.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.NetworkPolicy", "networkpolicies")
        .short_names(&["netpol"])
        .generation(Generation::Spec)
}
