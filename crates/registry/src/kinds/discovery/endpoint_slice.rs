//! EndpointSlice.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        network::SHOWN_MAX,
        row, text,
        words::{UNSET, age_of, few, or},
    },
    validation::{
        ITSELF, Step, names,
        service::{PROTOCOLS, app_protocol},
        warnings::Warnings,
    },
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
        for port in object.objects_mut("ports") {
            port.set_default("name", "");
            port.set_default("protocol", "TCP");
        }
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        for endpoint in document.list_mut("endpoints") {
            endpoint.make_object().remove("deprecatedTopology");
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, slice: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        errors.one_of(&slice.at("addressType"), &["FQDN", "IPv4", "IPv6"]);
        slice_ports(slice, errors);
        // Stored endpoints are not validated again unless they change.
        if old.is_none_or(|old| old.at("endpoints").value != slice.at("endpoints").value) {
            slice_endpoints(slice, errors);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        errors.immutable(&new.at("addressType"), &old.at("addressType"));
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() && object.text("addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated");
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, slice: &Value, now: Timestamp) -> Vec<Value> {
        let ports = few(slice.list("ports").iter(), SHOWN_MAX, ",", |port| match port.field("port") {
            Some(number) => number.to_string(),
            None => port.field("name").and_then(Value::as_str).unwrap_or("*").to_owned(),
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

fn slice_ports(slice: &Node, errors: &mut FieldErrors) {
    let count = slice.length("ports");
    if count > SLICE_PORTS_MAX {
        errors.too_many(&slice.at("ports"), count, SLICE_PORTS_MAX);
        return;
    }
    let mut taken = BTreeSet::new();
    for port in slice.items("ports") {
        let name = port.at("name");
        errors.valid_if_set(&name, names::label);
        if !taken.insert(name.as_text()) {
            errors.duplicate(&name, name.as_text());
        }
        errors.one_of_if_set(&port.at("protocol"), &PROTOCOLS);
        app_protocol(&port, errors);
    }
}

fn slice_endpoints(slice: &Node, errors: &mut FieldErrors) {
    let count = slice.length("endpoints");
    if count > SLICE_ENDPOINTS_MAX {
        errors.too_many(&slice.at("endpoints"), count, SLICE_ENDPOINTS_MAX);
        return;
    }
    for endpoint in slice.items("endpoints") {
        match endpoint.length("addresses") {
            0 => errors.required(&endpoint.at("addresses"), "must contain at least 1 address"),
            count if count > SLICE_ADDRESSES_MAX => {
                errors.too_many(&endpoint.at("addresses"), count, SLICE_ADDRESSES_MAX);
            }
            _ => {}
        }
        for address in endpoint.items("addresses") {
            slice_address(&endpoint, &address, slice.text("addressType"), errors);
        }
        if endpoint.has("nodeName") {
            let node = endpoint.at("nodeName");
            errors.invalid_each(&node, names::subdomain(node.as_text()));
        }
        if endpoint.has("hostname") {
            let host = endpoint.at("hostname");
            errors.invalid_each(&host, names::label(host.as_text()));
        }
        slice_hints(&endpoint.at("hints"), errors);
    }
}

/// Validates the hints of an endpoint: its zones and nodes.
fn slice_hints(hints: &Node, errors: &mut FieldErrors) {
    for list in ["forZones", "forNodes"] {
        let count = hints.length(list);
        if count > SLICE_HINTS_MAX {
            errors.too_many(&hints.at(list), count, SLICE_HINTS_MAX);
            return;
        }
        let mut taken = BTreeSet::new();
        for hint in hints.items(list) {
            let name = hint.at("name");
            if !taken.insert(name.as_text()) {
                errors.duplicate(&name, name.as_text());
            }
            let wrong = match list {
                "forZones" => names::label_value(name.as_text()),
                _ => names::subdomain(name.as_text()),
            };
            errors.invalid_each(&name, wrong);
        }
    }
}

fn slice_address(endpoint: &Node, address: &Node, kind: &str, errors: &mut FieldErrors) {
    let text = address.as_text();
    match kind {
        "IPv4" | "IPv6" => {
            let wrong = names::ip(text);
            if !wrong.is_empty() {
                errors.invalid_each(address, wrong);
                return;
            }
            if text.contains(':') != (kind == "IPv6") {
                errors.invalid(&endpoint.at("addresses"), text, &format!("must be an {kind} address"));
            }
            errors.invalid_each(address, names::ordinary_ip(text));
        }
        "FQDN" => {
            let text = text.strip_suffix('.').unwrap_or(text);
            let wrong = names::subdomain(text);
            if text.is_empty() {
                errors.required(address, "");
            } else if !wrong.is_empty() {
                errors.invalid(address, text, &wrong.join(","));
            } else if !text.contains('.') {
                let detail = "should be a domain with at least two segments separated by dots";
                errors.invalid(address, text, detail);
            }
        }
        _ => {}
    }
}
