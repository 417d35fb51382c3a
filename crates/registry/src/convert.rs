//! Objects between the version that a client speaks and the one that is stored, where the two differ.
//!
//! Only two resources have two forms: events (of the core group and of `events.k8s.io`) and autoscalers (v1 and v2). What
//! an older form has no field for travels in annotations, as in Kubernetes.

use crate::{
    autoscaling_v1,
    kind::Kind,
    schema::{self, Problems},
    value::{at, fields, set, text},
};
use serde_json::{Map, Value, json};

/// From the stored version to the resource's own.
pub fn from_stored(kind: &Kind, mut document: Value) -> Value {
    match kind.ty.name {
        "events.v1.Event" => rename(&mut document, EVENT_FIELDS, false),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaler_to_v1(&mut document),
        _ => {}
    }
    retype(&mut document, &kind.api_version(), &kind.name);
    document
}

/// From the resource's own version to the stored one.
pub fn to_stored(kind: &Kind, mut document: Value) -> Value {
    match kind.ty.name {
        "events.v1.Event" => rename(&mut document, EVENT_FIELDS, true),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaler_from_v1(&mut document),
        _ => {}
    }
    let stored = kind.stored();
    retype(&mut document, &crate::kind::group_version(&stored.group, &stored.version), &kind.name);
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

/// The notes of what belongs to the spec.
pub(crate) const SPEC_NOTES: [&str; 2] = [METRICS, BEHAVIOR];
/// The notes of what belongs to the status.
pub(crate) const STATUS_NOTES: [&str; 2] = [CURRENT_METRICS, CONDITIONS];

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
    let share = current.iter().filter(|metric| is_cpu_share(metric));
    let share =
        share.filter_map(|metric| at(metric, &["resource", "current", "averageUtilization"])).next_back();
    set(status, "currentCPUUtilizationPercentage", share.cloned());

    let notes = [
        (METRICS, others, autoscaling_v1::METRIC),
        // All of them: more is known of the share of the processor than the one number.
        (CURRENT_METRICS, current, autoscaling_v1::CURRENT_METRIC),
        (CONDITIONS, conditions, autoscaling_v1::CONDITION),
    ];
    let notes = notes.into_iter().filter(|(_, all, _)| !all.is_empty());
    let notes = notes.map(|(name, all, rows)| (name, autoscaling_v1::note(&Value::Array(all), rows)));
    let behavior = behavior.map(|own| (BEHAVIOR, autoscaling_v1::note(&own, autoscaling_v1::BEHAVIOR)));
    let notes: Vec<_> = notes.chain(behavior).collect();
    forget_notes(document, &SPEC_NOTES);
    forget_notes(document, &STATUS_NOTES);
    if !notes.is_empty() {
        let annotations = fields(document, &["metadata", "annotations"]);
        annotations.extend(notes.into_iter().map(|(name, note)| (name.to_owned(), note.into())));
    }
}

fn forget_notes(document: &mut Value, names: &[&str]) {
    keep_notes(document, &Value::Null, names);
}

/// Keeps the notes of an old form of an autoscaler: they are parts that a write does not reach.
pub(crate) fn keep_notes(new: &mut Value, old: &Value, names: &[&str]) {
    let metadata = fields(new, &["metadata"]);
    let annotations = fields(metadata.entry("annotations").or_insert(Value::Null), &[]);
    for name in names {
        set(annotations, name, at(old, &["metadata", "annotations", name]).cloned());
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn autoscaler_from_v1(document: &mut Value) {
    let note = |name: &str| -> Option<Value> {
        serde_json::from_str(text(document, &["metadata", "annotations", name])).ok()
    };
    let noted = |name: &str| match note(name) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };
    let (metrics, current, conditions, behavior) =
        (noted(METRICS), noted(CURRENT_METRICS), noted(CONDITIONS), note(BEHAVIOR));
    forget_notes(document, &SPEC_NOTES);
    forget_notes(document, &STATUS_NOTES);

    // v1 writes it always, and v2 does not.
    let status = fields(document, &["status"]);
    if status.get("currentReplicas").and_then(Value::as_i64) == Some(0) {
        status.remove("currentReplicas");
    }
    let spec = fields(document, &["spec"]);
    let metrics = metrics.unwrap_or_default();
    let metrics = metrics.iter().map(autoscaling_v1::read_metric);
    let mut all = sourced(metrics, "autoscaling.v2.MetricSpec");
    if let Some(share) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": share});
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    set(spec, "metrics", (!all.is_empty()).then_some(Value::Array(all)));
    let behavior = behavior.map(|own| autoscaling_v1::read(&own, autoscaling_v1::BEHAVIOR));
    set(
        spec,
        "behavior",
        behavior.and_then(|own| read(own, "autoscaling.v2.HorizontalPodAutoscalerBehavior")),
    );

    let status = fields(document, &["status"]);
    let share = status.remove("currentCPUUtilizationPercentage");
    let current = match (current, share) {
        (Some(noted), _) => {
            let metrics =
                noted.iter().map(|metric| autoscaling_v1::read(metric, autoscaling_v1::CURRENT_METRIC));
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
    set(status, "conditions", (!conditions.is_empty()).then_some(Value::Array(conditions)));
}

/// A value as a type has it; none if it is no object, or none of that type. Anything can stand in an annotation.
fn read(value: Value, ty: &str) -> Option<Value> {
    let ty = schema::lookup(ty).expect("the table of types has what autoscalers are made of");
    value.is_object().then(|| schema::normalize(value, ty, &mut Problems::default()).ok()).flatten()
}

/// The metrics that are of a type and say where they come from.
fn sourced(all: impl Iterator<Item = Value>, ty: &str) -> Vec<Value> {
    all.filter_map(|metric| read(metric, ty)).filter(autoscaling_v1::is_sourced).collect()
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
