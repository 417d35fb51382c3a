//! The cluster of the examples: a server inside the program, with some pods.
//!
//! Your own program takes its client from `kube::Client::try_default()`, or, better for informers, from
//! `keepwatch_informer::client(kube::Config::infer().await?)`.

use k8s_openapi::api::core::v1::Pod;
use keepwatch::Server;
use kube::{Api, Client, api::PostParams};
use serde_json::json;

pub(crate) type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A server and a client.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    server: Server,
}

impl Cluster {
    /// With six pods, `web-0` to `web-5`, on the nodes `n0` and `n1`.
    pub(crate) async fn start() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let server = Server::builder().memory().start().await?;
        let client = server.client().await?;
        let cluster = Cluster { pods: Api::default_namespaced(client.clone()), client, server };
        for number in 0..6 {
            cluster.pods.create(&PostParams::default(), &pod(number)?).await?;
        }
        Ok(cluster)
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

/// A pod named `web-0` and so on; every second one has the label `track=canary`.
pub(crate) fn pod(number: usize) -> Result<Pod, serde_json::Error> {
    let track = if number.is_multiple_of(2) { "stable" } else { "canary" };
    serde_json::from_value(json!({
        "metadata": {"name": format!("web-{number}"), "labels": {"app": "web", "track": track}},
        "spec": {"nodeName": format!("n{}", number % 2), "containers": [{"name": "web", "image": "nginx"}]},
    }))
}
