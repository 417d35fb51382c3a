//! The kinds of `rbac.authorization.k8s.io`.

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![cluster_role_binding::kind(), cluster_role::kind(), role_binding::kind(), role::kind()]
}
