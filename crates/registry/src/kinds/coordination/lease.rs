//! Lease.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("coordination.k8s.io", "coordination.v1.Lease", "leases")
        .requires_version()
        .creates_on_update()
}
