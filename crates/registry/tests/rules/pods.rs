//! The subresources of pods: binding, eviction, ephemeral containers, resize.

use super::world::{Answer, World, bound_pod, map, pod, text};
use serde_json::{Value, json};

fn binding(node: &str) -> Value {
    json!({"target": {"kind": "Node", "name": node}})
}

fn condition(pod: &Value, kind: &str) -> Value {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| text(one, "/type") == kind).unwrap_or_default()
}

#[tokio::test]
async fn binding_puts_a_pod_on_a_node_that_need_not_exist() {
    let world = World::new().await;
    let mut sent = pod("p");
    sent["metadata"]["annotations"] = json!({"example.com/a": "1", "example.com/b": "1"});
    world.post("pods default", sent).await.ok();
    world.merge("pods default/p/status", json!({"status": {"nominatedNodeName": "n7"}})).await.ok();
    let mut sent = binding("n1");
    sent["metadata"] = json!({"name": "p", "annotations": {"example.com/a": "2"}, "labels": {"l": "1"}});
    let bound = world.post("pods default/p/binding", sent).await;
    assert_eq!(bound.line(), "201");
    assert_eq!(bound.body["status"], "Success");
    let pod = world.get("pods default/p").await.ok();
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert!(pod["status"].get("nominatedNodeName").is_none());
    assert_eq!(pod["metadata"]["annotations"], json!({"example.com/a": "2", "example.com/b": "1"}));
    assert_eq!(pod["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(condition(&pod, "PodScheduled")["status"], "True");
    assert_eq!(pod["metadata"]["generation"], 1, "that is no change of the spec");
}

#[tokio::test]
async fn a_pod_is_bound_once_and_not_while_something_stands_against_it() {
    let world = World::new().await;
    let start =
        |name: &str| format!("409 Conflict: Operation cannot be fulfilled on pods/binding \"{name}\": ");
    world.post("pods default", bound_pod("bound")).await.ok();
    let refused = world.post("pods default/bound/binding", binding("n1")).await;
    assert_eq!(refused.line(), format!("{}pod bound is already assigned to node \"n1\"", start("bound")));

    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
    world.post("pods default", gated).await.ok();
    let refused = world.post("pods default/gated/binding", binding("n1")).await;
    assert_eq!(refused.line(), format!("{}pod gated has non-empty .spec.schedulingGates", start("gated")));

    let mut ending = pod("ending");
    ending["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("pods default", ending).await.ok();
    world.delete("pods default/ending").await.ok();
    let refused = world.post("pods default/ending/binding", binding("n1")).await;
    assert_eq!(
        refused.line(),
        format!("{}pod ending is being deleted, cannot be assigned to a host", start("ending"))
    );

    let missing = world.post("pods default/zzz/binding", binding("n1")).await;
    assert_eq!(missing.line(), "404 NotFound: pods \"zzz\" not found");
    world.post("pods default", pod("p")).await.ok();
    for (sent, cause) in [
        (json!({"target": {"kind": "Pod", "name": "n1"}}), "FieldValueNotSupported target.kind"),
        (json!({"target": {"kind": "Node"}}), "FieldValueRequired target.name"),
        (json!({}), "FieldValueRequired target.name"),
    ] {
        let refused = world.post("pods default/p/binding", sent).await;
        assert_eq!((refused.code, refused.causes()), (422, vec![cause.to_owned()]));
    }
    assert_eq!(world.post("pods default/p/binding", json!({"target": {"name": "n1"}})).await.line(), "201");
}

#[tokio::test]
async fn a_binding_may_name_the_uid_and_version_that_it_means() {
    let world = World::new().await;
    let made = world.post("pods default", pod("p")).await.ok();
    let with = |metadata: Value| {
        let mut binding = binding("n1");
        binding["metadata"] = metadata;
        binding
    };
    for wrong in [json!({"uid": "bad"}), json!({"resourceVersion": "1"})] {
        let refused = world.post("pods default/p/binding", with(wrong)).await;
        assert_eq!(refused.code, 409, "{}", refused.line());
        assert!(refused.line().contains("Precondition failed: "), "{}", refused.line());
    }
    let metadata =
        json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
    assert_eq!(world.post("pods default/p/binding", with(metadata)).await.line(), "201");
}

#[tokio::test]
async fn an_evicted_pod_has_a_condition_and_its_grace_period() {
    let world = World::new().await;
    world.post("pods default", bound_pod("p")).await.ok();
    let evicted = world.post("pods default/p/eviction", json!({"metadata": {"name": "p"}})).await;
    assert_eq!(evicted.line(), "201");
    assert_eq!(evicted.body["status"], "Success");
    let pod = world.get("pods default/p").await.ok();
    let condition = condition(&pod, "DisruptionTarget");
    assert_eq!([&condition["status"], &condition["reason"]], ["True", "EvictionByEvictionAPI"]);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = json!({"deleteOptions": {"gracePeriodSeconds": 0}});
    assert_eq!(world.post("pods default/p/eviction", now).await.line(), "201");
    let missing = world.post("pods default/p/eviction", json!({})).await;
    assert_eq!(missing.line(), "404 NotFound: pods \"p\" not found");
}

#[tokio::test]
async fn an_eviction_may_name_the_uid_and_version_that_it_means() {
    let world = World::new().await;
    let made = world.post("pods default", bound_pod("p")).await.ok();
    let only = |conditions: Value| json!({"deleteOptions": {"preconditions": conditions}});
    for wrong in [json!({"uid": "bad"}), json!({"resourceVersion": "1"})] {
        let refused = world.post("pods default/p/eviction", only(wrong)).await;
        assert_eq!(refused.code, 409, "{}", refused.line());
        assert_eq!(world.get("pods default/p").await.ok(), made, "a refused eviction leaves no trace");
    }
    let right =
        json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
    let evicted = world.post("pods default/p/eviction", only(right)).await;
    assert_eq!(evicted.line(), "201", "the condition that the server itself sets does not count");
}

/// A running pod that a budget covers.
async fn covered(world: &World, name: &str, ready: bool) {
    let mut sent = bound_pod(name);
    sent["metadata"]["labels"] = json!({"app": "x"});
    world.post("pods default", sent).await.ok();
    let ready = if ready { "True" } else { "False" };
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    world.merge(&format!("pods default/{name}/status"), status).await.ok();
}

async fn budget(world: &World, name: &str, spec: Value, status: Value) {
    let mut sent = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    for (field, value) in spec.as_object().unwrap() {
        sent["spec"][field] = value.clone();
    }
    world.post("poddisruptionbudgets default", sent).await.ok();
    let at = format!("poddisruptionbudgets default/{name}/status");
    world.merge(&at, json!({"status": status})).await.ok();
}

fn counted(allowed: i64, healthy: i64, desired: i64) -> Value {
    json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": 3,
    })
}

async fn evict(world: &World, name: &str) -> Answer {
    world.post(&format!("pods default/{name}/eviction"), json!({})).await
}

const REFUSED: &str =
    "429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget.";

#[tokio::test]
async fn a_budget_is_spent_by_evictions_and_refuses_them_when_it_is() {
    let world = World::new().await;
    for name in ["p", "q", "r"] {
        covered(&world, name, true).await;
    }
    budget(&world, "b", json!({}), json!({})).await;
    let unseen = evict(&world, "p").await;
    assert_eq!(unseen.line(), REFUSED);
    let cause = |message: &str| json!([{"reason": "DisruptionBudget", "message": message}]);
    assert_eq!(
        unseen.body["details"]["causes"],
        cause("The disruption budget b is still being processed by the server.")
    );
    assert_eq!(unseen.body["details"]["retryAfterSeconds"], 10);

    world.merge("poddisruptionbudgets default/b/status", json!({"status": counted(2, 3, 1)})).await.ok();
    assert_eq!(evict(&world, "p").await.line(), "201");
    assert_eq!(evict(&world, "q").await.line(), "201");
    let spent = world.get("poddisruptionbudgets default/b").await.ok();
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    let disrupted: Vec<_> = spent["status"]["disruptedPods"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(disrupted, ["p", "q"]);
    let refused = evict(&world, "r").await;
    assert_eq!(refused.line(), REFUSED);
    let message = "The disruption budget b needs 1 healthy pods and has 3 currently";
    assert_eq!(refused.body["details"]["causes"], cause(message));
    assert!(refused.body["details"].get("retryAfterSeconds").is_none());
    assert!(condition(&world.get("pods default/r").await.ok(), "DisruptionTarget").is_null());
    assert_eq!(evict(&world, "p").await.line(), "201", "one that is leaving anyway costs nothing");
}

#[tokio::test]
async fn pods_that_do_not_run_cost_nothing() {
    for phase in ["Pending", "Succeeded", "Failed"] {
        let world = World::new().await;
        covered(&world, "p", true).await;
        budget(&world, "b", json!({}), counted(0, 1, 1)).await;
        assert_eq!(evict(&world, "p").await.line(), REFUSED, "{phase}");
        world.merge("pods default/p/status", json!({"status": {"phase": phase}})).await.ok();
        assert_eq!(evict(&world, "p").await.line(), "201", "{phase}");
    }
}

#[tokio::test]
async fn an_unhealthy_pod_is_evicted_if_its_budget_allows() {
    for (policy, healthy, desired, leaves) in [
        (None, 2, 2, true),
        (None, 1, 2, false),
        (None, 0, 0, false),
        (Some("IfHealthyBudget"), 2, 2, true),
        (Some("IfHealthyBudget"), 1, 2, false),
        (Some("AlwaysAllow"), 1, 2, true),
        (Some("AlwaysAllow"), 0, 0, true),
    ] {
        let world = World::new().await;
        covered(&world, "p", false).await;
        let spec = policy.map_or(json!({}), |policy| json!({"unhealthyPodEvictionPolicy": policy}));
        budget(&world, "b", spec, counted(0, healthy, desired)).await;
        let expected = if leaves { "201" } else { REFUSED };
        assert_eq!(evict(&world, "p").await.line(), expected, "{policy:?} {healthy}/{desired}");
    }
}

#[tokio::test]
async fn only_the_budget_that_covers_a_pod_counts_and_there_must_not_be_two() {
    let world = World::new().await;
    covered(&world, "p", true).await;
    let other = json!({"selector": {"matchLabels": {"app": "other"}}});
    budget(&world, "other", other, counted(0, 1, 1)).await;
    let expression =
        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}});
    budget(&world, "not", expression, counted(0, 1, 1)).await;
    world.namespace("n").await;
    let elsewhere = json!({"metadata": {"name": "b"}, "spec": {"selector": {}}});
    world.post("poddisruptionbudgets n", elsewhere).await.ok();
    let nothing = json!({"metadata": {"name": "nothing"}, "spec": {"minAvailable": 1}});
    world.post("poddisruptionbudgets default", nothing).await.ok();
    assert_eq!(evict(&world, "p").await.line(), "201", "none of these covers it");

    covered(&world, "q", true).await;
    budget(&world, "one", json!({}), counted(1, 2, 1)).await;
    budget(&world, "everything", json!({"selector": {}}), counted(1, 2, 1)).await;
    let refused = evict(&world, "q").await;
    let why = "500 ?: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(refused.line(), why);
}

#[tokio::test]
async fn containers_can_be_added_to_a_running_pod_and_nothing_else_is_changed() {
    let world = World::new().await;
    let made = world.post("pods default", bound_pod("p")).await.ok();
    let sent = json!({
        "metadata": {"labels": {"l": "1"}},
        "spec": {"nodeName": "n9", "ephemeralContainers": [{"name": "debug", "image": "registry.example/sh:1"}]},
    });
    let added = world.strategic("pods default/p/ephemeralcontainers", sent).await;
    assert_eq!(added.line(), "200");
    let added = added.ok();
    assert_eq!(text(&added, "/spec/ephemeralContainers/0/name"), "debug");
    assert_eq!(added["spec"]["nodeName"], "n1");
    assert!(added["metadata"].get("labels").is_none());
    assert_eq!(added["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(added["metadata"]["generation"], 2);
    assert_eq!(world.get("pods default/p").await.ok(), added);
    let again = world.strategic("pods default/p/ephemeralcontainers", json!({})).await.ok();
    assert_eq!(again, added, "nothing new, nothing written");
}

#[tokio::test]
async fn containers_that_were_added_to_a_running_pod_stay_as_they_are() {
    let world = World::new().await;
    world.post("pods default", bound_pod("p")).await.ok();
    let at = "pods default/p/ephemeralcontainers";
    let debug = |name: &str, image: &str| json!({"name": name, "image": format!("registry.example/{image}")});
    let with = |containers: Value| json!({"spec": {"ephemeralContainers": containers}});
    world.merge(at, with(json!([debug("a", "sh:1"), debug("b", "sh:1")]))).await.ok();
    let refused = |name: &str, done: &str| {
        format!(
            "422 Invalid: Pod \"p\" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral containers \"{name}\" may not be {done}"
        )
    };
    for (containers, expected) in [
        (json!([debug("b", "sh:1")]), refused("a", "removed\n")),
        (json!([debug("a", "sh:1"), debug("b", "sh:2")]), refused("b", "changed")),
        (json!([debug("x", "sh:1"), debug("b", "sh:1"), debug("a", "sh:1")]), "200".to_owned()),
    ] {
        assert_eq!(world.merge(at, with(containers)).await.line(), expected);
    }
    let all = world.merge(at, with(json!(null))).await;
    assert_eq!(all.causes(), ["FieldValueForbidden spec.ephemeralContainers"; 3]);

    let mut mirror = bound_pod("m");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    world.post("pods default", mirror).await.ok();
    let refused = world.merge("pods default/m/ephemeralcontainers", with(json!([debug("a", "sh:1")]))).await;
    let why =
        "422 Invalid: Pod \"m\" is invalid: : Forbidden: static pods do not support ephemeral containers";
    assert_eq!(refused.line(), why);
}

#[tokio::test]
async fn the_resources_of_containers_can_be_changed_and_nothing_else_is() {
    let world = World::new().await;
    let mut pod = bound_pod("p");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "50m"}});
    world.post("pods default", pod).await.ok();
    let sent = json!({"spec": {
        "activeDeadlineSeconds": 5,
        "containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "100m"}}}],
    }});
    let resized = world.strategic("pods default/p/resize", sent).await;
    assert_eq!(resized.line(), "200");
    let resized = resized.ok();
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "100m"}));
    assert_eq!(resized["spec"]["containers"][0]["image"], "registry.example/app:1");
    assert!(resized["spec"].get("activeDeadlineSeconds").is_none());
    assert_eq!(resized["metadata"]["generation"], 2);
    let again = world.strategic("pods default/p/resize", json!({})).await.ok();
    assert_eq!(again, resized, "nothing new, nothing written");
}

#[tokio::test]
async fn the_status_of_a_pod_does_not_change_its_owners() {
    let world = World::new().await;
    let owner = |name: &str| json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "u"}]);
    let mut sent = pod("p");
    sent["metadata"]["ownerReferences"] = owner("a");
    world.post("pods default", sent).await.ok();
    let answer = json!({"metadata": {"ownerReferences": owner("b")}, "status": {"phase": "Running", "qosClass": null}});
    let answer = world.merge("pods default/p/status", answer).await.ok();
    assert_eq!(answer["metadata"]["ownerReferences"], owner("a"));
    assert_eq!(answer["status"]["qosClass"], "BestEffort");
    world.post("nodes", map("n")).await.ok();
    let answer = json!({"metadata": {"ownerReferences": owner("b")}});
    assert_eq!(world.merge("nodes n/status", answer).await.ok()["metadata"]["ownerReferences"], owner("b"));
}

#[tokio::test]
async fn a_pod_that_is_resized_stays_in_its_class() {
    let world = World::new().await;
    world.post("pods default", bound_pod("p")).await.ok();
    let sent =
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": "40Mi"}}}]}});
    let why = "422 Invalid: Pod \"p\" is invalid: spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing";
    assert_eq!(world.strategic("pods default/p/resize", sent).await.line(), why);
}

/// The spec of a pod is validated again only if it changes, and the server itself compares it with the stored one.
#[tokio::test]
async fn every_change_of_a_pod_is_validated() {
    let world = World::new().await;
    world.post("pods default", pod("p")).await.ok();
    let at = "pods default/p";
    let made = world.get(at).await.ok();
    for generation in [json!(null), json!(0), json!(1), json!(2), json!(7)] {
        for (pointer, value) in [("/spec/containers/0/image", json!("")), ("/spec/restartPolicy", json!("x"))]
        {
            let mut changed = made.clone();
            changed["metadata"]["generation"] = generation.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            let patch = json!({"metadata": {"generation": generation}, "spec": changed["spec"]});
            for refused in [world.put(at, changed).await, world.merge(at, patch).await] {
                assert_eq!(refused.code, 422, "{generation} {pointer}");
            }
        }
    }
    assert_eq!(world.get(at).await.ok(), made);
    let annotated = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    assert_eq!(world.merge(at, annotated).await.code, 422, "annotations have rules of their own");
}

#[tokio::test]
async fn a_pod_gets_what_its_runtime_class_asks_for() {
    let world = World::new().await;
    let of_class = |name: &str, more: Value| {
        let mut pod = pod(name);
        pod["spec"]["runtimeClassName"] = "r".into();
        pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    };
    let refused = world.post("pods default", of_class("a", json!({}))).await;
    assert_eq!(
        refused.line(),
        "403 Forbidden: pods \"a\" is forbidden: pod rejected: RuntimeClass \"r\" not found"
    );
    let class = json!({
        "metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1m"}},
        "scheduling": {"nodeSelector": {"k": "v"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
    });
    world.post("runtimeclasses", class).await.ok();
    let made = world.post("pods default", of_class("a", json!({"nodeSelector": {"own": "1"}}))).await.ok();
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "1m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"k": "v", "own": "1"}));
    assert_eq!(made["spec"]["tolerations"][0], json!({"key": "t", "operator": "Exists"}));
    let why = "403 Forbidden: pods \"b\" is forbidden: pod rejected: ";
    for (more, end) in [
        (json!({"overhead": {"cpu": "2m"}}), "Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        (
            json!({"nodeSelector": {"k": "other"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[k] = v; pod.spec.nodeSelector[k] = other",
        ),
    ] {
        assert_eq!(world.post("pods default", of_class("b", more)).await.line(), format!("{why}{end}"));
    }
    let mut plain = pod("b");
    plain["spec"]["overhead"] = json!({"cpu": "1m"});
    let end = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!(world.post("pods default", plain).await.line(), format!("{why}{end}"));
}
