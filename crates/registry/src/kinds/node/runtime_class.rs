//! RuntimeClass.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("node.k8s.io", "node.v1.RuntimeClass", "runtimeclasses")
        .cluster_scoped()
        .requires_version()
        .creates_on_update()
}
