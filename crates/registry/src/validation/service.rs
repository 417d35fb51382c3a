//! Services and the endpoints behind them.

use super::names;
use crate::document::{FieldErrors, Fields, Node};

pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) fn is_of_type(service: &Node, kind: &str) -> bool {
    service.at("spec").text("type") == kind
}

pub(crate) fn app_protocol(port: &Node, errors: &mut FieldErrors) {
    if port.has("appProtocol") {
        let protocol = port.at("appProtocol");
        errors.invalid_each(&protocol, names::qualified(protocol.as_text()));
    }
}

/// The load balancer status of a Service or an Ingress.
pub(crate) fn balancer_status(new: &Node, errors: &mut FieldErrors) {
    let status = new.at("status.loadBalancer");
    for ingress in status.items("ingress") {
        errors.valid_if_set(&ingress.at("ip"), names::ip);
        let mode = ingress.at("ipMode");
        if mode.exists() && ingress.text("ip").is_empty() {
            errors.forbidden(&mode, "may not be specified when `ip` is not set");
        } else {
            errors.one_of_if_set(&mode, &["Proxy", "VIP"]);
        }
        let host = ingress.at("hostname");
        errors.valid_if_set(&host, names::subdomain);
        if names::parse_ip(host.as_text()).is_some() {
            errors.invalid(&host, host.as_text(), "must be a DNS name, not an IP address");
        }
    }
}
