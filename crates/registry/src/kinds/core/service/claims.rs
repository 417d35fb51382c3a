//! The allocation of IP addresses and node ports to services.
//!
//! Kept true: for every IP address and every node port that a service has there is an object in storage, its claim (an
//! `IPAddress`; for node ports an object that the API does not serve), created before the service is stored and deleted
//! after the service. Since a name can be created only once, two servers on one store never allocate the same address
//! or port. No server keeps any of it in memory. An `IPAddress` that a client deletes while a service has it is created
//! again.
//!
//! A claim without a service is left if a server stops before it stores the service. It is found when another service
//! wants the same address or port, when nothing else is free, or when a server starts. Another server may be about to
//! store the service, so the claim is deleted only after a while; a server that starts and has its storage for itself
//! does not wait. Only the server's own service takes over its claims at once.

use super::allocation::{
    GivenPorts, PortError, PortNeed, Source, address_refused, addresses_of, complete_families, needs,
    node_ports, ports_to_find, set_address,
};
use crate::{
    document::Fields,
    error::Error,
    kind::Kind,
    kinds::{NODE_PORTS, known},
    rest::{Registry, Target, document_of, encode, namespace_and_name},
    schema::{self, Timestamp},
    strategy,
};
use jiff::SignedDuration;
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position},
};
use keepwatch_storage::{
    DeleteOptions, ListRequest, Object, Preconditions, Storage, StorageError, Update, UpdateOptions,
};
use serde_json::{Value, json};
use std::{collections::HashSet, net::Ipv4Addr, sync::Arc, time::Duration};

/// An IP address or node port that one service has and no other may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    Address(Ipv4Addr),
    Port(u16),
}

/// The claims made for a service that is not stored yet, and those that it gives up once it is.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    taken: Vec<NewClaim>,
    left: Vec<Claim>,
    /// The version of the service that is replaced.
    before: Option<ResourceVersion>,
}

#[derive(Clone, Copy, Debug)]
struct NewClaim {
    claim: Claim,
    at: ResourceVersion,
}

/// No request takes as long, and no two clocks differ by as much: a claim that is older, and whose service does not
/// have it, was left behind.
const CLAIM_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// The number of attempts to claim an address or port again after a claim that was left behind has been deleted.
const RECLAIMS_MAX: usize = 2;

/// The number of reads that check whether a service is stored although its write failed: the write may still arrive
/// after the error.
const LOOKUPS_MAX: usize = 3;

const LOOKUP_PAUSE: Duration = Duration::from_millis(100);

/// The server's own service: namespace and name.
const OWN_SERVICE: (&str, &str) = ("default", "kubernetes");

const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

impl Reserved {
    /// The error of a failed allocation, in terms of the service: the client knows nothing of claims.
    fn failure(&self, service: Target<'_>, error: StorageError) -> Error {
        service.failed(if self.before.is_some() { "update" } else { "create" }, error)
    }
}

impl Claim {
    /// All claims of a service.
    fn of(service: &Value) -> Vec<Claim> {
        let addresses = addresses_of(service).into_iter().map(Claim::Address);
        addresses.chain(node_ports(service).into_iter().map(Claim::Port)).collect()
    }

    fn kind(self) -> &'static Kind {
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

    fn named(own: &str) -> Option<Claim> {
        let address = own.parse().ok().map(Claim::Address);
        address.or_else(|| own.parse().ok().map(Claim::Port))
    }

    fn key(self) -> String {
        Target { kind: self.kind(), namespace: "", name: &self.name() }.key()
    }

    /// The object that records the service of the claim.
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
        strategy::prepare_create(self.kind(), &mut document, "", made, &nobody);
        document
    }
}

impl Registry {
    /// Allocates what a service needs and writes it into the document. Nothing stays allocated if any of it fails.
    pub(crate) async fn reserve_addresses(
        &self,
        target: Target<'_>,
        document: &mut Value,
        current: Option<&Object>,
    ) -> Result<Reserved, Error> {
        let old = current.map(|object| document_of(&object.value, None)).unwrap_or_default();
        let before = current.map(|object| object.revision);
        let mut reserved = Reserved { before, ..Reserved::default() };
        match self.fill_in(target, document, &old, &mut reserved).await {
            Ok(()) => Ok(reserved),
            Err(error) => {
                self.release_reserved(reserved).await;
                Err(error)
            }
        }
    }

    async fn fill_in(
        &self,
        target: Target<'_>,
        document: &mut Value,
        old: &Value,
        reserved: &mut Reserved,
    ) -> Result<(), Error> {
        complete_families(document)?;
        let needed = needs(document);
        if needed.address {
            self.fill_in_address(target, document, &addresses_of(old), reserved).await?;
        }
        let mut given = GivenPorts::after(old);
        for need in ports_to_find(document, &needed) {
            let port = self.find_port(target, document, &need, &given, reserved).await?;
            need.fill_in(document, port);
            given.ports.push((port, need));
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
    ) -> Result<(), Error> {
        let given = document.text("spec.clusterIP").to_owned();
        if given == "None" {
            return Ok(());
        }
        if given.is_empty() {
            let (some, all) = (self.addresses.some_addresses(), self.addresses.all_addresses());
            let taken = self.take_any(target, some, all).await;
            let Some(taken) = taken.map_err(|error| reserved.failure(target, error))? else {
                return Err(Error::Internal("failed to allocate a serviceIP: range is full".to_owned()));
            };
            reserved.taken.push(taken);
            set_address(document, &taken.claim.name());
            return Ok(());
        }
        let address = self.addresses.usable(document, &given, had)?;
        if !had.contains(&address) {
            let taken = self.take_address(target, address, reserved).await;
            if !taken.map_err(|error| reserved.failure(target, error))? {
                return Err(address_refused(document, &given, "provided IP is already allocated"));
            }
        }
        set_address(document, &given);
        Ok(())
    }

    /// Claims this address, unless another service has it. Returns whether the service has it.
    async fn take_address(
        &self,
        service: Target<'_>,
        address: Ipv4Addr,
        reserved: &mut Reserved,
    ) -> Result<bool, StorageError> {
        let claim = Claim::Address(address);
        if let Some(taken) = self.take_wanted(service, claim).await? {
            reserved.taken.push(taken);
            return Ok(true);
        }
        let is_own = (service.namespace, service.name) == OWN_SERVICE && address == self.addresses.first();
        Ok(is_own && self.adopt(service, claim).await?)
    }

    async fn find_port(
        &self,
        target: Target<'_>,
        document: &Value,
        need: &PortNeed,
        given: &GivenPorts,
        reserved: &mut Reserved,
    ) -> Result<u16, Error> {
        let refused = |error| self.addresses.port_refused(document, need, error);
        let (taken, full) = match self.addresses.source(need, given).map_err(refused)? {
            Source::Own(port) => return Ok(port),
            Source::Wanted(port) => {
                (self.take_wanted(target, Claim::Port(port)).await, refused(PortError::Taken))
            }
            Source::Any => {
                let (some, all) = (self.addresses.some_ports(), self.addresses.all_ports());
                let full = Error::Internal("failed to allocate a nodePort: range is full".to_owned());
                (self.take_any(target, some, all).await, full)
            }
        };
        let taken = taken.map_err(|error| reserved.failure(target, error))?;
        let Some(taken @ NewClaim { claim: Claim::Port(port), .. }) = taken else { return Err(full) };
        reserved.taken.push(taken);
        Ok(port)
    }

    /// Claims any free one: one of `some`, or one of all without a known claim, or one whose claim was left behind.
    async fn take_any(
        &self,
        service: Target<'_>,
        some: impl Iterator<Item = Claim> + Send,
        all: impl Iterator<Item = Claim> + Clone + Send,
    ) -> Result<Option<NewClaim>, StorageError> {
        let now = Timestamp::now();
        for claim in some {
            if let Some(taken) = self.take(service, claim, now).await? {
                return Ok(Some(taken));
            }
        }
        let Some(kind) = all.clone().next().map(Claim::kind) else { return Ok(None) };
        let claimed = self.claimed(kind).await?;
        for claim in all.clone().filter(|claim| !claimed.contains(claim)) {
            if let Some(taken) = self.take(service, claim, now).await? {
                return Ok(Some(taken));
            }
        }
        let had = self.had().await?;
        for claim in all.filter(|claim| claimed.contains(claim) && !had.contains(claim)) {
            if self.reclaim(claim).await?
                && let Some(taken) = self.take(service, claim, now).await?
            {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Claims this one, unless another service has it.
    async fn take_wanted(&self, service: Target<'_>, claim: Claim) -> Result<Option<NewClaim>, StorageError> {
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

    /// Creates a claim, unless there is one.
    async fn take(
        &self,
        service: Target<'_>,
        claim: Claim,
        made: Timestamp,
    ) -> Result<Option<NewClaim>, StorageError> {
        let document = claim.document(service.namespace, service.name, made);
        let value = encode(claim.kind(), &document);
        match self.claims(claim.kind()).create(&claim.key(), value, None).await {
            Ok(object) => Ok(Some(NewClaim { claim, at: object.revision })),
            Err(StorageError::KeyExists { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes over a claim made for this very service. Returns whether there was one.
    ///
    /// The object is written again, so that the server that created it does not delete it. It is not released if the
    /// service is not stored, because then another server stored it.
    async fn adopt(&self, service: Target<'_>, claim: Claim) -> Result<bool, StorageError> {
        let document = claim.document(service.namespace, service.name, Timestamp::now());
        let update = Update { value: encode(claim.kind(), &document), ttl: None };
        let mut take_over = |object: Option<&Object>| {
            let found = object.map(|object| document_of(&object.value, None)).unwrap_or_default();
            let is_for_it = found.field("spec") == document.field("spec");
            if is_ours(&found) && is_for_it { Ok(update.clone()) } else { Err("it is another's".into()) }
        };
        let options =
            UpdateOptions { ignore_not_found: false, preconditions: Preconditions::default(), hint: None };
        let storage = self.claims(claim.kind());
        match storage.guaranteed_update(&claim.key(), options, &mut take_over).await {
            Ok(_) => Ok(true),
            Err(StorageError::Rejected(_) | StorageError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes a claim that its service does not have and, after so long, will not. Returns whether it is gone.
    async fn reclaim(&self, claim: Claim) -> Result<bool, StorageError> {
        let is_old = |made| Timestamp::now().duration_since(made) > CLAIM_GRACE;
        self.reclaim_if(claim, |document| made(document).is_some_and(is_old)).await
    }

    /// Deletes a claim that its service does not have, if no server can be about to store the service. Returns whether
    /// it is gone.
    async fn reclaim_if(
        &self,
        claim: Claim,
        is_left_behind: impl Fn(&Value) -> bool + Send,
    ) -> Result<bool, StorageError> {
        let storage = self.claims(claim.kind());
        let Some(object) = storage.get(&claim.key(), Position::MostRecent).await? else { return Ok(true) };
        let document = document_of(&object.value, None);
        if !is_left_behind(&document) || !is_ours(&document) || self.is_had(claim, &document).await? {
            return Ok(false);
        }
        self.remove(claim, Preconditions { uid: None, revision: Some(object.revision) }, None).await
    }

    /// Whether the service that a claim was made for has the address or port.
    async fn is_had(&self, claim: Claim, document: &Value) -> Result<bool, StorageError> {
        let service = parent(document);
        let stored = self.claims(service.kind).get(&service.key(), Position::MostRecent).await?;
        Ok(stored.is_some_and(|service| Claim::of(&document_of(&service.value, None)).contains(&claim)))
    }

    /// Deletes a claim if it is not newer than `newest`. Returns whether it is gone.
    async fn remove(
        &self,
        claim: Claim,
        preconditions: Preconditions,
        newest: Option<ResourceVersion>,
    ) -> Result<bool, StorageError> {
        let options = DeleteOptions { preconditions, hint: None };
        let mut is_older = |object: &Object| match newest {
            Some(newest) if object.revision > newest => Err("it was taken again".into()),
            _ => Ok(()),
        };
        match self.claims(claim.kind()).delete(&claim.key(), options, &mut is_older).await {
            Ok(_) | Err(StorageError::NotFound { .. }) => Ok(true),
            Err(StorageError::InvalidObject { .. } | StorageError::Rejected(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the claims that a stored service gave up.
    pub(crate) async fn commit_reserved(&self, reserved: Reserved) {
        if let Some(before) = reserved.before {
            self.free(reserved.left, before).await;
        }
    }

    /// Deletes the claims of a service that is not stored.
    pub(crate) async fn release_reserved(&self, reserved: Reserved) {
        for NewClaim { claim, at } in reserved.taken {
            let preconditions = Preconditions { uid: None, revision: Some(at) };
            warn_if_kept(claim, self.remove(claim, preconditions, None).await);
        }
    }

    /// Deletes the claims of a service whose write failed with this error, unless it is or may be stored all the same.
    pub(crate) async fn release_reserved_after(
        &self,
        service: Target<'_>,
        reserved: Reserved,
        error: &StorageError,
    ) {
        let is_unknown = matches!(
            error,
            StorageError::Unreachable { .. } | StorageError::Timeout { .. } | StorageError::Backend { .. }
        );
        if reserved.taken.is_empty() || (is_unknown && self.may_be_stored(service).await) {
            return;
        }
        self.release_reserved(reserved).await;
    }

    /// Whether a service is stored, or may yet be.
    async fn may_be_stored(&self, service: Target<'_>) -> bool {
        let mut is_absent = false;
        for _ in 0..LOOKUPS_MAX {
            tokio::time::sleep(LOOKUP_PAUSE).await;
            match self.claims(service.kind).get(&service.key(), Position::MostRecent).await {
                Ok(Some(_)) => return true,
                found => is_absent = found.is_ok(),
            }
        }
        !is_absent
    }

    /// Deletes the claims that a service had at this version. Claims that another service has made since then stay.
    async fn free(&self, claims: Vec<Claim>, service_at: ResourceVersion) {
        for claim in claims {
            let mut freed = self.remove(claim, Preconditions::default(), Some(service_at)).await;
            if matches!(freed, Ok(false)) {
                // The claim is newer, but perhaps only because a client changed its labels.
                freed = self.reclaim(claim).await;
            }
            warn_if_kept(claim, freed);
        }
    }

    /// Deletes the claims of a deleted service.
    pub(super) async fn free_addresses(&self, last: &Object) {
        self.free(Claim::of(&document_of(&last.value, None)), last.revision).await;
    }

    /// Deletes the Endpoints of a deleted service, so that another of its name does not begin with them.
    pub(super) async fn delete_endpoints(&self, service: Target<'_>) {
        let target = Target { kind: known("", "endpoints"), ..service };
        let options = crate::options::DeleteOptions::default();
        // In a box because the deletion of a service calls it.
        let deleted = Box::pin(self.delete(target, &options)).await;
        if let Err(error) = deleted.map(drop)
            && !error.is_not_found()
        {
            tracing::warn!(
                namespace = target.namespace,
                name = target.name,
                %error,
                "the Endpoints of a deleted service could not be deleted"
            );
        }
    }

    /// Creates the claim of an address again if a service has it and a client deleted the IPAddress.
    pub(crate) async fn restore_address(&self, address: &str, last: &Value) {
        let Ok(address) = address.parse() else { return };
        let claim = Claim::Address(address);
        let restored = match self.is_had(claim, last).await {
            Ok(true) => self.take(parent(last), claim, long_ago(last)).await.map(drop),
            found => found.map(drop),
        };
        if let Err(error) = restored {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                what = claim.name(),
                error,
                "an address that a service may have could not be taken"
            );
        }
    }

    /// Creates the missing claims of stored services, and deletes claims without a service. To be called before any
    /// service is created.
    pub(crate) async fn settle_claims(&self) -> Result<(), Error> {
        let all = Target { kind: known("", "services"), namespace: "", name: "" };
        self.settle().await.map_err(|error| all.failed("list", error))
    }

    async fn settle(&self) -> Result<(), StorageError> {
        let (mut claimed, mut had) = (HashSet::new(), HashSet::new());
        for kind in [known("networking.k8s.io", "ipaddresses"), &NODE_PORTS] {
            claimed.extend(self.claimed(kind).await?);
        }
        let services = known("", "services");
        for service in self.listed(services).await? {
            let (namespace, own) = namespace_and_name(services, &service);
            let target = Target { kind: services, namespace, name: own };
            let document = document_of(&service.value, None);
            for claim in Claim::of(&document) {
                had.insert(claim);
                if claimed.insert(claim) {
                    self.take(target, claim, long_ago(&document)).await?;
                }
            }
        }
        for claim in claimed.difference(&had) {
            if self.options.owns_storage {
                self.reclaim_if(*claim, |_| true).await?;
            } else {
                self.reclaim(*claim).await?;
            }
        }
        Ok(())
    }

    /// All claims.
    async fn claimed(&self, kind: &Kind) -> Result<HashSet<Claim>, StorageError> {
        let objects = self.listed(kind).await?;
        let names = objects.iter().map(|object| namespace_and_name(kind, object).1);
        Ok(names.filter_map(Claim::named).collect())
    }

    /// All addresses or ports of stored services.
    async fn had(&self) -> Result<HashSet<Claim>, StorageError> {
        let services = self.listed(known("", "services")).await?;
        Ok(services.iter().flat_map(|service| Claim::of(&document_of(&service.value, None))).collect())
    }

    async fn listed(&self, kind: &Kind) -> Result<Vec<Object>, StorageError> {
        let target = Target { kind, namespace: "", name: "" };
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        Ok(self.claims(kind).get_list(&target.key(), request).await?.items)
    }

    /// The storage of services, or of their claims.
    fn claims(&self, kind: &Kind) -> Arc<dyn Storage> {
        self.storage(kind).expect("every registry stores services and what is taken for them")
    }
}

fn is_ours(claim: &Value) -> bool {
    claim.entry_text("metadata.labels", MANAGED_BY.0) == MANAGED_BY.1
}

fn made(document: &Value) -> Option<Timestamp> {
    schema::parse_time(document.text("metadata.creationTimestamp"))
}

/// The creation time of a claim that is created again for a stored service: long ago, so that it counts as left behind once
/// the service is gone.
fn long_ago(document: &Value) -> Timestamp {
    let before_grace = Timestamp::now() - CLAIM_GRACE - SignedDuration::from_secs(1);
    made(document).unwrap_or(Timestamp::UNIX_EPOCH).min(before_grace)
}

/// The service that a claim was made for.
fn parent(claim: &Value) -> Target<'_> {
    let of = |field| claim.field("spec.parentRef").text(field);
    Target { kind: known("", "services"), namespace: of("namespace"), name: of("name") }
}

fn warn_if_kept(claim: Claim, freed: Result<bool, StorageError>) {
    if let Err(error) = freed {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(what = claim.name(), error, "what a service had could not be given back");
    }
}
