//! Selectors inside objects: of labels, of nodes, and of topologies.

use crate::document::{FieldErrors, Fields, Node};
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{metadata, names};

/// Validates a label selector; an absent one is valid.
pub(crate) fn label_selector(selector: &Node, errors: &mut FieldErrors) {
    metadata::labels(&selector.at("matchLabels"), errors);
    for requirement in selector.items("matchExpressions") {
        let values = requirement.at("values");
        match requirement.text("operator") {
            "In" | "NotIn" if requirement.length("values") == 0 => {
                errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if requirement.length("values") > 0 => {
                errors
                    .forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            operator => {
                errors.invalid(&requirement.at("operator"), operator, "not a valid selector operator")
            }
        }
        let key = requirement.at("key");
        errors.invalid_each(&key, names::qualified(key.as_text()));
        for value in requirement.items("values") {
            errors.invalid_each(&value, names::label_value(value.as_text()));
        }
    }
}

/// Whether a label selector has no requirements.
pub(crate) fn selects_all(selector: &Node) -> bool {
    selector.length("matchLabels") + selector.length("matchExpressions") == 0
}

/// Whether every requirement of a selector is valid, so that it can be evaluated.
pub(crate) fn can_be_evaluated(selector: &Node) -> bool {
    let is_label = |key: &str| names::qualified(key).is_empty();
    let is_value = |value: &str| names::label_value(value).is_empty();
    selector.entries("matchLabels").all(|(key, value)| is_label(key) && is_value(value.as_text()))
        && selector.items("matchExpressions").all(|term| {
            let fits = match term.text("operator") {
                "In" | "NotIn" => term.length("values") > 0,
                "Exists" | "DoesNotExist" => term.length("values") == 0,
                _ => false,
            };
            fits && is_label(term.text("key")) && term.items("values").all(|value| is_value(value.as_text()))
        })
}

/// Whether a label selector selects an object with these labels.
pub(crate) fn selects(selector: &Node, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    selector.entries("matchLabels").all(|(key, value)| label(key) == Some(value.as_text()))
        && selector.items("matchExpressions").all(|term| {
            let found = label(term.text("key"));
            let named = term.items("values").any(|value| found == Some(value.as_text()));
            match term.text("operator") {
                "In" => named,
                "NotIn" => !named,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

/// Validates a node selector, which must have terms.
pub(crate) fn node_selector(selector: &Node, errors: &mut FieldErrors) {
    if selector.length("nodeSelectorTerms") == 0 {
        errors.required(&selector.at("nodeSelectorTerms"), "must have at least one node selector term");
    }
    for term in selector.items("nodeSelectorTerms") {
        node_selector_term(&term, true, errors);
    }
}

/// Validates one term of a node selector. In a preference, values need not be labels.
pub(crate) fn node_selector_term(term: &Node, strict: bool, errors: &mut FieldErrors) {
    for requirement in term.items("matchExpressions") {
        node_label_requirement(&requirement, strict, errors);
    }
    for requirement in term.items("matchFields") {
        node_field_requirement(&requirement, errors);
    }
}

fn node_label_requirement(requirement: &Node, strict: bool, errors: &mut FieldErrors) {
    let values = requirement.at("values");
    let count = requirement.length("values");
    match requirement.text("operator") {
        "In" | "NotIn" if count == 0 => {
            errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            errors.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if count != 1 => {
            errors.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        operator => errors.invalid(&requirement.at("operator"), operator, "not a valid selector operator"),
    }
    let key = requirement.at("key");
    errors.invalid_each(&key, names::qualified(key.as_text()));
    for value in requirement.items("values").filter(|_| strict) {
        errors.invalid_each(&value, names::label_value(value.as_text()));
    }
}

fn node_field_requirement(requirement: &Node, errors: &mut FieldErrors) {
    match requirement.text("operator") {
        "In" | "NotIn" if requirement.length("values") != 1 => errors.required(
            &requirement.at("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        "In" | "NotIn" => {}
        operator => errors.invalid(&requirement.at("operator"), operator, "not a valid selector operator"),
    }
    let key = requirement.at("key");
    if key.as_text() != "metadata.name" {
        errors.invalid(&key, key.as_text(), "not a valid field selector key");
        return;
    }
    for value in requirement.items("values") {
        errors.invalid_each(&value, names::subdomain(value.as_text()));
    }
}

/// Validates the topologies in which volumes of a storage class can be provisioned.
pub(crate) fn topology_terms(parent: &Node, name: &str, errors: &mut FieldErrors) {
    // Empty terms count as absent, and Kubernetes compares with as many of them as there are terms.
    let count = parent.length(name);
    let mut terms: Vec<BTreeMap<&str, BTreeSet<&str>>> = vec![BTreeMap::new(); count];
    for term in parent.items(name) {
        let mut keys = BTreeMap::new();
        for requirement in term.items("matchLabelExpressions") {
            if requirement.length("values") == 0 {
                errors.required(&requirement.at("values"), "");
            }
            let mut seen = BTreeSet::new();
            for value in requirement.items("values") {
                if !seen.insert(value.as_text()) {
                    errors.duplicate(&value, value.as_text());
                }
            }
            let key = requirement.at("key");
            errors.invalid_each(&key, names::qualified(key.as_text()));
            if keys.insert(requirement.text("key"), seen).is_some() {
                errors.duplicate(&key, key.as_text());
            }
        }
        for _ in terms.iter().filter(|other| **other == keys) {
            errors.duplicate(&term.at("matchLabelExpressions"), "");
        }
        terms.push(keys);
    }
}
