//! The objects of the server itself, such as the namespace `default` and the service `kubernetes`: a server creates those
//! that do not exist.
//!
//! A server starts even if an object is rejected, because the reason can be removed only while a server runs.

use crate::{
    codec::{Decoded, Expected, finish},
    document::{Edit, Fields},
    error::Error,
    kinds::known,
    options::WriteOptions,
    rest::{Registry, Target, document_of},
    schema::{self, Problems, Timestamp, normalize},
    strategy::Requester,
};
use futures::future::try_join_all;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::Object;
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc, time::Duration};

/// The namespaces that every server has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The maximum number of attempts to create one object: another server may create it at the same time.
const ATTEMPTS_MAX: usize = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The time between two checks that all of the server's objects exist.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(10);

impl Registry {
    /// Creates the server's own objects that do not exist. `address` is the address of the server.
    pub async fn bootstrap(&self, address: (IpAddr, u16)) -> Result<(), Error> {
        self.settle_claims().await?;
        self.make_own_objects(address, true).await
    }

    /// Creates missing objects at an interval, because clients may delete them.
    pub async fn keep_own_objects(self: Arc<Self>, address: (IpAddr, u16)) {
        loop {
            tokio::time::sleep(RECONCILE_INTERVAL).await;
            if let Err(error) = self.make_own_objects(address, false).await {
                tracing::debug!(%error, "the server's own objects cannot be made");
            }
        }
    }

    /// A server that starts also corrects the ports of its service.
    async fn make_own_objects(&self, address: (IpAddr, u16), starts: bool) -> Result<(), Error> {
        let namespaces = NAMESPACES.map(|own| ("", "namespaces", "", json!({"metadata": {"name": own}})));
        try_join_all(namespaces.map(|object| self.make(object))).await?;
        try_join_all(self.own_objects(address.1).into_iter().map(|object| self.make(object))).await?;
        if starts {
            self.reconcile_own_service(address.1).await?;
        }
        // An error is not fatal: the endpoints are reconciled again soon.
        if let Err(error) = self.reconcile_endpoints(address, starts).await {
            tracing::warn!(%error, "the server's own service does not lead to it");
        }
        self.set_range_ready().await
    }

    /// Corrects the service if the server listens on another port than the one before it.
    async fn reconcile_own_service(&self, port: u16) -> Result<(), Error> {
        let target = Target { kind: known("", "services"), namespace: "default", name: "kubernetes" };
        let ports = service_ports(port);
        let is_right =
            |service: &Value| service.text("spec.type") == "ClusterIP" && service["spec"]["ports"] == ports;
        match self.get(target, Position::MostRecent).await {
            Ok(service) if is_right(&document_of(&service.value, None)) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.map(drop)?,
        }
        let wanted = self.change_stored(target, false, |service| {
            service["spec"]["type"] = "ClusterIP".into();
            service["spec"]["ports"] = ports.clone();
            Ok(())
        });
        wanted.await.map(drop)
    }

    /// Marks the ServiceCIDR as ready. Kubernetes has a controller for that.
    async fn set_range_ready(&self) -> Result<(), Error> {
        let target =
            Target { kind: known("networking.k8s.io", "servicecidrs"), namespace: "", name: "kubernetes" };
        let is_told = |range: &Object| !document_of(&range.value, None).list("status.conditions").is_empty();
        match self.get(target, Position::Any).await {
            Ok(range) if is_told(&range) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.map(drop)?,
        }
        let condition = json!({
            "type": "Ready", "status": "True", "lastTransitionTime": schema::time(Timestamp::now()),
            "reason": "", "message": "Kubernetes default Service CIDR is ready",
        });
        let updated = self.change_stored(target, false, |range| {
            range.set_condition(condition.clone());
            Ok(())
        });
        updated.await.map(drop)
    }

    fn own_objects(&self, port: u16) -> Vec<Own> {
        let service = self.addresses.first().to_string();
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        vec![
            (
                "networking.k8s.io",
                "servicecidrs",
                "",
                json!({
                    "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [self.addresses.range()]},
                }),
            ),
            (
                "",
                "services",
                "default",
                json!({
                    "metadata": {"name": "kubernetes", "labels": labels},
                    "spec": {
                        "clusterIP": service, "type": "ClusterIP", "sessionAffinity": "None",
                        "ports": service_ports(port),
                    },
                }),
            ),
            (
                "scheduling.k8s.io",
                "priorityclasses",
                "",
                json!({
                    "metadata": {"name": "system-cluster-critical"}, "value": 2_000_000_000,
                    "description": "For what the cluster cannot do without, and may be moved to another node.",
                }),
            ),
            (
                "scheduling.k8s.io",
                "priorityclasses",
                "",
                json!({
                    "metadata": {"name": "system-node-critical"}, "value": 2_000_001_000,
                    "description": "For what a node cannot do without.",
                }),
            ),
        ]
    }

    /// Creates an object that does not exist. An error is tried again: another server may create the object.
    pub(crate) async fn make(&self, (group, plural, namespace, document): Own) -> Result<(), Error> {
        let kind = known(group, plural);
        let own = document.name().to_owned();
        let target = Target { kind, namespace, name: &own };
        let expected = Expected::of(kind);
        let mut document = normalize(document, expected.ty, &mut Problems::default())
            .map_err(|error| Error::Internal(error.to_string()))?;
        finish(&mut document, &expected);
        for tried in 1..=ATTEMPTS_MAX {
            let Err(error) = self.make_once(target, &document).await else { break };
            if tried < ATTEMPTS_MAX {
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
            let kind = &kind.plural;
            tracing::warn!(
                kind,
                namespace,
                name = own,
                %error,
                "the server starts without an object of its own"
            );
        }
        Ok(())
    }

    async fn make_once(&self, target: Target<'_>, document: &Value) -> Result<(), Error> {
        if self.is_there(target).await? {
            return Ok(());
        }
        let decoded = Decoded { document: document.clone(), warnings: Vec::new() };
        self.create_own(Target { name: "", ..target }, decoded).await
    }

    async fn is_there(&self, target: Target<'_>) -> Result<bool, Error> {
        match self.get(target, Position::MostRecent).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create_own(&self, target: Target<'_>, decoded: Decoded) -> Result<(), Error> {
        let created = self.create(target, decoded, &WriteOptions::default(), &Requester::default()).await;
        created.map(drop).map_err(|failed| failed.error)
    }
}

/// An object of the server: group, resource, namespace, document.
pub(crate) type Own = (&'static str, &'static str, &'static str, Value);

/// The ports of the server's own service, in the form in which they are stored.
fn service_ports(port: u16) -> Value {
    json!([{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}])
}
