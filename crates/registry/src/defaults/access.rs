//! Who may do what: bindings of roles, and tokens.

use super::fields::{Object, child_or_new, children, set_default, set_if_zero, text};

const GROUP: &str = "rbac.authorization.k8s.io";
const TOKEN_LIFETIME_SECONDS: i64 = 3600;

/// A binding of a role, in a namespace or in the cluster.
pub(super) fn role_binding(object: &mut Object) {
    set_if_zero(child_or_new(object, "roleRef"), "apiGroup", GROUP);
    for subject in children(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            set_if_zero(subject, "apiGroup", GROUP);
        }
    }
}

/// A request for a token.
pub(super) fn token_request(object: &mut Object) {
    set_default(child_or_new(object, "spec"), "expirationSeconds", TOKEN_LIFETIME_SECONDS);
}

#[cfg(test)]
mod tests {
    use crate::defaults::testing::check;
    use serde_json::json;

    #[test]
    fn users_groups_and_roles_are_of_the_group_that_knows_them() {
        let group = "rbac.authorization.k8s.io";
        for kind in ["rbac.v1.RoleBinding", "rbac.v1.ClusterRoleBinding"] {
            check(
                kind,
                json!({
                    "roleRef": {"kind": "Role", "name": "r"},
                    "subjects": [
                        {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"},
                        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                        {"kind": "User", "name": "v", "apiGroup": "own"},
                    ],
                }),
                "",
                json!({
                    "metadata": {},
                    "roleRef": {"kind": "Role", "name": "r", "apiGroup": group},
                    "subjects": [
                        {"kind": "User", "name": "u", "apiGroup": group},
                        {"kind": "Group", "name": "g", "apiGroup": group},
                        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                        {"kind": "User", "name": "v", "apiGroup": "own"},
                    ],
                }),
            );
        }
    }

    #[test]
    fn a_token_lives_for_an_hour() {
        for (given, wanted) in [(json!({}), 3600), (json!({"expirationSeconds": 600}), 600)] {
            check(
                "authentication.v1.TokenRequest",
                json!({"spec": given}),
                "/spec/expirationSeconds",
                json!(wanted),
            );
        }
    }
}
