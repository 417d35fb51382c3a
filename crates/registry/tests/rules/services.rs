//! The addresses and ports of services: what is given, kept, refused and given back.

use super::world::{World, resource, text};
use futures::future::join_all;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_registry::RegistryOptions;
use keepwatch_storage::{
    Backend, DeleteOptions, Key, List, ListRequest, Object, Storage, StorageError, TryUpdate, Unchanged,
    UpdateOptions, Validate, Watch, WatchRequest,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc, time::Duration};

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

async fn made(world: &World, name: &str, spec: Value) -> Value {
    world.post("services default", service(name, spec)).await.ok()["spec"].clone()
}

async fn addresses(world: &World) -> usize {
    world.keys("/registry/ipaddresses/").await.len()
}

fn node_port(spec: &Value, port: usize) -> u64 {
    spec["ports"][port]["nodePort"].as_u64().unwrap_or_default()
}

#[tokio::test]
async fn a_service_gets_an_address_of_the_range_and_an_object_says_whose_it_is() {
    let world = World::new().await;
    let spec = made(&world, "s", json!({})).await;
    let address: Ipv4Addr = text(&spec, "/clusterIP").parse().unwrap();
    assert!(address.octets()[..3] == [10, 0, 0] && ![0, 1, 255].contains(&address.octets()[3]), "{address}");
    assert_eq!(spec["clusterIPs"], json!([address]));
    assert_eq!([&spec["ipFamilies"], &spec["ipFamilyPolicy"]], [&json!(["IPv4"]), &json!("SingleStack")]);
    let object = world.get(&format!("ipaddresses {address}")).await.ok();
    let labels = json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    assert_eq!(object["metadata"]["labels"], labels);
    let parent = json!({"parentRef": {"resource": "services", "namespace": "default", "name": "s"}});
    assert_eq!(object["spec"], parent);
    assert!(world.delete("services default/s").await.gone);
    assert_eq!(world.get(&format!("ipaddresses {address}")).await.code, 404, "it is given back");
}

#[tokio::test]
async fn an_address_of_the_range_can_be_asked_for_once() {
    let world = World::new().await;
    let spec = made(&world, "a", json!({"clusterIP": "10.0.0.9"})).await;
    assert_eq!(spec["clusterIPs"], json!(["10.0.0.9"]));
    let why = |ip: &str, why: &str| {
        format!(
            "422 Invalid: Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {why}"
        )
    };
    let outside = "the provided network does not match the current range";
    for (ip, detail) in [
        ("10.0.0.9", "provided IP is already allocated"),
        ("10.0.0.1", "provided IP is already allocated"),
        ("10.0.1.1", outside),
        ("192.0.2.1", outside),
        ("10.0.0.0", outside),
        ("10.0.0.255", outside),
    ] {
        let refused = world.post("services default", service("b", json!({"clusterIP": ip}))).await;
        assert_eq!(refused.line(), why(ip, detail), "{ip}");
    }
    assert_eq!(world.get("services default/b").await.code, 404);
    world.delete("services default/a").await.ok();
    assert_eq!(made(&world, "b", json!({"clusterIP": "10.0.0.9"})).await["clusterIP"], "10.0.0.9");
}

#[tokio::test]
async fn a_refused_service_takes_no_address() {
    let world = World::new().await;
    made(&world, "a", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30005}]})).await;
    let before = world.everything().await.1;
    let ports =
        json!([{"port": 80, "name": "x", "nodePort": 30007}, {"port": 81, "name": "y", "nodePort": 30005}]);
    let refused =
        world.post("services default", service("b", json!({"type": "NodePort", "ports": ports}))).await;
    assert_eq!(
        refused.line(),
        "422 Invalid: Service \"b\" is invalid: spec.ports[1].nodePort: Invalid value: 30005: provided port is already allocated"
    );
    assert_eq!(world.everything().await.1, before, "no address is left behind");
    let ports = json!([{"port": 80, "nodePort": 30007}]);
    let spec = made(&world, "b", json!({"type": "NodePort", "ports": ports})).await;
    assert_eq!(node_port(&spec, 0), 30007, "nor a port");
    let again = world.post("services default", service("b", json!({"clusterIP": "10.0.0.77"}))).await;
    assert_eq!(again.code, 409);
    assert_eq!(world.get("ipaddresses 10.0.0.77").await.code, 404);
}

#[tokio::test]
async fn node_ports_come_from_their_range_and_are_given_once() {
    let world = World::new().await;
    let spec = made(&world, "a", json!({"type": "NodePort"})).await;
    assert!((30000..=32767).contains(&node_port(&spec, 0)), "{spec}");
    for port in [1, 29999, 32768, 70000] {
        let ports = json!([{"port": 80, "nodePort": port}]);
        let refused =
            world.post("services default", service("b", json!({"type": "NodePort", "ports": ports}))).await;
        assert_eq!(
            refused.line(),
            format!(
                "422 Invalid: Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is not in the valid range. The range of valid ports is 30000-32767"
            )
        );
    }
    // One port may serve two protocols.
    let ports = json!([
        {"name": "t", "port": 53, "protocol": "TCP", "nodePort": 30053},
        {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053},
    ]);
    let spec = made(&world, "dns", json!({"type": "NodePort", "ports": ports})).await;
    assert_eq!([node_port(&spec, 0), node_port(&spec, 1)], [30053, 30053]);
    world
        .merge("services default/dns", json!({"spec": {"ports": [{"port": 53, "nodePort": 30053}]}}))
        .await
        .ok();
    let ports = json!([{"port": 80, "nodePort": 30053}]);
    let refused = world
        .post("services default", service("c", json!({"type": "NodePort", "ports": ports.clone()})))
        .await;
    assert_eq!(refused.code, 422, "the other protocol still has it");
    world.delete("services default/dns").await.ok();
    made(&world, "c", json!({"type": "NodePort", "ports": ports})).await;
}

#[tokio::test]
async fn a_replacement_without_addresses_and_ports_keeps_them() {
    let world = World::new().await;
    let before = made(&world, "s", json!({"type": "NodePort"})).await;
    let replaced = world.put("services default/s", service("s", json!({"type": "NodePort"}))).await.ok();
    assert_eq!(replaced["spec"], before);
    let two = json!([{"name": "b", "port": 81}, {"name": "a", "port": 80}]);
    let replaced =
        world.put("services default/s", service("s", json!({"type": "NodePort", "ports": two}))).await.ok();
    assert_eq!(replaced["spec"]["clusterIP"], before["clusterIP"]);
    assert_eq!(node_port(&replaced["spec"], 1), node_port(&before, 0), "found by port and protocol");
    assert!(
        node_port(&replaced["spec"], 0) >= 30000 && node_port(&replaced["spec"], 0) != node_port(&before, 0)
    );
}

#[tokio::test]
async fn a_load_balancer_that_needs_a_port_for_health_checks_gets_one_and_keeps_it() {
    let world = World::new().await;
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let before = made(&world, "s", local.clone()).await;
    let health = before["healthCheckNodePort"].as_u64().unwrap();
    assert!((30000..=32767).contains(&health) && health != node_port(&before, 0));
    let replaced = world.put("services default/s", service("s", local)).await.ok();
    assert_eq!(replaced["spec"], before);
    let patch = json!({"spec": {"externalTrafficPolicy": "Cluster"}});
    let changed = world.merge("services default/s", patch).await.ok();
    assert!(changed["spec"].get("healthCheckNodePort").is_none());
    let ports = json!([{"port": 80, "nodePort": health}]);
    let freed = made(&world, "t", json!({"type": "NodePort", "ports": ports})).await;
    assert_eq!(node_port(&freed, 0), health);
}

#[tokio::test]
async fn a_load_balancer_may_do_without_node_ports_unless_it_names_them() {
    let world = World::new().await;
    let without = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    let spec = made(&world, "a", without).await;
    assert!(spec["ports"][0].get("nodePort").is_none());
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81}]);
    let own = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports});
    let spec = made(&world, "b", own).await;
    assert_eq!(node_port(&spec, 0), 30080, "one that is asked for is given");
    assert!(spec["ports"][1].get("nodePort").is_none());
    let ports = json!([{"port": 80, "nodePort": 30080}]);
    let refused =
        world.post("services default", service("c", json!({"type": "NodePort", "ports": ports}))).await;
    assert_eq!(refused.code, 422);
}

#[tokio::test]
async fn a_service_that_changes_its_type_frees_what_it_no_longer_needs() {
    let world = World::new().await;
    let before = addresses(&world).await;
    let spec = made(&world, "s", json!({"type": "NodePort"})).await;
    let (ip, port) = (text(&spec, "/clusterIP").to_owned(), node_port(&spec, 0));

    let plain = world.merge("services default/s", json!({"spec": {"type": "ClusterIP"}})).await;
    assert_eq!(plain.line(), "200");
    let plain = plain.ok();
    assert_eq!(plain["spec"]["clusterIP"], *ip);
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none(), "{plain}");
    let ports = json!([{"port": 80, "nodePort": port}]);
    made(&world, "t", json!({"type": "NodePort", "ports": ports})).await;

    let outside = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    let outside = world.merge("services default/s", outside).await;
    assert_eq!(outside.line(), "200");
    for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert!(outside.body["spec"].get(gone).is_none(), "{gone}");
    }
    assert_eq!(world.get(&format!("ipaddresses {ip}")).await.code, 404);
    assert_eq!(addresses(&world).await, before + 1, "the other service's is left");

    let inside = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    let inside = world.merge("services default/s", inside).await.ok();
    assert!(!text(&inside, "/spec/clusterIP").is_empty(), "and it gets a new one when it comes back");
    assert_eq!(addresses(&world).await, before + 2);
}

#[tokio::test]
async fn a_headless_service_has_no_address() {
    let world = World::new().await;
    let before = addresses(&world).await;
    let spec = made(&world, "a", json!({"clusterIP": "None", "selector": {"app": "x"}})).await;
    assert_eq!(spec["clusterIPs"], json!(["None"]));
    assert_eq!([&spec["ipFamilies"], &spec["ipFamilyPolicy"]], [&json!(["IPv4"]), &json!("SingleStack")]);
    let spec = made(&world, "b", json!({"clusterIP": "None"})).await;
    let dual = [&json!(["IPv4", "IPv6"]), &json!("RequireDualStack")];
    assert_eq!([&spec["ipFamilies"], &spec["ipFamilyPolicy"]], dual);
    let spec = made(&world, "c", json!({"type": "ExternalName", "externalName": "a.example"})).await;
    assert!(spec.get("clusterIP").is_none());
    assert_eq!(addresses(&world).await, before);
    for name in ["a", "b", "c"] {
        assert!(world.delete(&format!("services default/{name}")).await.gone);
    }
    assert_eq!(addresses(&world).await, before);
}

#[tokio::test]
async fn a_service_that_waits_for_a_finalizer_keeps_its_address_until_it_goes() {
    let world = World::new().await;
    let mut sent = service("s", json!({"type": "NodePort", "clusterIP": "10.0.0.50"}));
    sent["metadata"]["finalizers"] = json!(["example.com/x"]);
    let made = world.post("services default", sent).await.ok();
    world.delete("services default/s").await.ok();
    let other = service("t", json!({"clusterIP": "10.0.0.50"}));
    assert_eq!(world.post("services default", other.clone()).await.code, 422);
    world.merge("services default/s", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(world.post("services default", other).await.line(), "201");
    let ports = json!([{"port": 80, "nodePort": node_port(&made["spec"], 0)}]);
    let free =
        world.post("services default", service("u", json!({"type": "NodePort", "ports": ports}))).await;
    assert_eq!(free.line(), "201");
}

#[tokio::test]
async fn every_address_of_a_small_range_is_given_out_once_and_then_none() {
    let options = RegistryOptions {
        service_range: (Ipv4Addr::new(10, 9, 8, 0), 28),
        node_ports: 30000..=30002,
        ..RegistryOptions::default()
    };
    let world = World::with(options, |_, storage| storage).await;
    let mut given = std::collections::BTreeSet::new();
    // The server has the first address, and the first and last of the network are never allocated.
    for number in 0..13 {
        let spec = made(&world, &format!("s{number}"), json!({})).await;
        assert!(given.insert(text(&spec, "/clusterIP").to_owned()), "{spec}");
    }
    assert!(!given.contains("10.9.8.0") && !given.contains("10.9.8.1") && !given.contains("10.9.8.15"));
    let full = world.post("services default", service("more", json!({}))).await;
    assert_eq!(
        full.line(),
        "500 InternalError: Internal error occurred: failed to allocate a serviceIP: range is full"
    );
    world.delete("services default/s5").await.ok();
    made(&world, "more", json!({})).await;

    for name in ["s0", "s1", "s2"] {
        let patched =
            world.merge(&format!("services default/{name}"), json!({"spec": {"type": "NodePort"}})).await;
        assert_eq!(patched.line(), "200");
    }
    let full = world.merge("services default/s3", json!({"spec": {"type": "NodePort"}})).await;
    let why = "500 InternalError: Internal error occurred: failed to allocate a nodePort: range is full";
    assert_eq!(full.line(), why);
    assert_eq!(world.get("services default/s3").await.ok()["spec"]["type"], "ClusterIP");
}

#[tokio::test]
async fn a_restarted_server_knows_the_allocated_addresses() {
    let world = World::new().await;
    let ports = json!([{"port": 80, "nodePort": 30100}]);
    made(&world, "s", json!({"type": "NodePort", "clusterIP": "10.0.0.20", "ports": ports.clone()})).await;
    let again = world.again(RegistryOptions::default()).await;
    let refused = again
        .post("services default", service("t", json!({"type": "NodePort", "ports": ports.clone()})))
        .await;
    assert_eq!(refused.code, 422);
    let refused = again.post("services default", service("t", json!({"clusterIP": "10.0.0.20"}))).await;
    assert_eq!(refused.code, 422);
    again.delete("services default/s").await.ok();
    made(&again, "t", json!({"type": "NodePort", "clusterIP": "10.0.0.20", "ports": ports})).await;
}

#[tokio::test]
async fn the_status_of_a_service_is_written_without_touching_its_addresses() {
    let world = World::new().await;
    let spec = made(&world, "s", json!({"type": "NodePort"})).await;
    let before = world.keys("/registry/ipaddresses/").await;
    let condition = json!({
        "type": "Seen", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    let sent = json!({"spec": {"clusterIP": "10.0.0.99", "type": "ExternalName"}, "status": {"conditions": [condition]}});
    let answer = world.merge("services default/s/status", sent).await.ok();
    assert_eq!(answer["spec"], spec);
    assert_eq!(world.keys("/registry/ipaddresses/").await, before);
}

/// A port without a request once got the node port that another port requested.
#[tokio::test]
async fn a_service_gets_no_port_twice_for_one_protocol() {
    let options = RegistryOptions { node_ports: 30000..=30002, ..RegistryOptions::default() };
    let world = World::with(options, |_, storage| storage).await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30000}]);
    let local = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002, "ports": ports,
    });
    for _ in 0..8 {
        let spec = made(&world, "s", local.clone()).await;
        assert_eq!([node_port(&spec, 0), node_port(&spec, 1)], [30001, 30000]);
        world.delete("services default/s").await.ok();
        assert!(world.keys(PORTS).await.is_empty());
    }
}

#[tokio::test]
async fn the_port_for_health_checks_serves_nothing_else() {
    let world = World::new().await;
    let local = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30100,
        "ports": [{"port": 80, "nodePort": 30100}],
    });
    for at in ["services default", "services default?dryRun=All"] {
        let refused = world.post(at, service("s", local.clone())).await;
        let why = "spec.healthCheckNodePort: Invalid value: 30100: provided port is already allocated";
        assert_eq!(refused.line(), format!("422 Invalid: Service \"s\" is invalid: {why}"));
    }
    assert!(world.keys(PORTS).await.is_empty(), "what was refused took nothing");
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let health = made(&world, "s", local).await["healthCheckNodePort"].clone();
    let patch = json!({"spec": {"ports": [{"port": 80, "nodePort": health}]}});
    assert_eq!(world.merge("services default/s", patch).await.code, 422);
}

#[tokio::test]
async fn one_port_in_several_protocols_gets_one_node_port() {
    let world = World::new().await;
    let dns = |given: Option<u64>| {
        json!({"type": "NodePort", "ports": [
            {"name": "t", "port": 53, "protocol": "TCP"},
            {"name": "u", "port": 53, "protocol": "UDP", "nodePort": given.unwrap_or(0)},
            {"name": "w", "port": 80, "protocol": "UDP"},
        ]})
    };
    let ports = json!([
        {"name": "t", "port": 53, "protocol": "TCP", "nodePort": 30054},
        {"name": "u", "port": 54, "protocol": "UDP", "nodePort": 30054},
    ]);
    let refused =
        world.post("services default", service("other", json!({"type": "NodePort", "ports": ports}))).await;
    assert_eq!(refused.causes(), ["FieldValueInvalid spec.ports[1].nodePort"], "nor two ports one");
    for at in ["services default?dryRun=All", "services default"] {
        let spec = world.post(at, service("given", dns(Some(30053)))).await.ok()["spec"].clone();
        assert_eq!([node_port(&spec, 0), node_port(&spec, 1)], [30053, 30053]);
        assert_ne!(node_port(&spec, 2), 30053);
        let spec = world.post(at, service("any", dns(None))).await.ok()["spec"].clone();
        assert_eq!(node_port(&spec, 0), node_port(&spec, 1));
        assert_ne!(node_port(&spec, 0), node_port(&spec, 2));
    }
    assert_eq!(world.keys(PORTS).await.len(), 4);
    for name in ["any", "given"] {
        world.delete(&format!("services default/{name}")).await.ok();
    }
    assert!(world.keys(PORTS).await.is_empty());
}

const PORTS: &str = "/registry/servicenodeports/";

fn with_port(port: u64) -> Value {
    json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]})
}

/// Each learned what was taken when it started, and gave out as free whatever the other had taken since.
#[tokio::test]
async fn a_port_that_one_server_allocated_is_not_allocated_by_another() {
    let one = World::new().await;
    let other = one.again(RegistryOptions::default()).await;
    made(&one, "s", with_port(30100)).await;
    let refused = other.post("services default", service("t", with_port(30100))).await;
    let why = "spec.ports[0].nodePort: Invalid value: 30100: provided port is already allocated";
    assert_eq!(refused.line(), format!("422 Invalid: Service \"t\" is invalid: {why}"));
    other.delete("services default/s").await.ok();
    made(&one, "t", with_port(30100)).await;
    assert_eq!(one.keys(PORTS).await, [format!("{PORTS}30100")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_that_create_at_once_give_every_address_and_port_once() {
    let options = RegistryOptions {
        service_range: (Ipv4Addr::new(10, 9, 8, 0), 27),
        node_ports: 30000..=30019,
        ..RegistryOptions::default()
    };
    let one = World::with(options.clone(), |_, storage| storage).await;
    let other = one.again(options).await;
    let tasks = (0..40).map(|number| {
        let world = if number % 2 == 0 { one.clone() } else { other.clone() };
        let sent = service(&format!("s{number}"), json!({"type": "NodePort"}));
        tokio::spawn(async move { world.post("services default", sent).await })
    });
    let answers: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    let specs: Vec<_> =
        answers.iter().filter(|answer| answer.code == 201).map(|answer| &answer.body["spec"]).collect();
    let ports: BTreeSet<_> = specs.iter().map(|spec| node_port(spec, 0)).collect();
    let addresses: BTreeSet<_> = specs.iter().map(|spec| text(spec, "/clusterIP")).collect();
    assert_eq!((specs.len(), ports.len(), addresses.len()), (20, 20, 20));
    assert_eq!(one.keys(PORTS).await.len(), 20, "what was refused left nothing behind");
    assert_eq!(one.keys("/registry/ipaddresses/").await.len(), 21);
}

#[tokio::test]
async fn addresses_and_ports_of_stored_services_are_claimed_when_a_server_starts() {
    let world = World::new().await;
    made(&world, "s", with_port(30100)).await;
    let key = Key::from_backend(format!("{PORTS}30100"));
    let (_, taken) = world.backend.get(&key).await.unwrap();
    world.backend.delete_if(&key, taken.unwrap().modified).await.unwrap();
    let again = world.again(RegistryOptions::default()).await;
    let refused = again.post("services default", service("t", with_port(30100))).await;
    assert_eq!(refused.code, 422);
    assert_eq!(again.keys(PORTS).await, [key.to_string()]);
}

/// Writes that an address was taken for a service, a while ago.
async fn left_behind(world: &World, address: &str, service: &str, labels: Value) {
    let claim = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": address, "creationTimestamp": "2024-01-01T00:00:00Z", "labels": labels},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": service}},
    });
    let storage = world.registry.storage(resource("ipaddresses")).unwrap();
    storage.create(&format!("/ipaddresses/{address}"), claim.to_string().into(), None).await.unwrap();
}

#[tokio::test]
async fn claims_of_a_stopped_server_are_freed_after_the_grace_period() {
    let world = World::new().await;
    let ours = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    made(&world, "other", json!({"clusterIP": "10.0.0.200"})).await;
    for (address, service) in [("10.0.0.20", "never"), ("10.0.0.21", "other"), ("10.0.0.22", "never")] {
        left_behind(&world, address, service, ours.clone()).await;
    }
    left_behind(&world, "10.0.0.23", "never", json!({})).await;
    for address in ["10.0.0.20", "10.0.0.21"] {
        let spec = made(&world, &format!("s{}", &address[7..]), json!({"clusterIP": address})).await;
        assert_eq!(spec["clusterIP"], address);
    }
    let by_hand = world.post("services default", service("t", json!({"clusterIP": "10.0.0.23"}))).await;
    assert_eq!(by_hand.code, 422, "what people reserve stays theirs");
    let again = world.again(RegistryOptions::default()).await;
    assert_eq!(
        again.get("ipaddresses 10.0.0.22").await.code,
        404,
        "a server that starts looks at all of them"
    );
    for address in ["10.0.0.20", "10.0.0.21", "10.0.0.23"] {
        assert_eq!(again.get(&format!("ipaddresses {address}")).await.code, 200);
    }
}

/// After a kill under load 26 of 62 addresses stayed taken for ten minutes.
#[tokio::test]
async fn claims_of_a_killed_server_are_freed_when_the_only_server_restarts() {
    let world = World::new().await;
    let mut spec = with_port(30100);
    spec["clusterIP"] = "10.0.0.200".into();
    let has = made(&world, "s", spec).await["clusterIP"].as_str().unwrap().to_owned();
    // Claims of the killed server from a moment ago, for services that it did not store.
    let now = jiff::Timestamp::now().to_string();
    for (kind, name) in [("ipaddresses", "10.0.0.20"), ("servicenodeports", "30200")] {
        let ours = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        let claim = json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": name, "creationTimestamp": now, "labels": ours},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "never"}},
        });
        let key = Key::from_backend(format!("/registry/{kind}/{name}"));
        world.backend.put_if(&key, None, claim.to_string().into(), None).await.unwrap();
    }
    left_behind(&world, "10.0.0.21", "never", json!({})).await;
    world.again(RegistryOptions::default()).await;
    assert_eq!(world.get("ipaddresses 10.0.0.20").await.code, 200, "another server may be about to use it");
    let alone = world.again(RegistryOptions { owns_storage: true, ..RegistryOptions::default() }).await;
    assert_eq!(alone.get("ipaddresses 10.0.0.20").await.code, 404);
    assert_eq!(alone.keys(PORTS).await, [format!("{PORTS}30100")]);
    for address in [has.as_str(), "10.0.0.21"] {
        let code = alone.get(&format!("ipaddresses {address}")).await.code;
        assert_eq!(code, 200, "{address}: what a service has, and what people reserve, stays");
    }
}

#[tokio::test]
async fn claims_without_a_service_are_reused_when_nothing_else_is_free() {
    let options =
        RegistryOptions { service_range: (Ipv4Addr::new(10, 9, 8, 0), 29), ..RegistryOptions::default() };
    let world = World::with(options, |_, storage| storage).await;
    let ours = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    left_behind(&world, "10.9.8.4", "never", ours).await;
    left_behind(&world, "10.9.8.5", "never", json!({})).await;
    let mut given = BTreeSet::new();
    for number in 0..4 {
        given.insert(made(&world, &format!("s{number}"), json!({})).await["clusterIP"].to_string());
        assert_eq!(given.contains("\"10.9.8.4\""), number == 3, "only when nothing else is left: {given:?}");
    }
    assert_eq!(given.len(), 4);
    assert_eq!(world.post("services default", service("more", json!({}))).await.code, 500);
}

#[tokio::test]
async fn an_address_that_a_service_has_stays_taken_when_its_object_is_deleted() {
    let world = World::new().await;
    made(&world, "s", json!({"clusterIP": "10.0.0.9"})).await;
    let before = world.get("ipaddresses 10.0.0.9").await.ok();
    assert!(world.delete("ipaddresses 10.0.0.9").await.gone);
    let again = world.get("ipaddresses 10.0.0.9").await.ok();
    assert_eq!(
        [&again["spec"], &again["metadata"]["labels"]],
        [&before["spec"], &before["metadata"]["labels"]]
    );
    assert_ne!(again["metadata"]["uid"], before["metadata"]["uid"]);
    world.delete_collection("ipaddresses", Value::Null).await.ok();
    let taken = world.post("services default", service("t", json!({"clusterIP": "10.0.0.9"}))).await;
    assert_eq!(taken.code, 422);
    world.delete("services default/s").await.ok();
    assert_eq!(world.get("ipaddresses 10.0.0.9").await.code, 404, "and it goes with the service");
    left_behind(&world, "10.0.0.9", "s", json!({})).await;
    world.delete("ipaddresses 10.0.0.9").await.ok();
    assert_eq!(world.get("ipaddresses 10.0.0.9").await.code, 404, "what no service has is not made again");
}

/// Answers for some objects that it does not know whether they are stored, and does not store others.
struct UnavailableStorage(Arc<dyn Storage>);

#[async_trait::async_trait]
impl Storage for UnavailableStorage {
    async fn create_while(
        &self,
        key: &str,
        value: bytes::Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        if key.ends_with("/deaf") {
            return Err(StorageError::Timeout { doing: "create" });
        }
        if key.ends_with("/10.0.0.66") || key.ends_with("/30066") {
            return Err(StorageError::Unreachable { doing: "create", source: "nobody there".into() });
        }
        let stored = self.0.create_while(key, value, ttl, unchanged).await?;
        if key.ends_with("/mute") { Err(StorageError::Timeout { doing: "create" }) } else { Ok(stored) }
    }
    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError> {
        self.0.get(key, position).await
    }
    async fn delete(
        &self,
        key: &str,
        options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError> {
        self.0.delete(key, options, validate).await
    }
    async fn guaranteed_update(
        &self,
        key: &str,
        options: UpdateOptions,
        try_update: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        self.0.guaranteed_update(key, options, try_update).await
    }
    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        self.0.get_list(key, request).await
    }
    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        self.0.watch(key, request).await
    }
}

#[tokio::test]
async fn a_service_whose_write_has_an_unknown_outcome_keeps_its_addresses() {
    let world = World::with(RegistryOptions::default(), |resource, storage| match resource.plural.as_str() {
        "services" => Arc::new(UnavailableStorage(storage)),
        _ => storage,
    })
    .await;
    let asked =
        json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30009}]});
    let unknown = world.post("services default", service("mute", asked.clone())).await;
    assert_eq!(unknown.code, 500);
    assert_eq!(world.get("services default/mute").await.ok()["spec"]["clusterIP"], "10.0.0.9");
    assert_eq!(world.post("services default", service("t", asked)).await.code, 422);
    assert_eq!(world.post("services default", service("t", with_port(30009))).await.code, 422);
    world.delete("services default/mute").await.ok();
    made(&world, "t", with_port(30009)).await;
}

#[tokio::test]
async fn a_service_that_was_not_stored_releases_its_addresses() {
    let world = World::with(RegistryOptions::default(), |resource, storage| match resource.plural.as_str() {
        "services" => Arc::new(UnavailableStorage(storage)),
        _ => storage,
    })
    .await;
    let mut asked = with_port(30009);
    asked["clusterIP"] = "10.0.0.9".into();
    for _ in 0..2 {
        let unknown = world.post("services default", service("deaf", asked.clone())).await;
        assert_eq!(unknown.code, 500, "not that it is taken: {}", unknown.line());
    }
    assert!(world.keys(PORTS).await.is_empty());
    made(&world, "t", asked).await;
}

#[tokio::test]
async fn storage_that_does_not_take_an_address_or_a_port_fails_the_service() {
    let world =
        World::with(RegistryOptions::default(), |_, storage| Arc::new(UnavailableStorage(storage))).await;
    for asked in [json!({"clusterIP": "10.0.0.66"}), with_port(30066)] {
        let failed = world.post("services default", service("s", asked)).await;
        let why =
            "The create operation against services could not be completed at this time, please try again.";
        assert_eq!(failed.line(), format!("500 ServerTimeout: {why}"));
    }
    made(&world, "s", json!({"type": "NodePort"})).await;
    let changed = world.put("services default/s", service("s", with_port(30066))).await;
    assert!(changed.line().contains("The update operation against services"), "{}", changed.line());
}

#[tokio::test]
async fn families_that_are_not_served_are_refused() {
    let world = World::new().await;
    for (spec, why) in [
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
    ] {
        let refused = world.post("services default", service("s", spec)).await.line();
        assert!(refused.starts_with("422") && refused.contains(why), "{refused}");
    }
    made(&world, "prefers", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    made(&world, "anywhere", json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"})).await;
}

#[tokio::test]
async fn a_service_without_ports_has_none() {
    let world = World::new().await;
    let sent =
        json!({"metadata": {"name": "e"}, "spec": {"type": "ExternalName", "externalName": "example.com"}});
    let made = world.post("services default", sent).await.ok();
    assert_eq!(made["spec"].get("ports"), None);
}

/// The fields that belong to a service's type are removed with it, and so are those that ExternalName does not use.
#[tokio::test]
async fn a_service_that_becomes_an_external_name_loses_its_allocated_fields() {
    let world = World::new().await;
    let sent = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "example.com/c",
        "selector": {"a": "b"}, "ports": [{"port": 80}],
    }});
    world.post("services default", sent).await.ok();
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    world.merge("services default/s/status", status).await.ok();
    let change = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    let named = world.merge("services default/s", change).await.ok();
    assert_eq!(
        named["spec"],
        json!({
            "type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None", "selector": {"a": "b"},
            "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
        })
    );
    assert_eq!(named["status"], json!({"loadBalancer": {}}));
}

#[tokio::test]
async fn the_endpoints_of_a_service_go_with_it() {
    let world = World::new().await;
    for name in ["s", "other"] {
        made(&world, name, json!({})).await;
        world.post("endpoints default", json!({"metadata": {"name": name}})).await.ok();
    }
    world.delete("services default/s").await.ok();
    assert_eq!(world.get("endpoints default/s").await.line(), "404 NotFound: endpoints \"s\" not found");
    assert_eq!(world.get("endpoints default/other").await.line(), "200");
}
