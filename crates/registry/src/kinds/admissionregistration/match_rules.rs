//! Which requests webhooks and admission policies are asked about: rules that their kinds share.

use crate::{
    defaults::fields::{Object, children, set_default},
    validation::{
        document::{Faults, Node},
        names,
    },
};
use serde_json::Map;
use std::collections::BTreeSet;

pub(crate) fn operations_rule(rule: &Node, faults: &mut Faults) {
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    if rule.len_of("operations") == 0 {
        faults.required(&rule.at("operations"), "");
    }
    wildcard_alone(rule, "operations", "operations", faults);
    for operation in rule.items("operations") {
        faults.must_be_one_of(&operation, &known);
    }
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if rule.len_of(name) == 0 {
            faults.required(&rule.at(name), "");
        }
        wildcard_alone(rule, name, what, faults);
    }
    for version in rule.items("apiVersions") {
        faults.given(&version);
    }
    rule_resources(rule, faults);
    faults.if_given_one_of(&rule.at("scope"), &["*", "Cluster", "Namespaced"]);
}

/// What stands for everything stands alone.
fn wildcard_alone(rule: &Node, name: &str, what: &str, faults: &mut Faults) {
    if rule.len_of(name) > 1 && rule.items(name).any(|item| item.text() == "*") {
        let list = rule.at(name);
        let detail = format!("if '*' is present, must not specify other {what}");
        faults.invalid(&list, list.value.clone(), &detail);
    }
}

/// Resources, and subresources after a slash; what stands for several makes naming one of them pointless.
fn rule_resources(rule: &Node, faults: &mut Faults) {
    let list = rule.at("resources");
    if rule.len_of("resources") == 0 {
        faults.required(&list, "");
    }
    let (mut all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    let (mut everything, mut all, mut plain) = (false, false, false);
    for item in rule.items("resources") {
        let text = item.text();
        if text.is_empty() {
            faults.required(&item, "");
            continue;
        }
        everything |= text == "*/*";
        all |= text == "*";
        let Some((resource, below)) = text.split_once('/') else {
            // The last one counts, as in the original.
            plain = text != "*";
            continue;
        };
        for (given, name) in [
            (all_below.contains(resource), format!("{resource}/*")),
            (below_all.contains(below), format!("*/{below}")),
        ] {
            if given {
                faults.invalid(&item, text, &format!("if '{name}' is present, must not specify {text}"));
            }
        }
        if below == "*" {
            all_below.insert(resource);
        }
        if resource == "*" {
            below_all.insert(below);
        }
    }
    if everything && rule.len_of("resources") > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        faults.invalid(&list, list.value.clone(), detail);
    }
    if all && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        faults.invalid(&list, list.value.clone(), detail);
    }
}

/// When a hook or a policy is asked at all.
pub(crate) fn conditions(of: &Node, faults: &mut Faults) {
    for condition in of.items("matchConditions") {
        faults.given(&condition.at("expression"));
        faults.named(&condition.at("name"), names::qualified);
    }
}

/// What is matched: all namespaces and objects, in whatever version they come, and in these lists of rules any scope.
pub(crate) fn fill_match(matching: &mut Object, rules: &[&str]) {
    set_default(matching, "matchPolicy", "Equivalent");
    set_default(matching, "namespaceSelector", Map::new());
    set_default(matching, "objectSelector", Map::new());
    for list in rules {
        for rule in children(matching, list) {
            set_default(rule, "scope", "*");
        }
    }
}
