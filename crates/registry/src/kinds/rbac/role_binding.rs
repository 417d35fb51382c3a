//! RoleBinding.

use crate::{
    defaults::fields::{Object, child_or_new, children, set_if_zero, text},
    kind::{Kind, NameRule},
    schema::Timestamp,
    strategy::Strategy,
    table::{self, AGE, Column, NAME, read::Read, row, words::age_of},
    validation::{
        LATE, Step,
        document::{Faults, Node},
        names,
    },
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

    /// Who has a role in a namespace.
    fn validate(&self, binding: &Node, _: Option<&Node>, faults: &mut Faults) {
        bound(binding, &["Role", "ClusterRole"], true, faults);
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        binding_change(new, old, faults)
    }

    fn columns(&self) -> &'static [Column] {
        ROLE_BINDING
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        row_role_binding(document, now)
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn bound(binding: &Node, kinds: &[&str], namespaced: bool, faults: &mut Faults) {
    let role = binding.at("roleRef");
    if role.text_of("apiGroup") != GROUP {
        faults.not_supported(&role.at("apiGroup"), role.text_of("apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&role.text_of("kind")) {
        faults.not_supported(&role.at("kind"), role.text_of("kind"), kinds);
    }
    faults.named(&role.at("name"), names::path_segment);
    for subject in binding.items("subjects") {
        subject_is_known(&subject, namespaced, faults);
    }
}

fn subject_is_known(subject: &Node, namespaced: bool, faults: &mut Faults) {
    let (name, group) = (subject.at("name"), subject.at("apiGroup"));
    faults.given(&name);
    match subject.text_of("kind") {
        "ServiceAccount" => {
            faults.if_given(&name, names::subdomain);
            if !group.text().is_empty() {
                faults.not_supported(&group, group.text(), &[""]);
            }
            if !namespaced {
                faults.given(&subject.at("namespace"));
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                faults.not_supported(&group, group.text(), &[GROUP]);
            }
        }
        other => faults.not_supported(&subject.at("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// A binding keeps its role.
pub(crate) fn binding_change(new: &Node, old: &Node, faults: &mut Faults) {
    let role = new.at("roleRef");
    if role.value != old.at("roleRef").value {
        let shown = json!({
            "APIGroup": role.text_of("apiGroup"), "Kind": role.text_of("kind"), "Name": role.text_of("name"),
        });
        faults.invalid(&role, shown, "cannot change roleRef");
    }
}

/// A binding of a role, in a namespace or in the cluster.
pub(crate) fn default_role_binding(object: &mut Object) {
    set_if_zero(child_or_new(object, "roleRef"), "apiGroup", GROUP);
    for subject in children(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            set_if_zero(subject, "apiGroup", GROUP);
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
