//! Defaults of services, endpoints and network policies.

use crate::defaults::tests::check;
use serde_json::{Value, json};

#[test]
fn a_minimal_service_is_filled_as_a_real_server_does_but_for_its_addresses() {
    check(
        "core.v1.Service",
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
        }),
        "",
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {
                "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
                "selector": {"app": "x"},
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
            },
            "status": {"loadBalancer": {}},
        }),
    );
}

#[test]
fn defaults_of_a_service_depend_on_its_type() {
    let filled = |ty: &str, more: Value| {
        let mut spec = json!({"type": ty, "sessionAffinity": "None"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    for (given, wanted) in [
        (
            json!({"type": "NodePort"}),
            filled(
                "NodePort",
                json!({"internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster"}),
            ),
        ),
        (
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
            filled(
                "LoadBalancer",
                json!({
                    "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Local",
                    "allocateLoadBalancerNodePorts": true,
                }),
            ),
        ),
        (
            json!({"externalIPs": ["1.2.3.4"]}),
            filled(
                "ClusterIP",
                json!({
                    "externalIPs": ["1.2.3.4"], "internalTrafficPolicy": "Cluster",
                    "externalTrafficPolicy": "Cluster",
                }),
            ),
        ),
        (
            json!({"type": "ExternalName", "externalName": "x.example"}),
            filled("ExternalName", json!({"externalName": "x.example"})),
        ),
        (
            json!({"clusterIP": "None"}),
            filled("ClusterIP", json!({"clusterIP": "None", "internalTrafficPolicy": "Cluster"})),
        ),
    ] {
        check("core.v1.Service", json!({"spec": given}), "/spec", wanted);
    }
}

#[test]
fn only_affinity_to_clients_is_configured() {
    for (given, wanted) in [
        (json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}), Value::Null),
        (json!({"sessionAffinity": "ClientIP"}), json!({"clientIP": {"timeoutSeconds": 10800}})),
        (
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}),
            json!({"clientIP": {"timeoutSeconds": 5}}),
        ),
    ] {
        check("core.v1.Service", json!({"spec": given}), "/spec/sessionAffinityConfig", wanted);
    }
}

#[test]
fn the_target_port_of_a_service_defaults_to_its_port() {
    for (given, wanted) in [
        (json!({"port": 80}), json!(80)),
        (json!({"port": 80, "targetPort": 0}), json!(80)),
        (json!({"port": 80, "targetPort": ""}), json!(80)),
        (json!({"port": 80, "targetPort": "web"}), json!("web")),
        (json!({"port": 80, "targetPort": 8080}), json!(8080)),
    ] {
        check("core.v1.Service", json!({"spec": {"ports": [given]}}), "/spec/ports/0/targetPort", wanted);
    }
}

#[test]
fn addresses_of_a_balancer_are_virtual() {
    let status = json!({"loadBalancer": {"ingress": [
        {"ip": "1.2.3.4"}, {"hostname": "h"}, {"ip": "5.6.7.8", "ipMode": "Proxy"},
    ]}});
    check(
        "core.v1.Service",
        json!({"spec": {"type": "LoadBalancer"}, "status": status}),
        "/status/loadBalancer/ingress",
        json!([{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "h"}, {"ip": "5.6.7.8", "ipMode": "Proxy"}]),
    );
    check("core.v1.Service", json!({"status": status}), "/status", status);
}

#[test]
fn ports_of_endpoints_have_a_protocol() {
    check(
        "core.v1.Endpoints",
        json!({"subsets": [{
            "addresses": [{"ip": "10.5.5.2"}], "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
        }]}),
        "/subsets/0/ports",
        json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]),
    );
    check(
        "discovery.v1.EndpointSlice",
        json!({"ports": [{"port": 80}, {"name": "b", "protocol": "UDP"}]}),
        "/ports",
        json!([{"name": "", "protocol": "TCP", "port": 80}, {"name": "b", "protocol": "UDP"}]),
    );
}

#[test]
fn the_policy_types_of_a_network_policy_follow_from_its_rules() {
    for (given, wanted) in [
        (json!({}), json!(["Ingress"])),
        (json!({"egress": []}), json!(["Ingress"])),
        (json!({"egress": [{}]}), json!(["Ingress", "Egress"])),
        (json!({"egress": [{}], "policyTypes": ["Egress"]}), json!(["Egress"])),
    ] {
        check("networking.v1.NetworkPolicy", json!({"spec": given}), "/spec/policyTypes", wanted);
    }
    for direction in ["ingress", "egress"] {
        check(
            "networking.v1.NetworkPolicy",
            json!({"spec": {direction: [{"ports": [{"port": 80}, {"protocol": "UDP"}]}]}}),
            &format!("/spec/{direction}/0/ports"),
            json!([{"port": 80, "protocol": "TCP"}, {"protocol": "UDP"}]),
        );
    }
}

#[test]
fn parameters_of_an_ingress_class_are_of_the_cluster() {
    let parameters = json!({"kind": "P", "name": "p"});
    for (given, wanted) in [
        (json!({"parameters": parameters}), json!({"kind": "P", "name": "p", "scope": "Cluster"})),
        (json!({"controller": "c"}), Value::Null),
    ] {
        check("networking.v1.IngressClass", json!({"spec": given}), "/spec/parameters", wanted);
    }
}

#[test]
fn the_path_of_an_ingress_has_no_defaults() {
    let spec = json!({"rules": [{"http": {"paths": [{"path": "/", "pathType": null, "backend": {}}]}}]});
    check("networking.v1.Ingress", json!({"spec": spec}), "/spec", spec);
}
