//! Endpoints.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::Kind,
    kinds::core::service::validation::port_number,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        network::SHOWN_MAX,
        row, text,
        words::{NONE, age_of, few},
    },
    validation::{
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
        for subset in object.objects_mut("subsets") {
            for port in subset.objects_mut("ports") {
                port.set_if_zero("protocol", "TCP");
            }
        }
    }

    /// Endpoints.
    fn validate(&self, object: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        for subset in object.items("subsets") {
            if subset.length("addresses") + subset.length("notReadyAddresses") == 0 {
                errors.required(&subset, "must specify `addresses` or `notReadyAddresses`");
            }
            for address in subset.items("addresses").chain(subset.items("notReadyAddresses")) {
                endpoint_address(&address, errors);
            }
            for port in subset.items("ports") {
                let name = port.at("name");
                if subset.length("ports") > 1 {
                    errors.not_empty(&name);
                }
                errors.valid_if_set(&name, names::label);
                port_number(&port, errors);
                errors.one_of(&port.at("protocol"), &PROTOCOLS);
                app_protocol(&port, errors);
            }
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, endpoints: &Value, now: Timestamp) -> Vec<Value> {
        row![endpoints.name(), addresses(endpoints), age_of(endpoints, now)]
    }
}

fn endpoint_address(address: &Node, errors: &mut FieldErrors) {
    let ip = address.at("ip");
    let wrong = names::ip(ip.as_text());
    errors.invalid_each(&ip, wrong);
    errors.valid_if_set(&address.at("hostname"), names::label);
    if address.has("nodeName") {
        let node = address.at("nodeName");
        errors.invalid_each(&node, names::subdomain(node.as_text()));
    }
    if names::parse_ip(ip.as_text()).is_none() {
        errors.invalid(&ip, ip.as_text(), "must be a valid IP address");
    } else {
        errors.invalid_each(&ip, names::ordinary_ip(ip.as_text()));
    }
}

pub(crate) fn addresses(endpoints: &Value) -> String {
    let subsets = endpoints.list("subsets");
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    // A service without ports has addresses too.
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
