//! Rows of controllers of pods.

use super::*;

#[test]
fn the_table_of_workloads_shows_how_many_pods_they_have() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "one:1"}, {"name": "b", "image": "two"}]}});
    let selector = json!({"matchLabels": {"app": "d"}});
    let spec = json!({"replicas": 3, "selector": selector, "template": template});
    let status = json!({"replicas": 2, "readyReplicas": 1});
    check(
        "core.v1.PodTemplate",
        json!({"template": {"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": template["spec"]}}),
        json!(["x", "a,b", "one:1,two", "a=1,b=2"]),
    );
    check(
        "core.v1.ReplicationController",
        json!({"spec": {"replicas": 3, "selector": {"app": "d"}, "template": template}, "status": status}),
        json!(["x", 3, 2, 1, "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "core.v1.ReplicationController",
        json!({"spec": {}}),
        json!(["x", 0, 0, 0, "5m", "", "", "<none>"]),
    );
    check(
        "apps.v1.ReplicaSet",
        json!({"spec": spec, "status": status}),
        json!(["x", 3, 2, 1, "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "apps.v1.Deployment",
        json!({"spec": spec, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}),
        json!(["x", "1/3", 2, 1, "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "apps.v1.Deployment",
        json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": {"spec":
            {"containers": [{"name": "c", "image": "registry.example/app:1"}]}}}}),
        json!(["x", "0/2", 0, 0, "5m", "c", "registry.example/app:1", "app=d"]),
    );
    check(
        "apps.v1.StatefulSet",
        json!({"spec": spec, "status": status}),
        json!(["x", "1/3", "5m", "a,b", "one:1,two"]),
    );
    let mut on_disks = template.clone();
    on_disks["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    check(
        "apps.v1.DaemonSet",
        json!({"spec": {"selector": selector, "template": on_disks}, "status": {"desiredNumberScheduled": 5,
            "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
        json!(["x", 5, 4, 3, 2, 1, "disk=ssd", "5m", "a,b", "one:1,two", "app=d"]),
    );
    check(
        "apps.v1.ControllerRevision",
        json!({"revision": 7, "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]}}),
        json!(["x", "statefulset.apps/web", 7, "5m"]),
    );
    check("apps.v1.ControllerRevision", json!({"revision": 1}), json!(["x", "<none>", 1, "5m"]));
    check(
        "policy.v1.PodDisruptionBudget",
        json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
        json!(["x", "50%", "N/A", 2, "5m"]),
    );
    check(
        "policy.v1.PodDisruptionBudget",
        json!({"spec": {"maxUnavailable": 1}}),
        json!(["x", "N/A", "1", 0, "5m"]),
    );
}

#[test]
fn the_table_of_jobs_shows_their_progress() {
    let job =
        |spec: Value, status: Value| row_of("batch.v1.Job", json!({"spec": spec, "status": status})).cells;
    let row = |spec, status| job(spec, status)[1..4].to_vec();
    let is = |ty: &str| json!({"conditions": [{"type": ty, "status": "True"}]});
    check(
        "batch.v1.Job",
        json!({"spec": {"completions": 3, "selector": {"matchLabels": {"j": "1"}}, "template":
            {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
            "status": {"succeeded": 1, "startTime": "2026-01-01T00:01:00Z"}}),
        json!(["x", "Running", "1/3", "4m", "5m", "c", "i", "j=1"]),
    );
    assert_eq!(row(json!({"parallelism": 2}), json!({})), [json!("Running"), json!("0/1 of 2"), json!("")]);
    assert_eq!(row(json!({"parallelism": 1}), json!({}))[1], "0/1");
    let mut ended = is("Complete");
    ended["startTime"] = "2026-01-01T00:01:00Z".into();
    ended["completionTime"] = "2026-01-01T00:02:30Z".into();
    assert_eq!(row(json!({}), ended), [json!("Complete"), json!("0/1"), json!("90s")]);
    for word in ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        assert_eq!(row(json!({}), is(word))[0], word);
    }
    let unsettled = json!({"conditions": [{"type": "Failed", "status": "False"}]});
    assert_eq!(row(json!({}), unsettled)[0], "Running");
    let deleted =
        |ty| row_of("batch.v1.Job", json!({"metadata": {"deletionTimestamp": NOW}, "status": is(ty)}));
    assert_eq!(deleted("Suspended").cells[1], "Terminating");
    assert_eq!(deleted("Failed").cells[1], "Failed");

    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    check(
        "batch.v1.CronJob",
        json!({"spec": {"schedule": "0 * * * *", "timeZone": "Etc/UTC", "suspend": true, "jobTemplate": template},
            "status": {"active": [{"name": "j"}], "lastScheduleTime": "2026-01-01T00:03:00Z"}}),
        json!(["x", "0 * * * *", "Etc/UTC", "True", 1, "2m", "5m", "c", "i", "<none>"]),
    );
    check(
        "batch.v1.CronJob",
        json!({"spec": {"schedule": "@daily", "suspend": false, "jobTemplate": template}}),
        json!(["x", "@daily", "<none>", "False", 0, "<none>", "5m", "c", "i", "<none>"]),
    );
}

#[test]
fn the_table_of_autoscalers_shows_what_they_measure() {
    let check_v2 = |metrics: Value, current: Value, targets: &str| {
        check(
            "autoscaling.v2.HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2,
                "maxReplicas": 5, "metrics": metrics}, "status": {"currentReplicas": 3, "currentMetrics": current}}),
            json!(["x", "Deployment/web", targets, "2", 5, 3, "5m"]),
        );
    };
    let source = |target: Value| json!({"metric": {"name": "m"}, "target": target});
    let cpu = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let cpu_is =
        |current: Value| json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
    check_v2(json!([]), json!([]), "<none>");
    check_v2(
        json!([cpu(json!({"averageUtilization": 80}))]),
        cpu_is(json!({"averageUtilization": 50})),
        "cpu: 50%/80%",
    );
    check_v2(json!([cpu(json!({"averageUtilization": 80}))]), json!([]), "cpu: <unknown>/80%");
    check_v2(json!([cpu(json!({}))]), json!([]), "cpu: <unknown>/<auto>");
    check_v2(
        json!([cpu(json!({"averageValue": "1"}))]),
        cpu_is(json!({"averageValue": "500m"})),
        "cpu: 500m/1",
    );
    check_v2(
        json!([{"type": "ContainerResource", "containerResource":
            {"name": "memory", "container": "c", "target": {"averageUtilization": 9}}}]),
        json!([{"type": "ContainerResource", "containerResource":
            {"name": "memory", "container": "c", "current": {"averageUtilization": 8}}}]),
        "memory: 8%/9%",
    );
    check_v2(
        json!([{"type": "Pods", "pods": source(json!({"averageValue": "10"}))},
            {"type": "External", "external": source(json!({"value": "7"}))}]),
        json!([{"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "9"}}}]),
        "9/10, <unknown>/7",
    );
    check_v2(
        json!([{"type": "External", "external": source(json!({"averageValue": "7"}))},
            {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "s"},
                "target": {"value": "6"}}},
            cpu(json!({}))]),
        json!([{"type": "External", "external": {"metric": {"name": "m"}, "current": {"averageValue": "5"}}},
            {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "Service", "name": "s"},
                "current": {"value": "4"}}}]),
        "5/7 (avg), 4/6 + 1 more...",
    );
}

#[test]
fn the_older_autoscaler_keeps_most_metrics_in_annotations() {
    let check_v1 = |annotations: Value, targets: &str| {
        check(
            "autoscaling.v1.HorizontalPodAutoscaler",
            json!({"metadata": {"annotations": annotations}, "spec": {"scaleTargetRef": {"kind": "Deployment",
                "name": "web"}, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80},
                "status": {"currentReplicas": 3, "currentCPUUtilizationPercentage": 50}}),
            json!(["x", "Deployment/web", targets, "<unset>", 5, 3, "5m"]),
        );
    };
    check_v1(json!({}), "cpu: 50%/80%");
    check_v1(json!({"autoscaling.alpha.kubernetes.io/metrics": "no json"}), "cpu: 50%/80%");
    let metrics = json!([{"type": "Object", "object": {"target": {"kind": "Service", "name": "s"}, "metricName": "m",
        "targetValue": "0", "averageValue": "7"}}]);
    let current = json!([{"type": "Object", "object": {"target": {"kind": "Service", "name": "s"}, "metricName": "m",
        "currentValue": "0", "averageValue": "6"}},
        {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 40, "currentAverageValue": "1"}}]);
    let annotations = json!({"autoscaling.alpha.kubernetes.io/metrics": metrics.to_string(),
        "autoscaling.alpha.kubernetes.io/current-metrics": current.to_string()});
    check_v1(annotations, "6/7 (avg), cpu: 40%/80%");
}
