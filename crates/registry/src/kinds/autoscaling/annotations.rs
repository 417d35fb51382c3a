//! What autoscalers of `autoscaling/v1` have no field for, as they say it in annotations.
//!
//! The forms are Kubernetes': metrics and conditions as version 1 would have them, with names of their own; the behavior
//! as Go writes a type whose fields nobody named. One table says both ways.

use crate::{
    document::{Edit, Fields},
    schema,
};
use serde_json::{Map, Value};

/// A field, as the annotation has it and as version 2 does.
pub(crate) struct Row {
    noted: &'static str,
    path: &'static str,
    form: Form,
    absent: Absent,
}

/// How a field is noted.
#[derive(Clone, Copy)]
enum Form {
    Same,
    /// With its fields in the order of a type.
    Typed(&'static str),
    Object(&'static [Row]),
    List(&'static [Row]),
}

/// What is noted if there is nothing.
#[derive(Clone, Copy)]
enum Absent {
    Nothing,
    Null,
    Text(&'static str),
}

const fn row(noted: &'static str, path: &'static str, form: Form, absent: Absent) -> Row {
    Row { noted, path, form, absent }
}

const fn optional(noted: &'static str, path: &'static str) -> Row {
    row(noted, path, Form::Same, Absent::Nothing)
}

/// A name, or another text that is always there.
const fn named(noted: &'static str, path: &'static str) -> Row {
    row(noted, path, Form::Same, Absent::Text(""))
}

/// An amount that is always there.
const fn amount(noted: &'static str, path: &'static str) -> Row {
    row(noted, path, Form::Same, Absent::Text("0"))
}

const fn selector(noted: &'static str) -> Row {
    row(noted, "metric.selector", Form::Typed("meta.v1.LabelSelector"), Absent::Nothing)
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

/// A metric that is aimed at.
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

/// A metric as it is now.
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

/// A condition.
pub(crate) const CONDITION: &[Row] = &[
    named("type", "type"),
    named("status", "status"),
    row("lastTransitionTime", "lastTransitionTime", Form::Same, Absent::Null),
    optional("reason", "reason"),
    optional("message", "message"),
];

/// How fast to scale.
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

/// Values of version 2, as they are noted.
pub(crate) fn note(value: &Value, rows: &[Row]) -> String {
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
            (None, _, Absent::Null) => schema::write_any(object.field(row.noted), &Value::Null),
            (None, _, Absent::Text(text)) => schema::write_text(object.field(row.noted), text),
            (Some(value), Form::Same, _) => schema::write_any(object.field(row.noted), value),
            (Some(value), Form::Typed(ty), _) => {
                let ty = schema::lookup(ty).expect("the table of types has what the rows name");
                schema::write(object.field(row.noted), value, ty);
            }
            (Some(value), Form::Object(rows), _) => write(object.field(row.noted), value, rows),
            (Some(value), Form::List(rows), _) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                schema::write_list(object.field(row.noted), items, |out, item| write(out, item, rows));
            }
        }
    }
    object.end();
}

/// What is noted, as version 2 has it. Anything can stand in an annotation, so it may be no value of any type.
pub(crate) fn read(noted: &Value, rows: &[Row]) -> Value {
    let Some(own) = noted.as_object() else { return noted.clone() };
    let mut value = Value::Object(Map::new());
    for row in rows {
        // Go does not mind how a name is capitalised.
        let same = || own.iter().find(|(name, _)| name.eq_ignore_ascii_case(row.noted));
        let found = own.get(row.noted).or_else(|| same().map(|(_, found)| found));
        let Some(found) = found.filter(|found| !found.is_null()) else { continue };
        let found = match (row.form, found) {
            (Form::Object(rows), found) => read(found, rows),
            (Form::List(rows), Value::Array(items)) => items.iter().map(|item| read(item, rows)).collect(),
            (_, found) => found.clone(),
        };
        match row.path.rsplit_once('.') {
            Some((parent, name)) => value.object_or_new(parent).set(name, Some(found)),
            None => value.set(row.path, Some(found)),
        }
    }
    value
}

/// What is noted of a metric that is aimed at, as version 2 has it: with the kind of its target, which is not noted.
pub(crate) fn read_metric(noted: &Value) -> Value {
    let mut metric = read(noted, METRIC);
    for row in METRIC.iter().filter(|row| matches!(row.form, Form::Object(_))) {
        if metric.object(row.path).is_some() {
            set_target_type(metric.object_or_new(row.path));
        }
    }
    metric
}

fn set_target_type(source: &mut Map<String, Value>) {
    let target = source.entry("target").or_insert(Value::Null).make_object();
    // An amount that is always noted is not one that was set.
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

/// Whether a metric says where it comes from.
pub(crate) fn is_sourced(metric: &Value) -> bool {
    let kind = metric.text("type");
    METRIC.iter().any(|row| {
        matches!(row.form, Form::Object(_)) && row.noted.eq_ignore_ascii_case(kind) && metric.has(row.path)
    })
}
