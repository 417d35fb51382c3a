//! ClusterRoleBinding.

use crate::kind::{Kind, NameRule};

pub(super) fn kind() -> Kind {
    Kind::of_type("rbac.authorization.k8s.io", "rbac.v1.ClusterRoleBinding", "clusterrolebindings")
        .cluster_scoped()
        .names(NameRule::PathSegment)
        .creates_on_update()
}
