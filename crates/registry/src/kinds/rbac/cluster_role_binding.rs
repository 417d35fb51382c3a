//! ClusterRoleBinding.

use crate::{
    document::{FieldErrors, Node, Object},
    kind::{Kind, NameRule},
    kinds::rbac::role_binding::{
        ROLE_BINDING, binding_change, bound, default_role_binding, row_role_binding,
    },
    schema::Timestamp,
    strategy::Strategy,
    table::Column,
    validation::{LATE, Step},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("rbac.authorization.k8s.io", "rbac.v1.ClusterRoleBinding", "clusterrolebindings")
        .cluster_scoped()
        .names(NameRule::PathSegment)
        .creates_on_update()
        .strategy(ClusterRoleBindingStrategy)
        .not_enforced("roles are kept but not enforced yet: every authenticated user may do everything")
}

struct ClusterRoleBindingStrategy;

impl Strategy for ClusterRoleBindingStrategy {
    fn set_defaults(&self, object: &mut Object) {
        default_role_binding(object)
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    /// Validates the role and the subjects.
    fn validate(&self, binding: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        bound(binding, &["ClusterRole"], false, errors);
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        binding_change(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        ROLE_BINDING
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        row_role_binding(document, now)
    }
}
