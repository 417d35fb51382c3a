//! Cells of services, endpoints and ingresses.

use super::words::{joined, or};
use crate::document::Fields;
use serde_json::Value;
use std::collections::BTreeSet;

/// The number of hosts, ports or addresses that a cell shows.
pub(crate) const SHOWN_MAX: usize = 3;

/// The addresses that a load balancer has for a service or an ingress, each once and in order.
pub(crate) fn load_balancer(document: &Value) -> String {
    let ingress = document.list("status.loadBalancer.ingress").iter();
    let addresses: BTreeSet<&str> = ingress.map(|at| or(at.text("ip"), at.text("hostname"))).collect();
    joined(addresses.into_iter().filter(|address| !address.is_empty()), ",")
}
