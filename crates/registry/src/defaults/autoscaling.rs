//! Autoscalers.

use super::fields::{Object, child, child_or_new, set_default, set_if_zero};
use serde_json::{Value, json};

/// How many percent of the requested processors pods use when the number of them is right.
const CPU_PERCENT: i64 = 80;

/// An autoscaler in the older version, where the one metric may stay unsaid.
pub(super) fn v1(object: &mut Object) {
    set_default(child_or_new(object, "spec"), "minReplicas", 1);
}

/// An autoscaler. How fast it scales is filled in if anything is said of that; otherwise its controller decides.
pub(super) fn v2(object: &mut Object) {
    let spec = child_or_new(object, "spec");
    set_default(spec, "minReplicas", 1);
    set_if_zero(
        spec,
        "metrics",
        json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": CPU_PERCENT}},
        }]),
    );
    if let Some(behavior) = child(spec, "behavior") {
        let up = child_or_new(behavior, "scaleUp");
        set_default(up, "stabilizationWindowSeconds", 0);
        scaling_rules(up, json!([by("Pods", 4), by("Percent", 100)]));
        // How long it waits before it scales down is an option of the controller.
        scaling_rules(child_or_new(behavior, "scaleDown"), json!([by("Percent", 100)]));
    }
}

fn scaling_rules(rules: &mut Object, policies: Value) {
    set_default(rules, "selectPolicy", "Max");
    set_if_zero(rules, "policies", policies);
}

fn by(kind: &str, value: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

#[cfg(test)]
mod tests {
    use crate::defaults::testing::check;
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
