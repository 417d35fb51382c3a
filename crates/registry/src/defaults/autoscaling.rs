//! Autoscalers.

use serde_json::{Value, json};

pub(crate) fn by(kind: &str, value: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
    use serde_json::{Value, json};

    const V2: &str = "autoscaling.v2.HorizontalPodAutoscaler";

    #[test]
    fn there_is_at_least_one_replica_and_the_processors_count() {
        let cpu = json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }]);
        let target = json!({"kind": "Deployment", "name": "d"});
        let given = json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3}});
        check(
            V2,
            given.clone(),
            "/spec",
            json!({"scaleTargetRef": target, "maxReplicas": 3, "minReplicas": 1, "metrics": cpu}),
        );
        check(
            "autoscaling.v1.HorizontalPodAutoscaler",
            given,
            "/spec",
            json!({"scaleTargetRef": target, "maxReplicas": 3, "minReplicas": 1}),
        );
    }

    #[test]
    fn behaviour_is_completed_if_any_is_given() {
        let by = |kind: &str, value: i32| json!({"type": kind, "value": value, "periodSeconds": 15});
        let up = json!({
            "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [by("Pods", 4), by("Percent", 100)],
        });
        let down = json!({"selectPolicy": "Max", "policies": [by("Percent", 100)]});
        let own = json!({"type": "Pods", "value": 1, "periodSeconds": 60});
        for (given, wanted) in [
            (Value::Null, Value::Null),
            (json!({}), json!({"scaleUp": up, "scaleDown": down})),
            (
                json!({"scaleDown": {"policies": [own], "stabilizationWindowSeconds": 5}}),
                json!({
                    "scaleUp": up,
                    "scaleDown": {"policies": [own], "stabilizationWindowSeconds": 5, "selectPolicy": "Max"},
                }),
            ),
            (
                json!({"scaleUp": {"selectPolicy": "Disabled", "tolerance": "0.1"}}),
                json!({
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0, "selectPolicy": "Disabled", "tolerance": "100m",
                        "policies": [by("Pods", 4), by("Percent", 100)],
                    },
                    "scaleDown": down,
                }),
            ),
        ] {
            check(V2, json!({"spec": {"behavior": given}}), "/spec/behavior", wanted);
        }
    }
}
