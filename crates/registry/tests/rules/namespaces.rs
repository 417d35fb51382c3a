//! Namespaces: what can be made in them, how they end, and how they are emptied.

use super::world::{World, bound_pod, map, pod, text, until};
use serde_json::{Value, json};

#[tokio::test]
async fn a_deleted_namespace_stays_until_it_is_finalized() {
    let world = World::new().await;
    world.namespace("n").await;
    let marked = world.delete("namespaces n").await;
    assert!(!marked.gone);
    let marked = marked.ok();
    assert!(!text(&marked, "/metadata/deletionTimestamp").is_empty());
    assert!(marked["metadata"].get("deletionGracePeriodSeconds").is_none());
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(world.delete("namespaces n").await.ok(), marked, "asking again changes nothing");
    let last = world.put("namespaces n/finalize", json!({"spec": {"finalizers": []}})).await.ok();
    assert_eq!(last["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    assert_eq!(last["spec"], json!({}));
    assert_eq!(world.get("namespaces n").await.code, 404);
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_ends_but_changes_and_deletions_are_allowed() {
    for world in [World::new().await, World::cached().await] {
        world.namespace("n").await;
        world.post("configmaps n", map("a")).await.ok();
        world.post("configmaps n", map("b")).await.ok();
        world.delete("namespaces n").await.ok();
        let cache_knows = || async { world.post("configmaps n", map("y")).await.code == 403 };
        until("creations are refused", cache_knows).await;
        let why = |what: &str| {
            format!(
                "403 Forbidden: {what} is forbidden: unable to create new content in namespace n because it is being terminated"
            )
        };
        let refused = world.post("configmaps n", map("x")).await;
        assert_eq!(refused.line(), why("configmaps \"x\""));
        let cause = json!({"reason": "NamespaceTerminating", "message": "namespace n is being terminated", "field": "metadata.namespace"});
        assert_eq!(refused.body["details"]["causes"], json!([cause]));
        let lease = world.put("leases n/l", map("l")).await;
        assert_eq!(lease.line(), why("leases.coordination.k8s.io \"l\""), "nor by a replacement");
        assert_eq!(world.post("configmaps n?dryRun=All", map("z")).await.code, 403);
        assert_eq!(world.merge("configmaps n/a", json!({"data": {"k": "1"}})).await.line(), "200");
        assert_eq!(world.put("configmaps n/a", map("a")).await.line(), "200");
        assert!(world.delete("configmaps n/a").await.gone);
    }
}

/// A binding, an eviction and a token are created too, so the rule is theirs: `kubectl drain` looks for this very cause.
#[tokio::test]
async fn bindings_evictions_and_tokens_are_refused_in_a_namespace_that_ends() {
    let world = World::new().await;
    world.namespace("n").await;
    world.post("pods n", pod("p")).await.ok();
    world.post("serviceaccounts n", map("robot")).await.ok();
    world.delete("namespaces n").await.ok();
    let binding = json!({"target": {"kind": "Node", "name": "n1"}});
    for (at, sent, what) in [
        ("pods n/p/binding", binding, "pods \"p\""),
        ("pods n/p/eviction", json!({}), "pods \"p\""),
        ("serviceaccounts n/robot/token", json!({"spec": {}}), "serviceaccounts \"robot\""),
    ] {
        let refused = world.post(at, sent).await;
        let why = "unable to create new content in namespace n because it is being terminated";
        assert_eq!(refused.line(), format!("403 Forbidden: {what} is forbidden: {why}"));
        assert_eq!(refused.causes(), ["NamespaceTerminating metadata.namespace"]);
    }
}

#[tokio::test]
async fn a_namespace_can_be_filled_as_soon_as_it_is_made() {
    let world = World::cached().await;
    for number in 0..50 {
        let name = format!("n{number}");
        world.namespace(&name).await;
        assert_eq!(world.post(&format!("configmaps {name}"), map("a")).await.line(), "201");
        assert_eq!(world.put(&format!("configmaps {name}/a"), map("a")).await.line(), "200");
    }
}

#[tokio::test]
async fn finalizing_changes_the_finalizers_alone() {
    let world = World::new().await;
    world.namespace("n").await;
    let sent = json!({
        "metadata": {"name": "n", "labels": {"l": "1"}, "annotations": {"example.com/a": "1"}},
        "spec": {"finalizers": ["kubernetes", "example.com/x"]}, "status": {"phase": "Terminating"},
    });
    let made = world.get("namespaces n").await.ok();
    let written = world.put("namespaces n/finalize", sent).await;
    assert_eq!(written.line(), "200");
    let written = written.ok();
    assert_eq!(written["spec"]["finalizers"], json!(["kubernetes", "example.com/x"]));
    assert_eq!(written["metadata"]["labels"], made["metadata"]["labels"]);
    assert!(written["metadata"].get("annotations").is_none());
    assert_eq!(written["status"], made["status"]);

    world.delete("namespaces n").await.ok();
    let one = world.put("namespaces n/finalize", json!({"spec": {"finalizers": ["example.com/x"]}})).await;
    assert_eq!(one.line(), "200");
    assert_eq!(world.get("namespaces n").await.ok()["spec"]["finalizers"], json!(["example.com/x"]));
    let none = world.put("namespaces n/finalize", json!({})).await;
    assert_eq!(none.line(), "200");
    assert_eq!(world.get("namespaces n").await.code, 404);
}

#[tokio::test]
async fn a_namespace_that_is_not_deleted_survives_being_finalized() {
    let world = World::new().await;
    world.namespace("n").await;
    assert_eq!(world.put("namespaces n/finalize", json!({})).await.line(), "200");
    let left = world.get("namespaces n").await.ok();
    assert_eq!(left["spec"], json!({}));
}

#[tokio::test]
async fn finalizing_knows_versions() {
    let world = World::new().await;
    world.namespace("n").await;
    let stale = json!({"metadata": {"name": "n", "resourceVersion": "1"}, "spec": {}});
    assert_eq!(world.put("namespaces n/finalize", stale).await.code, 409);
}

#[tokio::test]
async fn a_plain_write_changes_neither_the_finalizers_nor_the_phase() {
    let world = World::new().await;
    world.namespace("n").await;
    let sent =
        json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}});
    let written = world.put("namespaces n", sent).await.ok();
    assert_eq!(written["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(written["status"]["phase"], "Active");
}

#[tokio::test]
async fn a_finalized_namespace_stays_until_the_finalizers_of_its_metadata_are_removed() {
    let world = World::new().await;
    world.post("namespaces", json!({"metadata": {"name": "n", "finalizers": ["example.com/x"]}})).await.ok();
    world.delete("namespaces n").await.ok();
    let finalized = world.put("namespaces n/finalize", json!({})).await;
    assert_eq!(finalized.line(), "200");
    assert_eq!(world.get("namespaces n").await.code, 200);
    world.merge("namespaces n", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.get("namespaces n").await.code, 404);

    world.post("namespaces", json!({"metadata": {"name": "m", "finalizers": ["example.com/x"]}})).await.ok();
    world.delete("namespaces m").await.ok();
    world.merge("namespaces m", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.get("namespaces m").await.code, 200, "its contents are not deleted");
}

/// The finalizers of a namespace tell the garbage collector what to do, as those of other objects do.
#[tokio::test]
async fn the_propagation_policy_of_a_namespace_becomes_a_finalizer_too() {
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let world = World::new().await;
        world.namespace("n").await;
        let marked = world.delete_with("namespaces n", json!({"propagationPolicy": policy})).await.ok();
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]), "{policy}");
    }
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_goes() {
    for world in [World::new().await, World::cached().await] {
        let world = world.emptying();
        world.namespace("n").await;
        world.namespace("n2").await;
        for kind in super::documents::kinds().into_iter().filter(|kind| kind.resource.namespaced) {
            let mut object = kind.object.clone();
            for pointer in ["/involvedObject/namespace", "/regarding/namespace", "/subjects/0/namespace"] {
                if let Some(namespace) = object.pointer_mut(pointer) {
                    *namespace = "n".into();
                }
            }
            let answer = world.post(&format!("{} n", kind.name), object).await;
            let again = ["events.events.k8s.io", "horizontalpodautoscalers/v1"].contains(&kind.name.as_str());
            assert_eq!(answer.code, if again { 409 } else { 201 }, "{}: {}", kind.name, answer.line());
        }
        world.post("configmaps n2", map("a")).await.ok();
        let held = world.delete("namespaces n").await;
        assert!(!held.gone);
        // Objects that only a controller can finish deleting remain: claims wait for theirs.
        let left = || async {
            let keys = world.keys("/registry/").await;
            keys.iter().filter(|key| key.contains("/n/")).count() == 1
        };
        until("all else is gone", left).await;
        let freed =
            world.merge("persistentvolumeclaims n/a", json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(freed.line(), "200");
        world.until_gone("namespaces n").await;
        let left = world.keys("/registry/").await;
        assert!(!left.iter().any(|key| key.contains("/n/")), "{left:?}");
        assert_eq!(world.get("configmaps n2/a").await.code, 200, "another namespace is not touched");
    }
}

#[tokio::test]
async fn a_namespace_waits_for_objects_with_finalizers_and_reports_them() {
    let world = World::new().await.emptying();
    world.namespace("n").await;
    let held = |name: &str| json!({"metadata": {"name": name, "finalizers": ["example.com/x"]}});
    world.post("configmaps n", held("a")).await.ok();
    world.post("configmaps n", map("b")).await.ok();
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "deployments").unwrap();
    let deployment =
        kind.with_metadata(json!({"name": "d", "finalizers": ["example.com/x", "example.com/y"]}));
    world.post("deployments n", deployment).await.ok();
    world.delete("namespaces n").await.ok();
    let condition = |namespace: &Value, kind: &str| -> Value {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| text(one, "/type") == kind).unwrap_or_default()
    };
    until("the conditions show what is left", || async {
        let namespace = world.get("namespaces n").await.ok();
        !condition(&namespace, "NamespaceFinalizersRemaining").is_null()
    })
    .await;
    let namespace = world.get("namespaces n").await.ok();
    let content = condition(&namespace, "NamespaceContentRemaining");
    assert_eq!(
        text(&content, "/message"),
        "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 1 resource instances"
    );
    assert_eq!([&content["status"], &content["reason"]], ["True", "SomeResourcesRemain"]);
    let finalizers = condition(&namespace, "NamespaceFinalizersRemaining");
    assert_eq!(
        text(&finalizers, "/message"),
        "Some content in the namespace has finalizers remaining: example.com/x in 2 resource instances, example.com/y in 1 resource instances"
    );
    for at in ["configmaps n/a", "deployments n/d"] {
        world.merge(at, json!({"metadata": {"finalizers": null}})).await.ok();
    }
    world.until_gone("namespaces n").await;
}

/// Objects that pods use (their claims, secrets and network policies) remain while the pods run.
#[tokio::test]
async fn a_namespace_loses_its_pods_before_anything_else() {
    let world = World::new().await.emptying();
    world.namespace("n").await;
    world.post("configmaps n", map("a")).await.ok();
    world
        .post(
            "events n",
            json!({"metadata": {"name": "e", "finalizers": ["example.com/x"]},
        "involvedObject": {"namespace": "n"}, "reason": "r"}),
        )
        .await
        .ok();
    let mut held = pod("p");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("pods n", held).await.ok();
    world.delete("namespaces n").await.ok();
    let conditions = |namespace: &Value| -> Vec<String> {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let part = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        conditions
            .iter()
            .map(|one| ["type", "status", "reason", "message"].map(|name| part(one, name)).join("|"))
            .collect()
    };
    let nothing_failed = [
        "NamespaceDeletionDiscoveryFailure|False|ResourcesDiscovered|All resources successfully discovered",
        "NamespaceDeletionGroupVersionParsingFailure|False|ParsedGroupVersions|All legacy kube types successfully parsed",
        "NamespaceDeletionContentFailure|False|ContentDeleted|All content successfully deleted, may be waiting on finalization",
    ];
    until("the conditions are written", || async {
        conditions(&world.get("namespaces n").await.ok()).len() == 5
    })
    .await;
    let waiting = world.get("namespaces n").await.ok();
    // The controller manager counts nothing either while pods are left.
    let nothing_left = [
        "NamespaceContentRemaining|False|ContentRemoved|All content successfully removed",
        "NamespaceFinalizersRemaining|False|ContentHasNoFinalizers|All content-preserving finalizers finished",
    ];
    assert_eq!(conditions(&waiting), [&nothing_failed[..], &nothing_left].concat());
    assert_eq!(world.get("configmaps n/a").await.code, 200, "only pods are gone");

    world.merge("pods n/p", json!({"metadata": {"finalizers": null}})).await.ok();
    let events_left = [
        "NamespaceContentRemaining|True|SomeResourcesRemain|Some resources are remaining: \
         events. has 1 resource instances, events.events.k8s.io has 1 resource instances",
        "NamespaceFinalizersRemaining|True|SomeFinalizersRemain|Some content in the namespace has finalizers remaining: \
         example.com/x in 2 resource instances",
    ];
    let expected = [&nothing_failed[..], &events_left].concat();
    until("the conditions show what is left", || async {
        conditions(&world.get("namespaces n").await.ok()) == expected
    })
    .await;
    let later = world.get("namespaces n").await.ok();
    let since = |namespace: &Value| namespace["status"]["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!(since(&later), since(&waiting), "a condition's time changes with its status");
    assert_eq!(world.get("configmaps n/a").await.code, 404);
    world.merge("events n/e", json!({"metadata": {"finalizers": null}})).await.ok();
    world.until_gone("namespaces n").await;
}

#[tokio::test]
async fn pods_of_a_deleted_namespace_have_their_grace_period() {
    let world = World::new().await.emptying();
    world.namespace("n").await;
    let mut short = bound_pod("p");
    short["spec"]["terminationGracePeriodSeconds"] = 1.into();
    world.post("pods n", short).await.ok();
    world.post("pods n", bound_pod("q")).await.ok();
    world.delete("namespaces n").await.ok();
    until("the pods are marked for deletion", || async {
        !text(&world.get("pods n/q").await.ok(), "/metadata/deletionTimestamp").is_empty()
    })
    .await;
    assert_eq!(world.get("pods n/q").await.ok()["metadata"]["deletionGracePeriodSeconds"], 30);
    // Nobody ends this one, so the server does when its time is over.
    world.until_gone("pods n/p").await;
    assert_eq!(world.get("namespaces n").await.code, 200);
    assert!(world.delete("pods n/q?gracePeriodSeconds=0").await.gone);
    world.until_gone("namespaces n").await;
}

#[tokio::test]
async fn a_namespace_with_finalizers_of_its_own_is_emptied_and_stays_until_they_go() {
    let world = World::new().await.emptying();
    world.post("namespaces", json!({"metadata": {"name": "n", "finalizers": ["example.com/x"]}})).await.ok();
    world.post("configmaps n", map("a")).await.ok();
    world.delete("namespaces n").await.ok();
    until("it is emptied", || async {
        let namespace = world.get("namespaces n").await.ok();
        namespace["spec"].get("finalizers").is_none()
    })
    .await;
    assert_eq!(world.get("configmaps n/a").await.code, 404);
    world.merge("namespaces n", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.get("namespaces n").await.code, 404);
}

#[tokio::test]
async fn a_namespace_that_another_controller_holds_keeps_that_finalizer() {
    let world = World::new().await;
    world.namespace("n").await;
    let two = json!({"spec": {"finalizers": ["kubernetes", "example.com/x"]}});
    assert_eq!(world.put("namespaces n/finalize", two).await.line(), "200");
    world.post("configmaps n", map("a")).await.ok();
    world.delete("namespaces n").await.ok();
    let world = world.emptying();
    until("its part is done", || async {
        world.get("namespaces n").await.ok()["spec"]["finalizers"] == json!(["example.com/x"])
    })
    .await;
    assert_eq!(world.get("configmaps n/a").await.code, 404);
}

#[tokio::test]
async fn namespaces_that_were_deleted_before_the_server_started_are_emptied_too() {
    let world = World::new().await;
    world.namespace("n").await;
    world.post("configmaps n", map("a")).await.ok();
    world.delete("namespaces n").await.ok();
    let world = world.emptying();
    world.until_gone("namespaces n").await;
    assert_eq!(world.keys("/registry/configmaps/n/").await, [] as [&str; 0]);
}
