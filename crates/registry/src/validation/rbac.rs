//! Who may do what.

use serde_json::json;

use super::{
    document::{Faults, Node},
    names, selectors,
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role in a namespace.
pub(super) fn role(role: &Node, _: Option<&Node>, faults: &mut Faults) {
    rules(role, true, faults);
}

/// A role in the whole cluster, which may gather the rules of others.
pub(super) fn cluster_role(role: &Node, _: Option<&Node>, faults: &mut Faults) {
    rules(role, false, faults);
    let aggregation = role.at("aggregationRule");
    if aggregation.exists() && aggregation.len_of("clusterRoleSelectors") == 0 {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        faults.required(&aggregation.at("clusterRoleSelectors"), detail);
    }
    for selector in aggregation.items("clusterRoleSelectors") {
        selectors::label_selector(&selector, faults);
        if !selectors::can_be_asked(&selector) {
            faults.invalid(&selector, serde_json::Value::Null, "invalid label selector.");
        }
    }
}

fn rules(role: &Node, namespaced: bool, faults: &mut Faults) {
    for rule in role.items("rules") {
        if rule.len_of("verbs") == 0 {
            faults.required(&rule.at("verbs"), "verbs must contain at least one value");
        }
        let urls = rule.at("nonResourceURLs");
        if rule.len_of("nonResourceURLs") > 0 {
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                faults.invalid(&urls, urls.value.clone(), detail);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|name| rule.len_of(name) > 0) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                faults.invalid(&urls, urls.value.clone(), detail);
            }
            continue;
        }
        if rule.len_of("apiGroups") == 0 {
            faults.required(&rule.at("apiGroups"), "resource rules must supply at least one api group");
        }
        if rule.len_of("resources") == 0 {
            faults.required(&rule.at("resources"), "resource rules must supply at least one resource");
        }
    }
}

/// Who has a role in a namespace.
pub(super) fn role_binding(binding: &Node, _: Option<&Node>, faults: &mut Faults) {
    bound(binding, &["Role", "ClusterRole"], true, faults);
}

/// Who has a role in the whole cluster.
pub(super) fn cluster_role_binding(binding: &Node, _: Option<&Node>, faults: &mut Faults) {
    bound(binding, &["ClusterRole"], false, faults);
}

fn bound(binding: &Node, kinds: &[&str], namespaced: bool, faults: &mut Faults) {
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
pub(super) fn binding_change(new: &Node, old: &Node, faults: &mut Faults) {
    let role = new.at("roleRef");
    if role.value != old.at("roleRef").value {
        let shown = json!({
            "APIGroup": role.text_of("apiGroup"), "Kind": role.text_of("kind"), "Name": role.text_of("name"),
        });
        faults.invalid(&role, shown, "cannot change roleRef");
    }
}
