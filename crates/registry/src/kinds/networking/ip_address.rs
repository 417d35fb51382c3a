//! IPAddress.

use crate::kind::{Kind, NameRule};

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.IPAddress", "ipaddresses")
        .cluster_scoped()
        .short_names(&["ip"])
        .names(NameRule::Ip)
}
