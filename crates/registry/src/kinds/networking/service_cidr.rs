//! ServiceCIDR.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.ServiceCIDR", "servicecidrs")
        .cluster_scoped()
        .subresources([Subresource::status()])
        .status_keeps_metadata()
}
