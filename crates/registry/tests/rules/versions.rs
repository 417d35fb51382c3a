//! Events and autoscalers: one object in two forms.

use super::{
    documents::kinds,
    world::{World, text},
};
use serde_json::{Value, json};

const V1: &str = "horizontalpodautoscalers/v1 default/h";
const V2: &str = "horizontalpodautoscalers default/h";

fn cpu(share: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": share}}})
}

fn memory(share: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": share}}})
}

fn autoscaler(spec: Value) -> Value {
    let mut autoscaler = json!({
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3},
    });
    for (field, value) in spec.as_object().unwrap() {
        autoscaler["spec"][field] = value.clone();
    }
    autoscaler
}

async fn with(spec: Value) -> World {
    let world = World::new().await;
    world.post("horizontalpodautoscalers default", autoscaler(spec)).await.ok();
    world
}

#[tokio::test]
async fn an_autoscaling_v1_object_reads_as_v2_with_a_cpu_metric() {
    let world = World::new().await;
    let sent = autoscaler(json!({"targetCPUUtilizationPercentage": 50}));
    let made = world.post("horizontalpodautoscalers/v1 default", sent).await.ok();
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 50);
    assert!(made["metadata"].get("annotations").is_none());
    let new = world.get(V2).await.ok();
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(new["spec"]["metrics"], json!([cpu(50)]));
    assert_eq!(new["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);

    let sent = autoscaler(json!({}));
    world.delete(V1).await.ok();
    let made = world.post("horizontalpodautoscalers/v1 default", sent).await.ok();
    assert_eq!(made["spec"]["minReplicas"], 1);
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 80, "as both forms have it by default");
    assert_eq!(world.get(V2).await.ok()["spec"]["metrics"], json!([cpu(80)]));
}

#[tokio::test]
async fn fields_that_autoscaling_v1_lacks_survive_its_writes() {
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 5}});
    let world = with(json!({"metrics": [cpu(50), memory(60)], "behavior": behavior})).await;
    let before = world.get(V2).await.ok();
    let old = world.get(V1).await.ok();
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 50);
    assert!(old["spec"].get("metrics").is_none() && old["spec"].get("behavior").is_none());
    let notes = old["metadata"]["annotations"].as_object().unwrap();
    assert!(notes.contains_key("autoscaling.alpha.kubernetes.io/metrics"), "{notes:?}");
    assert!(notes.contains_key("autoscaling.alpha.kubernetes.io/behavior"), "{notes:?}");

    assert_eq!(world.put(V1, old.clone()).await.ok(), old);
    assert_eq!(world.get(V2).await.ok(), before, "writing back what was read changes nothing");
    for patched in [
        world.merge(V1, json!({"spec": {"targetCPUUtilizationPercentage": 51}})).await,
        world.strategic(V1, json!({"spec": {"targetCPUUtilizationPercentage": 52}})).await,
        world
            .json_patch(
                V1,
                json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 53}]),
            )
            .await,
    ] {
        assert_eq!(patched.line(), "200");
    }
    let after = world.get(V2).await.ok();
    let mut expected = before.clone();
    expected["spec"]["metrics"] = json!([cpu(53), memory(60)]);
    expected["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    assert_eq!(after, expected);
    world.merge(V1, json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    assert_eq!(world.get(V2).await.ok()["spec"], after["spec"]);
}

#[tokio::test]
async fn the_status_of_an_autoscaler_is_written_in_either_form() {
    let world = with(json!({"metrics": [cpu(50)]})).await;
    let at = format!("{V1}/status");
    let sent = json!({"status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 40}});
    let answer = world.merge(&at, sent).await.ok();
    assert_eq!(answer["status"]["currentCPUUtilizationPercentage"], 40);
    let new = world.get(V2).await.ok();
    let current =
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}]);
    assert_eq!(without_zeros(&new["status"]["currentMetrics"]), without_zeros(&current));
    assert_eq!(new["status"]["desiredReplicas"], 2);

    let condition = json!({"type": "ScalingActive", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let sent = json!({"status": {"conditions": [condition]}});
    let answer = world.merge(&format!("{V2}/status"), sent).await.ok();
    let old = world.get(V1).await.ok();
    assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 40);
    assert!(old["status"].get("conditions").is_none());
    world.merge(&at, json!({"status": {"desiredReplicas": 3}})).await.ok();
    assert_eq!(world.get(V2).await.ok()["status"]["conditions"], answer["status"]["conditions"]);
}

/// The annotations of an autoscaler, and the metrics, behavior and conditions in them.
#[tokio::test]
async fn the_annotations_of_autoscaling_v1_are_those_of_kubernetes() {
    let labels = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]});
    let (metric, object) =
        (json!({"name": "m", "selector": labels}), json!({"kind": "Service", "name": "s"}));
    let labels = r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"Exists"}]}"#;
    let metrics = [
        (
            json!({"type": "Object", "object": {
                "describedObject": object, "metric": metric, "target": {"type": "Value", "value": "2k"},
            }}),
            format!(
                r#"{{"type":"Object","object":{{"target":{{"kind":"Service","name":"s"}},"metricName":"m","targetValue":"2k","selector":{labels}}}}}"#
            ),
        ),
        (
            json!({"type": "Object", "object": {
                "describedObject": object, "metric": {"name": "n"}, "target": {"type": "AverageValue", "averageValue": "3"},
            }}),
            r#"{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"n","targetValue":"0","averageValue":"3"}}"#
                .to_owned(),
        ),
        (
            json!({"type": "Pods", "pods": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "5"}}}),
            format!(r#"{{"type":"Pods","pods":{{"metricName":"m","targetAverageValue":"5","selector":{labels}}}}}"#),
        ),
        (
            memory(60),
            r#"{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":60}}"#.to_owned(),
        ),
        (
            json!({"type": "ContainerResource", "containerResource": {
                "name": "cpu", "container": "c", "target": {"type": "AverageValue", "averageValue": "100m"},
            }}),
            r#"{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageValue":"100m","container":"c"}}"#
                .to_owned(),
        ),
        (
            json!({"type": "External", "external": {"metric": metric, "target": {"type": "Value", "value": "7"}}}),
            format!(r#"{{"type":"External","external":{{"metricName":"m","metricSelector":{labels},"targetValue":"7"}}}}"#),
        ),
    ];
    let policy = json!({"type": "Pods", "value": 4, "periodSeconds": 60});
    let behavior = json!({"scaleDown": {
        "stabilizationWindowSeconds": 300, "selectPolicy": "Min", "policies": [policy], "tolerance": "100m",
    }});
    let all: Vec<_> = metrics.iter().map(|(metric, _)| metric.clone()).collect();
    let world = with(json!({"metrics": all, "behavior": behavior})).await;
    let condition = json!({"type": "ScalingActive", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "R<"});
    let current = json!([
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "40m"}}},
        {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "4"}}},
        {"type": "External", "external": {"metric": {"name": "m"}, "current": {"value": "6"}}},
    ]);
    let sent = json!({"status": {"currentMetrics": current, "conditions": [condition]}});
    world.merge(&format!("{V2}/status"), sent).await.ok();
    let before = world.get(V2).await.ok();
    let old = world.get(V1).await.ok();
    let noted: Vec<_> = metrics.iter().map(|(_, noted)| noted.as_str()).collect();
    let note =
        |name: &str| text(&old, &format!("/metadata/annotations/autoscaling.alpha.kubernetes.io~1{name}"));
    assert_eq!(note("metrics"), format!("[{}]", noted.join(",")));
    assert_eq!(
        note("behavior"),
        r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15},{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":{"StabilizationWindowSeconds":300,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}],"Tolerance":"100m"}}"#
    );
    assert_eq!(
        note("current-metrics"),
        concat!(
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"40m"}},"#,
            r#"{"type":"Pods","pods":{"metricName":"m","currentAverageValue":"4"}},"#,
            r#"{"type":"External","external":{"metricName":"m","currentValue":"6"}}]"#
        )
    );
    assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 40);
    let reason = r#"[{"type":"ScalingActive","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"R\u003c"}]"#;
    assert_eq!(note("conditions"), reason);

    world.put(V1, old.clone()).await.ok();
    assert_eq!(world.get(V2).await.ok(), before, "writing back what was read changes nothing");
    let mut plain = old;
    plain["metadata"].as_object_mut().unwrap().remove("annotations");
    plain["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    world.put(V1, plain).await.ok();
    let after = world.get(V2).await.ok();
    assert_eq!(after["status"], before["status"], "the status is no part of it");
    assert_eq!(after["spec"]["metrics"], json!([cpu(80)]), "what was noted of the spec is");
}

/// Without what is only there because it is always written.
fn without_zeros(value: &Value) -> Value {
    let empty = |value: &Value| value.is_null() || value == "" || value == "0";
    match value {
        Value::Array(items) => items.iter().map(without_zeros).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !empty(value));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_zeros(value))).collect())
        }
        other => other.clone(),
    }
}

/// The annotations come from clients, so anything can be in them.
#[tokio::test]
async fn only_valid_metrics_are_read_from_annotations() {
    for note in [
        "",
        "x",
        "5",
        "{}",
        "[1]",
        "[[]]",
        r#"["a"]"#,
        r#"[{"type":5}]"#,
        r#"[{"nope":1}]"#,
        "null",
        r#"[null]"#,
    ] {
        for name in ["metrics", "behavior", "conditions", "current-metrics"] {
            let world = World::new().await;
            let key = format!("autoscaling.alpha.kubernetes.io/{name}");
            let mut sent = autoscaler(json!({"targetCPUUtilizationPercentage": 50}));
            sent["metadata"]["annotations"] = json!({key.as_str(): note});
            let made = world.post("horizontalpodautoscalers/v1 default", sent).await;
            if made.code != 201 {
                assert!((400..500).contains(&made.code), "{name} {note}: {}", made.line());
                continue;
            }
            let new = world.get(V2).await.ok();
            let again = world.put(V2, new.clone()).await;
            assert_eq!(again.line(), "200", "{name} {note}: what is stored can be written: {new}");
            assert_eq!(again.body, new, "{name} {note}");
            assert_eq!(world.get(V1).await.code, 200, "{name} {note}");
        }
    }
}

#[tokio::test]
async fn an_event_created_in_one_group_is_read_and_changed_in_the_other() {
    let (core, new) = ("events default/a", "events.events.k8s.io default/a");
    for made_in in [core, new] {
        let world = World::new().await;
        let kind = kinds().into_iter().find(|kind| kind.place() == made_in).unwrap();
        world.post(&kind.collection(), kind.object.clone()).await.ok();
        let (old_form, new_form) = (world.get(core).await.ok(), world.get(new).await.ok());
        assert_eq!([&old_form["apiVersion"], &new_form["apiVersion"]], ["v1", "events.k8s.io/v1"]);
        assert_eq!(old_form["message"], new_form["note"]);
        assert_eq!(old_form["involvedObject"], new_form["regarding"]);
        assert_eq!(old_form["reason"], new_form["reason"]);
        assert_eq!(old_form["metadata"], new_form["metadata"]);
        let before = world.everything().await;
        for (at, form) in [(core, &old_form), (new, &new_form)] {
            assert_eq!(world.put(at, form.clone()).await.ok(), *form, "{made_in} {at}");
            assert_eq!(world.merge(at, json!({})).await.ok(), *form, "{made_in} {at}");
        }
        assert_eq!(world.everything().await, before, "{made_in}: nothing was written");

        let series = json!({"count": 5, "lastObservedTime": "2024-01-01T00:00:05.000001Z"});
        for (patched, count) in [
            (world.merge(new, json!({"series": series})).await, 5),
            (world.strategic(new, json!({"series": {"count": 6}})).await, 6),
            (world.json_patch(new, json!([{"op": "replace", "path": "/series/count", "value": 7}])).await, 7),
        ] {
            assert_eq!(patched.ok()["series"]["count"], count, "{made_in}");
        }
        assert_eq!(world.get(core).await.ok()["series"]["count"], 7, "{made_in}");
        let answer = json!({"count": 8, "message": "other", "metadata": {"labels": {"l": "1"}}});
        world.strategic(core, answer).await.ok();
        let after = world.get(new).await.ok();
        assert_eq!(after["deprecatedCount"], 8);
        assert_eq!(after["note"], "other");
        assert_eq!(after["metadata"]["labels"]["l"], "1");
        assert!(world.delete(new).await.gone);
        assert_eq!(world.get(core).await.code, 404);
    }
}

#[tokio::test]
async fn a_list_and_a_watch_show_the_form_that_was_asked_for() {
    let world = with(json!({"metrics": [cpu(50)]})).await;
    let list = world.list("horizontalpodautoscalers/v1 default").await.ok();
    assert_eq!(text(&list, "/items/0/apiVersion"), "autoscaling/v1");
    let mut watch = world.watch("horizontalpodautoscalers/v1 default").await.unwrap();
    let answer = watch.expect("ADDED h").await;
    assert_eq!(answer["spec"]["targetCPUUtilizationPercentage"], 50);
}

#[tokio::test]
async fn conflicts_and_finalizers_are_the_same_in_either_form() {
    let world = with(json!({"metrics": [cpu(50)]})).await;
    let old = world.get(V1).await.ok();
    world.merge(V2, json!({"metadata": {"finalizers": ["example.com/x"]}})).await.ok();
    let refused = world.put(V1, old).await;
    let start = "409 Conflict: Operation cannot be fulfilled on horizontalpodautoscalers.autoscaling \"h\": the object has been modified";
    assert!(refused.line().starts_with(start), "{}", refused.line());
    let marked = world.delete(V1).await;
    assert!(!marked.gone);
    assert_eq!(marked.ok()["apiVersion"], "autoscaling/v1");
    world.merge(V1, json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.get(V2).await.code, 404);
}
