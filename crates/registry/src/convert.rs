//! Objects between the version that a client speaks and the one that is stored, where the two differ.
//!
//! Only two resources have two forms: events (of the core group and of `events.k8s.io`) and autoscalers (v1 and v2). What
//! an older form has no field for travels in annotations, as in Kubernetes.

use crate::{
    kinds::Resource,
    schema::{self, Problems},
    value::{at, fields, set, text},
};
use serde_json::{Map, Value, json};

/// From the stored version to the resource's own.
pub fn from_stored(resource: &Resource, mut document: Value) -> Value {
    match resource.ty {
        "events.v1.Event" => rename(&mut document, EVENT_FIELDS, false),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaler_to_v1(&mut document),
        _ => {}
    }
    retype(&mut document, &resource.api_version(), resource.kind);
    document
}

/// From the resource's own version to the stored one.
pub fn to_stored(resource: &Resource, mut document: Value) -> Value {
    match resource.ty {
        "events.v1.Event" => rename(&mut document, EVENT_FIELDS, true),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaler_from_v1(&mut document),
        _ => {}
    }
    let stored = resource.stored();
    retype(&mut document, &crate::kinds::group_version(stored.group, stored.version), resource.kind);
    document
}

fn retype(document: &mut Value, api_version: &str, kind: &str) {
    let root = fields(document, &[]);
    root.insert("apiVersion".to_owned(), api_version.into());
    root.insert("kind".to_owned(), kind.into());
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

/// Fields that only the core group always writes; what is empty is not written by the other.
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
    let root = fields(document, &[]);
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

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Whether a metric is the share of the processor that pods use, the only one that v1 knows.
fn is_cpu_share(metric: &Value) -> bool {
    text(metric, &["type"]) == "Resource" && text(metric, &["resource", "name"]) == "cpu"
}

fn autoscaler_to_v1(document: &mut Value) {
    let spec = fields(document, &["spec"]);
    let metrics = take_list(spec, "metrics");
    let behavior = spec.remove("behavior").filter(|value| !value.is_null());
    let (cpu, others): (Vec<_>, Vec<_>) = metrics.into_iter().partition(|metric| {
        is_cpu_share(metric) && at(metric, &["resource", "target", "averageUtilization"]).is_some()
    });
    let share =
        cpu.first().and_then(|metric| at(metric, &["resource", "target", "averageUtilization"]).cloned());
    set(spec, "targetCPUUtilizationPercentage", share);

    let status = fields(document, &["status"]);
    let current = take_list(status, "currentMetrics");
    let conditions = take_list(status, "conditions");
    let (cpu, other_current): (Vec<_>, Vec<_>) = current.into_iter().partition(|metric| {
        is_cpu_share(metric) && at(metric, &["resource", "current", "averageUtilization"]).is_some()
    });
    let share =
        cpu.first().and_then(|metric| at(metric, &["resource", "current", "averageUtilization"]).cloned());
    set(status, "currentCPUUtilizationPercentage", share);

    let mut notes: Vec<(&str, Value)> = Vec::new();
    notes.extend((!others.is_empty()).then_some((METRICS, Value::Array(others))));
    notes.extend((!other_current.is_empty()).then_some((CURRENT_METRICS, Value::Array(other_current))));
    notes.extend((!conditions.is_empty()).then_some((CONDITIONS, Value::Array(conditions))));
    notes.extend(behavior.map(|behavior| (BEHAVIOR, behavior)));
    if !notes.is_empty() {
        let annotations = fields(document, &["metadata", "annotations"]);
        annotations
            .extend(notes.into_iter().map(|(name, value)| (name.to_owned(), value.to_string().into())));
    }
}

fn autoscaler_from_v1(document: &mut Value) {
    let metadata = fields(document, &["metadata"]);
    let mut note = |name: &str| -> Option<Value> {
        let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
        let text = annotations.remove(name)?;
        serde_json::from_str(text.as_str()?).ok()
    };
    let (metrics, current, conditions, behavior) =
        (note(METRICS), note(CURRENT_METRICS), note(CONDITIONS), note(BEHAVIOR));
    let metrics = metrics.map(|all| sourced(readable(all, "autoscaling.v2.MetricSpec")));
    let current = current.map(|all| sourced(readable(all, "autoscaling.v2.MetricStatus")));
    let conditions = conditions.map(|all| readable(all, "autoscaling.v2.HorizontalPodAutoscalerCondition"));
    let behavior = behavior.and_then(|own| read(own, "autoscaling.v2.HorizontalPodAutoscalerBehavior"));
    if metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }

    let spec = fields(document, &["spec"]);
    let mut all = metrics.unwrap_or_default();
    if let Some(share) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": share});
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    set(spec, "metrics", (!all.is_empty()).then_some(Value::Array(all)));
    set(spec, "behavior", behavior);

    let status = fields(document, &["status"]);
    let mut all = current.unwrap_or_default();
    if let Some(share) = status.remove("currentCPUUtilizationPercentage") {
        let current = json!({"averageUtilization": share});
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}));
    }
    status.insert("currentMetrics".to_owned(), if all.is_empty() { Value::Null } else { Value::Array(all) });
    set(status, "conditions", conditions.filter(|all| !all.is_empty()).map(Value::Array));
}

/// A value as a type has it; none if it is no object, or none of that type. Anything can stand in an annotation.
fn read(value: Value, ty: &str) -> Option<Value> {
    let ty = schema::lookup(ty).expect("the table of types has what autoscalers are made of");
    value.is_object().then(|| schema::normalize(value, ty, &mut Problems::default()).ok()).flatten()
}

/// The metrics that say where they come from.
fn sourced(mut all: Vec<Value>) -> Vec<Value> {
    all.retain(|metric| {
        let source = match text(metric, &["type"]) {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            _ => return false,
        };
        at(metric, &[source]).is_some()
    });
    all
}

fn readable(all: Value, ty: &str) -> Vec<Value> {
    into_list(all).into_iter().filter_map(|one| read(one, ty)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::find, value::list};

    #[test]
    fn an_event_is_the_same_in_both_groups() {
        let new = find("events.k8s.io", "v1", "events").unwrap();
        let core = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
            "reason": "R", "message": "m", "source": {"component": "c"}, "firstTimestamp": "2024-01-01T00:00:00Z",
            "lastTimestamp": "2024-01-01T00:00:00Z", "count": 1, "type": "Normal", "eventTime": null,
            "reportingComponent": "", "reportingInstance": "", "related": {},
        });
        let shown = from_stored(new, core.clone());
        assert_eq!(text(&shown, &["note"]), "m");
        assert_eq!(text(&shown, &["regarding", "kind"]), "Pod");
        assert!(shown.get("reportingController").is_none() && shown.get("eventTime") == Some(&Value::Null));
        assert_eq!(to_stored(new, shown), core);
    }

    #[test]
    fn what_an_old_autoscaler_cannot_say_is_kept_in_annotations() {
        let v1 = find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
        let v2 = json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}},
            ], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}},
            "status": {"desiredReplicas": 1, "currentMetrics": null},
        });
        let shown = from_stored(v1, v2.clone());
        assert_eq!(at(&shown, &["spec", "targetCPUUtilizationPercentage"]), Some(&json!(50)));
        assert!(
            at(&shown, &["metadata", "annotations", METRICS]).is_some()
                && list(&shown, &["spec", "metrics"]).is_empty()
        );
        assert_eq!(to_stored(v1, shown), v2);
    }
}
