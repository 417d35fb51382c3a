//! The rules that select the requests for webhooks and admission policies, as their kinds share them.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    validation::names,
};
use serde_json::Map;
use std::collections::BTreeSet;

pub(crate) fn operations_rule(rule: &Node, errors: &mut FieldErrors) {
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    if rule.length("operations") == 0 {
        errors.required(&rule.at("operations"), "");
    }
    wildcard_is_exclusive(rule, "operations", "operations", errors);
    for operation in rule.items("operations") {
        errors.must_be_one_of(&operation, &known);
    }
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if rule.length(name) == 0 {
            errors.required(&rule.at(name), "");
        }
        wildcard_is_exclusive(rule, name, what, errors);
    }
    for version in rule.items("apiVersions") {
        errors.not_empty(&version);
    }
    rule_resources(rule, errors);
    errors.one_of_if_set(&rule.at("scope"), &["*", "Cluster", "Namespaced"]);
}

/// Rejects a list that contains `*` and something else.
fn wildcard_is_exclusive(rule: &Node, name: &str, what: &str, errors: &mut FieldErrors) {
    if rule.length(name) > 1 && rule.items(name).any(|item| item.as_text() == "*") {
        let list = rule.at(name);
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(&list, list.value.clone(), &detail);
    }
}

/// Validates resources, with subresources after a slash; a wildcard rejects the names that it covers.
fn rule_resources(rule: &Node, errors: &mut FieldErrors) {
    let list = rule.at("resources");
    if rule.length("resources") == 0 {
        errors.required(&list, "");
    }
    let (mut all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    let (mut everything, mut all, mut plain) = (false, false, false);
    for item in rule.items("resources") {
        let text = item.as_text();
        if text.is_empty() {
            errors.required(&item, "");
            continue;
        }
        everything |= text == "*/*";
        all |= text == "*";
        let Some((resource, below)) = text.split_once('/') else {
            // The last one decides, as in Kubernetes.
            plain = text != "*";
            continue;
        };
        for (given, name) in [
            (all_below.contains(resource), format!("{resource}/*")),
            (below_all.contains(below), format!("*/{below}")),
        ] {
            if given {
                errors.invalid(&item, text, &format!("if '{name}' is present, must not specify {text}"));
            }
        }
        if below == "*" {
            all_below.insert(resource);
        }
        if resource == "*" {
            below_all.insert(below);
        }
    }
    if everything && rule.length("resources") > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(&list, list.value.clone(), detail);
    }
    if all && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(&list, list.value.clone(), detail);
    }
}

/// Validates the match conditions of a webhook or a policy.
pub(crate) fn conditions(of: &Node, errors: &mut FieldErrors) {
    for condition in of.items("matchConditions") {
        errors.not_empty(&condition.at("expression"));
        errors.valid_name(&condition.at("name"), names::qualified);
    }
}

/// Sets the defaults of what is matched: all namespaces and objects, equivalent versions too, and any scope in the
/// rules of the given lists.
pub(crate) fn fill_match(matching: &mut Object, rules: &[&str]) {
    matching.set_default("matchPolicy", "Equivalent");
    matching.set_default("namespaceSelector", Map::new());
    matching.set_default("objectSelector", Map::new());
    for list in rules {
        for rule in matching.objects_mut(list) {
            rule.set_default("scope", "*");
        }
    }
}
