//! Fields of newer versions that `autoscaling/v1` lacks, which it carries in annotations.
//!
//! The formats are Kubernetes': metrics and conditions in the types of version 1, with its names; the behavior as Go
//! encodes a type without JSON tags. One table describes both directions.

use crate::{
    document::{Edit, Fields},
    schema,
};
use serde_json::{Map, Value};

/// A field: its name in the annotation, and its path in version 2.
pub(crate) struct Row {
    name: &'static str,
    path: &'static str,
    form: Form,
    absent: Absent,
}

/// The format of a field in the annotation.
#[derive(Clone, Copy)]
enum Form {
    Same,
    /// With its fields in the order of a type.
    Typed(&'static str),
    Object(&'static [Row]),
    List(&'static [Row]),
}

/// The value in the annotation for a field that is not set.
#[derive(Clone, Copy)]
enum Absent {
    Nothing,
    Null,
    Text(&'static str),
}

const fn row(name: &'static str, path: &'static str, form: Form, absent: Absent) -> Row {
    Row { name, path, form, absent }
}

const fn optional(name: &'static str, path: &'static str) -> Row {
    row(name, path, Form::Same, Absent::Nothing)
}

/// A name, or another text that is always written.
const fn named(name: &'static str, path: &'static str) -> Row {
    row(name, path, Form::Same, Absent::Text(""))
}

/// An amount that is always written.
const fn amount(name: &'static str, path: &'static str) -> Row {
    row(name, path, Form::Same, Absent::Text("0"))
}

const fn selector(name: &'static str) -> Row {
    row(name, "metric.selector", Form::Typed("meta.v1.LabelSelector"), Absent::Nothing)
}

const fn source(name: &'static str, path: &'static str, rows: &'static [Row]) -> Row {
    row(name, path, Form::Object(rows), Absent::Nothing)
}

const METRIC_NAME: Row = named("metricName", "metric.name");
const DESCRIBED: Row = row(
    "target",
    "describedObject",
    Form::Typed("autoscaling.v2.CrossVersionObjectReference"),
    Absent::Nothing,
);

/// The fields of a metric in the spec.
pub(crate) const METRIC: &[Row] = &[
    named("type", "type"),
    source(
        "object",
        "object",
        &[
            DESCRIBED,
            METRIC_NAME,
            amount("targetValue", "target.value"),
            selector("selector"),
            optional("averageValue", "target.averageValue"),
        ],
    ),
    source(
        "pods",
        "pods",
        &[METRIC_NAME, amount("targetAverageValue", "target.averageValue"), selector("selector")],
    ),
    source(
        "resource",
        "resource",
        &[
            named("name", "name"),
            optional("targetAverageUtilization", "target.averageUtilization"),
            optional("targetAverageValue", "target.averageValue"),
        ],
    ),
    source(
        "containerResource",
        "containerResource",
        &[
            named("name", "name"),
            optional("targetAverageUtilization", "target.averageUtilization"),
            optional("targetAverageValue", "target.averageValue"),
            named("container", "container"),
        ],
    ),
    source(
        "external",
        "external",
        &[
            METRIC_NAME,
            selector("metricSelector"),
            optional("targetValue", "target.value"),
            optional("targetAverageValue", "target.averageValue"),
        ],
    ),
];

/// The fields of a metric in the status.
pub(crate) const CURRENT_METRIC: &[Row] = &[
    named("type", "type"),
    source(
        "object",
        "object",
        &[
            DESCRIBED,
            METRIC_NAME,
            amount("currentValue", "current.value"),
            selector("selector"),
            optional("averageValue", "current.averageValue"),
        ],
    ),
    source(
        "pods",
        "pods",
        &[METRIC_NAME, amount("currentAverageValue", "current.averageValue"), selector("selector")],
    ),
    source(
        "resource",
        "resource",
        &[
            named("name", "name"),
            optional("currentAverageUtilization", "current.averageUtilization"),
            amount("currentAverageValue", "current.averageValue"),
        ],
    ),
    source(
        "containerResource",
        "containerResource",
        &[
            named("name", "name"),
            optional("currentAverageUtilization", "current.averageUtilization"),
            amount("currentAverageValue", "current.averageValue"),
            named("container", "container"),
        ],
    ),
    source(
        "external",
        "external",
        &[
            METRIC_NAME,
            selector("metricSelector"),
            amount("currentValue", "current.value"),
            optional("currentAverageValue", "current.averageValue"),
        ],
    ),
];

/// The fields of a condition.
pub(crate) const CONDITION: &[Row] = &[
    named("type", "type"),
    named("status", "status"),
    row("lastTransitionTime", "lastTransitionTime", Form::Same, Absent::Null),
    optional("reason", "reason"),
    optional("message", "message"),
];

/// The fields of the scaling behavior.
pub(crate) const BEHAVIOR: &[Row] = &[
    row("ScaleUp", "scaleUp", Form::Object(SCALING), Absent::Null),
    row("ScaleDown", "scaleDown", Form::Object(SCALING), Absent::Null),
];

const SCALING: &[Row] = &[
    row("StabilizationWindowSeconds", "stabilizationWindowSeconds", Form::Same, Absent::Null),
    row("SelectPolicy", "selectPolicy", Form::Same, Absent::Null),
    row("Policies", "policies", Form::List(POLICY), Absent::Null),
    row("Tolerance", "tolerance", Form::Same, Absent::Null),
];

const POLICY: &[Row] =
    &[named("Type", "type"), optional("Value", "value"), optional("PeriodSeconds", "periodSeconds")];

/// Encodes values of version 2 for an annotation.
pub(crate) fn encode(value: &Value, rows: &[Row]) -> String {
    let mut out = Vec::new();
    match value {
        Value::Array(items) => schema::write_list(&mut out, items, |out, item| write(out, item, rows)),
        value => write(&mut out, value, rows),
    }
    String::from_utf8(out).expect("JSON is text")
}

fn write(out: &mut Vec<u8>, value: &Value, rows: &[Row]) {
    let mut object = schema::ObjectWriter::begin(out);
    for row in rows {
        match (value.field(row.path), row.form, row.absent) {
            (None, _, Absent::Nothing) => {}
            (None, _, Absent::Null) => schema::write_any(object.field(row.name), &Value::Null),
            (None, _, Absent::Text(text)) => schema::write_text(object.field(row.name), text),
            (Some(value), Form::Same, _) => schema::write_any(object.field(row.name), value),
            (Some(value), Form::Typed(ty), _) => {
                let ty = schema::lookup(ty).expect("the table of types has what the rows name");
                schema::write(object.field(row.name), value, ty);
            }
            (Some(value), Form::Object(rows), _) => write(object.field(row.name), value, rows),
            (Some(value), Form::List(rows), _) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                schema::write_list(object.field(row.name), items, |out, item| write(out, item, rows));
            }
        }
    }
    object.end();
}

/// Decodes an annotation into the form of version 2. A client can write anything into an annotation, so the result need
/// not be valid.
pub(crate) fn decode(encoded: &Value, rows: &[Row]) -> Value {
    let Some(own) = encoded.as_object() else { return encoded.clone() };
    let mut value = Value::Object(Map::new());
    for row in rows {
        // Go ignores the case of names.
        let same = || own.iter().find(|(name, _)| name.eq_ignore_ascii_case(row.name));
        let found = own.get(row.name).or_else(|| same().map(|(_, found)| found));
        let Some(found) = found.filter(|found| !found.is_null()) else { continue };
        let found = match (row.form, found) {
            (Form::Object(rows), found) => decode(found, rows),
            (Form::List(rows), Value::Array(items)) => items.iter().map(|item| decode(item, rows)).collect(),
            (_, found) => found.clone(),
        };
        match row.path.rsplit_once('.') {
            Some((parent, name)) => value.object_or_new(parent).set(name, Some(found)),
            None => value.set(row.path, Some(found)),
        }
    }
    value
}

/// Decodes a metric of the spec, and adds the type of its target, which the annotation lacks.
pub(crate) fn decode_metric(encoded: &Value) -> Value {
    let mut metric = decode(encoded, METRIC);
    for row in METRIC.iter().filter(|row| matches!(row.form, Form::Object(_))) {
        if metric.object(row.path).is_some() {
            set_target_type(metric.object_or_new(row.path));
        }
    }
    metric
}

fn set_target_type(source: &mut Map<String, Value>) {
    let target = source.entry("target").or_insert(Value::Null).make_object();
    // An amount that is always written need not have been set.
    if target.contains_key("averageValue") && target.get("value").is_some_and(|value| value == "0") {
        target.remove("value");
    }
    let kind = if target.contains_key("averageUtilization") {
        "Utilization"
    } else if target.contains_key("value") {
        "Value"
    } else {
        "AverageValue"
    };
    target.insert("type".to_owned(), kind.into());
}

/// Whether a metric has the field of its source.
pub(crate) fn has_source(metric: &Value) -> bool {
    let kind = metric.text("type");
    METRIC.iter().any(|row| {
        matches!(row.form, Form::Object(_)) && row.name.eq_ignore_ascii_case(kind) && metric.has(row.path)
    })
}
