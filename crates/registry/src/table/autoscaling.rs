//! The row of a pod autoscaler: what it measures, and what it aims at.
//!
//! In v1 only the use of CPU has fields of its own. The other metrics are in annotations, in an older form, so a number
//! is looked for where each of the forms has it.

use super::{
    AGE, Column, Form, NAME,
    read::Read,
    row, text,
    words::{NONE, UNKNOWN, UNSET, age_of, few},
};
use crate::schema::Timestamp;
use serde_json::{Value, json};

pub(super) const FORMS: &[Form] = &[
    Form { ty: "autoscaling.v2.HorizontalPodAutoscaler", columns: COLUMNS, cells: autoscaler },
    Form { ty: "autoscaling.v1.HorizontalPodAutoscaler", columns: COLUMNS, cells: old_autoscaler },
];

const COLUMNS: &[Column] = &[
    NAME,
    text("Reference", "What it scales"),
    text("Targets", "What is measured, and what it should be"),
    text("MinPods", "The fewest pods that it goes down to"),
    text("MaxPods", "The most pods that it goes up to"),
    text("Replicas", "How many pods there are"),
    AGE,
];

fn autoscaler(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let targets = targets(autoscaler.list("spec.metrics"), autoscaler.list("status.currentMetrics"));
    scaler(autoscaler, targets, now)
}

fn old_autoscaler(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let annotated =
        |name| serde_json::from_str::<Vec<Value>>(autoscaler.annotation(name)).unwrap_or_default();
    let cpu = |path, field: &str| {
        let percentage = autoscaler.set(path)?;
        Some(json!({"type": "Resource", "resource": {"name": "cpu", field: percentage}}))
    };
    let mut metrics = annotated("autoscaling.alpha.kubernetes.io/metrics");
    metrics.extend(cpu("spec.targetCPUUtilizationPercentage", "targetAverageUtilization"));
    let mut statuses = annotated("autoscaling.alpha.kubernetes.io/current-metrics");
    if statuses.is_empty() {
        statuses.extend(cpu("status.currentCPUUtilizationPercentage", "currentAverageUtilization"));
    }
    scaler(autoscaler, targets(&metrics, &statuses), now)
}

fn scaler(autoscaler: &Value, targets: String, now: Timestamp) -> Vec<Value> {
    let min = autoscaler.set("spec.minReplicas").and_then(Value::as_i64);
    row![
        autoscaler.name(),
        format!(
            "{}/{}",
            autoscaler.text("spec.scaleTargetRef.kind"),
            autoscaler.text("spec.scaleTargetRef.name")
        ),
        targets,
        min.map_or_else(|| UNSET.to_owned(), |min| min.to_string()),
        autoscaler.number("spec.maxReplicas"),
        autoscaler.number("status.currentReplicas"),
        age_of(autoscaler, now),
    ]
}

const METRICS_SHOWN_MAX: usize = 2;

fn targets(metrics: &[Value], statuses: &[Value]) -> String {
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let measured = metrics.iter().enumerate().map(|(at, metric)| (metric, statuses.get(at)));
    few(measured, METRICS_SHOWN_MAX, ", ", |(metric, status)| target(metric, status))
}

/// Where a number is: in v2, in v1, and in v1 for metrics of an object.
type Places = &'static [&'static str];

const VALUE: Places = &["target.value", "targetValue"];
const AVERAGE: Places = &["target.averageValue", "targetAverageValue", "averageValue"];
const UTILIZATION: Places = &["target.averageUtilization", "targetAverageUtilization"];
const CURRENT_VALUE: Places = &["current.value", "currentValue"];
const CURRENT_AVERAGE: Places = &["current.averageValue", "currentAverageValue", "averageValue"];
const CURRENT_UTILIZATION: Places = &["current.averageUtilization", "currentAverageUtilization"];

fn find(metric: &Value, places: Places) -> Option<&Value> {
    places.iter().find_map(|path| metric.set(path))
}

/// A number that the form should have.
fn quantity(metric: &Value, places: Places) -> &str {
    find(metric, places).and_then(Value::as_str).unwrap_or("<nil>")
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let (field, named) = match metric.text("type") {
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let metric = metric.get(field).unwrap_or(&Value::Null);
    let status = status.and_then(|status| status.set(field));
    let numbers = match field {
        "pods" => amounts(metric, AVERAGE, status, CURRENT_AVERAGE),
        _ if find(metric, AVERAGE).is_none() && named => utilization(metric, status),
        _ if find(metric, AVERAGE).is_none() => amounts(metric, VALUE, status, CURRENT_VALUE),
        _ if named => amounts(metric, AVERAGE, status, CURRENT_AVERAGE),
        _ => {
            let told = status.filter(|status| find(status, CURRENT_AVERAGE).is_some());
            amounts(metric, AVERAGE, told, CURRENT_AVERAGE) + " (avg)"
        }
    };
    if named { format!("{}: {numbers}", metric.text("name")) } else { numbers }
}

fn amounts(metric: &Value, wanted: Places, status: Option<&Value>, current: Places) -> String {
    let current = status.map_or(UNKNOWN, |status| quantity(status, current));
    format!("{current}/{}", quantity(metric, wanted))
}

fn utilization(metric: &Value, status: Option<&Value>) -> String {
    let percentage = |number: Option<&Value>, otherwise: &str| {
        number.and_then(Value::as_i64).map_or_else(|| otherwise.to_owned(), |number| format!("{number}%"))
    };
    let current = status.and_then(|status| find(status, CURRENT_UTILIZATION));
    format!("{}/{}", percentage(current, UNKNOWN), percentage(find(metric, UTILIZATION), "<auto>"))
}
