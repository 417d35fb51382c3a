//! The objects that a server makes for itself.

use super::world::{World, resource, text};
use keepwatch_registry::RegistryOptions;
use serde_json::{Value, json};
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

/// As with a store that no other server can use.
fn sole_server() -> RegistryOptions {
    RegistryOptions { owns_storage: true, ..RegistryOptions::default() }
}

#[tokio::test]
async fn a_restarted_server_creates_missing_objects_and_changes_no_others() {
    let world = World::with(sole_server(), |_, storage| storage).await;
    world.merge("namespaces default", json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    let before = world.everything().await;
    let again = world.again(sole_server()).await;
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
        "the server that took it first does not release it"
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

/// One of several servers on a store, as they all are.
async fn server_at(world: &World, ip: [u8; 4], port: u16) -> World {
    let options = RegistryOptions::default();
    world.again_at(options, (Ipv4Addr::from(ip).into(), port)).await
}

/// The addresses of the server's own service, in its Endpoints and in its EndpointSlice.
async fn endpoints_of(world: &World) -> (String, String) {
    let endpoints = world.get("endpoints default/kubernetes").await.ok();
    let slice = world.get("endpointslices default/kubernetes").await.ok();
    let ips = |list: &Value, pointer: &str| {
        let items = list.as_array().cloned().unwrap_or_default();
        items.iter().map(|item| text(item, pointer).to_owned()).collect::<Vec<_>>().join(" ")
    };
    let subset = &endpoints["subsets"][0];
    (
        format!("{}:{}", ips(&subset["addresses"], "/ip"), subset["ports"][0]["port"]),
        format!("{}:{}", ips(&slice["endpoints"], "/addresses/0"), slice["ports"][0]["port"]),
    )
}

fn both(endpoints: &str) -> (String, String) {
    (endpoints.to_owned(), endpoints.to_owned())
}

#[tokio::test]
async fn the_own_service_has_endpoints_as_in_kubernetes() {
    let world = World::with(sole_server(), |_, storage| storage).await;
    let endpoints = world.get("endpoints default/kubernetes").await.ok();
    assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    let ports = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "192.0.2.10"}], "ports": ports}]));
    let slice = world.get("endpointslices default/kubernetes").await.ok();
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    let endpoints = json!([{"addresses": ["192.0.2.10"], "conditions": {"ready": true}}]);
    assert_eq!(
        (&slice["addressType"], &slice["endpoints"], &slice["ports"]),
        (&json!("IPv4"), &endpoints, &ports)
    );
    assert_eq!(world.keys("/registry/masterleases/").await.len(), 0, "nobody else can use the store");
}

#[tokio::test]
async fn changed_endpoints_of_the_own_service_are_corrected() {
    let world = World::new().await;
    let right = both("192.0.2.10:6443");
    let endpoints = "endpoints default/kubernetes";
    let slice = "endpointslices default/kubernetes";
    world.delete(endpoints).await.ok();
    world.delete(slice).await.ok();
    world.again(RegistryOptions::default()).await;
    assert_eq!(endpoints_of(&world).await, right);

    let skip_mirror = json!({"x": "y", "endpointslice.kubernetes.io/skip-mirror": null});
    let other = json!([{"addresses": [{"ip": "10.1.1.1"}, {"ip": "192.0.2.10"}], "ports": [{"name": "https", "port": 6443}]}]);
    world.merge(endpoints, json!({"metadata": {"labels": skip_mirror}, "subsets": other})).await.ok();
    let labels = json!({"x": "y", "kubernetes.io/service-name": "z"});
    let other = json!([{"addresses": ["10.1.1.1"]}]);
    world.merge(slice, json!({"metadata": {"labels": labels}, "endpoints": other, "ports": []})).await.ok();
    world.again(RegistryOptions::default()).await;
    assert_eq!(endpoints_of(&world).await, right);
    let labels = world.get(endpoints).await.ok()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"x": "y", "endpointslice.kubernetes.io/skip-mirror": "true"}));
    let labels = world.get(slice).await.ok()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"kubernetes.io/service-name": "kubernetes"}));
}

#[tokio::test]
async fn a_server_that_starts_on_another_port_sets_the_ports_right() {
    let world = World::new().await;
    let address = (Ipv4Addr::new(192, 0, 2, 10).into(), 7443);
    let again = world.again_at(RegistryOptions::default(), address).await;
    assert_eq!(endpoints_of(&again).await, both("192.0.2.10:7443"));
    let service = again.get("services default/kubernetes").await.ok();
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 7443);
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
}

#[tokio::test]
async fn the_own_service_has_the_endpoints_of_all_servers_until_they_stop() {
    let world = World::empty();
    let first = server_at(&world, [192, 0, 2, 9], 6443).await;
    assert_eq!(endpoints_of(&first).await, both("192.0.2.9:6443"));
    let second = server_at(&world, [192, 0, 2, 10], 6443).await;
    assert_eq!(endpoints_of(&first).await, both("192.0.2.10 192.0.2.9:6443"));
    first.registry.leave((Ipv4Addr::new(192, 0, 2, 9).into(), 6443)).await.unwrap();
    assert_eq!(endpoints_of(&second).await, both("192.0.2.10:6443"));
    second.registry.leave((Ipv4Addr::new(192, 0, 2, 10).into(), 6443)).await.unwrap();
    assert_eq!(endpoints_of(&second).await, both("192.0.2.10:6443"), "the last one stays");
}
