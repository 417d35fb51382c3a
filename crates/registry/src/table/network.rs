//! The rows of services and of what leads to them.

use super::{
    AGE, Form, NAME, SELECTOR,
    read::Read,
    row, text,
    words::{NONE, UNSET, age_of, few, joined, labels, or, selector_or_none},
};
use crate::schema::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMS: &[Form] = &[
    Form {
        ty: "core.v1.Service",
        columns: &[
            NAME,
            text("Type", "How it is reached"),
            text("Cluster-IP", "Its address inside the cluster"),
            text("External-IP", "Its addresses outside the cluster"),
            text("Port(s)", "Its ports, and those of the nodes that lead to them"),
            AGE,
            SELECTOR,
        ],
        cells: service,
    },
    Form {
        ty: "core.v1.Endpoints",
        columns: &[NAME, text("Endpoints", "The addresses behind the service"), AGE],
        cells: |endpoints, now| row![endpoints.name(), addresses(endpoints), age_of(endpoints, now)],
    },
    Form {
        ty: "discovery.v1.EndpointSlice",
        columns: &[
            NAME,
            text("AddressType", "What kind of addresses it has"),
            text("Ports", "The ports of every endpoint"),
            text("Endpoints", "The addresses of the endpoints"),
            AGE,
        ],
        cells: endpoint_slice,
    },
    Form {
        ty: "networking.v1.Ingress",
        columns: &[
            NAME,
            text("Class", "The class that says who implements it"),
            text("Hosts", "The hosts that it has rules for"),
            text("Address", "Where it is reached"),
            text("Ports", "The ports where it is reached"),
            AGE,
        ],
        cells: ingress,
    },
    Form {
        ty: "networking.v1.IngressClass",
        columns: &[
            NAME,
            text("Controller", "Who implements its ingresses"),
            text("Parameters", "The object with further settings"),
            AGE,
        ],
        cells: ingress_class,
    },
    Form {
        ty: "networking.v1.NetworkPolicy",
        columns: &[NAME, text("Pod-Selector", "The labels of the pods that it is for"), AGE],
        cells: |policy, now| {
            row![policy.name(), selector_or_none(policy, "spec.podSelector"), age_of(policy, now)]
        },
    },
    Form {
        ty: "networking.v1.IPAddress",
        columns: &[NAME, text("ParentRef", "The object that has the address")],
        cells: |address, _| row![address.name(), parent(address)],
    },
    Form {
        ty: "networking.v1.ServiceCIDR",
        columns: &[NAME, text("CIDRs", "The ranges that services get addresses from"), AGE],
        cells: |cidr, now| row![cidr.name(), joined(cidr.texts("spec.cidrs"), ","), age_of(cidr, now)],
    },
];

/// How many hosts, ports or addresses a cell shows.
const SHOWN_MAX: usize = 3;

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let address = service.texts("spec.clusterIPs").next().unwrap_or(service.text("spec.clusterIP"));
    row![
        service.name(),
        service.text("spec.type"),
        or(address, NONE),
        external_address(service),
        service_ports(service),
        age_of(service, now),
        labels(service.map("spec.selector")),
    ]
}

fn external_address(service: &Value) -> String {
    let fixed = joined(service.texts("spec.externalIPs"), ",");
    match service.text("spec.type") {
        "ClusterIP" | "NodePort" => or(&fixed, NONE).to_owned(),
        "LoadBalancer" => {
            let given = load_balancer(service);
            let both = joined([given.as_str(), &fixed].into_iter().filter(|some| !some.is_empty()), ",");
            or(&both, "<pending>").to_owned()
        }
        "ExternalName" => service.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses that a load balancer has for a service or an ingress, each once and in order.
fn load_balancer(document: &Value) -> String {
    let ingress = document.list("status.loadBalancer.ingress").iter();
    let addresses: BTreeSet<&str> = ingress.map(|at| or(at.text("ip"), at.text("hostname"))).collect();
    joined(addresses.into_iter().filter(|address| !address.is_empty()), ",")
}

fn service_ports(service: &Value) -> String {
    let ports = service.list("spec.ports").iter().map(|port| {
        let (number, protocol) = (port.number("port"), port.text("protocol"));
        match port.number("nodePort") {
            on_nodes @ 1.. => format!("{number}:{on_nodes}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), NONE).to_owned()
}

fn addresses(endpoints: &Value) -> String {
    let subsets = endpoints.list("subsets");
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    // A service without ports has addresses all the same.
    let all = subsets.iter().flat_map(|subset| {
        let ports = subset.list("ports").iter().map(|port| Some(port.number("port")));
        let no_port = subset.list("ports").is_empty().then_some(None);
        let ports = ports.chain(no_port);
        ports.flat_map(|port| subset.list("addresses").iter().map(move |address| (address.text("ip"), port)))
    });
    few(all, SHOWN_MAX, ",", |(ip, port)| match port {
        None => ip.to_owned(),
        Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
        Some(port) => format!("{ip}:{port}"),
    })
}

fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports = few(slice.list("ports").iter(), SHOWN_MAX, ",", |port| match port.set("port") {
        Some(number) => number.to_string(),
        None => port.set("name").and_then(Value::as_str).unwrap_or("*").to_owned(),
    });
    let addresses = slice.list("endpoints").iter().flat_map(|endpoint| endpoint.texts("addresses"));
    row![
        slice.name(),
        slice.text("addressType"),
        or(&ports, UNSET),
        or(&few(addresses, SHOWN_MAX, ",", str::to_owned), UNSET),
        age_of(slice, now),
    ]
}

fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    row![
        ingress.name(),
        ingress.set("spec.ingressClassName").and_then(Value::as_str).unwrap_or(NONE),
        hosts(ingress),
        load_balancer(ingress),
        if ingress.list("spec.tls").is_empty() { "80" } else { "80, 443" },
        age_of(ingress, now),
    ]
}

/// The first hosts. What is said to be more are rules: those without a host count too.
fn hosts(ingress: &Value) -> String {
    let rules = ingress.list("spec.rules");
    let mut rest = rules.iter();
    let hosts = rest.by_ref().map(|rule| rule.text("host")).filter(|host| !host.is_empty());
    let hosts = joined(hosts.take(SHOWN_MAX), ",");
    match rest.len() {
        0 => or(&hosts, "*").to_owned(),
        _ => format!("{hosts} + {} more...", rules.len() - SHOWN_MAX),
    }
}

fn ingress_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = class.set("spec.parameters").map_or_else(
        || NONE.to_owned(),
        |reference| {
            let group = reference.set("apiGroup").and_then(Value::as_str);
            let group = group.map_or_else(String::new, |group| format!(".{group}"));
            format!("{}{group}/{}", reference.text("kind"), reference.text("name"))
        },
    );
    row![class.name(), class.text("spec.controller"), parameters, age_of(class, now)]
}

/// The owner of an address: `services/default/kubernetes`.
fn parent(address: &Value) -> String {
    let Some(parent) = address.set("spec.parentRef") else { return NONE.to_owned() };
    let mut resource = parent.text("resource").to_lowercase();
    if !parent.text("group").is_empty() {
        resource = format!("{resource}.{}", parent.text("group").to_lowercase());
    }
    let place = [resource.as_str(), parent.text("namespace")].into_iter().filter(|part| !part.is_empty());
    joined(place.chain([parent.text("name")]), "/")
}
