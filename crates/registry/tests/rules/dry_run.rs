//! The answers to dry runs, where they differ from those to writes. `every_kind` checks that a dry run of each kind
//! changes nothing.

use super::world::{World, bound_pod, map, pod, text};
use serde_json::json;

#[tokio::test]
async fn a_dry_run_shows_placeholders_for_addresses_and_ports() {
    let world = World::new().await;
    let before = world.everything().await;
    let sent = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let shown = world.post("services default?dryRun=All", sent).await.ok();
    assert_eq!(shown["spec"]["clusterIP"], "10.0.0.0");
    assert_eq!(shown["spec"]["clusterIPs"], json!(["10.0.0.0"]));
    assert_eq!(shown["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn a_dry_run_of_an_update_shows_what_the_service_would_get() {
    let world = World::new().await;
    let sent = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = world.post("services default", sent).await.ok();
    let before = world.everything().await;
    let change = json!({"spec": {"type": "NodePort"}});
    let shown = world.merge("services default/s?dryRun=All", change).await.ok();
    assert_eq!(shown["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(shown["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    let outside = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    let shown = world.merge("services default/s?dryRun=All", outside).await.ok();
    assert!(shown["spec"].get("clusterIP").is_none(), "{shown}");
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn addresses_and_ports_outside_the_ranges_are_rejected_in_a_dry_run_too() {
    let world = World::new().await;
    let ip = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "192.0.2.1", "ports": [{"port": 80}]}});
    let port = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 1}]}});
    for sent in [ip, port] {
        let real = world.post("services default", sent.clone()).await;
        let dry = world.post("services default?dryRun=All", sent).await;
        assert_eq!(real.code, 422);
        assert_eq!(dry.line(), real.line());
    }
}

#[tokio::test]
async fn scaling_binding_evicting_and_finalizing_work_as_a_dry_run() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "deployments").unwrap();
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    world.post("pods default", pod("p")).await.ok();
    world.post("pods default", bound_pod("q")).await.ok();
    world.namespace("n").await;
    world.delete("namespaces n").await.ok();
    let before = world.everything().await;
    let scale = world.merge("deployments default/a/scale?dryRun=All", json!({"spec": {"replicas": 7}})).await;
    assert_eq!(scale.ok()["spec"]["replicas"], 7);
    let scale = world.put("deployments default/a/scale?dryRun=All", json!({"spec": {"replicas": 8}})).await;
    assert_eq!(scale.ok()["spec"]["replicas"], 8);
    let binding = json!({"target": {"kind": "Node", "name": "n1"}});
    assert_eq!(world.post("pods default/p/binding?dryRun=All", binding.clone()).await.line(), "201");
    let taken = world.post("pods default/q/binding?dryRun=All", binding).await;
    assert_eq!(taken.code, 409, "what would be refused is refused");
    assert_eq!(world.post("pods default/p/eviction?dryRun=All", json!({})).await.line(), "201");
    let inner = json!({"deleteOptions": {"dryRun": ["All"]}});
    assert_eq!(world.post("pods default/q/eviction", inner).await.line(), "201");
    let finalized = world.put("namespaces n/finalize?dryRun=All", json!({"spec": {"finalizers": []}})).await;
    assert_eq!(finalized.line(), "200");
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn removing_the_last_finalizer_works_as_a_dry_run() {
    let world = World::new().await;
    let mut sent = map("a");
    sent["metadata"]["finalizers"] = json!(["example.com/x"]);
    world.post("configmaps default", sent).await.ok();
    world.delete("configmaps default/a").await.ok();
    let before = world.everything().await;
    let off = json!({"metadata": {"finalizers": null}});
    assert_eq!(world.merge("configmaps default/a?dryRun=All", off).await.line(), "200");
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn a_name_is_generated_in_a_dry_run() {
    let world = World::new().await;
    let shown =
        world.post("configmaps default?dryRun=All", json!({"metadata": {"generateName": "g-"}})).await.ok();
    assert_eq!(text(&shown, "/metadata/name").len(), 7);
}

#[tokio::test]
async fn a_dry_run_of_an_eviction_leaves_the_budget_alone() {
    let world = World::new().await;
    let mut sent = bound_pod("p");
    sent["metadata"]["labels"] = json!({"app": "x"});
    world.post("pods default", sent).await.ok();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    world.merge("pods default/p/status", ready).await.ok();
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    world.post("poddisruptionbudgets default", budget).await.ok();
    let allowed = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    world.merge("poddisruptionbudgets default/b/status", allowed).await.ok();
    let before = world.everything().await;
    assert_eq!(world.post("pods default/p/eviction?dryRun=All", json!({})).await.line(), "201");
    let inner = json!({"deleteOptions": {"dryRun": ["All"]}});
    assert_eq!(world.post("pods default/p/eviction", inner).await.line(), "201");
    assert_eq!(world.everything().await, before);
}
