//! The objects that a server makes for itself.

use super::world::{World, resource, text};
use keepwatch_registry::RegistryOptions;
use serde_json::json;
use std::net::Ipv4Addr;

#[tokio::test]
async fn a_new_server_has_its_namespaces_its_service_and_its_classes() {
    let world = World::new().await;
    assert_eq!(world.names("namespaces").await, "default kube-node-lease kube-public kube-system");
    let service = world.get("services default/kubernetes").await.ok();
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    let port = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]);
    assert_eq!(service["spec"]["ports"], port);
    let endpoints = world.get("endpoints default/kubernetes").await.ok();
    assert_eq!(text(&endpoints, "/subsets/0/addresses/0/ip"), "192.0.2.10");
    let slice = world.get("endpointslices default/kubernetes").await.ok();
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");
    assert_eq!(world.get("servicecidrs kubernetes").await.ok()["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    assert_eq!(world.get("priorityclasses system-cluster-critical").await.ok()["value"], 2_000_000_000);
    assert_eq!(world.get("priorityclasses system-node-critical").await.ok()["value"], 2_000_001_000);
    assert_eq!(world.get("ipaddresses 10.0.0.1").await.ok()["spec"]["parentRef"]["name"], "kubernetes");
}

#[tokio::test]
async fn a_server_that_starts_again_changes_nothing_that_is_there_and_makes_what_is_not() {
    let world = World::new().await;
    world.merge("namespaces default", json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    let before = world.everything().await;
    let again = world.again(RegistryOptions::default()).await;
    assert_eq!(again.everything().await, before);
    world.delete("priorityclasses system-node-critical").await.ok();
    world.delete("services default/kubernetes").await.ok();
    let again = world.again(RegistryOptions::default()).await;
    assert_eq!(again.get("priorityclasses system-node-critical").await.code, 200);
    assert_eq!(again.get("services default/kubernetes").await.ok()["spec"]["clusterIP"], "10.0.0.1");
}

#[tokio::test]
async fn servers_that_start_at_once_over_one_store_all_start() {
    let world = World::new().await;
    for name in
        ["services default/kubernetes", "priorityclasses system-node-critical", "servicecidrs kubernetes"]
    {
        world.delete(name).await.ok();
    }
    futures::future::join_all((0..8).map(|_| world.again(RegistryOptions::default()))).await;
    assert_eq!(world.get("services default/kubernetes").await.code, 200);
    assert_eq!(world.get("ipaddresses 10.0.0.1").await.code, 200);
}

/// A store on which a server stopped after it took the address of its own service.
async fn without_own_service(parent: &str) -> World {
    let world = World::new().await;
    let mut claim = world.get("ipaddresses 10.0.0.1").await.ok();
    world.delete("services default/kubernetes").await.ok();
    claim["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    claim["spec"]["parentRef"]["name"] = parent.into();
    let storage = world.registry.storage(resource("ipaddresses")).unwrap();
    storage.create("/ipaddresses/10.0.0.1", claim.to_string().into(), None).await.unwrap();
    world
}

#[tokio::test]
async fn a_server_takes_over_the_address_that_was_taken_for_its_own_service() {
    let world = without_own_service("kubernetes").await;
    let claim = world.get("ipaddresses 10.0.0.1").await.ok();
    let again = world.again(RegistryOptions::default()).await;
    assert_eq!(again.get("services default/kubernetes").await.ok()["spec"]["clusterIP"], "10.0.0.1");
    let taken = again.get("ipaddresses 10.0.0.1").await.ok();
    assert_eq!(taken["spec"], claim["spec"]);
    assert_ne!(
        taken["metadata"]["resourceVersion"], claim["metadata"]["resourceVersion"],
        "whoever took it first does not give it back"
    );
}

#[tokio::test]
async fn a_server_starts_without_an_object_that_it_cannot_make() {
    let world = without_own_service("other").await;
    world.delete("priorityclasses system-node-critical").await.ok();
    let again = world.again(RegistryOptions::default()).await;
    assert_eq!(again.get("services default/kubernetes").await.code, 404);
    assert_eq!(again.get("ipaddresses 10.0.0.1").await.ok()["spec"]["parentRef"]["name"], "other");
    assert_eq!(again.get("priorityclasses system-node-critical").await.code, 200, "but with all others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_start_at_once_over_an_empty_store_all_start() {
    for _ in 0..10 {
        let world = World::empty();
        let starts = (0..8).map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.again(RegistryOptions::default()).await })
        });
        for started in futures::future::join_all(starts).await {
            started.unwrap();
        }
        assert_eq!(world.get("services default/kubernetes").await.code, 200);
        assert_eq!(world.get("ipaddresses 10.0.0.1").await.code, 200);
    }
}

#[tokio::test]
async fn the_range_of_services_can_be_any() {
    for (first, bits, cidr, own) in [
        ([10, 96, 0, 0], 12, "10.96.0.0/12", "10.96.0.1"),
        ([10, 9, 8, 77], 24, "10.9.8.0/24", "10.9.8.1"),
        ([10, 9, 8, 0], 30, "10.9.8.0/30", "10.9.8.1"),
        ([172, 16, 0, 0], 16, "172.16.0.0/16", "172.16.0.1"),
    ] {
        let options =
            RegistryOptions { service_range: (Ipv4Addr::from(first), bits), ..RegistryOptions::default() };
        let world = World::with(options, |_, storage| storage).await;
        assert_eq!(world.get("servicecidrs kubernetes").await.ok()["spec"]["cidrs"], json!([cidr]));
        assert_eq!(world.get("services default/kubernetes").await.ok()["spec"]["clusterIP"], own);
    }
}
