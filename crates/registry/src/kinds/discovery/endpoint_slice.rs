//! EndpointSlice.

use crate::{
    defaults::fields::{Object, children, set_default},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        network::SHOWN_MAX,
        read::Read,
        row, text,
        words::{UNSET, age_of, few, or},
    },
    validation::{
        ITSELF, Step,
        document::{Faults, Node},
        names,
        service::{PROTOCOLS, app_protocol},
        warnings::Warnings,
    },
    value::{fields, list_mut},
};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("discovery.k8s.io", "discovery.v1.EndpointSlice", "endpointslices")
        .generation(Generation::ContentOrLabels)
        .strategy(EndpointSliceStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("AddressType", "What kind of addresses it has"),
    text("Ports", "The ports of every endpoint"),
    text("Endpoints", "The addresses of the endpoints"),
    AGE,
];

struct EndpointSliceStrategy;

impl Strategy for EndpointSliceStrategy {
    fn set_defaults(&self, object: &mut Object) {
        for port in children(object, "ports") {
            set_default(port, "name", "");
            set_default(port, "protocol", "TCP");
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        for endpoint in list_mut(document, "/endpoints") {
            fields(endpoint, &[]).remove("deprecatedTopology");
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, slice: &Node, old: Option<&Node>, faults: &mut Faults) {
        faults.one_of(&slice.at("addressType"), &["FQDN", "IPv4", "IPv6"]);
        slice_ports(slice, faults);
        // Endpoints that were stored are not looked at again unless they change.
        if old.is_none_or(|old| old.at("endpoints").value != slice.at("endpoints").value) {
            slice_endpoints(slice, faults);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        faults.unchanged(&new.at("addressType"), &old.at("addressType"));
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() && object.text_of("addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated");
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, slice: &Value, now: Timestamp) -> Vec<Value> {
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
}

const SLICE_ENDPOINTS_MAX: usize = 1000;

const SLICE_ADDRESSES_MAX: usize = 100;

const SLICE_PORTS_MAX: usize = 20000;

const SLICE_HINTS_MAX: usize = 8;

fn slice_ports(slice: &Node, faults: &mut Faults) {
    let count = slice.len_of("ports");
    if count > SLICE_PORTS_MAX {
        faults.too_many(&slice.at("ports"), count, SLICE_PORTS_MAX);
        return;
    }
    let mut taken = BTreeSet::new();
    for port in slice.items("ports") {
        let name = port.at("name");
        faults.if_given(&name, names::label);
        if !taken.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
        faults.if_given_one_of(&port.at("protocol"), &PROTOCOLS);
        app_protocol(&port, faults);
    }
}

fn slice_endpoints(slice: &Node, faults: &mut Faults) {
    let count = slice.len_of("endpoints");
    if count > SLICE_ENDPOINTS_MAX {
        faults.too_many(&slice.at("endpoints"), count, SLICE_ENDPOINTS_MAX);
        return;
    }
    for endpoint in slice.items("endpoints") {
        match endpoint.len_of("addresses") {
            0 => faults.required(&endpoint.at("addresses"), "must contain at least 1 address"),
            count if count > SLICE_ADDRESSES_MAX => {
                faults.too_many(&endpoint.at("addresses"), count, SLICE_ADDRESSES_MAX);
            }
            _ => {}
        }
        for address in endpoint.items("addresses") {
            slice_address(&endpoint, &address, slice.text_of("addressType"), faults);
        }
        if endpoint.has("nodeName") {
            let node = endpoint.at("nodeName");
            faults.texts(&node, names::subdomain(node.text()));
        }
        if endpoint.has("hostname") {
            let host = endpoint.at("hostname");
            faults.texts(&host, names::label(host.text()));
        }
        slice_hints(&endpoint.at("hints"), faults);
    }
}

/// For which zones and nodes an endpoint is meant.
fn slice_hints(hints: &Node, faults: &mut Faults) {
    for list in ["forZones", "forNodes"] {
        let count = hints.len_of(list);
        if count > SLICE_HINTS_MAX {
            faults.too_many(&hints.at(list), count, SLICE_HINTS_MAX);
            return;
        }
        let mut taken = BTreeSet::new();
        for hint in hints.items(list) {
            let name = hint.at("name");
            if !taken.insert(name.text()) {
                faults.duplicate(&name, name.text());
            }
            let wrong = match list {
                "forZones" => names::label_value(name.text()),
                _ => names::subdomain(name.text()),
            };
            faults.texts(&name, wrong);
        }
    }
}

fn slice_address(endpoint: &Node, address: &Node, kind: &str, faults: &mut Faults) {
    let text = address.text();
    match kind {
        "IPv4" | "IPv6" => {
            let wrong = names::ip(text);
            if !wrong.is_empty() {
                faults.texts(address, wrong);
                return;
            }
            if text.contains(':') != (kind == "IPv6") {
                faults.invalid(&endpoint.at("addresses"), text, &format!("must be an {kind} address"));
            }
            faults.texts(address, names::ordinary_ip(text));
        }
        "FQDN" => {
            let text = text.strip_suffix('.').unwrap_or(text);
            let wrong = names::subdomain(text);
            if text.is_empty() {
                faults.required(address, "");
            } else if !wrong.is_empty() {
                faults.invalid(address, text, &wrong.join(","));
            } else if !text.contains('.') {
                let detail = "should be a domain with at least two segments separated by dots";
                faults.invalid(address, text, detail);
            }
        }
        _ => {}
    }
}
