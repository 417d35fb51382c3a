//! Event.

use crate::{
    document::{Edit, FieldErrors, Fields, Node},
    kind::{Kind, SelectableField, UnknownField},
    kinds::core::event::{EVENT, event, field, row_event},
    schema::Timestamp,
    strategy::Strategy,
    table::Column,
    validation::Step,
};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("events.k8s.io", "events.v1.Event", "events")
        .short_names(&["ev"])
        .creates_on_update()
        .expires()
        .uncached()
        .stored_as("", "v1", "core.v1.Event")
        .selectable(selectable_fields(), UnknownField::NotSupported)
        .validates_path_segments()
        .strategy(EventStrategy)
}

/// The selectable fields of events in the core group, under the names that this group has for them.
fn selectable_fields() -> Vec<SelectableField> {
    vec![
        SelectableField::namespace(),
        SelectableField::new("regarding.kind").indexed_as("involvedObject.kind"),
        SelectableField::new("regarding.namespace").indexed_as("involvedObject.namespace"),
        SelectableField::new("regarding.name").indexed_as("involvedObject.name"),
        SelectableField::new("regarding.uid").indexed_as("involvedObject.uid"),
        SelectableField::new("regarding.apiVersion").indexed_as("involvedObject.apiVersion"),
        SelectableField::new("regarding.resourceVersion").indexed_as("involvedObject.resourceVersion"),
        SelectableField::new("regarding.fieldPath").indexed_as("involvedObject.fieldPath"),
        SelectableField::new("reason"),
        SelectableField::new("reportingController").indexed_as("reportingComponent"),
        SelectableField::new("type"),
    ]
}

struct EventStrategy;

impl Strategy for EventStrategy {
    fn update_order(&self) -> &'static [Step] {
        &[Step::Own, Step::MetaChange, Step::Change]
    }

    fn validate(&self, object: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        event(object, old, errors);
        if old.is_some() {
            return;
        }
        series(object, errors);
        if !object.has("eventTime") {
            errors.required(&object.at("eventTime"), "");
        }
        let kind = object.text("type");
        if !matches!(kind, "Normal" | "Warning") {
            errors.invalid(&object.at("type"), "", &format!("has invalid value: {kind}"));
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
                errors.invalid(&given, "", "needs to be unset");
            }
        }
    }

    /// Allows the series of an `events.k8s.io` event to change, and nothing else.
    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        if new.at("series").value != old.at("series").value {
            series(new, errors);
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
                errors.immutable_text(&new, &old);
            } else {
                errors.immutable(&new, &old);
            }
        }
    }

    fn columns(&self) -> &[Column] {
        EVENT
    }

    fn cells(&self, document: &Value, now: Timestamp) -> Vec<Value> {
        row_event(document, now)
    }

    fn convert_from_stored(&self, document: &mut Value) {
        rename(document, EVENT_FIELDS, false);
    }

    fn convert_to_stored(&self, document: &mut Value) {
        rename(document, EVENT_FIELDS, true);
    }
}

fn series(event: &Node, errors: &mut FieldErrors) {
    let series = event.at("series");
    if !series.exists() {
        return;
    }
    if series.number("count") < 2 {
        errors.invalid(&series.at("count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        errors.required(&series.at("lastObservedTime"), "");
    }
}

/// Names in `events.k8s.io` and in the core group.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Fields that only the core group writes when they are empty.
const EVENT_ALWAYS: &[(&str, Zero)] = &[
    ("involvedObject", Zero::Object),
    ("source", Zero::Object),
    ("firstTimestamp", Zero::Null),
    ("lastTimestamp", Zero::Null),
    ("eventTime", Zero::Null),
    ("reportingComponent", Zero::Text),
    ("reportingInstance", Zero::Text),
];

#[derive(Clone, Copy)]
enum Zero {
    Object,
    Null,
    Text,
}

fn rename(document: &mut Value, names: &[(&str, &str)], to_core: bool) {
    let root = document.make_object();
    for (new, core) in names {
        let (from, to) = if to_core { (new, core) } else { (core, new) };
        if let Some(value) = root.remove(*from) {
            root.insert((*to).to_owned(), value);
        }
    }
    if to_core {
        for (name, zero) in EVENT_ALWAYS {
            root.entry(*name).or_insert_with(|| match zero {
                Zero::Object => json!({}),
                Zero::Null => Value::Null,
                Zero::Text => "".into(),
            });
        }
    } else {
        root.retain(|name, value| match value {
            Value::Null => {
                name == "eventTime" || name.starts_with("deprecated") && name.ends_with("Timestamp")
            }
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
}
