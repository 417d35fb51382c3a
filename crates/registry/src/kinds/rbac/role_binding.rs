//! RoleBinding.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, NameRule},
    schema::Timestamp,
    strategy::Strategy,
    table::{self, AGE, Column, NAME, row, words::age_of},
    validation::{LATE, Step, names},
};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("rbac.authorization.k8s.io", "rbac.v1.RoleBinding", "rolebindings")
        .names(NameRule::PathSegment)
        .creates_on_update()
        .strategy(RoleBindingStrategy)
        .not_enforced("roles are kept but not enforced yet: every authenticated user may do everything")
}

struct RoleBindingStrategy;

impl Strategy for RoleBindingStrategy {
    fn set_defaults(&self, object: &mut Object) {
        default_role_binding(object)
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    /// Validates the role and the subjects.
    fn validate(&self, binding: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        bound(binding, &["Role", "ClusterRole"], true, errors);
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

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn bound(binding: &Node, kinds: &[&str], namespaced: bool, errors: &mut FieldErrors) {
    let role = binding.at("roleRef");
    if role.text("apiGroup") != GROUP {
        errors.not_supported(&role.at("apiGroup"), role.text("apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&role.text("kind")) {
        errors.not_supported(&role.at("kind"), role.text("kind"), kinds);
    }
    errors.valid_name(&role.at("name"), names::path_segment);
    for subject in binding.items("subjects") {
        subject_is_known(&subject, namespaced, errors);
    }
}

fn subject_is_known(subject: &Node, namespaced: bool, errors: &mut FieldErrors) {
    let (name, group) = (subject.at("name"), subject.at("apiGroup"));
    errors.not_empty(&name);
    match subject.text("kind") {
        "ServiceAccount" => {
            errors.valid_if_set(&name, names::subdomain);
            if !group.as_text().is_empty() {
                errors.not_supported(&group, group.as_text(), &[""]);
            }
            if !namespaced {
                errors.not_empty(&subject.at("namespace"));
            }
        }
        "User" | "Group" => {
            if group.as_text() != GROUP {
                errors.not_supported(&group, group.as_text(), &[GROUP]);
            }
        }
        other => errors.not_supported(&subject.at("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// Rejects a change of the role.
pub(crate) fn binding_change(new: &Node, old: &Node, errors: &mut FieldErrors) {
    let role = new.at("roleRef");
    if role.value != old.at("roleRef").value {
        let shown = json!({
            "APIGroup": role.text("apiGroup"), "Kind": role.text("kind"), "Name": role.text("name"),
        });
        errors.invalid(&role, shown, "cannot change roleRef");
    }
}

/// A binding of a role, in a namespace or in the cluster.
pub(crate) fn default_role_binding(object: &mut Object) {
    object.object_or_new("roleRef").set_if_zero("apiGroup", GROUP);
    for subject in object.objects_mut("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.set_if_zero("apiGroup", GROUP);
        }
    }
}

pub(crate) const ROLE_BINDING: &[Column] = &[
    NAME,
    table::text("Role", "The role that is granted"),
    AGE,
    table::text("Users", "The users who have the role").wide(),
    table::text("Groups", "The groups that have the role").wide(),
    table::text("ServiceAccounts", "The service accounts that have the role").wide(),
];

pub(crate) fn row_role_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str, spell: fn(&Value) -> String| {
        let subjects = binding.list("subjects").iter().filter(|subject| subject.text("kind") == kind);
        subjects.map(spell).collect::<Vec<_>>().join(", ")
    };
    let name = |subject: &Value| subject.text("name").to_owned();
    row![
        binding.name(),
        format!("{}/{}", binding.text("roleRef.kind"), binding.text("roleRef.name")),
        age_of(binding, now),
        subjects("User", name),
        subjects("Group", name),
        subjects("ServiceAccount", |account| format!(
            "{}/{}",
            account.text("namespace"),
            account.text("name")
        )),
    ]
}
