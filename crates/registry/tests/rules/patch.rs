//! Patch: what holds around the algorithm. The algorithm has its own tests.

use super::world::{World, map, pod, text};
use serde_json::json;

#[tokio::test]
async fn each_form_changes_what_it_names_and_leaves_the_rest() {
    let world = World::new().await;
    let sent = json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "1"}});
    world.post("configmaps default", sent).await.ok();
    let at = "configmaps default/a";
    let patched = world.merge(at, json!({"data": {"k": "2"}})).await.ok();
    assert_eq!(patched["data"], json!({"k": "2", "l": "1"}));
    let patched = world.strategic(at, json!({"data": {"k": "3"}})).await.ok();
    assert_eq!(patched["data"], json!({"k": "3", "l": "1"}));
    let operation = json!([{"op": "remove", "path": "/data/l"}]);
    let patched = world.json_patch(at, operation.clone()).await.ok();
    assert_eq!(patched["data"], json!({"k": "3"}));
    let refused = world.json_patch(at, operation).await;
    let why = "422 Invalid: the server rejected our request due to an error in our request";
    assert_eq!(refused.line(), why);
    assert_eq!(world.get(at).await.ok(), patched, "a patch that fails changes nothing");
}

#[tokio::test]
async fn a_version_in_a_patch_is_a_condition() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    let at = "configmaps default/a";
    let version = text(&made, "/metadata/resourceVersion");
    let based = json!({"metadata": {"resourceVersion": version}, "data": {"k": "1"}});
    assert_eq!(world.merge(at, based.clone()).await.line(), "200");
    for refused in [world.merge(at, based.clone()).await, world.strategic(at, based).await] {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        assert_eq!(
            refused.line(),
            format!("409 Conflict: Operation cannot be fulfilled on configmaps \"a\": {why}")
        );
    }
    let tested = json!([{"op": "test", "path": "/metadata/resourceVersion", "value": version}]);
    assert_eq!(world.json_patch(at, tested).await.code, 422, "as a test it fails like any other");
}

#[tokio::test]
async fn a_kind_whose_replacements_need_a_version_is_patched_without_one() {
    let world = World::new().await;
    world.post("leases default", map("a")).await.ok();
    let patched = world.merge("leases default/a", json!({"spec": {"holderIdentity": "x"}})).await;
    assert_eq!(patched.line(), "200");
    let off = json!({"metadata": {"resourceVersion": null}, "spec": {"holderIdentity": "y"}});
    assert_eq!(
        world.merge("leases default/a", off).await.code,
        422,
        "one that takes it off is not based on any"
    );
}

#[tokio::test]
async fn a_patch_cannot_rename_or_move_an_object() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let at = "configmaps default/a";
    let refused = world.merge(at, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(
        refused.line(),
        "400 BadRequest: the name of the object (b) does not match the name on the URL (a)"
    );
    assert_eq!(world.merge(at, json!({"metadata": {"namespace": "kube-system"}})).await.code, 400);
    assert_eq!(world.merge(at, json!({"metadata": {"name": null}})).await.code, 400);
}

#[tokio::test]
async fn a_result_that_is_no_object_of_the_kind_is_refused() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let at = "configmaps default/a";
    let before = world.everything().await;
    for patch in [
        json!({"data": {"k": 1}}),
        json!({"data": []}),
        json!({"metadata": "x"}),
        json!({"metadata": {"labels": 3}}),
    ] {
        let refused = world.merge(at, patch.clone()).await;
        let line = refused.line();
        assert!(
            line.starts_with("422 Invalid:  \"\" is invalid: patch: Invalid value: \""),
            "{patch}: {line}"
        );
        assert_eq!(refused.causes(), ["FieldValueInvalid patch"], "{patch}");
    }
    let refused = world.merge(&format!("{at}?fieldValidation=Strict"), json!({"foo": 1})).await;
    assert!(refused.line().ends_with(r#"strict decoding error: unknown field "foo""#), "{}", refused.line());
    let answer = world.merge(at, json!({"foo": 1})).await;
    assert_eq!(answer.warnings, [r#"unknown field "foo""#]);
    assert_eq!(answer.line(), "200");
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn a_patch_of_everything_to_nothing_does_no_harm() {
    let world = World::new().await;
    world.post("pods default", pod("p")).await.ok();
    let at = "pods default/p";
    for operations in [
        json!([{"op": "remove", "path": "/metadata"}]),
        json!([{"op": "replace", "path": "", "value": {}}]),
        json!([{"op": "replace", "path": "", "value": []}]),
        json!([{"op": "replace", "path": "", "value": null}]),
        json!([{"op": "replace", "path": "/metadata", "value": 5}]),
        json!([{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}, {"op": "replace", "path": "/spec", "value": "x"}]),
    ] {
        let answer = world.json_patch(at, operations.clone()).await;
        assert!((400..500).contains(&answer.code), "{operations}: {}", answer.line());
    }
    assert_eq!(world.get(at).await.code, 200);
}

#[tokio::test]
async fn the_kind_of_an_object_stays_whatever_a_patch_says() {
    let world = World::new().await;
    let made = world.post("configmaps default", map("a")).await.ok();
    let patched = world.merge("configmaps default/a", json!({"kind": null, "apiVersion": null})).await;
    assert_eq!(patched.ok(), made);
}

#[tokio::test]
async fn a_patched_object_gets_its_defaults_again() {
    let world = World::new().await;
    world
        .post("services default", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}))
        .await
        .ok();
    let patch = json!({"spec": {"ports": [{"port": 81}], "sessionAffinity": null}});
    let patched = world.merge("services default/s", patch).await.ok();
    assert_eq!(patched["spec"]["ports"], json!([{"port": 81, "protocol": "TCP", "targetPort": 81}]));
    assert_eq!(patched["spec"]["sessionAffinity"], "None");
}

/// Only what a patch may have changed is given its form again; that includes what it names and does not change.
#[tokio::test]
async fn values_of_a_patch_are_normalised() {
    let world = World::new().await;
    let made = world.post("pods default", pod("p")).await.ok();
    let at = "pods default/p";
    let labelled = world.merge(at, json!({"metadata": {"labels": {"a": null, "b": "1"}}})).await.ok();
    assert_eq!((&labelled["spec"], &labelled["metadata"]["labels"]), (&made["spec"], &json!({"b": "1"})));
    let unknown = json!({"metadata": {"labels": {"b": "2"}}, "nonsense": 1});
    for patched in [world.merge(at, unknown.clone()).await, world.strategic(at, unknown).await] {
        let patched = patched.ok();
        assert!(patched.get("nonsense").is_none() && patched["metadata"]["labels"]["b"] == "2", "{patched}");
    }
    for (patch, field) in [
        (json!({"spec": {"activeDeadlineSeconds": "5"}}), "activeDeadlineSeconds"),
        (json!({"metadata": {"labels": {"a": 1}}}), "labels"),
    ] {
        let refused = world.merge(at, patch).await;
        assert!(refused.code == 422 && refused.line().contains(field), "{}", refused.line());
    }
    let replaced = json!({"$retainKeys": ["metadata", "spec"], "metadata": {"labels": {"c": "1"}}});
    assert_eq!(world.strategic(at, replaced).await.ok()["spec"], made["spec"]);
}

#[tokio::test]
async fn a_patch_cannot_make_another_kind() {
    let world = World::new().await;
    world.post("configmaps default", map("a")).await.ok();
    let at = "configmaps default/a";
    let operation = json!([{"op": "replace", "path": "/kind", "value": "Zzz"}]);
    for refused in [world.merge(at, json!({"kind": "Zzz"})).await, world.json_patch(at, operation).await] {
        let line = refused.line();
        assert!(line.starts_with("422 Invalid:  \"\" is invalid: patch: Invalid value: "), "{line}");
        assert!(line.contains("no kind \"Zzz\" is registered for version \"v1\""), "{line}");
    }
    assert_eq!(world.strategic(at, json!({"kind": "Zzz"})).await.ok()["kind"], "ConfigMap");
}

/// A strategic merge patch is applied to a document without a type, which is then converted: as in the original, the
/// answer shows the patch, and numbers that are too large wrap around.
#[tokio::test]
async fn a_strategic_patch_with_a_value_of_another_type_is_an_error_with_the_reason() {
    let world = World::new().await;
    world.post("pods default", pod("p")).await.ok();
    let at = "pods default/p";
    for (patch, shown, why) in [
        (json!({"spec": {"nodeName": 7}}), "map[spec:map[nodeName:7]]", "cannot convert int64 to string"),
        (json!({"spec": {"nodeName": true}}), "map[spec:map[nodeName:true]]", "unrecognized type: string"),
        (json!({"spec": {"hostNetwork": "x"}}), "map[spec:map[hostNetwork:x]]", "unrecognized type: bool"),
        (
            json!({"spec": {"priority": 1.5}}),
            "map[spec:map[priority:1.5]]",
            "cannot convert float64 to int32",
        ),
        (
            json!({"spec": {"nodeSelector": []}}),
            "map[spec:map[nodeSelector:[]]]",
            "cannot restore map from slice",
        ),
        (json!({"spec": {"volumes": "x"}}), "map[spec:map[volumes:x]]", "cannot restore slice from string"),
        (json!({"metadata": 7}), "map[metadata:7]", "cannot restore struct from: int64"),
    ] {
        let line = world.strategic(at, patch).await.line();
        assert_eq!(line, format!("422 Invalid:  \"\" is invalid: patch: Invalid value: \"{shown}\": {why}"));
    }
    let whole = world.strategic(at, json!({"spec": {"activeDeadlineSeconds": 2.0}})).await.ok();
    assert_eq!(whole["spec"]["activeDeadlineSeconds"], 2);
    let line = world.strategic(at, json!({"spec": {"priority": 4294967298_i64}})).await.line();
    assert!(line.starts_with("422 Invalid: Pod \"p\" is invalid: spec: Forbidden"), "{line}");
}
