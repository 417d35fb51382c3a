//! The fields that a client leaves out when it replaces a Service.

use crate::document::{Edit, Fields};
use serde_json::{Value, json};

/// Sets `clusterIPs` for a client that sent `clusterIP` only.
pub(super) fn fill_cluster_ips(service: &mut Value) {
    let given = service.text("spec.clusterIP").to_owned();
    if !given.is_empty() && service.list("spec.clusterIPs").is_empty() {
        service.object_or_new("spec").insert("clusterIPs".to_owned(), json!([given]));
    }
}

/// Removes the fields that belonged to the old type, unless the client changed them: a patch of the type alone carries
/// them along.
pub(super) fn drop_fields_of_old_type(new: &mut Value, old: &Value) {
    fn is(service: &Value, types: &[&str]) -> bool {
        types.contains(&service.text("spec.type"))
    }
    let has_address = |service: &Value| !is(service, &["ExternalName"]);
    let has_node_ports = |service: &Value| is(service, &["NodePort", "LoadBalancer"]);
    let is_balanced = |service: &Value| is(service, &["LoadBalancer"]);
    let checks_health =
        |service: &Value| is_balanced(service) && service.text("spec.externalTrafficPolicy") == "Local";
    let is_reachable = |service: &Value| {
        has_node_ports(service)
            || (is(service, &["ClusterIP"]) && !service.list("spec.externalIPs").is_empty())
    };
    let no_longer = |needs: &dyn Fn(&Value) -> bool, new: &Value| needs(old) && !needs(new);
    let mut gone: Vec<&[&str]> = Vec::new();
    if no_longer(&has_address, new) {
        gone.extend([&["clusterIP", "clusterIPs"][..], &["ipFamilies"], &["ipFamilyPolicy"]]);
    }
    if no_longer(&checks_health, new) {
        gone.push(&["healthCheckNodePort"]);
    }
    if no_longer(&is_balanced, new) {
        gone.extend([&["allocateLoadBalancerNodePorts"][..], &["loadBalancerClass"]]);
    }
    if no_longer(&is_reachable, new) {
        gone.push(&["externalTrafficPolicy"]);
    }
    let ports_of = |service: &Value| -> Vec<i64> {
        service.list("spec.ports").iter().map(|port| port.number("nodePort")).collect()
    };
    let drops_node_ports =
        no_longer(&has_node_ports, new) && ports_of(new).iter().all(|port| ports_of(old).contains(port));
    if !is_balanced(new) {
        new.object_or_new("status").set("loadBalancer", Some(json!({})));
    }
    let spec = new.object_or_new("spec");
    for together in gone {
        if together.iter().all(|name| spec.get(*name) == old["spec"].get(*name)) {
            spec.retain(|name, _| !together.contains(&name.as_str()));
        }
    }
    if drops_node_ports {
        for port in new.list_mut("spec.ports") {
            port.make_object().remove("nodePort");
        }
    }
}

/// Removes the internal traffic policy of an ExternalName service. An unknown policy stays; validation rejects it.
pub(super) fn drop_internal_traffic_of_names(service: &mut Value) {
    let is_known = matches!(service.text("spec.internalTrafficPolicy"), "Cluster" | "Local");
    if is_known && service.text("spec.type") == "ExternalName" {
        service.object_or_new("spec").remove("internalTrafficPolicy");
    }
}

/// Keeps the addresses of a service for a client that does not send them.
pub(super) fn keep_service_addresses(new: &mut Value, old: &Value) {
    let needs_address = |service: &Value| service.text("spec.type") != "ExternalName";
    if !needs_address(new) {
        // Validation rejects an address that is requested all the same.
        if new.text("spec.clusterIP") != old.text("spec.clusterIP") {
            fill_cluster_ips(new);
        }
        return;
    }
    if !needs_address(old) {
        fill_cluster_ips(new);
    } else {
        let given = new.text("spec.clusterIP").to_owned();
        let several = new.list("spec.clusterIPs").to_vec();
        let old_one = old.text("spec.clusterIP");
        let spec = new.object_or_new("spec");
        if given.is_empty() && several.is_empty() {
            for kept in ["clusterIP", "clusterIPs"] {
                spec.set(kept, old.field("spec").field(kept).cloned());
            }
        } else if given.is_empty() && !several.is_empty() {
            spec.insert("clusterIP".to_owned(), several[0].clone());
        } else if given != old_one || several.is_empty() {
            // A client that knows only `clusterIP` changes only that; the list follows.
            let unchanged = old.field("spec.clusterIPs").and_then(Value::as_array) == Some(&several);
            if several.is_empty() || unchanged {
                spec.insert("clusterIPs".to_owned(), json!([given]));
            }
        }
        for kept in ["ipFamilies", "ipFamilyPolicy"] {
            if spec.get(kept).is_none_or(Value::is_null) {
                spec.set(kept, old.field("spec").field(kept).cloned());
            }
        }
    }
    keep_node_ports(new, old);
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let has_node_ports = |service: &Value| matches!(service.text("spec.type"), "NodePort" | "LoadBalancer");
    if !has_node_ports(new) || !has_node_ports(old) {
        return;
    }
    let same =
        |a: &Value, b: &Value| a.get("port") == b.get("port") && a.text("protocol") == b.text("protocol");
    let old_ports = old.list("spec.ports").to_vec();
    let taken: Vec<i64> =
        new.list("spec.ports").iter().filter_map(|port| port.number_if_set("nodePort")).collect();
    let ports = new.list_mut("spec.ports");
    for port in ports.filter(|port| port.number("nodePort") == 0) {
        let kept = old_ports.iter().find(|old| same(old, port)).and_then(|old| old.number_if_set("nodePort"));
        if let Some(kept) = kept.filter(|kept| !taken.contains(kept)) {
            port["nodePort"] = kept.into();
        }
    }
    let health = old.field("spec.healthCheckNodePort").cloned();
    let spec = new.object_or_new("spec");
    if spec.get("externalTrafficPolicy").and_then(Value::as_str) == Some("Local")
        && !spec.contains_key("healthCheckNodePort")
    {
        spec.set("healthCheckNodePort", health);
    }
}
