//! The objects that a server makes for itself when it starts and they are not there.

use crate::{
    admission::known,
    codec::{Decoded, Expected, finish},
    options::WriteOptions,
    rest::{Registry, Target},
    schema::{Problems, normalize},
    strategy::Requester,
};
use futures::future::try_join_all;
use keepwatch_apimachinery::{list_options::Position, status::Status};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The namespaces that every server has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Registry {
    /// Makes what is missing of the server's own objects. `address` is where it can be reached.
    pub async fn bootstrap(&self, address: (IpAddr, u16)) -> Result<(), Status> {
        self.settle_claims().await?;
        let namespaces = NAMESPACES.map(|own| ("", "namespaces", "", json!({"metadata": {"name": own}})));
        try_join_all(namespaces.map(|object| self.make(object))).await?;
        try_join_all(self.own_objects(address).into_iter().map(|object| self.make(object))).await?;
        Ok(())
    }

    fn own_objects(&self, (ip, port): (IpAddr, u16)) -> Vec<Own> {
        let service = self.addresses.first().to_string();
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        let mut objects = vec![
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
                        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
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
        ];
        // Nobody else can reach a server on a loopback address, so it is no endpoint.
        if !ip.is_loopback() {
            objects.extend(endpoints(ip, port));
        }
        objects
    }

    /// Makes an object unless it is there.
    async fn make(&self, (group, plural, namespace, document): Own) -> Result<(), Status> {
        let resource = known(group, plural);
        let own = crate::value::name(&document).to_owned();
        let target = Target { resource, namespace, name: &own };
        match self.get(target, Position::MostRecent).await {
            Err(status) if status.code == 404 => {}
            other => return other.map(drop),
        }
        let expected = Expected::of(resource);
        let mut document = normalize(document, expected.ty, &mut Problems::default())
            .map_err(|error| Status::internal_error(&error.to_string()))?;
        finish(&mut document, &expected);
        let decoded = Decoded { document, warnings: Vec::new() };
        let target = Target { name: "", ..target };
        let made = self.create_own(target, decoded).await;
        // Another server on the same store may have been faster.
        made.or_else(|status| if status.code == 409 { Ok(()) } else { Err(status) })
    }

    async fn create_own(&self, target: Target<'_>, decoded: Decoded) -> Result<(), Status> {
        self.create(target, decoded, &WriteOptions::default(), &Requester::default()).await.map(drop)
    }
}

/// An object of the server: group, resource, namespace, document.
type Own = (&'static str, &'static str, &'static str, Value);

/// Where the server's own service leads.
fn endpoints(ip: IpAddr, port: u16) -> [Own; 2] {
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    [
        (
            "",
            "endpoints",
            "default",
            json!({
                "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
                "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
            }),
        ),
        (
            "discovery.k8s.io",
            "endpointslices",
            "default",
            json!({
                "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
                "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
                "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
                "ports": ports,
            }),
        ),
    ]
}
