//! Which addresses and ports services have.
//!
//! Kept true: an address that a service has is an `IPAddress` object too, made before the service is stored and removed
//! after it is gone; since a name can be taken only once, two servers on one store never give out the same. Ports have
//! no object; what is in use is known from the services themselves.

use crate::{
    admission::known,
    kinds::Resource,
    rest::{Registry, Target, document_of, encode},
    schema::Timestamp,
    strategy,
    value::{at, fields, integer, list, name, set, text},
};
use keepwatch_apimachinery::{
    list_options::ListAt,
    meta::Qualified,
    status::{Cause, Status},
};
use keepwatch_storage::{ListRequest, Object, StorageError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::HashSet, net::Ipv4Addr, ops::RangeInclusive};

/// Where addresses and ports come from.
pub(crate) struct Addresses {
    network: u32,
    /// How many addresses there are, the first and the last (which nobody gets) included.
    count: u32,
    node_ports: RangeInclusive<u16>,
    ports_given: Mutex<HashSet<u16>>,
}

/// What was taken for a service that is not stored yet, and what it no longer needs once it is.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    taken: Vec<Ipv4Addr>,
    ports_taken: Vec<u16>,
    left: Vec<Ipv4Addr>,
    ports_left: Vec<u16>,
}

/// The port that a service is shown that is not stored.
const PRETENDED_NODE_PORT: u16 = 32769;
/// How often a random address or port is tried before all are.
const RANDOM_TRIES: usize = 16;

impl Addresses {
    pub(crate) fn new((first, bits): (Ipv4Addr, u8), node_ports: RangeInclusive<u16>) -> Addresses {
        let count = 1_u32.checked_shl(32 - u32::from(bits.clamp(1, 32))).unwrap_or(1);
        let network = u32::from(first) & !(count - 1);
        Addresses { network, count, node_ports, ports_given: Mutex::default() }
    }

    /// The address of the service that stands for the server itself.
    pub(crate) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// The range, as `ServiceCIDR` objects say it.
    pub(crate) fn range(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.network), self.count.leading_zeros() + 1)
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.network);
        offset >= 1 && offset < self.count.saturating_sub(1)
    }

    /// Candidates in random order: first some from the upper part, as people pick theirs from the lower, then all.
    fn candidates(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        let usable = self.count.saturating_sub(2);
        // The same share that Kubernetes leaves for addresses given by hand.
        let band = (self.count / 16).clamp(16, 256).min(usable / 2);
        let tries = if usable > band { RANDOM_TRIES } else { 0 };
        let random = (0..tries)
            .map(move |_| Ipv4Addr::from(self.network + 1 + band + rand::random_range(0..usable - band)));
        random.chain((1..=usable).rev().map(|offset| Ipv4Addr::from(self.network + offset)))
    }

    /// Fills in what a service would get, without giving anything out. Only what lies in no range is refused.
    pub(crate) fn pretend(
        &self,
        resource: &Resource,
        document: &mut Value,
        old: &Value,
    ) -> Result<(), Status> {
        if resource.ty != "core.v1.Service" {
            return Ok(());
        }
        let needed = needs(document);
        complete_families(document);
        let given = text(document, &["spec", "clusterIP"]).to_owned();
        if needed.address && given.is_empty() {
            set_address(document, &Ipv4Addr::from(self.network).to_string());
        } else if needed.address && given != "None" {
            self.usable(document, &given, &addresses_of(old))?;
            set_address(document, &given);
        }
        let mut pretended = PRETENDED_NODE_PORT..;
        fill_in_ports(document, &node_ports(old), &needed, |wanted| match wanted {
            None => Ok(pretended.next().unwrap_or(PRETENDED_NODE_PORT)),
            Some(port) if self.node_ports.contains(&port) => Ok(port),
            Some(_) => Err(PortFault::OutOfRange),
        })
        .map_err(|refused| self.port_refused(document, refused))
    }

    /// The address that a service asks for, if it is one of the range or one that the service had.
    fn usable(&self, document: &Value, given: &str, had: &[Ipv4Addr]) -> Result<Ipv4Addr, Status> {
        let address: Ipv4Addr =
            given.parse().map_err(|_| address_refused(document, given, "not a valid IPv4 address"))?;
        if had.contains(&address) || self.contains(address) {
            return Ok(address);
        }
        Err(address_refused(document, given, "the provided network does not match the current range"))
    }

    fn port_refused(&self, document: &Value, refused: RefusedPort) -> Status {
        let range = &self.node_ports;
        let detail = match refused.fault {
            PortFault::OutOfRange => format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            ),
            PortFault::Taken => "provided port is already allocated".to_owned(),
            PortFault::NoneLeft => {
                return Status::internal_error("failed to allocate a nodePort: range is full");
            }
        };
        invalid(document, Cause::invalid(refused.field, &refused.wanted.into(), &detail))
    }

    fn give_port(&self, wanted: Option<u16>) -> Result<u16, PortFault> {
        let mut given = self.ports_given.lock();
        if let Some(wanted) = wanted {
            if !self.node_ports.contains(&wanted) {
                return Err(PortFault::OutOfRange);
            }
            return if given.insert(wanted) { Ok(wanted) } else { Err(PortFault::Taken) };
        }
        let random = (0..RANDOM_TRIES).map(|_| rand::random_range(self.node_ports.clone()));
        let free = random.chain(self.node_ports.clone()).find(|port| !given.contains(port));
        let free = free.ok_or(PortFault::NoneLeft)?;
        given.insert(free);
        Ok(free)
    }

    /// Remembers the ports of a service that is stored.
    pub(crate) fn remember(&self, service: &Value) {
        self.ports_given.lock().extend(node_ports(service));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortFault {
    OutOfRange,
    Taken,
    NoneLeft,
}

/// A port that a service cannot have, and where it asks for it.
struct RefusedPort {
    field: String,
    wanted: i64,
    fault: PortFault,
}

/// What a service must have.
struct Needs {
    address: bool,
    /// Whether it may have ports of the nodes.
    ports: bool,
    /// Whether it gets them without asking.
    all_ports: bool,
    health: bool,
}

fn needs(service: &Value) -> Needs {
    let kind = text(service, &["spec", "type"]);
    let balanced = kind == "LoadBalancer";
    let allocates = at(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
    Needs {
        address: kind != "ExternalName",
        ports: kind == "NodePort" || balanced,
        all_ports: kind == "NodePort" || (balanced && allocates),
        health: balanced && text(service, &["spec", "externalTrafficPolicy"]) == "Local",
    }
}

fn set_address(service: &mut Value, address: &str) {
    let spec = fields(service, &["spec"]);
    spec.insert("clusterIP".to_owned(), address.into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
}

/// Which kinds of addresses a service has, if it does not say.
fn complete_families(service: &mut Value) {
    if !needs(service).address {
        let spec = fields(service, &["spec"]);
        for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(gone);
        }
        return;
    }
    let headless = text(service, &["spec", "clusterIP"]) == "None";
    let anywhere = headless && at(service, &["spec", "selector"]).is_none();
    let spec = fields(service, &["spec"]);
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
}

/// Writes into a service the ports that it needs. Those it had are its own; `give` finds any other, or the one wanted.
fn fill_in_ports(
    service: &mut Value,
    had: &[u16],
    needed: &Needs,
    mut give: impl FnMut(Option<u16>) -> Result<u16, PortFault>,
) -> Result<(), RefusedPort> {
    let mut find = |wanted: i64, field: &dyn Fn() -> String| {
        let port = u16::try_from(wanted).ok().filter(|port| *port > 0);
        let found = match port {
            Some(own) if had.contains(&own) => Ok(own),
            None if wanted != 0 => Err(PortFault::OutOfRange),
            port => give(port),
        };
        found.map_err(|fault| RefusedPort { field: field(), wanted, fault })
    };
    for (index, port) in service["spec"]["ports"].as_array_mut().into_iter().flatten().enumerate() {
        let wanted = integer(port, &["nodePort"]).unwrap_or(0);
        let wants = needed.all_ports || (needed.ports && wanted != 0);
        let found =
            if wants { Some(find(wanted, &|| format!("spec.ports[{index}].nodePort"))?) } else { None };
        set(fields(port, &[]), "nodePort", found.map(Value::from));
    }
    let wanted = integer(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    let found =
        if needed.health { Some(find(wanted, &|| "spec.healthCheckNodePort".to_owned())?) } else { None };
    set(fields(service, &["spec"]), "healthCheckNodePort", found.map(Value::from));
    Ok(())
}

fn node_ports(service: &Value) -> Vec<u16> {
    let own = list(service, &["spec", "ports"]).iter().filter_map(|port| integer(port, &["nodePort"]));
    let all = own.chain(integer(service, &["spec", "healthCheckNodePort"]));
    all.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port > 0).collect()
}

fn addresses_of(service: &Value) -> Vec<Ipv4Addr> {
    list(service, &["spec", "clusterIPs"])
        .iter()
        .filter_map(Value::as_str)
        .filter_map(|ip| ip.parse().ok())
        .collect()
}

impl Registry {
    /// Takes what a service needs and writes it into the document. Nothing is taken if any of it cannot be had.
    pub(crate) async fn reserve_addresses(
        &self,
        target: Target<'_>,
        document: &mut Value,
        current: Option<&Object>,
    ) -> Result<Reserved, Status> {
        if target.resource.ty != "core.v1.Service" {
            return Ok(Reserved::default());
        }
        let old = current.map(|object| document_of(&object.value, None)).unwrap_or_default();
        let mut reserved = Reserved::default();
        match self.fill_in(target, document, &old, &mut reserved).await {
            Ok(()) => Ok(reserved),
            Err(status) => {
                self.return_addresses(reserved).await;
                Err(status)
            }
        }
    }

    async fn fill_in(
        &self,
        target: Target<'_>,
        document: &mut Value,
        old: &Value,
        reserved: &mut Reserved,
    ) -> Result<(), Status> {
        complete_families(document);
        let needed = needs(document);
        let (had, had_ports) = (addresses_of(old), node_ports(old));
        if needed.address {
            self.fill_in_address(target, document, &had, reserved).await?;
        }
        let give = |wanted: Option<u16>| {
            // One port may serve several protocols.
            if let Some(own) = wanted.filter(|port| reserved.ports_taken.contains(port)) {
                return Ok(own);
            }
            let port = self.addresses.give_port(wanted)?;
            reserved.ports_taken.push(port);
            Ok(port)
        };
        fill_in_ports(document, &had_ports, &needed, give)
            .map_err(|refused| self.addresses.port_refused(document, refused))?;
        let (has, has_ports) = (addresses_of(document), node_ports(document));
        reserved.left = had.into_iter().filter(|ip| !has.contains(ip)).collect();
        reserved.ports_left = had_ports.into_iter().filter(|port| !has_ports.contains(port)).collect();
        Ok(())
    }

    async fn fill_in_address(
        &self,
        target: Target<'_>,
        document: &mut Value,
        had: &[Ipv4Addr],
        reserved: &mut Reserved,
    ) -> Result<(), Status> {
        let given = text(document, &["spec", "clusterIP"]).to_owned();
        if given == "None" {
            return Ok(());
        }
        if given.is_empty() {
            for candidate in self.addresses.candidates() {
                if self.take(target, candidate).await? {
                    reserved.taken.push(candidate);
                    set_address(document, &candidate.to_string());
                    return Ok(());
                }
            }
            return Err(Status::internal_error("failed to allocate a serviceIP: range is full"));
        }
        let address = self.addresses.usable(document, &given, had)?;
        if !had.contains(&address) {
            if !self.take(target, address).await? {
                return Err(address_refused(document, &given, "provided IP is already allocated"));
            }
            reserved.taken.push(address);
        }
        set_address(document, &given);
        Ok(())
    }

    /// Takes an address, unless somebody else has it.
    async fn take(&self, service: Target<'_>, address: Ipv4Addr) -> Result<bool, Status> {
        let resource = known("networking.k8s.io", "ipaddresses");
        let own = address.to_string();
        let target = Target { resource, namespace: "", name: &own };
        let mut document = json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": own, "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            }},
            "spec": {"parentRef": {
                "resource": "services", "namespace": service.namespace, "name": service.name,
            }},
        });
        strategy::prepare_create(
            resource,
            &mut document,
            "",
            Timestamp::now(),
            &strategy::Requester::default(),
        );
        let Some(storage) = self.storage(resource) else { return Ok(true) };
        match storage.create(&target.key(), encode(resource, &document), None).await {
            Ok(_) => Ok(true),
            Err(StorageError::KeyExists { .. }) => Ok(false),
            Err(error) => Err(target.failure("create", error)),
        }
    }

    async fn give_back(&self, address: Ipv4Addr) {
        let resource = known("networking.k8s.io", "ipaddresses");
        let own = address.to_string();
        let target = Target { resource, namespace: "", name: &own };
        if let Some(storage) = self.storage(resource) {
            match storage.delete(&target.key(), Default::default(), &mut |_| Ok(())).await {
                Ok(_) | Err(StorageError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(address = own, %error, "a service address could not be given back")
                }
            }
        }
    }

    /// The service is stored: what it no longer needs is free.
    pub(crate) async fn keep_addresses(&self, reserved: Reserved) {
        self.free(reserved.left, &reserved.ports_left).await;
    }

    /// The service was not stored: what was taken for it is free.
    pub(crate) async fn return_addresses(&self, reserved: Reserved) {
        self.free(reserved.taken, &reserved.ports_taken).await;
    }

    async fn free(&self, addresses: Vec<Ipv4Addr>, ports: &[u16]) {
        if !ports.is_empty() {
            self.addresses.ports_given.lock().retain(|port| !ports.contains(port));
        }
        for address in addresses {
            self.give_back(address).await;
        }
    }

    /// An object is gone: what the server kept for it goes too.
    pub(crate) async fn after_deletion(&self, target: Target<'_>, last: &Object) {
        if target.resource.ty == "core.v1.Service" {
            let service = document_of(&last.value, None);
            self.free(addresses_of(&service), &node_ports(&service)).await;
        }
    }

    /// Learns which ports the stored services have.
    pub(crate) async fn learn_ports(&self) -> Result<(), Status> {
        let target = Target { resource: known("", "services"), namespace: "", name: "" };
        let Some(storage) = self.storage(target.resource) else { return Ok(()) };
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let services =
            storage.get_list(&target.key(), request).await.map_err(|error| target.failure("list", error))?;
        for service in &services.items {
            self.addresses.remember(&document_of(&service.value, None));
        }
        Ok(())
    }
}

fn address_refused(document: &Value, given: &str, why: &str) -> Status {
    let value = at(document, &["spec", "clusterIPs"]).cloned().unwrap_or_else(|| json!([given]));
    let detail = format!("failed to allocate IP {given}: {why}");
    invalid(document, Cause::invalid("spec.clusterIPs", &value, &detail))
}

fn invalid(document: &Value, cause: Cause) -> Status {
    Status::invalid(Qualified::core("Service"), name(document), vec![cause])
}
