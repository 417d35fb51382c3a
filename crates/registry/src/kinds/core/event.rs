//! Event.

use crate::{
    document::{FieldErrors, Fields, Node},
    kind::{At, Kind, SelectableField, UnknownField, path},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column, NAME, row, text,
        words::{age, or},
    },
    validation::{OWN, Step, names},
};
use serde_json::Value;

/// Version and kind of events, which have no dependents.
pub(crate) const NO_OWNER: (&str, &str) = ("v1", "Event");

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Event", "events")
        .short_names(&["ev"])
        .creates_on_update()
        .expires()
        .uncached()
        .selectable(selectable_fields(), UnknownField::NotSupported)
        .validates_path_segments()
        .strategy(EventStrategy)
}

fn selectable_fields() -> Vec<SelectableField> {
    let source = At::Either(vec![path("source.component"), path("reportingComponent")]);
    vec![
        SelectableField::namespace(),
        SelectableField::new("involvedObject.kind"),
        SelectableField::new("involvedObject.namespace"),
        SelectableField::new("involvedObject.name"),
        SelectableField::new("involvedObject.uid"),
        SelectableField::new("involvedObject.apiVersion"),
        SelectableField::new("involvedObject.resourceVersion"),
        SelectableField::new("involvedObject.fieldPath"),
        SelectableField::new("reason"),
        SelectableField::new("reportingComponent"),
        SelectableField::new("source").at(source),
        SelectableField::new("type"),
    ]
}

struct EventStrategy;

impl Strategy for EventStrategy {
    fn update_order(&self) -> &'static [Step] {
        OWN
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        event(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        EVENT
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        row_event(document, now)
    }
}

const SHORT_TEXT_BYTES_MAX: usize = 128;

const NOTE_BYTES_MAX: usize = 1024;

/// The fields of an event by their name in errors, which is that of the core group for most, and by the name that
/// `events.k8s.io` has for them.
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

pub(crate) fn field<'d, 'q>(event: &'q Node<'d, '_>, name: &'q str) -> Node<'d, 'q> {
    let other = NAMES.iter().find(|(old, new)| *old == name && event.has(new));
    match other {
        Some((_, new)) if !event.has(name) => event.at_as(new, name),
        _ => event.at(name),
    }
}

/// An event of the core group.
pub(crate) fn event(event: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
    let about = field(event, "involvedObject");
    let about = about.at("namespace");
    let namespace = event.at("metadata").text("namespace");
    let timed = event.has("eventTime");
    let fits = match (about.as_text(), timed) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (about, false) => about == namespace,
        (_, true) => true,
    };
    if !fits {
        errors.invalid(&about, about.as_text(), "does not match event.namespace");
    }
    if timed {
        let controller = field(event, "reportingController");
        errors.not_empty(&controller);
        errors.invalid_each(&controller, names::qualified(controller.as_text()));
        errors.not_empty(&event.at("reportingInstance"));
        short(&event.at("reportingInstance"), SHORT_TEXT_BYTES_MAX, errors);
        for name in ["action", "reason"] {
            errors.not_empty(&event.at(name));
            short(&event.at(name), SHORT_TEXT_BYTES_MAX, errors);
        }
        short(&field(event, "message"), NOTE_BYTES_MAX, errors);
    }
    for error in names::subdomain(namespace) {
        errors.invalid(&event.at("namespace"), namespace, &error);
    }
}

fn short(at: &Node, bytes_max: usize, errors: &mut FieldErrors) {
    if at.as_text().len() > bytes_max {
        errors.invalid(at, "", &format!("can have at most {bytes_max} characters"));
    }
}

pub(crate) const EVENT: &[Column] = &[
    text("Last Seen", "How long ago it last happened"),
    text("Type", "Whether it is a normal thing"),
    text("Reason", "What happened, in one word"),
    text("Object", "What it happened to"),
    text("Subobject", "The part that it happened to").wide(),
    text("Source", "Who tells it").wide(),
    text("Message", "What happened"),
    text("First Seen", "How long ago it first happened").wide(),
    text("Count", "How often it happened").wide(),
    NAME.wide(),
];

/// Validates events of both groups, which have different names for the same fields.
pub(crate) fn row_event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |path, newer| or(event.text(path), event.text(newer));
    let time = |path, newer| event.time(path).or_else(|| event.time(newer));
    let first = time("firstTimestamp", "deprecatedFirstTimestamp").or_else(|| event.time("eventTime"));
    let last = time("lastTimestamp", "deprecatedLastTimestamp").or(first);
    let count = event.number("count").max(event.number("deprecatedCount"));
    let (last, count) = match event.field("series") {
        Some(series) => (series.time("lastObservedTime"), series.number("count")),
        None => (last, if count == 0 { 1 } else { count }),
    };
    row![
        age(last, now),
        event.text("type"),
        event.text("reason"),
        event_object(
            either("involvedObject.kind", "regarding.kind"),
            either("involvedObject.name", "regarding.name")
        ),
        either("involvedObject.fieldPath", "regarding.fieldPath"),
        event_source(
            or(
                either("source.component", "deprecatedSource.component"),
                either("reportingComponent", "reportingController"),
            ),
            or(either("source.host", "deprecatedSource.host"), event.text("reportingInstance")),
        ),
        either("message", "note").trim(),
        age(first, now),
        count,
        event.name(),
    ]
}

fn event_object(kind: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

fn event_source(component: &str, instance: &str) -> String {
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}
