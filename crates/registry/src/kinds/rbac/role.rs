//! Role.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::{Kind, NameRule},
    strategy::Strategy,
    validation::{LATE, Step},
};

pub(super) fn kind() -> Kind {
    Kind::of_type("rbac.authorization.k8s.io", "rbac.v1.Role", "roles")
        .names(NameRule::PathSegment)
        .creates_on_update()
        .strategy(RoleStrategy)
        .not_enforced("roles are kept but not enforced yet: every authenticated user may do everything")
}

struct RoleStrategy;

impl Strategy for RoleStrategy {
    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, role: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        rules(role, true, errors);
    }
}

pub(crate) fn rules(role: &Node, namespaced: bool, errors: &mut FieldErrors) {
    for rule in role.items("rules") {
        if rule.length("verbs") == 0 {
            errors.required(&rule.at("verbs"), "verbs must contain at least one value");
        }
        let urls = rule.at("nonResourceURLs");
        if rule.length("nonResourceURLs") > 0 {
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&urls, urls.value.clone(), detail);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|name| rule.length(name) > 0) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&urls, urls.value.clone(), detail);
            }
            continue;
        }
        if rule.length("apiGroups") == 0 {
            errors.required(&rule.at("apiGroups"), "resource rules must supply at least one api group");
        }
        if rule.length("resources") == 0 {
            errors.required(&rule.at("resources"), "resource rules must supply at least one resource");
        }
    }
}
