//! The scheduling of pods: affinity, topology spread and tolerations.

use super::{names, selectors};
use crate::document::{FieldErrors, Fields, Node};
use std::collections::{BTreeSet, HashMap, HashSet};

pub(super) fn affinity(affinity: &Node, errors: &mut FieldErrors) {
    let node = affinity.at("nodeAffinity");
    let required = node.at("requiredDuringSchedulingIgnoredDuringExecution");
    if required.exists() {
        selectors::node_selector(&required, errors);
    }
    for term in node.items("preferredDuringSchedulingIgnoredDuringExecution") {
        weight(&term, errors);
        selectors::node_selector_term(&term.at("preference"), false, errors);
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let side = affinity.at(side);
        for term in side.items("requiredDuringSchedulingIgnoredDuringExecution") {
            affinity_term(&term, errors);
        }
        for term in side.items("preferredDuringSchedulingIgnoredDuringExecution") {
            weight(&term, errors);
            affinity_term(&term.at("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Node, errors: &mut FieldErrors) {
    let weight = term.number("weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(&term.at("weight"), weight, "must be in the range 1-100");
    }
}

fn affinity_term(term: &Node, errors: &mut FieldErrors) {
    selectors::label_selector(&term.at("labelSelector"), errors);
    selectors::label_selector(&term.at("namespaceSelector"), errors);
    for namespace in term.items("namespaces") {
        for error in names::label(namespace.as_text()) {
            errors.invalid(&term.at("namespace"), namespace.as_text(), &error);
        }
    }
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.length(list) > 0 && !term.has("labelSelector") {
            errors.forbidden(&term.at(list), "must not be specified when labelSelector is not set");
            continue;
        }
        for key in term.items(list) {
            errors.invalid_each(&key, names::qualified(key.as_text()));
        }
    }
    let mismatched: HashSet<&str> = term.items("mismatchLabelKeys").map(|key| key.as_text()).collect();
    for key in term.items("matchLabelKeys") {
        if mismatched.contains(key.as_text()) {
            errors.invalid(&key, key.as_text(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    let topology = term.at("topologyKey");
    if topology.as_text().is_empty() {
        errors.required(&topology, "can not be empty");
    }
    errors.invalid_each(&topology, names::qualified(topology.as_text()));
}

pub(super) fn scheduling_gates(spec: &Node, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        for error in names::qualified(name) {
            errors.invalid(&gate, name, &error);
        }
        if !taken.insert(name) {
            errors.duplicate(&gate, name);
        }
    }
}

/// The key by which constraints must be unique.
fn topology_pair<'d>(constraint: &Node<'d, '_>) -> (&'d str, &'d str) {
    (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"))
}

pub(super) fn topology_spread(spec: &Node, errors: &mut FieldErrors) {
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in spec.items("topologySpreadConstraints") {
        *left.entry(topology_pair(&constraint)).or_default() += 1;
    }
    for constraint in spec.items("topologySpreadConstraints") {
        let skew = constraint.number("maxSkew");
        if skew <= 0 {
            errors.invalid(&constraint.at("maxSkew"), skew, "must be greater than zero");
        }
        if constraint.text("topologyKey").is_empty() {
            errors.required(&constraint.at("topologyKey"), "can not be empty");
        }
        let action = constraint.at("whenUnsatisfiable");
        if !matches!(action.as_text(), "DoNotSchedule" | "ScheduleAnyway") {
            errors.not_supported(&action, action.as_text(), &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let own = topology_pair(&constraint);
        let left = left.entry(own).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let shown = format!("{{{}, {}}}", own.0, own.1);
            errors.duplicate(&constraint.at("{topologyKey, whenUnsatisfiable}"), &shown);
        }
        min_domains(&constraint, errors);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.one_of_if_set(&constraint.at(policy), &["Honor", "Ignore"]);
        }
        if constraint.length("matchLabelKeys") > 0 && !constraint.has("labelSelector") {
            let detail = "must not be specified when labelSelector is not set";
            errors.forbidden(&constraint.at("matchLabelKeys"), detail);
        } else {
            for key in constraint.items("matchLabelKeys") {
                errors.invalid_each(&key, names::qualified(key.as_text()));
            }
        }
        selectors::label_selector(&constraint.at("labelSelector"), errors);
    }
}

fn min_domains(constraint: &Node, errors: &mut FieldErrors) {
    let domains = constraint.at("minDomains");
    let Some(number) = domains.as_number() else { return };
    if number <= 0 {
        errors.invalid(&domains, number, "must be greater than zero");
    }
    let action = constraint.text("whenUnsatisfiable");
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(&domains, number, &detail);
    }
}

pub(crate) fn tolerations(spec: &Node, errors: &mut FieldErrors) {
    for toleration in spec.items("tolerations") {
        let (key, operator, effect) =
            (toleration.at("key"), toleration.at("operator"), toleration.at("effect"));
        let value = toleration.text("value");
        errors.valid_if_set(&key, names::qualified);
        if key.as_text().is_empty() && operator.as_text() != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&operator, operator.as_text(), detail);
        }
        if toleration.has("tolerationSeconds") && effect.as_text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&effect, effect.as_text(), detail);
        }
        match operator.as_text() {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errors.invalid(&operator, value, &wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&operator, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            // The error lists these two operators only to clients that use one.
            other @ ("Lt" | "Gt") => errors.not_supported(&operator, other, &["Equal", "Exists", "Lt", "Gt"]),
            other => errors.not_supported(&operator, other, &["Equal", "Exists"]),
        }
        if !effect.as_text().is_empty() {
            taint_effect(&effect, errors);
        }
    }
}

/// Validates the effect of a taint.
pub(crate) fn taint_effect(effect: &Node, errors: &mut FieldErrors) {
    errors.one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}
