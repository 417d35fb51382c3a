//! ClusterRole.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::{Kind, NameRule},
    kinds::rbac::role::rules,
    strategy::Strategy,
    validation::{LATE, Step, selectors},
};

pub(super) fn kind() -> Kind {
    Kind::of_type("rbac.authorization.k8s.io", "rbac.v1.ClusterRole", "clusterroles")
        .cluster_scoped()
        .names(NameRule::PathSegment)
        .creates_on_update()
        .strategy(ClusterRoleStrategy)
        .not_enforced("roles are kept but not enforced yet: every authenticated user may do everything")
}

struct ClusterRoleStrategy;

impl Strategy for ClusterRoleStrategy {
    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    /// A role in the whole cluster, which may aggregate the rules of others.
    fn validate(&self, role: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        rules(role, false, errors);
        let aggregation = role.at("aggregationRule");
        if aggregation.exists() && aggregation.length("clusterRoleSelectors") == 0 {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required(&aggregation.at("clusterRoleSelectors"), detail);
        }
        for selector in aggregation.items("clusterRoleSelectors") {
            selectors::label_selector(&selector, errors);
            if !selectors::can_be_evaluated(&selector) {
                errors.invalid(&selector, serde_json::Value::Null, "invalid label selector.");
            }
        }
    }
}
