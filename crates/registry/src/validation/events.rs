//! What happened, and who is alive: events and leases.

use serde_json::Value;

use super::{
    document::{Faults, Node},
    names,
};

const SHORT_TEXT_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;

/// The fields of an event by the name that they are blamed under, which is that of the older group for most, and by
/// the name that the newer one has for them.
const NAMES: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingController", "reportingController"),
    ("reportingController", "reportingComponent"),
];

fn field<'d, 'q>(event: &'q Node<'d, '_>, name: &'q str) -> Node<'d, 'q> {
    let other = NAMES.iter().find(|(old, new)| *old == name && event.has(new));
    match other {
        Some((_, new)) if !event.has(name) => event.at_as(new, name),
        _ => event.at(name),
    }
}

/// An event of the older group.
pub(super) fn event(event: &Node, _: Option<&Node>, faults: &mut Faults) {
    let about = field(event, "involvedObject");
    let about = about.at("namespace");
    let namespace = event.at("metadata").text_of("namespace");
    let timed = event.has("eventTime");
    let fits = match (about.text(), timed) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (about, false) => about == namespace,
        (_, true) => true,
    };
    if !fits {
        faults.invalid(&about, about.text(), "does not match event.namespace");
    }
    if timed {
        let controller = field(event, "reportingController");
        faults.given(&controller);
        faults.texts(&controller, names::qualified(controller.text()));
        faults.given(&event.at("reportingInstance"));
        short(&event.at("reportingInstance"), SHORT_TEXT_BYTES_MAX, faults);
        for name in ["action", "reason"] {
            faults.given(&event.at(name));
            short(&event.at(name), SHORT_TEXT_BYTES_MAX, faults);
        }
        short(&field(event, "message"), NOTE_BYTES_MAX, faults);
    }
    for fault in names::subdomain(namespace) {
        faults.invalid(&event.at("namespace"), namespace, &fault);
    }
}

fn short(at: &Node, bytes_max: usize, faults: &mut Faults) {
    if at.text().len() > bytes_max {
        faults.invalid(at, "", &format!("can have at most {bytes_max} characters"));
    }
}

/// An event of the newer group.
pub(super) fn new_event(object: &Node, old: Option<&Node>, faults: &mut Faults) {
    event(object, old, faults);
    if old.is_some() {
        return;
    }
    series(object, faults);
    if !object.has("eventTime") {
        faults.required(&object.at("eventTime"), "");
    }
    let kind = object.text_of("type");
    if !matches!(kind, "Normal" | "Warning") {
        faults.invalid(&object.at("type"), "", &format!("has invalid value: {kind}"));
    }
    for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let given = field(object, name);
        let is_empty = match given.value {
            Value::Null => true,
            Value::Number(number) => number.as_i64() == Some(0),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            faults.invalid(&given, "", "needs to be unset");
        }
    }
}

fn series(event: &Node, faults: &mut Faults) {
    let series = event.at("series");
    if !series.exists() {
        return;
    }
    if series.number_of("count") < 2 {
        faults.invalid(&series.at("count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        faults.required(&series.at("lastObservedTime"), "");
    }
}

/// What may change in an event of the newer group: how often it was seen.
pub(super) fn new_event_change(new: &Node, old: &Node, faults: &mut Faults) {
    if new.at("series").value != old.at("series").value {
        series(new, faults);
    }
    for name in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingController",
        "reportingInstance",
    ] {
        let (new, old) = (field(new, name), field(old, name));
        if new.value.is_string() || old.value.is_string() {
            faults.text_unchanged(&new, &old);
        } else {
            faults.unchanged(&new, &old);
        }
    }
}

/// A lease.
pub(super) fn lease(lease: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = lease.at("spec");
    faults.positive(&spec.at("leaseDurationSeconds"));
    faults.not_negative(&spec.at("leaseTransitions"));
    let strategy = spec.at("strategy");
    if strategy.exists() {
        if strategy.text().contains('/') {
            faults.texts(&strategy, names::qualified(strategy.text()));
        } else {
            faults.if_given_one_of(&strategy, &["OldestEmulationVersion"]);
        }
    }
    if !spec.text_of("preferredHolder").is_empty() && strategy.text().is_empty() {
        faults.forbidden(&spec.at("preferredHolder"), "may only be specified if `strategy` is defined");
    }
}
