//! The IP addresses and node ports that a service needs, and the ranges that they are allocated from.
//!
//! Within one service, a node port serves each protocol at most once, and the one for health checks serves nothing
//! else.

use super::claims::Claim;
use crate::{
    document::{Edit, Fields},
    error::Error,
};
use keepwatch_apimachinery::{meta::Qualified, status::Cause};
use serde_json::{Value, json};
use std::{net::Ipv4Addr, ops::RangeInclusive};

/// The ranges of IP addresses and node ports.
pub(crate) struct Addresses {
    network: u32,
    /// The number of addresses, with the first and the last, which are never allocated.
    count: u32,
    node_ports: RangeInclusive<u16>,
}

/// The node port in the answer to a dry run, for a service that is not stored.
const DRY_RUN_NODE_PORT: u16 = 32769;

/// The number of random addresses or ports that are tried before all are, in order.
const RANDOM_TRIES: usize = 16;

impl Addresses {
    pub(crate) fn new((first, bits): (Ipv4Addr, u8), node_ports: RangeInclusive<u16>) -> Addresses {
        let count = 1_u32.checked_shl(32 - u32::from(bits.clamp(1, 32))).unwrap_or(1);
        let network = u32::from(first) & !(count - 1);
        Addresses { network, count, node_ports }
    }

    /// The address of the server's own service.
    pub(crate) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// The range, in the form of `ServiceCIDR` objects.
    pub(crate) fn range(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.network), self.count.leading_zeros() + 1)
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.network);
        offset >= 1 && offset < self.count.saturating_sub(1)
    }

    /// Some addresses in random order from the upper part of the range, as users choose theirs from the lower part.
    pub(super) fn some_addresses(&self) -> impl Iterator<Item = Claim> + Send + '_ {
        let usable = self.count.saturating_sub(2);
        // Kubernetes reserves the same share for static allocation.
        let band = (self.count / 16).clamp(16, 256).min(usable / 2);
        let tries = if usable > band { RANDOM_TRIES } else { 0 };
        let random = move |_| self.network + 1 + band + rand::random_range(0..usable - band);
        (0..tries).map(random).map(|address| Claim::Address(address.into()))
    }

    pub(super) fn all_addresses(&self) -> impl Iterator<Item = Claim> + Clone + Send + '_ {
        let usable = self.count.saturating_sub(2);
        (1..=usable).rev().map(|offset| Claim::Address(Ipv4Addr::from(self.network + offset)))
    }

    pub(super) fn some_ports(&self) -> impl Iterator<Item = Claim> + Send + '_ {
        let tries = if self.node_ports.is_empty() { 0 } else { RANDOM_TRIES };
        (0..tries).map(|_| Claim::Port(rand::random_range(self.node_ports.clone())))
    }

    pub(super) fn all_ports(&self) -> impl Iterator<Item = Claim> + Clone + Send + '_ {
        self.node_ports.clone().map(Claim::Port)
    }

    /// Sets the values that a service would get, and allocates nothing. Only values outside the ranges are rejected.
    pub(super) fn reserve_dry_run(&self, document: &mut Value, old: &Value) -> Result<(), Error> {
        let needed = needs(document);
        complete_families(document)?;
        let given = document.text("spec.clusterIP").to_owned();
        if needed.address && given.is_empty() {
            set_address(document, &Ipv4Addr::from(self.network).to_string());
        } else if needed.address && given != "None" {
            self.usable(document, &given, &addresses_of(old))?;
            set_address(document, &given);
        }
        let mut given = GivenPorts::after(old);
        for need in ports_to_find(document, &needed) {
            let source =
                self.source(&need, &given).map_err(|error| self.port_refused(document, &need, error))?;
            let port = match source {
                Source::Own(port) | Source::Wanted(port) => port,
                Source::Any => (DRY_RUN_NODE_PORT..).find(|port| !given.has(*port)).unwrap_or(u16::MAX),
            };
            need.fill_in(document, port);
            given.ports.push((port, need));
        }
        Ok(())
    }

    /// The address that a service requests, if it is in the range or one that the service had.
    pub(super) fn usable(&self, document: &Value, given: &str, had: &[Ipv4Addr]) -> Result<Ipv4Addr, Error> {
        let address: Ipv4Addr =
            given.parse().map_err(|_| address_refused(document, given, "not a valid IPv4 address"))?;
        if had.contains(&address) || self.contains(address) {
            return Ok(address);
        }
        Err(address_refused(document, given, "the provided network does not match the current range"))
    }

    /// The source of a port, given the ports that the service has already.
    pub(super) fn source(&self, need: &PortNeed, given: &GivenPorts) -> Result<Source, PortError> {
        if need.wanted == 0 {
            return Ok(given.for_other_protocol(need).map_or(Source::Any, Source::Own));
        }
        let port = u16::try_from(need.wanted).map_err(|_| PortError::OutOfRange)?;
        let had = given.had.contains(&port);
        if !had && !self.node_ports.contains(&port) {
            return Err(PortError::OutOfRange);
        }
        if !given.may_share(port, need) {
            return Err(PortError::Taken);
        }
        Ok(if had || given.has(port) { Source::Own(port) } else { Source::Wanted(port) })
    }

    pub(super) fn port_refused(&self, document: &Value, need: &PortNeed, error: PortError) -> Error {
        let range = &self.node_ports;
        let detail = match error {
            PortError::OutOfRange => format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            ),
            PortError::Taken => "provided port is already allocated".to_owned(),
        };
        invalid(document, Cause::invalid(need.field(), &need.wanted.into(), &detail))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortError {
    OutOfRange,
    Taken,
}

/// The source of a node port.
pub(super) enum Source {
    /// The service has it.
    Own(u16),
    /// It must be this one, which the service does not have.
    Wanted(u16),
    Any,
}

/// A port that a service must get.
pub(super) struct PortNeed {
    /// The service's port that it is for; none if it is for health checks.
    entry: Option<Entry>,
    /// The requested port; zero if any will do.
    pub(super) wanted: i64,
}

/// One of the ports of a service.
struct Entry {
    index: usize,
    port: i64,
    protocol: String,
}

/// The node ports that a service has been allocated so far, each with its purpose.
pub(super) struct GivenPorts {
    /// The node ports of the version that is replaced.
    had: Vec<u16>,
    pub(super) ports: Vec<(u16, PortNeed)>,
    is_new: bool,
}

impl GivenPorts {
    pub(super) fn after(old: &Value) -> GivenPorts {
        GivenPorts { had: node_ports(old), ports: Vec::new(), is_new: old.is_null() }
    }

    fn has(&self, port: u16) -> bool {
        self.ports.iter().any(|(given, _)| *given == port)
    }

    /// Whether this port can be shared with those it was allocated for already: one port may serve several protocols.
    fn may_share(&self, port: u16, need: &PortNeed) -> bool {
        self.ports.iter().filter(|(given, _)| *given == port).all(|(_, other)| {
            let (Some(entry), Some(other)) = (&need.entry, &other.entry) else { return false };
            // As in Kubernetes, a new service may not share it between different ports.
            entry.protocol != other.protocol && (!self.is_new || entry.port == other.port)
        })
    }

    /// The node port that the same port of a new service has for another protocol.
    fn for_other_protocol(&self, need: &PortNeed) -> Option<u16> {
        let entry = need.entry.as_ref().filter(|_| self.is_new)?;
        let is_same = |other: &PortNeed| other.entry.as_ref().is_some_and(|other| other.port == entry.port);
        let mut same = self.ports.iter().filter(|(_, other)| is_same(other)).map(|(port, _)| *port);
        same.find(|port| self.may_share(*port, need))
    }
}

impl PortNeed {
    fn field(&self) -> String {
        match self.entry {
            Some(Entry { index, .. }) => format!("spec.ports[{index}].nodePort"),
            None => "spec.healthCheckNodePort".to_owned(),
        }
    }

    pub(super) fn fill_in(&self, service: &mut Value, port: u16) {
        match self.entry {
            Some(Entry { index, .. }) => service["spec"]["ports"][index]["nodePort"] = port.into(),
            None => service["spec"]["healthCheckNodePort"] = port.into(),
        }
    }
}

/// The addresses and node ports that a service needs.
pub(super) struct Needs {
    pub(super) address: bool,
    /// Whether it may have node ports.
    ports: bool,
    /// Whether every port gets a node port, requested or not.
    all_ports: bool,
    health: bool,
}

pub(super) fn needs(service: &Value) -> Needs {
    let kind = service.text("spec.type");
    let balanced = kind == "LoadBalancer";
    let allocates = service.field("spec.allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    Needs {
        address: kind != "ExternalName",
        ports: kind == "NodePort" || balanced,
        all_ports: kind == "NodePort" || (balanced && allocates),
        health: balanced && service.text("spec.externalTrafficPolicy") == "Local",
    }
}

pub(super) fn set_address(service: &mut Value, address: &str) {
    let spec = service.object_or_new("spec");
    spec.insert("clusterIP".to_owned(), address.into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
}

/// Sets the IP families of a service. Only IPv4 addresses are allocated, so no other family can be requested.
pub(super) fn complete_families(service: &mut Value) -> Result<(), Error> {
    if !needs(service).address {
        let spec = service.object_or_new("spec");
        for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(gone);
        }
        return Ok(());
    }
    let headless = service.text("spec.clusterIP") == "None";
    let anywhere = headless && service.field("spec.selector").is_none();
    let spec = service.object_or_new("spec");
    if headless {
        spec.insert("clusterIPs".to_owned(), json!(["None"]));
    }
    let (policy, families) = if anywhere {
        ("RequireDualStack", json!(["IPv4", "IPv6"]))
    } else {
        ("SingleStack", json!(["IPv4"]))
    };
    if spec.get("ipFamilyPolicy").is_none_or(Value::is_null) {
        spec.insert("ipFamilyPolicy".to_owned(), policy.into());
    }
    if spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("ipFamilies".to_owned(), families);
    }
    if anywhere { Ok(()) } else { refuse_other_families(service) }
}

fn refuse_other_families(service: &Value) -> Result<(), Error> {
    let mut causes = Vec::new();
    if service.text("spec.ipFamilyPolicy") == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        causes.push(Cause::invalid("spec.ipFamilyPolicy", &"RequireDualStack".into(), why));
    }
    for (at, family) in service.list("spec.ipFamilies").iter().enumerate() {
        if family != "IPv4" {
            let path = format!("spec.ipFamilies[{at}]");
            causes.push(Cause::invalid(&path, family, "not configured on this cluster"));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(Qualified::core("Service"), service.name(), causes))
}

/// The ports that a service needs, the requested ones first, so that none of them is allocated to another. Those that
/// it may not have are removed from it.
pub(super) fn ports_to_find(service: &mut Value, needed: &Needs) -> Vec<PortNeed> {
    let mut needs = Vec::new();
    for (index, port) in service.list_mut("spec.ports").enumerate() {
        let wanted = port.number("nodePort");
        if needed.all_ports || (needed.ports && wanted != 0) {
            let number = port.number("port");
            let entry = Entry { index, port: number, protocol: port.text("protocol").to_owned() };
            needs.push(PortNeed { entry: Some(entry), wanted });
        } else {
            port.make_object().remove("nodePort");
        }
    }
    if needed.health {
        let wanted = service.number("spec.healthCheckNodePort");
        needs.push(PortNeed { entry: None, wanted });
    } else {
        service.object_or_new("spec").remove("healthCheckNodePort");
    }
    needs.sort_by_key(|need| need.wanted == 0);
    needs
}

pub(super) fn node_ports(service: &Value) -> Vec<u16> {
    let own = service.list("spec.ports").iter().filter_map(|port| port.number_if_set("nodePort"));
    let all = own.chain(service.number_if_set("spec.healthCheckNodePort"));
    all.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port > 0).collect()
}

pub(super) fn addresses_of(service: &Value) -> Vec<Ipv4Addr> {
    service
        .list("spec.clusterIPs")
        .iter()
        .filter_map(Value::as_str)
        .filter_map(|ip| ip.parse().ok())
        .collect()
}

pub(super) fn address_refused(document: &Value, given: &str, why: &str) -> Error {
    let value = document.field("spec.clusterIPs").cloned().unwrap_or_else(|| json!([given]));
    let detail = format!("failed to allocate IP {given}: {why}");
    invalid(document, Cause::invalid("spec.clusterIPs", &value, &detail))
}

fn invalid(document: &Value, cause: Cause) -> Error {
    Error::invalid(Qualified::core("Service"), document.name(), vec![cause])
}
