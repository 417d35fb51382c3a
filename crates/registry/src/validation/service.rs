//! Services and the endpoints behind them.

use super::{
    document::{Faults, Node},
    names,
};

pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) fn is_of_type(service: &Node, kind: &str) -> bool {
    service.at("spec").text_of("type") == kind
}

pub(crate) fn app_protocol(port: &Node, faults: &mut Faults) {
    if port.has("appProtocol") {
        let protocol = port.at("appProtocol");
        faults.texts(&protocol, names::qualified(protocol.text()));
    }
}

/// What balancers of load tell about a Service or an Ingress.
pub(crate) fn balancer_status(new: &Node, faults: &mut Faults) {
    let status = new.at("status.loadBalancer");
    for ingress in status.items("ingress") {
        faults.if_given(&ingress.at("ip"), names::ip);
        let mode = ingress.at("ipMode");
        if mode.exists() && ingress.text_of("ip").is_empty() {
            faults.forbidden(&mode, "may not be specified when `ip` is not set");
        } else {
            faults.if_given_one_of(&mode, &["Proxy", "VIP"]);
        }
        let host = ingress.at("hostname");
        faults.if_given(&host, names::subdomain);
        if names::parse_ip(host.text()).is_some() {
            faults.invalid(&host, host.text(), "must be a DNS name, not an IP address");
        }
    }
}
