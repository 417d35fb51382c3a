//! RoleBinding.

use crate::kind::{Kind, NameRule};

pub(super) fn kind() -> Kind {
    Kind::of_type("rbac.authorization.k8s.io", "rbac.v1.RoleBinding", "rolebindings")
        .names(NameRule::PathSegment)
        .creates_on_update()
}
