//! Workloads and autoscalers.

use super::*;

#[test]
fn controllers_pick_the_pods_that_they_make() {
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`";
    for ty in ["apps.v1.Deployment", "apps.v1.ReplicaSet", "apps.v1.StatefulSet"] {
        check(
            ty,
            &[
                ("spec/selector", json!({"matchLabels": {"a": "c"}}), &[mismatch]),
                ("spec/selector", Value::Null, &["spec.selector: Required value", mismatch]),
                ("spec/selector", json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), &[]),
                (
                    "spec/replicas",
                    json!(-1),
                    &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "spec/template/spec/restartPolicy",
                    json!("Never"),
                    &[
                        "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    ],
                ),
            ],
        );
    }
    check("apps.v1.DaemonSet", &[("spec/selector", json!({"matchLabels": {"a": "c"}}), &[mismatch])]);
    check("core.v1.ReplicationController", &[("spec/selector", json!({"a": "c"}), &[mismatch])]);
    let fixed = "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable";
    check_update(
        "apps.v1.Deployment",
        &[("spec/selector", json!({"matchLabels": {"a": "c"}}), &[mismatch, fixed])],
    );
    check(
        "apps.v1.Deployment",
        &[
            (
                "spec/template/spec/containers/0/image",
                Value::Null,
                &["spec.template.spec.containers[0].image: Required value"],
            ),
            (
                "spec/template/metadata/labels",
                json!({"a": "b", "c d": ""}),
                &["spec.template.labels: Invalid value: \"c d\": name part…"],
            ),
            (
                "spec/strategy/rollingUpdate",
                json!({"maxUnavailable": 0, "maxSurge": 0}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                "spec/strategy/rollingUpdate",
                json!({"maxUnavailable": "x", "maxSurge": 1}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"x\": a valid percent string must be…",
                ],
            ),
            (
                "spec/strategy/type",
                json!("Recreate"),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                "spec/progressDeadlineSeconds",
                json!(0),
                &["spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds"],
            ),
        ],
    );
    check_update(
        "apps.v1.StatefulSet",
        &[
            ("spec/replicas", json!(5), &[]),
            (
                "spec/serviceName",
                json!("other"),
                &[
                    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
                ],
            ),
        ],
    );
    let mut claims = fine("apps.v1.StatefulSet");
    put(
        &mut claims,
        "spec/volumeClaimTemplates",
        json!([{
            "metadata": {"name": "v"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }]),
    );
    put(
        &mut claims,
        "spec/template/spec/containers/0/volumeMounts",
        json!([{"name": "v", "mountPath": "/a"}]),
    );
    check_causes(create(resource("apps.v1.StatefulSet"), &claims), &[], "claims are volumes");
}

#[test]
fn jobs_end_and_cron_jobs_repeat() {
    check(
        "batch.v1.Job",
        &[
            (
                "spec/template/spec/restartPolicy",
                json!("Always"),
                &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
            ),
            (
                "spec/parallelism",
                json!(-1),
                &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                "spec/completionMode",
                json!("X"),
                &[
                    "spec.completionMode: Unsupported value: \"X\": supported values: \"NonIndexed\", \"Indexed\"",
                ],
            ),
            ("spec/selector", json!({"matchLabels": {"job-name": "a"}}), &[]),
            (
                "spec/selector",
                json!({"matchExpressions": [{"key": "job-name", "operator": "DoesNotExist"}]}),
                &[
                    "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"job-name\",\"operator\":\"DoesNotExist\"}]}: `selector` not auto-generated",
                    "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"a\",\"controller-uid\":\"u\",\"job-name\":\"a\"}: `selector` does not match template `labels`",
                ],
            ),
        ],
    );
    check_update(
        "batch.v1.Job",
        &[
            ("spec/parallelism", json!(2), &[]),
            ("spec/completions", json!(2), &["spec.completions: Invalid value: 2: field is immutable"]),
            ("spec/template/spec/containers/0/image", json!("other"), &["spec.template: Invalid value: {…"]),
        ],
    );
    let long = "a".repeat(53);
    check(
        "batch.v1.CronJob",
        &[
            (
                "spec/schedule",
                json!("* * * *"),
                &["spec.schedule: Invalid value: \"* * * *\": expected exactly 5 fields, found 4: [* * * *]"],
            ),
            (
                "spec/schedule",
                json!("TZ=UTC * * * * *"),
                &[
                    "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                ],
            ),
            ("spec/timeZone", json!("Europe/Berlin"), &[]),
            (
                "spec/timeZone",
                json!("Nowhere"),
                &["spec.timeZone: Invalid value: \"Nowhere\": unknown time zone Nowhere"],
            ),
            (
                "spec/concurrencyPolicy",
                json!("X"),
                &[
                    "spec.concurrencyPolicy: Unsupported value: \"X\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
                ],
            ),
            (
                "metadata/name",
                json!(long),
                &[&format!("metadata.name: Invalid value: \"{long}\": must be no more than 52 characters")],
            ),
        ],
    );
}

#[test]
fn the_policies_of_a_job_are_checked() {
    let rule = |rule: Value| json!({"rules": [rule]});
    let codes = |values: Value| {
        rule(json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": values}}))
    };
    check(
        "batch.v1.Job",
        &[
            ("spec/podFailurePolicy", codes(json!([1, 2])), &[]),
            (
                "spec/podFailurePolicy",
                codes(json!([2, 0, 2])),
                &[
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 2",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,0,2]: must be ordered",
                ],
            ),
            (
                "spec/podFailurePolicy",
                rule(json!({})),
                &[
                    "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                    "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                ],
            ),
            ("spec/successPolicy", rule(json!({})), &["spec.successPolicy: Invalid value: …"]),
            (
                "spec/maxFailedIndexes",
                json!(1),
                &[
                    "spec.backoffLimitPerIndex: Required value: …",
                    "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
                ],
            ),
        ],
    );
    let mut indexed = fine("batch.v1.Job");
    put(&mut indexed, "spec/completionMode", json!("Indexed"));
    put(&mut indexed, "spec/completions", json!(5));
    for (indexes, wrong) in [
        ("0-1,3", None),
        ("", None),
        ("x", Some("cannot convert string to integer for index: \\\"x\\\"")),
        ("5", Some("too large index: \\\"5\\\"")),
        ("1,1", Some("non-increasing order, previous: 1, current: 1")),
        ("2-1", Some("non-increasing order, previous: 2, current: 1")),
        (
            "0-1-2",
            Some(
                "the fragment \\\"0-1-2\\\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ),
    ] {
        put(&mut indexed, "spec/successPolicy", rule(json!({"succeededIndexes": indexes})));
        let causes: Vec<_> =
            create(resource("batch.v1.Job"), &indexed).iter().map(|cause| cause.message.clone()).collect();
        let expected: Vec<_> = wrong
            .map(|wrong| {
                let wrong = wrong.replace("\\\"", "\"");
                format!("Invalid value: \"{indexes}\": error parsing succeededIndexes: {wrong}")
            })
            .into_iter()
            .collect();
        assert_eq!(causes, expected, "{indexes}");
    }
}
