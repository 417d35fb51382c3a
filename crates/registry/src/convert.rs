//! The conversion of objects between the version of a request and the stored one, where the two differ.
//!
//! Only two built-in kinds have two forms: events (of the core group and of `events.k8s.io`) and autoscalers (v1 and
//! v2); their strategies convert between them.

use crate::{document::Edit, kind::Kind};
use serde_json::Value;

/// From the stored version to the resource's own.
pub fn from_stored(kind: &Kind, mut document: Value) -> Value {
    kind.strategy.convert_from_stored(&mut document);
    retype(&mut document, &kind.api_version(), &kind.name);
    document
}

/// From the resource's own version to the stored one.
pub fn to_stored(kind: &Kind, mut document: Value) -> Value {
    kind.strategy.convert_to_stored(&mut document);
    let stored = kind.stored();
    retype(&mut document, &crate::kind::group_version(&stored.group, &stored.version), &kind.name);
    document
}

fn retype(document: &mut Value, api_version: &str, kind: &str) {
    let root = document.make_object();
    root.insert("apiVersion".to_owned(), api_version.into());
    root.insert("kind".to_owned(), kind.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document::Fields, kinds::find};
    use serde_json::json;

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
        assert_eq!(shown.text("note"), "m");
        assert_eq!(shown.text("regarding.kind"), "Pod");
        assert!(shown.get("reportingController").is_none() && shown.get("eventTime") == Some(&Value::Null));
        assert_eq!(to_stored(new, shown), core);
    }

    #[test]
    fn fields_that_autoscaling_v1_lacks_are_kept_in_annotations() {
        let v1 = find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
        let mut v2 = json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}},
            ], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}},
            "status": {"desiredReplicas": 1, "currentMetrics": null},
        });
        let stored = find("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
        stored.strategy.set_defaults(v2.make_object());
        let shown = from_stored(v1, v2.clone());
        assert_eq!(shown.field("spec.targetCPUUtilizationPercentage"), Some(&json!(50)));
        assert!(
            !shown.annotation("autoscaling.alpha.kubernetes.io/metrics").is_empty()
                && shown.list("spec.metrics").is_empty()
        );
        assert_eq!(to_stored(v1, shown), v2);
    }
}
