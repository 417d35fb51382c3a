//! IngressClass.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.IngressClass", "ingressclasses")
        .cluster_scoped()
        .generation(Generation::Spec)
}
