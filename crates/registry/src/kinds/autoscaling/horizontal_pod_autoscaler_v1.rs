//! HorizontalPodAutoscaler.

use super::{annotations, horizontal_pod_autoscaler};
use crate::schema::{self, Problems};
use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, Subresource},
    kinds::autoscaling::horizontal_pod_autoscaler::{
        COLUMNS, autoscaler, autoscaler_status, scaler, targets,
    },
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::Column,
    validation::{SPEC, Step},
};
use serde_json::{Map, Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("autoscaling", "autoscaling.v1.HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short_names(&["hpa"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .stored_as("autoscaling", "v2", "autoscaling.v2.HorizontalPodAutoscaler")
        .strategy(HorizontalPodAutoscalerStrategy)
}

struct HorizontalPodAutoscalerStrategy;

impl Strategy for HorizontalPodAutoscalerStrategy {
    /// An autoscaler of version 1, whose one metric may be missing.
    fn set_defaults(&self, object: &mut Object) {
        object.object_or_new("spec").set_default("minReplicas", 1);
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        keep_annotations(document, &Value::Null, &STATUS_ANNOTATIONS);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep_annotations(new, old, &STATUS_ANNOTATIONS);
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, _: Timestamp) {
        keep_annotations(new, old, &SPEC_ANNOTATIONS);
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        autoscaler(new, old, errors)
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        autoscaler_status(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, autoscaler: &Value, now: Timestamp) -> Vec<Value> {
        let annotated =
            |name| serde_json::from_str::<Vec<Value>>(autoscaler.annotation(name)).unwrap_or_default();
        let cpu = |path, field: &str| {
            let percentage = autoscaler.field(path)?;
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

    fn convert_from_stored(&self, document: &mut Value) {
        autoscaler_to_v1(document);
    }

    fn convert_to_stored(&self, document: &mut Value) {
        autoscaler_from_v1(document);
        // Version 2 has fields, and so defaults, that this one does not have.
        horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy.set_defaults(document.make_object());
    }
}

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The annotations that hold fields of the spec.
const SPEC_ANNOTATIONS: [&str; 2] = [METRICS, BEHAVIOR];

/// The annotations that hold fields of the status.
const STATUS_ANNOTATIONS: [&str; 2] = [CURRENT_METRICS, CONDITIONS];

/// Whether a metric is the CPU utilization of the pods, the only one that v1 has a field for.
fn is_cpu_metric(metric: &Value) -> bool {
    metric.text("type") == "Resource" && metric.text("resource.name") == "cpu"
}

fn autoscaler_to_v1(document: &mut Value) {
    let spec = document.object_or_new("spec");
    let metrics = take_list(spec, "metrics");
    let behavior = spec.remove("behavior").filter(|value| !value.is_null());
    let (cpu, others): (Vec<_>, Vec<_>) = metrics.into_iter().partition(|metric| {
        is_cpu_metric(metric) && metric.field("resource.target.averageUtilization").is_some()
    });
    let share = cpu.first().and_then(|metric| metric.field("resource.target.averageUtilization").cloned());
    spec.set("targetCPUUtilizationPercentage", share);

    let status = document.object_or_new("status");
    let current = take_list(status, "currentMetrics");
    let conditions = take_list(status, "conditions");
    let share = current.iter().filter(|metric| is_cpu_metric(metric));
    let share = share.filter_map(|metric| metric.field("resource.current.averageUtilization")).next_back();
    status.set("currentCPUUtilizationPercentage", share.cloned());

    let notes = [
        (METRICS, others, annotations::METRIC),
        // All of them: the CPU metric has more fields than the one number.
        (CURRENT_METRICS, current, annotations::CURRENT_METRIC),
        (CONDITIONS, conditions, annotations::CONDITION),
    ];
    let notes = notes.into_iter().filter(|(_, all, _)| !all.is_empty());
    let notes = notes.map(|(name, all, rows)| (name, annotations::encode(&Value::Array(all), rows)));
    let behavior = behavior.map(|own| (BEHAVIOR, annotations::encode(&own, annotations::BEHAVIOR)));
    let notes: Vec<_> = notes.chain(behavior).collect();
    remove_annotations(document, &SPEC_ANNOTATIONS);
    remove_annotations(document, &STATUS_ANNOTATIONS);
    if !notes.is_empty() {
        let annotations = document.object_or_new("metadata.annotations");
        annotations.extend(notes.into_iter().map(|(name, note)| (name.to_owned(), note.into())));
    }
}

fn remove_annotations(document: &mut Value, names: &[&str]) {
    keep_annotations(document, &Value::Null, names);
}

/// Keeps the annotations of version 1 for the part of the object that a write does not change.
fn keep_annotations(new: &mut Value, old: &Value, names: &[&str]) {
    let metadata = new.object_or_new("metadata");
    let annotations = metadata.entry("annotations").or_insert(Value::Null).make_object();
    for name in names {
        annotations.set(name, old.object("metadata.annotations").and_then(|all| all.get(*name)).cloned());
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn autoscaler_from_v1(document: &mut Value) {
    let note = |name: &str| -> Option<Value> { serde_json::from_str(document.annotation(name)).ok() };
    let noted = |name: &str| match note(name) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };
    let (metrics, current, conditions, behavior) =
        (noted(METRICS), noted(CURRENT_METRICS), noted(CONDITIONS), note(BEHAVIOR));
    remove_annotations(document, &SPEC_ANNOTATIONS);
    remove_annotations(document, &STATUS_ANNOTATIONS);

    // v1 writes it always, and v2 does not.
    let status = document.object_or_new("status");
    if status.get("currentReplicas").and_then(Value::as_i64) == Some(0) {
        status.remove("currentReplicas");
    }
    let spec = document.object_or_new("spec");
    let metrics = metrics.unwrap_or_default();
    let metrics = metrics.iter().map(annotations::decode_metric);
    let mut all = sourced(metrics, "autoscaling.v2.MetricSpec");
    if let Some(share) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": share});
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    spec.set("metrics", (!all.is_empty()).then_some(Value::Array(all)));
    let behavior = behavior.map(|own| annotations::decode(&own, annotations::BEHAVIOR));
    spec.set(
        "behavior",
        behavior.and_then(|own| read(own, "autoscaling.v2.HorizontalPodAutoscalerBehavior")),
    );

    let status = document.object_or_new("status");
    let share = status.remove("currentCPUUtilizationPercentage");
    let current = match (current, share) {
        (Some(noted), _) => {
            let metrics = noted.iter().map(|metric| annotations::decode(metric, annotations::CURRENT_METRIC));
            sourced(metrics, "autoscaling.v2.MetricStatus")
        }
        (None, Some(share)) => {
            let current = json!({"averageUtilization": share});
            vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})]
        }
        (None, None) => Vec::new(),
    };
    let current = if current.is_empty() { Value::Null } else { Value::Array(current) };
    status.insert("currentMetrics".to_owned(), current);
    let conditions = conditions.unwrap_or_default().into_iter();
    let conditions: Vec<_> =
        conditions.filter_map(|own| read(own, "autoscaling.v2.HorizontalPodAutoscalerCondition")).collect();
    status.set("conditions", (!conditions.is_empty()).then_some(Value::Array(conditions)));
}

/// A value, normalised as one of that type; none if it is not an object of it. A client can write anything into an
/// annotation.
fn read(value: Value, ty: &str) -> Option<Value> {
    let ty = schema::lookup(ty).expect("the table of types has what autoscalers are made of");
    value.is_object().then(|| schema::normalize(value, ty, &mut Problems::default()).ok()).flatten()
}

/// The metrics that are of a type and have the field of their source.
fn sourced(all: impl Iterator<Item = Value>, ty: &str) -> Vec<Value> {
    all.filter_map(|metric| read(metric, ty)).filter(annotations::has_source).collect()
}

fn take_list(fields: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    fields.remove(name).map(into_list).unwrap_or_default()
}

fn into_list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}
