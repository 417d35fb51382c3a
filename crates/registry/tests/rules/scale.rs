//! Scale: one number of four kinds, through one form.

use super::{
    documents::{Sample, kinds},
    world::{World, text},
};
use serde_json::json;

fn scaled() -> Vec<Sample> {
    let kinds: Vec<Sample> =
        kinds().into_iter().filter(|kind| kind.resource.subresource("scale").is_some()).collect();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, ["replicationcontrollers", "deployments", "replicasets", "statefulsets"]);
    kinds
}

#[tokio::test]
async fn the_scale_of_each_kind_shows_its_numbers_and_its_selector() {
    for kind in scaled() {
        let world = World::new().await;
        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
        world.merge(&kind.status_place(), json!({"status": {"replicas": 2}})).await.ok();
        let scale = world.get(&format!("{}/scale", kind.place())).await.ok();
        assert_eq!([&scale["kind"], &scale["apiVersion"]], ["Scale", "autoscaling/v1"]);
        assert_eq!(scale["spec"], json!({"replicas": 1}), "{}", kind.name);
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=x"}), "{}", kind.name);
        let fields: Vec<_> = scale["metadata"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"]);
        assert_eq!(scale["metadata"]["uid"], made["metadata"]["uid"]);
    }
}

#[tokio::test]
async fn setting_the_scale_changes_the_number_and_counts_as_a_change_of_the_spec() {
    for kind in scaled() {
        let world = World::new().await;
        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
        let at = format!("{}/scale", kind.place());
        let scale = world
            .put(&at, json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"replicas": 4}}))
            .await
            .ok();
        assert_eq!(scale["spec"]["replicas"], 4);
        let after = world.get(&kind.place()).await.ok();
        assert_eq!(scale["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
        let mut expected = made.clone();
        expected["spec"]["replicas"] = 4.into();
        expected["metadata"]["generation"] = 2.into();
        expected["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
        assert_eq!(after, expected, "{}: nothing else is changed", kind.name);

        assert_eq!(world.merge(&at, json!({"spec": {"replicas": 5}})).await.ok()["spec"]["replicas"], 5);
        assert_eq!(world.strategic(&at, json!({"spec": {"replicas": 6}})).await.ok()["spec"]["replicas"], 6);
        let operation = json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]);
        assert_eq!(world.json_patch(&at, operation.clone()).await.ok()["spec"]["replicas"], 7);
        let none = world.put(&at, json!({"spec": {}})).await.ok();
        assert_eq!(none["spec"], json!({}), "{}: none at all is zero", kind.name);
        assert_eq!(world.get(&kind.place()).await.ok()["spec"]["replicas"], 0, "{}", kind.name);
        assert_eq!(world.json_patch(&at, operation).await.ok()["spec"]["replicas"], 7, "{}", kind.name);
    }
}

#[tokio::test]
async fn an_invalid_scale_is_refused_in_the_words_of_the_scale_or_of_its_owner() {
    for kind in scaled() {
        let world = World::new().await;
        let made = world.post(&kind.collection(), kind.object.clone()).await.ok();
        let at = format!("{}/scale", kind.place());
        let why = "422 Invalid: Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -6: must be greater than or equal to 0";
        assert_eq!(world.merge(&at, json!({"spec": {"replicas": -6}})).await.line(), why);
        assert_eq!(world.put(&at, json!({"spec": {"replicas": -6}})).await.line(), why);
        world.merge(&kind.place(), json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
        let stale = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"replicas": 2}});
        let group = kind.resource.group.as_str();
        let what = [kind.resource.plural.as_str(), group].join(if group.is_empty() { "" } else { "." });
        let modified = format!(
            "409 Conflict: Operation cannot be fulfilled on {what} \"a\": the object has been modified; please apply your changes to the latest version and try again"
        );
        assert_eq!(world.put(&at, stale.clone()).await.line(), modified);
        assert_eq!(world.merge(&at, stale).await.line(), modified);
        let missing = at.replace("/a/", "/zzz/");
        let why = format!("404 NotFound: {what} \"zzz\" not found");
        assert_eq!(world.get(&missing).await.line(), why);
        assert_eq!(world.put(&missing, json!({"spec": {"replicas": 1}})).await.line(), why);
        assert_eq!(world.put(&at, json!({"metadata": {"name": "b"}})).await.code, 400);
        assert_eq!(world.put(&at, json!({"metadata": {"namespace": "b"}})).await.code, 400);
        assert_eq!(world.put(&at, json!({"spec": {"replicas": "x"}})).await.code, 400);
    }
}

/// As with every replacement, a uid identifies the object that is meant.
#[tokio::test]
async fn a_scale_for_another_uid_is_a_conflict() {
    let world = World::new().await;
    let kind = scaled().remove(1);
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    let at = format!("{}/scale", kind.place());
    let scale = world.get(&at).await.ok();
    assert_eq!(world.put(&at, scale).await.line(), "200");
    let other = json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}, "spec": {"replicas": 9}});
    let refused = world.put(&at, other).await;
    assert_eq!(refused.code, 409, "{}", refused.line());
    assert_eq!(world.get(&kind.place()).await.ok()["spec"]["replicas"], 1);
}

#[tokio::test]
async fn selectors_are_shown_as_text() {
    let world = World::new().await;
    let mut kind = scaled().remove(1);
    kind.object["spec"]["selector"] = json!({
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["z", "y"]},
            {"key": "d", "operator": "NotIn", "values": ["x"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    });
    kind.object["spec"]["template"]["metadata"]["labels"] = json!({"a": "1", "b": "2", "c": "y", "e": "1"});
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    let scale = world.get(&format!("{}/scale", kind.place())).await.ok();
    assert_eq!(text(&scale, "/status/selector"), "a=1,b=2,c in (y,z),d notin (x),e,!f");
}
