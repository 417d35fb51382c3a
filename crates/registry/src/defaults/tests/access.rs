//! Defaults of role bindings.

use crate::defaults::tests::check;
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
