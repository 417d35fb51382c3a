//! The objects that a server makes for itself when it starts and they are not there.
//!
//! A server starts without those that are refused: whoever could set that right needs a server.

use crate::{
    codec::{Decoded, Expected, finish},
    error::Error,
    kinds::known,
    options::WriteOptions,
    rest::{Registry, Target, document_of},
    schema::{self, Problems, Timestamp, normalize},
    strategy::Requester,
    value::{list, set_condition, text},
};
use futures::future::try_join_all;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::Object;
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc, time::Duration};

/// The namespaces that every server has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// How often an object is made that is refused: another server may be about to make it.
const TRIES: usize = 4;
const TRY_PAUSE: Duration = Duration::from_millis(100);
/// How often is looked whether they are all there.
const LOOK_PAUSE: Duration = Duration::from_secs(10);

impl Registry {
    /// Makes what is missing of the server's own objects. `address` is where it can be reached.
    pub async fn bootstrap(&self, address: (IpAddr, u16)) -> Result<(), Error> {
        self.settle_claims().await?;
        self.make_own_objects(address, true).await
    }

    /// Makes what is missing of them again and again: clients may delete them.
    pub async fn keep_own_objects(self: Arc<Self>, address: (IpAddr, u16)) {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            if let Err(error) = self.make_own_objects(address, false).await {
                tracing::debug!(%error, "the server's own objects cannot be made");
            }
        }
    }

    /// A server that starts also sees to the ports of its service.
    async fn make_own_objects(&self, address: (IpAddr, u16), starts: bool) -> Result<(), Error> {
        let namespaces = NAMESPACES.map(|own| ("", "namespaces", "", json!({"metadata": {"name": own}})));
        try_join_all(namespaces.map(|object| self.make(object))).await?;
        try_join_all(self.own_objects(address.1).into_iter().map(|object| self.make(object))).await?;
        if starts {
            self.mend_own_service(address.1).await?;
        }
        // Whatever is wrong with them, it is looked at again soon.
        if let Err(error) = self.lead_to_servers(address, starts).await {
            tracing::warn!(%error, "the server's own service does not lead to it");
        }
        self.tell_range_ready().await
    }

    /// A server that listens on another port than the one before it.
    async fn mend_own_service(&self, port: u16) -> Result<(), Error> {
        let target = Target { kind: known("", "services"), namespace: "default", name: "kubernetes" };
        let ports = service_ports(port);
        let is_right = |service: &Value| {
            text(service, &["spec", "type"]) == "ClusterIP" && service["spec"]["ports"] == ports
        };
        match self.get(target, Position::MostRecent).await {
            Ok(service) if is_right(&document_of(&service.value, None)) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.map(drop)?,
        }
        let mended = self.change_stored(target, false, |service| {
            service["spec"]["type"] = "ClusterIP".into();
            service["spec"]["ports"] = ports.clone();
            Ok(())
        });
        mended.await.map(drop)
    }

    /// Nobody else looks after the range of addresses, so it is as ready as the server is.
    async fn tell_range_ready(&self) -> Result<(), Error> {
        let target =
            Target { kind: known("networking.k8s.io", "servicecidrs"), namespace: "", name: "kubernetes" };
        let is_told =
            |range: &Object| !list(&document_of(&range.value, None), &["status", "conditions"]).is_empty();
        match self.get(target, Position::Any).await {
            Ok(range) if is_told(&range) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.map(drop)?,
        }
        let condition = json!({
            "type": "Ready", "status": "True", "lastTransitionTime": schema::time(Timestamp::now()),
            "reason": "", "message": "Kubernetes default Service CIDR is ready",
        });
        let told = self.change_stored(target, false, |range| {
            set_condition(range, condition.clone());
            Ok(())
        });
        told.await.map(drop)
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

    /// Makes an object unless it is there. Whatever refuses it, it may be there a moment later.
    pub(crate) async fn make(&self, (group, plural, namespace, document): Own) -> Result<(), Error> {
        let kind = known(group, plural);
        let own = crate::value::name(&document).to_owned();
        let target = Target { kind, namespace, name: &own };
        let expected = Expected::of(kind);
        let mut document = normalize(document, expected.ty, &mut Problems::default())
            .map_err(|error| Error::Internal(error.to_string()))?;
        finish(&mut document, &expected);
        for tried in 1..=TRIES {
            let Err(error) = self.make_once(target, &document).await else { break };
            if tried < TRIES {
                tokio::time::sleep(TRY_PAUSE).await;
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
        created.map(drop).map_err(|refusal| refusal.error)
    }
}

/// An object of the server: group, resource, namespace, document.
pub(crate) type Own = (&'static str, &'static str, &'static str, Value);

/// The ports of the server's own service, in the form in which they are stored.
fn service_ports(port: u16) -> Value {
    json!([{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}])
}
