//! Defaults of the kinds that create pods from a template: controllers of replicas, and jobs.

use super::pod::template_labels;
use crate::document::{Edit, Fields, Object};
use serde_json::Value;

pub(crate) const REVISIONS_KEPT: i64 = 10;

/// Gives an object without labels those of its template.
pub(crate) fn labels_of_template(object: &mut Object) {
    let has_labels =
        object.get("metadata").and_then(Value::as_object).is_some_and(|it| it.is_filled("labels"));
    if !has_labels
        && let Some(labels) = object.object_mut("spec").and_then(|spec| template_labels(spec).cloned())
    {
        object.object_or_new("metadata").insert("labels".to_owned(), labels.into());
    }
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
    use serde_json::{Value, json};

    /// A template as clients send it.
    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]},
        })
    }

    /// The same, with its defaults.
    fn filled_template() -> Value {
        json!({
            "metadata": {"labels": {"app": "d"}},
            "spec": {
                "containers": [{
                    "name": "c",
                    "image": "registry.example/app:1",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "securityContext": {},
                "schedulerName": "default-scheduler",
            },
        })
    }

    #[test]
    fn a_minimal_deployment_is_filled_as_a_real_server_does() {
        check(
            "apps.v1.Deployment",
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template()},
            }),
            "",
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": filled_template(),
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                    "revisionHistoryLimit": 10,
                    "progressDeadlineSeconds": 600,
                },
                "status": {},
            }),
        );
    }

    #[test]
    fn a_strategy_is_completed_only_if_it_is_a_rolling_update() {
        for (kind, field, given, wanted) in [
            ("apps.v1.Deployment", "strategy", json!({"type": "Recreate"}), json!({"type": "Recreate"})),
            (
                "apps.v1.Deployment",
                "strategy",
                json!({"rollingUpdate": {"maxSurge": 0}}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}}),
            ),
            ("apps.v1.DaemonSet", "updateStrategy", json!({"type": "OnDelete"}), json!({"type": "OnDelete"})),
            (
                "apps.v1.DaemonSet",
                "updateStrategy",
                json!({}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
            ),
            (
                "apps.v1.StatefulSet",
                "updateStrategy",
                json!({"type": "OnDelete"}),
                json!({"type": "OnDelete"}),
            ),
            (
                "apps.v1.StatefulSet",
                "updateStrategy",
                json!({}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
            ),
            (
                "apps.v1.StatefulSet",
                "updateStrategy",
                json!({"type": "RollingUpdate"}),
                json!({"type": "RollingUpdate"}),
            ),
            (
                "apps.v1.StatefulSet",
                "updateStrategy",
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "partition": 0}}),
            ),
        ] {
            check(kind, json!({"spec": {field: given}}), &format!("/spec/{field}"), wanted);
        }
    }

    #[test]
    fn a_replica_set_has_one_replica() {
        check(
            "apps.v1.ReplicaSet",
            json!({"spec": {"selector": {}, "template": template()}}),
            "/spec",
            json!({"replicas": 1, "selector": {}, "template": filled_template()}),
        );
        check("apps.v1.ReplicaSet", json!({"spec": {"replicas": 0}}), "/spec/replicas", json!(0));
    }

    #[test]
    fn a_replication_controller_has_the_labels_and_selector_of_its_template() {
        check(
            "core.v1.ReplicationController",
            json!({"spec": {"template": template()}}),
            "",
            json!({
                "metadata": {"labels": {"app": "d"}},
                "spec": {"replicas": 1, "selector": {"app": "d"}, "template": filled_template()},
                "status": {"replicas": 0},
            }),
        );
        let given = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"selector": {"b": "2"}, "template": template()}});
        check("core.v1.ReplicationController", given.clone(), "/metadata/labels", json!({"a": "1"}));
        check("core.v1.ReplicationController", given, "/spec/selector", json!({"b": "2"}));
        check("core.v1.ReplicationController", json!({}), "/spec", json!({"replicas": 1}));
    }

    #[test]
    fn a_stateful_set_keeps_its_claims_and_fills_their_templates() {
        check(
            "apps.v1.StatefulSet",
            json!({"spec": {
                "serviceName": "s", "selector": {}, "template": template(),
                "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            }}),
            "/spec",
            json!({
                "replicas": 1, "serviceName": "s", "selector": {}, "template": filled_template(),
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "revisionHistoryLimit": 10,
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "volumeClaimTemplates": [{
                    "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "v"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}, "volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                }],
            }),
        );
        check(
            "apps.v1.StatefulSet",
            json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}}),
            "/spec/persistentVolumeClaimRetentionPolicy",
            json!({"whenDeleted": "Retain", "whenScaled": "Delete"}),
        );
    }

    #[test]
    fn a_daemon_set_counts_generations_of_its_template_from_one() {
        let key = "deprecated.daemonset.template.generation";
        for (given, wanted) in [
            (json!({}), json!({key: "1"})),
            (json!({key: "0"}), json!({key: "1"})),
            (json!({key: "7", "a": "b"}), json!({key: "7", "a": "b"})),
        ] {
            let object = json!({"metadata": {"annotations": given}});
            check("apps.v1.DaemonSet", object, "/metadata/annotations", wanted);
        }
        check(
            "apps.v1.DaemonSet",
            json!({"spec": {"selector": {}, "template": template()}}),
            "/spec",
            json!({
                "selector": {}, "template": filled_template(), "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            }),
        );
    }

    #[test]
    fn a_minimal_job_runs_one_pod_once() {
        check(
            "batch.v1.Job",
            json!({"spec": {"template": template()}}),
            "",
            json!({
                "metadata": {},
                "spec": {
                    "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                    "suspend": false, "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed",
                    "template": filled_template(),
                },
                "status": {},
            }),
        );
    }

    #[test]
    fn defaults_of_a_job_depend_on_its_other_fields() {
        for (given, at, wanted) in [
            (json!({"completions": 5}), "parallelism", json!(1)),
            (json!({"completions": 5}), "completions", json!(5)),
            (json!({"parallelism": 3}), "completions", Value::Null),
            (json!({"parallelism": 0}), "parallelism", json!(0)),
            (json!({"backoffLimitPerIndex": 1}), "backoffLimit", json!(2_147_483_647)),
            (json!({"podFailurePolicy": {"rules": []}}), "podReplacementPolicy", json!("Failed")),
            (
                json!({"podFailurePolicy": {"rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}, {"type": "x", "status": "False"}]},
                ]}}),
                "podFailurePolicy/rules/0/onPodConditions",
                json!([{"type": "DisruptionTarget", "status": "True"}, {"type": "x", "status": "False"}]),
            ),
        ] {
            check("batch.v1.Job", json!({"spec": given}), &format!("/spec/{at}"), wanted);
        }
        let labels = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"template": template()}});
        check("batch.v1.Job", labels, "/metadata/labels", json!({"a": "1"}));
    }

    #[test]
    fn the_job_of_a_cron_job_is_filled_when_it_is_created() {
        check(
            "batch.v1.CronJob",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}}}),
            "/spec",
            json!({
                "schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false,
                "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
                "jobTemplate": {"metadata": {}, "spec": {"template": filled_template()}},
            }),
        );
    }
}
