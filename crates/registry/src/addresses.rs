//! Which addresses and ports services have.
//!
//! Kept true: for every address and every port of the nodes that a service has there is an object in storage (an
//! `IPAddress`; for ports one that no path leads to), made before the service is stored and removed after it is gone.
//! Since a name can be taken only once, two servers on one store never give out the same. No server remembers any of it.
//!
//! What a server took and then stopped before it stored the service is found to be nobody's when somebody else wants it,
//! or when a server starts.

use crate::{
    admission::known,
    kinds::{NODE_PORTS, Resource},
    rest::{Registry, Target, document_of, encode, place},
    schema::{self, Timestamp},
    strategy,
    value::{at, fields, integer, list, name, text},
};
use jiff::SignedDuration;
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position},
    meta::Qualified,
    status::{Cause, Status},
};
use keepwatch_storage::{DeleteOptions, ListRequest, Object, Preconditions, StorageError};
use serde_json::{Value, json};
use std::{collections::HashSet, net::Ipv4Addr, ops::RangeInclusive};

/// Where addresses and ports come from.
pub(crate) struct Addresses {
    network: u32,
    /// How many addresses there are, the first and the last (which nobody gets) included.
    count: u32,
    node_ports: RangeInclusive<u16>,
}

/// Something that one service has and no other may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Address(Ipv4Addr),
    Port(u16),
}

/// What was taken for a service that is not stored yet, and what it no longer needs once it is.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    taken: Vec<Taken>,
    left: Vec<Claim>,
    /// The version of the service that is replaced.
    before: Option<ResourceVersion>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    claim: Claim,
    at: ResourceVersion,
}

/// The port that a service is shown that is not stored.
const PRETENDED_NODE_PORT: u16 = 32769;
/// How often a random address or port is tried before all are.
const RANDOM_TRIES: usize = 16;
/// No request takes as long, and no two clocks differ by as much: what was taken longer ago for a service that does not
/// have it was left behind.
const CLAIM_GRACE: SignedDuration = SignedDuration::from_mins(10);
/// How often something is taken anew that was just found to be nobody's.
const RECLAIMS_MAX: usize = 2;
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

impl Claim {
    /// All that a service has.
    fn of(service: &Value) -> Vec<Claim> {
        let addresses = addresses_of(service).into_iter().map(Claim::Address);
        addresses.chain(node_ports(service).into_iter().map(Claim::Port)).collect()
    }

    fn resource(self) -> &'static Resource {
        match self {
            Claim::Address(_) => known("networking.k8s.io", "ipaddresses"),
            Claim::Port(_) => &NODE_PORTS,
        }
    }

    fn name(self) -> String {
        match self {
            Claim::Address(address) => address.to_string(),
            Claim::Port(port) => port.to_string(),
        }
    }

    /// The object that says whose it is.
    fn document(self, namespace: &str, service: &str, made: Timestamp) -> Value {
        let mut labels = json!({MANAGED_BY.0: MANAGED_BY.1});
        if let Claim::Address(_) = self {
            labels["ipaddress.kubernetes.io/ip-family"] = "IPv4".into();
        }
        let mut document = json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": self.name(), "labels": labels},
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
        });
        let nobody = strategy::Requester::default();
        strategy::prepare_create(self.resource(), &mut document, "", made, &nobody);
        document
    }
}

impl Addresses {
    pub(crate) fn new((first, bits): (Ipv4Addr, u8), node_ports: RangeInclusive<u16>) -> Addresses {
        let count = 1_u32.checked_shl(32 - u32::from(bits.clamp(1, 32))).unwrap_or(1);
        let network = u32::from(first) & !(count - 1);
        Addresses { network, count, node_ports }
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

    /// Some in random order, from the upper part, as people pick theirs from the lower.
    fn some_addresses(&self) -> impl Iterator<Item = Claim> + Send + '_ {
        let usable = self.count.saturating_sub(2);
        // The same share that Kubernetes leaves for addresses given by hand.
        let band = (self.count / 16).clamp(16, 256).min(usable / 2);
        let tries = if usable > band { RANDOM_TRIES } else { 0 };
        let random = move |_| self.network + 1 + band + rand::random_range(0..usable - band);
        (0..tries).map(random).map(|address| Claim::Address(address.into()))
    }

    fn all_addresses(&self) -> impl Iterator<Item = Claim> + Send + '_ {
        let usable = self.count.saturating_sub(2);
        (1..=usable).rev().map(|offset| Claim::Address(Ipv4Addr::from(self.network + offset)))
    }

    fn some_ports(&self) -> impl Iterator<Item = Claim> + Send + '_ {
        let tries = if self.node_ports.is_empty() { 0 } else { RANDOM_TRIES };
        (0..tries).map(|_| Claim::Port(rand::random_range(self.node_ports.clone())))
    }

    fn all_ports(&self) -> impl Iterator<Item = Claim> + Send + '_ {
        self.node_ports.clone().map(Claim::Port)
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
        let had = node_ports(old);
        let mut pretended = PRETENDED_NODE_PORT..;
        for need in ports_to_find(document, &needed) {
            let wanted =
                self.wanted_port(&need, &had).map_err(|fault| self.port_refused(document, &need, fault))?;
            let shown = wanted.or_else(|| pretended.next()).unwrap_or(PRETENDED_NODE_PORT);
            need.fill_in(document, shown);
        }
        Ok(())
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

    /// The port that a service asks for, if it is one of the range or one that the service had; none if any will do.
    fn wanted_port(&self, need: &PortNeed, had: &[u16]) -> Result<Option<u16>, PortFault> {
        if need.wanted == 0 {
            return Ok(None);
        }
        let port = u16::try_from(need.wanted).map_err(|_| PortFault::OutOfRange)?;
        let usable = had.contains(&port) || self.node_ports.contains(&port);
        if usable { Ok(Some(port)) } else { Err(PortFault::OutOfRange) }
    }

    fn port_refused(&self, document: &Value, need: &PortNeed, fault: PortFault) -> Status {
        let range = &self.node_ports;
        let detail = match fault {
            PortFault::OutOfRange => format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            ),
            PortFault::Taken => "provided port is already allocated".to_owned(),
        };
        invalid(document, Cause::invalid(need.field(), &need.wanted.into(), &detail))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortFault {
    OutOfRange,
    Taken,
}

/// A port that a service must get.
struct PortNeed {
    /// Which of the service's ports it is for; none if it is for health checks.
    index: Option<usize>,
    /// The one that is asked for; zero if any will do.
    wanted: i64,
}

impl PortNeed {
    fn field(&self) -> String {
        match self.index {
            Some(index) => format!("spec.ports[{index}].nodePort"),
            None => "spec.healthCheckNodePort".to_owned(),
        }
    }

    fn fill_in(&self, service: &mut Value, port: u16) {
        match self.index {
            Some(index) => service["spec"]["ports"][index]["nodePort"] = port.into(),
            None => service["spec"]["healthCheckNodePort"] = port.into(),
        }
    }
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

/// The ports that a service needs. Those that it may not have are removed from it.
fn ports_to_find(service: &mut Value, needed: &Needs) -> Vec<PortNeed> {
    let mut needs = Vec::new();
    for (index, port) in service["spec"]["ports"].as_array_mut().into_iter().flatten().enumerate() {
        let wanted = integer(port, &["nodePort"]).unwrap_or(0);
        if needed.all_ports || (needed.ports && wanted != 0) {
            needs.push(PortNeed { index: Some(index), wanted });
        } else {
            fields(port, &[]).remove("nodePort");
        }
    }
    if needed.health {
        let wanted = integer(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
        needs.push(PortNeed { index: None, wanted });
    } else {
        fields(service, &["spec"]).remove("healthCheckNodePort");
    }
    needs
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
        let before = current.map(|object| object.revision);
        let mut reserved = Reserved { before, ..Reserved::default() };
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
        if needed.address {
            self.fill_in_address(target, document, &addresses_of(old), reserved).await?;
        }
        for need in ports_to_find(document, &needed) {
            let port = self.find_port(target, document, &need, &node_ports(old), reserved).await?;
            need.fill_in(document, port);
        }
        let has = Claim::of(document);
        reserved.left = Claim::of(old).into_iter().filter(|claim| !has.contains(claim)).collect();
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
            let (some, all) = (self.addresses.some_addresses(), self.addresses.all_addresses());
            let Some(taken) = self.take_any(target, some, all).await? else {
                return Err(Status::internal_error("failed to allocate a serviceIP: range is full"));
            };
            reserved.taken.push(taken);
            set_address(document, &taken.claim.name());
            return Ok(());
        }
        let address = self.addresses.usable(document, &given, had)?;
        if !had.contains(&address) {
            let Some(taken) = self.take_wanted(target, Claim::Address(address)).await? else {
                return Err(address_refused(document, &given, "provided IP is already allocated"));
            };
            reserved.taken.push(taken);
        }
        set_address(document, &given);
        Ok(())
    }

    async fn find_port(
        &self,
        target: Target<'_>,
        document: &Value,
        need: &PortNeed,
        had: &[u16],
        reserved: &mut Reserved,
    ) -> Result<u16, Status> {
        let refused = |fault| self.addresses.port_refused(document, need, fault);
        let Some(port) = self.addresses.wanted_port(need, had).map_err(refused)? else {
            let (some, all) = (self.addresses.some_ports(), self.addresses.all_ports());
            let taken = self.take_any(target, some, all).await?;
            let Some(taken @ Taken { claim: Claim::Port(port), .. }) = taken else {
                return Err(Status::internal_error("failed to allocate a nodePort: range is full"));
            };
            reserved.taken.push(taken);
            return Ok(port);
        };
        let claim = Claim::Port(port);
        // One port may serve several protocols.
        let is_own = had.contains(&port) || reserved.taken.iter().any(|taken| taken.claim == claim);
        if !is_own {
            let taken = self.take_wanted(target, claim).await?;
            reserved.taken.push(taken.ok_or_else(|| refused(PortFault::Taken))?);
        }
        Ok(port)
    }

    /// Takes any one that is free: one of some, or of all that are not known to be taken.
    async fn take_any(
        &self,
        service: Target<'_>,
        some: impl Iterator<Item = Claim> + Send,
        all: impl Iterator<Item = Claim> + Send,
    ) -> Result<Option<Taken>, Status> {
        let now = Timestamp::now();
        for claim in some {
            if let Some(taken) = self.take(service, claim, now).await? {
                return Ok(Some(taken));
            }
        }
        let mut all = all.peekable();
        let Some(resource) = all.peek().map(|claim| claim.resource()) else { return Ok(None) };
        let claimed = self.listed(resource).await?;
        let claimed: HashSet<&str> = claimed.iter().map(|object| place(resource, object).1).collect();
        for claim in all.filter(|claim| !claimed.contains(claim.name().as_str())) {
            if let Some(taken) = self.take(service, claim, now).await? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Takes this one, unless another service has it.
    async fn take_wanted(&self, service: Target<'_>, claim: Claim) -> Result<Option<Taken>, Status> {
        for _ in 0..RECLAIMS_MAX {
            if let Some(taken) = self.take(service, claim, Timestamp::now()).await? {
                return Ok(Some(taken));
            }
            if !self.reclaim(claim).await? {
                break;
            }
        }
        Ok(None)
    }

    /// Takes something, unless it is taken. Whoever makes the object has it.
    async fn take(
        &self,
        service: Target<'_>,
        claim: Claim,
        made: Timestamp,
    ) -> Result<Option<Taken>, Status> {
        let (resource, own) = (claim.resource(), claim.name());
        let target = Target { resource, namespace: "", name: &own };
        let document = claim.document(service.namespace, service.name, made);
        let storage = self.storage(resource).ok_or_else(Status::method_not_allowed)?;
        match storage.create(&target.key(), encode(resource, &document), None).await {
            Ok(object) => Ok(Some(Taken { claim, at: object.revision })),
            Err(StorageError::KeyExists { .. }) => Ok(None),
            Err(error) => Err(target.failure("create", error)),
        }
    }

    /// Frees what was taken for a service that does not have it and, after so long, will not. Returns whether it is free.
    async fn reclaim(&self, claim: Claim) -> Result<bool, Status> {
        let (resource, own) = (claim.resource(), claim.name());
        let target = Target { resource, namespace: "", name: &own };
        let object = match self.get(target, Position::MostRecent).await {
            Err(status) if status.code == 404 => return Ok(true),
            found => found?,
        };
        let document = document_of(&object.value, None);
        let made = schema::parse_time(text(&document, &["metadata", "creationTimestamp"]));
        let is_old = made.is_some_and(|made| Timestamp::now().duration_since(made) > CLAIM_GRACE);
        let is_ours = text(&document, &["metadata", "labels", MANAGED_BY.0]) == MANAGED_BY.1;
        if !is_old || !is_ours || self.is_had(claim, &document).await? {
            return Ok(false);
        }
        self.remove(claim, Preconditions { uid: None, revision: Some(object.revision) }, None).await
    }

    /// Whether the service that something was taken for has it.
    async fn is_had(&self, claim: Claim, document: &Value) -> Result<bool, Status> {
        let parent = |field| text(document, &["spec", "parentRef", field]);
        let target =
            Target { resource: known("", "services"), namespace: parent("namespace"), name: parent("name") };
        match self.get(target, Position::MostRecent).await {
            Ok(service) => Ok(Claim::of(&document_of(&service.value, None)).contains(&claim)),
            Err(status) if status.code == 404 => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Removes the object of something, if it is not newer than `newest`. Returns whether it is gone.
    async fn remove(
        &self,
        claim: Claim,
        preconditions: Preconditions,
        newest: Option<ResourceVersion>,
    ) -> Result<bool, Status> {
        let (resource, own) = (claim.resource(), claim.name());
        let target = Target { resource, namespace: "", name: &own };
        let storage = self.storage(resource).ok_or_else(Status::method_not_allowed)?;
        let options = DeleteOptions { preconditions, hint: None };
        let mut is_older = |object: &Object| match newest {
            Some(newest) if object.revision > newest => Err("it was taken again".into()),
            _ => Ok(()),
        };
        match storage.delete(&target.key(), options, &mut is_older).await {
            Ok(_) | Err(StorageError::NotFound { .. }) => Ok(true),
            Err(StorageError::InvalidObject { .. } | StorageError::Rejected(_)) => Ok(false),
            Err(error) => Err(target.failure("delete", error)),
        }
    }

    /// The service is stored: what it no longer needs is free.
    pub(crate) async fn keep_addresses(&self, reserved: Reserved) {
        if let Some(before) = reserved.before {
            self.free(reserved.left, before).await;
        }
    }

    /// The service is not stored: what was taken for it is free.
    pub(crate) async fn return_addresses(&self, reserved: Reserved) {
        for Taken { claim, at } in reserved.taken {
            let preconditions = Preconditions { uid: None, revision: Some(at) };
            told(claim, self.remove(claim, preconditions, None).await);
        }
    }

    /// The service was not stored for this reason. If it may be stored all the same, it keeps what was taken for it.
    pub(crate) async fn return_addresses_after(&self, reserved: Reserved, error: &StorageError) {
        let is_unknown = matches!(
            error,
            StorageError::Unreachable { .. } | StorageError::Timeout { .. } | StorageError::Backend { .. }
        );
        if !is_unknown {
            self.return_addresses(reserved).await;
        }
    }

    /// Frees what a service had that was at this version: it was taken before, and whoever took it since keeps it.
    async fn free(&self, claims: Vec<Claim>, service_at: ResourceVersion) {
        for claim in claims {
            let mut freed = self.remove(claim, Preconditions::default(), Some(service_at)).await;
            if matches!(freed, Ok(false)) {
                // Not taken again, perhaps, but only given a label.
                freed = self.reclaim(claim).await;
            }
            told(claim, freed);
        }
    }

    /// An object is gone: what the server kept for it goes too.
    pub(crate) async fn after_deletion(&self, target: Target<'_>, last: &Object) {
        if target.resource.ty == "core.v1.Service" {
            self.free(Claim::of(&document_of(&last.value, None)), last.revision).await;
        }
    }

    /// Takes what the stored services have and is not taken, and frees what is taken and nobody has.
    pub(crate) async fn settle_claims(&self) -> Result<(), Status> {
        let (mut claimed, mut had) = (HashSet::new(), HashSet::new());
        for resource in [known("networking.k8s.io", "ipaddresses"), &NODE_PORTS] {
            let names = self.listed(resource).await?;
            let names = names.iter().map(|object| place(resource, object).1);
            claimed.extend(names.filter_map(|own| {
                let address = own.parse().ok().map(Claim::Address);
                address.or_else(|| own.parse().ok().map(Claim::Port))
            }));
        }
        let services = known("", "services");
        for service in self.listed(services).await? {
            let (namespace, own) = place(services, &service);
            let target = Target { resource: services, namespace, name: own };
            let document = document_of(&service.value, None);
            let made = schema::parse_time(text(&document, &["metadata", "creationTimestamp"]));
            for claim in Claim::of(&document) {
                had.insert(claim);
                if claimed.insert(claim) {
                    // As old as the service, so that it counts as left behind once the service is gone.
                    self.take(target, claim, made.unwrap_or(Timestamp::UNIX_EPOCH)).await?;
                }
            }
        }
        for claim in claimed.difference(&had) {
            self.reclaim(*claim).await?;
        }
        Ok(())
    }

    async fn listed(&self, resource: &'static Resource) -> Result<Vec<Object>, Status> {
        let target = Target { resource, namespace: "", name: "" };
        let storage = self.storage(resource).ok_or_else(Status::method_not_allowed)?;
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let listed = storage.get_list(&target.key(), request).await;
        Ok(listed.map_err(|error| target.failure("list", error))?.items)
    }
}

fn told(claim: Claim, freed: Result<bool, Status>) {
    if let Err(status) = freed {
        tracing::warn!(
            what = claim.name(),
            why = status.message,
            "what a service had could not be given back"
        );
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
