//! Controllers of pods: what they run, how many, and what of it may change.

use super::{
    document::{Faults, Node},
    metadata, names, selectors,
};
use serde_json::Value;

pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// A selector that has to be given and to say something, and the template that it picks.
pub(crate) fn selector(spec: &Node, empty: &str, unreadable: &str, faults: &mut Faults) {
    let selector = spec.at("selector");
    if selector.exists() {
        selectors::label_selector(&selector, faults);
        if selectors::selects_all(&selector) {
            faults.invalid(&selector, selector.value.clone(), empty);
        }
    } else {
        faults.required(&selector, "");
    }
    if !selectors::can_be_asked(&selector) {
        faults.invalid(&selector, selector.value.clone(), unreadable);
        return;
    }
    if !selector.exists() || !selectors::selects_all(&selector) {
        picks_template(spec, &selector, faults);
    }
}

pub(crate) fn picks_template(spec: &Node, selector: &Node, faults: &mut Faults) {
    let labels = spec.at("template.metadata.labels");
    if !selector.exists() || !selectors::selects(selector, labels.value) {
        faults.invalid(&labels, labels.value.clone(), MISMATCH);
    }
}

/// Pods that are replaced when they end restart for ever and without a deadline.
pub(crate) fn runs_for_ever(spec: &Node, kind: &str, faults: &mut Faults) {
    let restart = spec.at("template.spec.restartPolicy");
    if restart.text() != "Always" {
        faults.not_supported(&restart, restart.text(), &["Always"]);
    }
    let deadline = spec.at("template.spec.activeDeadlineSeconds");
    if deadline.exists() {
        faults.forbidden(&deadline, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// A number, or a share of all, that is not negative.
pub(crate) fn number_or_percent(at: &Node, faults: &mut Faults) {
    match at.value {
        Value::String(text) => faults.texts(at, names::percent(text)),
        _ => faults.not_negative(at),
    }
}

/// A share of all is not more than all.
pub(crate) fn at_most_all(at: &Node, faults: &mut Faults) {
    let percent = at.text().strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        faults.invalid(at, at.text(), "must not be greater than 100%");
    }
}

pub(crate) fn is_zero(at: &Node) -> bool {
    match at.value {
        Value::String(text) => text.strip_suffix('%').is_some_and(|digits| digits.parse() == Ok(0)),
        _ => at.number().unwrap_or_default() == 0,
    }
}

/// A strategy as Go writes it.
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
    format!(r#"{{"Type":"{}","RollingUpdate":{shown}}}"#, strategy.text_of("type"))
}

/// A controller's selector stays what it is.
pub(crate) fn selector_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("spec.selector"), &old.at("spec.selector"));
}

/// How many pods a controller has, as it tells in its status: none of the counts is negative or above all.
pub(crate) fn replica_counts(new: &Node, ready: &str, parts: &[&str], faults: &mut Faults) {
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
        faults.not_negative(&status.at(name));
    }
    let all = status.number_of("replicas");
    for name in parts.iter().filter(|name| status.number_of(name) > all) {
        faults.invalid(&status.at(name), status.number_of(name), "cannot be greater than status.replicas");
    }
    let available = status.number_of("availableReplicas");
    if available > status.number_of("readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        faults.invalid(&status.at("availableReplicas"), available, &detail);
    }
}

/// The metadata of something that is made later: labels and annotations, and nothing else.
pub(crate) fn template_metadata(meta: &Node, faults: &mut Faults) {
    metadata::annotations(&meta.at("annotations"), faults);
    metadata::labels(&meta.at("labels"), faults);
    for (name, _) in meta.own_entries().filter(|(name, _)| !matches!(*name, "annotations" | "labels")) {
        if meta.has(name) {
            let shown = if name == "uid" { "uID" } else { name };
            faults.forbidden(&meta.at_as(name, shown), "cannot be set");
        }
    }
}
