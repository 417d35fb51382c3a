//! Controllers of pods: their selectors, templates, replicas and update strategies.

use super::{metadata, names, selectors};
use crate::document::{FieldErrors, Fields, Node};
use serde_json::Value;

pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Validates a selector, which must be set and not empty, and the template that it must match.
pub(crate) fn selector(spec: &Node, empty: &str, unreadable: &str, errors: &mut FieldErrors) {
    let selector = spec.at("selector");
    if selector.exists() {
        selectors::label_selector(&selector, errors);
        if selectors::selects_all(&selector) {
            errors.invalid(&selector, selector.value.clone(), empty);
        }
    } else {
        errors.required(&selector, "");
    }
    if !selectors::can_be_evaluated(&selector) {
        errors.invalid(&selector, selector.value.clone(), unreadable);
        return;
    }
    if !selector.exists() || !selectors::selects_all(&selector) {
        must_match_template(spec, &selector, errors);
    }
}

pub(crate) fn must_match_template(spec: &Node, selector: &Node, errors: &mut FieldErrors) {
    let labels = spec.at("template.metadata.labels");
    if !selector.exists() || !selectors::selects(selector, labels.value) {
        errors.invalid(&labels, labels.value.clone(), MISMATCH);
    }
}

/// Validates a pod template whose pods are replaced when they end: they must restart always and have no deadline.
pub(crate) fn runs_for_ever(spec: &Node, kind: &str, errors: &mut FieldErrors) {
    let restart = spec.at("template.spec.restartPolicy");
    if restart.as_text() != "Always" {
        errors.not_supported(&restart, restart.as_text(), &["Always"]);
    }
    let deadline = spec.at("template.spec.activeDeadlineSeconds");
    if deadline.exists() {
        errors.forbidden(&deadline, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// Validates a number, or a percentage, that is not negative.
pub(crate) fn number_or_percent(at: &Node, errors: &mut FieldErrors) {
    match at.value {
        Value::String(text) => errors.invalid_each(at, names::percent(text)),
        _ => errors.not_negative(at),
    }
}

/// Validates that a percentage is at most 100.
pub(crate) fn at_most_all(at: &Node, errors: &mut FieldErrors) {
    let percent = at.as_text().strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.invalid(at, at.as_text(), "must not be greater than 100%");
    }
}

pub(crate) fn is_zero(at: &Node) -> bool {
    match at.value {
        Value::String(text) => text.strip_suffix('%').is_some_and(|digits| digits.parse() == Ok(0)),
        _ => at.as_number().unwrap_or_default() == 0,
    }
}

/// A strategy as Go formats it.
pub(crate) fn shown_strategy(strategy: &Node) -> String {
    let rolling = strategy.at("rollingUpdate");
    let shown = if rolling.exists() {
        let number = |name: &str| match rolling.at(name).value {
            Value::Null => "0".to_owned(),
            given => given.to_string(),
        };
        format!(r#"{{"MaxUnavailable":{},"MaxSurge":{}}}"#, number("maxUnavailable"), number("maxSurge"))
    } else {
        "null".to_owned()
    };
    format!(r#"{{"Type":"{}","RollingUpdate":{shown}}}"#, strategy.text("type"))
}

/// Rejects a change of a controller's selector.
pub(crate) fn selector_change(new: &Node, old: &Node, errors: &mut FieldErrors) {
    errors.immutable(&new.at("spec.selector"), &old.at("spec.selector"));
}

/// Validates the counts of pods in the status of a controller: none is negative or above the total.
pub(crate) fn replica_counts(new: &Node, ready: &str, parts: &[&str], errors: &mut FieldErrors) {
    let status = new.at("status");
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "currentReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    for name in counts {
        errors.not_negative(&status.at(name));
    }
    let all = status.number("replicas");
    for name in parts.iter().filter(|name| status.number(name) > all) {
        errors.invalid(&status.at(name), status.number(name), "cannot be greater than status.replicas");
    }
    let available = status.number("availableReplicas");
    if available > status.number("readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        errors.invalid(&status.at("availableReplicas"), available, &detail);
    }
}

/// Validates the metadata of a template: labels and annotations, and nothing else.
pub(crate) fn template_metadata(meta: &Node, errors: &mut FieldErrors) {
    metadata::annotations(&meta.at("annotations"), errors);
    metadata::labels(&meta.at("labels"), errors);
    for (name, _) in meta.own_entries().filter(|(name, _)| !matches!(*name, "annotations" | "labels")) {
        if meta.has(name) {
            let shown = if name == "uid" { "uID" } else { name };
            errors.forbidden(&meta.at_as(name, shown), "cannot be set");
        }
    }
}
