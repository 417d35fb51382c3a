//! Endpoints.

use crate::{
    defaults::fields::{Object, children, set_if_zero},
    kind::Kind,
    kinds::core::service::port_number,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        network::SHOWN_MAX,
        read::Read,
        row, text,
        words::{NONE, age_of, few},
    },
    validation::{
        document::{Faults, Node},
        names,
        service::{PROTOCOLS, app_protocol},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Endpoints", "endpoints")
        .short_names(&["ep"])
        .stored_at("services/endpoints")
        .creates_on_update()
        .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        .strategy(EndpointsStrategy)
}

const COLUMNS: &[Column] = &[NAME, text("Endpoints", "The addresses behind the service"), AGE];

struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    /// Endpoints.
    fn set_defaults(&self, object: &mut Object) {
        for subset in children(object, "subsets") {
            for port in children(subset, "ports") {
                set_if_zero(port, "protocol", "TCP");
            }
        }
    }

    /// Endpoints.
    fn validate(&self, object: &Node, _: Option<&Node>, faults: &mut Faults) {
        for subset in object.items("subsets") {
            if subset.len_of("addresses") + subset.len_of("notReadyAddresses") == 0 {
                faults.required(&subset, "must specify `addresses` or `notReadyAddresses`");
            }
            for address in subset.items("addresses").chain(subset.items("notReadyAddresses")) {
                endpoint_address(&address, faults);
            }
            for port in subset.items("ports") {
                let name = port.at("name");
                if subset.len_of("ports") > 1 {
                    faults.given(&name);
                }
                faults.if_given(&name, names::label);
                port_number(&port, faults);
                faults.one_of(&port.at("protocol"), &PROTOCOLS);
                app_protocol(&port, faults);
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, endpoints: &Value, now: Timestamp) -> Vec<Value> {
        row![endpoints.name(), addresses(endpoints), age_of(endpoints, now)]
    }
}

fn endpoint_address(address: &Node, faults: &mut Faults) {
    let ip = address.at("ip");
    let wrong = names::ip(ip.text());
    faults.texts(&ip, wrong);
    faults.if_given(&address.at("hostname"), names::label);
    if address.has("nodeName") {
        let node = address.at("nodeName");
        faults.texts(&node, names::subdomain(node.text()));
    }
    if names::parse_ip(ip.text()).is_none() {
        faults.invalid(&ip, ip.text(), "must be a valid IP address");
    } else {
        faults.texts(&ip, names::ordinary_ip(ip.text()));
    }
}

pub(crate) fn addresses(endpoints: &Value) -> String {
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
