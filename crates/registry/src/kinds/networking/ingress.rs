//! Ingress.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.Ingress", "ingresses")
        .short_names(&["ing"])
        .subresources([Subresource::status()])
        .stored_at("ingress")
        .generation(Generation::Spec)
}
