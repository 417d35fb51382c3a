//! Selectors inside objects: of labels, of nodes, and of topologies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    document::{Faults, Node},
    metadata, names,
};

/// A selector of labels; nothing there is fine.
pub(crate) fn label_selector(selector: &Node, faults: &mut Faults) {
    metadata::labels(&selector.at("matchLabels"), faults);
    for requirement in selector.items("matchExpressions") {
        let values = requirement.at("values");
        match requirement.text_of("operator") {
            "In" | "NotIn" if requirement.len_of("values") == 0 => {
                faults.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if requirement.len_of("values") > 0 => {
                faults
                    .forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            operator => {
                faults.invalid(&requirement.at("operator"), operator, "not a valid selector operator")
            }
        }
        let key = requirement.at("key");
        faults.texts(&key, names::qualified(key.text()));
        for value in requirement.items("values") {
            faults.texts(&value, names::label_value(value.text()));
        }
    }
}

/// Whether a selector of labels has no terms.
pub(crate) fn selects_all(selector: &Node) -> bool {
    selector.len_of("matchLabels") + selector.len_of("matchExpressions") == 0
}

/// Whether every term of a selector makes sense, so that it can be asked.
pub(crate) fn can_be_asked(selector: &Node) -> bool {
    let is_label = |key: &str| names::qualified(key).is_empty();
    let is_value = |value: &str| names::label_value(value).is_empty();
    selector.entries("matchLabels").all(|(key, value)| is_label(key) && is_value(value.text()))
        && selector.items("matchExpressions").all(|term| {
            let fits = match term.text_of("operator") {
                "In" | "NotIn" => term.len_of("values") > 0,
                "Exists" | "DoesNotExist" => term.len_of("values") == 0,
                _ => false,
            };
            fits && is_label(term.text_of("key")) && term.items("values").all(|value| is_value(value.text()))
        })
}

/// Whether a selector of labels picks an object with these labels.
pub(crate) fn selects(selector: &Node, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    selector.entries("matchLabels").all(|(key, value)| label(key) == Some(value.text()))
        && selector.items("matchExpressions").all(|term| {
            let found = label(term.text_of("key"));
            let named = term.items("values").any(|value| found == Some(value.text()));
            match term.text_of("operator") {
                "In" => named,
                "NotIn" => !named,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

/// A selector of nodes, which has terms.
pub(crate) fn node_selector(selector: &Node, faults: &mut Faults) {
    if selector.len_of("nodeSelectorTerms") == 0 {
        faults.required(&selector.at("nodeSelectorTerms"), "must have at least one node selector term");
    }
    for term in selector.items("nodeSelectorTerms") {
        node_selector_term(&term, true, faults);
    }
}

/// One term of a selector of nodes. Where it is a mere preference, values need not be labels.
pub(crate) fn node_selector_term(term: &Node, strict: bool, faults: &mut Faults) {
    for requirement in term.items("matchExpressions") {
        node_label_requirement(&requirement, strict, faults);
    }
    for requirement in term.items("matchFields") {
        node_field_requirement(&requirement, faults);
    }
}

fn node_label_requirement(requirement: &Node, strict: bool, faults: &mut Faults) {
    let values = requirement.at("values");
    let count = requirement.len_of("values");
    match requirement.text_of("operator") {
        "In" | "NotIn" if count == 0 => {
            faults.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            faults.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if count != 1 => {
            faults.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        operator => faults.invalid(&requirement.at("operator"), operator, "not a valid selector operator"),
    }
    let key = requirement.at("key");
    faults.texts(&key, names::qualified(key.text()));
    for value in requirement.items("values").filter(|_| strict) {
        faults.texts(&value, names::label_value(value.text()));
    }
}

fn node_field_requirement(requirement: &Node, faults: &mut Faults) {
    match requirement.text_of("operator") {
        "In" | "NotIn" if requirement.len_of("values") != 1 => faults.required(
            &requirement.at("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        "In" | "NotIn" => {}
        operator => faults.invalid(&requirement.at("operator"), operator, "not a valid selector operator"),
    }
    let key = requirement.at("key");
    if key.text() != "metadata.name" {
        faults.invalid(&key, key.text(), "not a valid field selector key");
        return;
    }
    for value in requirement.items("values") {
        faults.texts(&value, names::subdomain(value.text()));
    }
}

/// The topologies in which a class of storage can be had.
pub(crate) fn topology_terms(parent: &Node, name: &str, faults: &mut Faults) {
    // Empty terms are as good as those that are not there, and the original compares with as many of these as there are
    // terms.
    let count = parent.len_of(name);
    let mut terms: Vec<BTreeMap<&str, BTreeSet<&str>>> = vec![BTreeMap::new(); count];
    for term in parent.items(name) {
        let mut keys = BTreeMap::new();
        for requirement in term.items("matchLabelExpressions") {
            if requirement.len_of("values") == 0 {
                faults.required(&requirement.at("values"), "");
            }
            let mut seen = BTreeSet::new();
            for value in requirement.items("values") {
                if !seen.insert(value.text()) {
                    faults.duplicate(&value, value.text());
                }
            }
            let key = requirement.at("key");
            faults.texts(&key, names::qualified(key.text()));
            if keys.insert(requirement.text_of("key"), seen).is_some() {
                faults.duplicate(&key, key.text());
            }
        }
        for _ in terms.iter().filter(|other| **other == keys) {
            faults.duplicate(&term.at("matchLabelExpressions"), "");
        }
        terms.push(keys);
    }
}
