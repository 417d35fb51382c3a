//! Which pods are on this node? An index answers without looking at all pods.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example index_by_node
//! ```

#[path = "cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, Outcome};
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{Index, Informer};
use kube::{
    ResourceExt,
    api::DeleteParams,
    core::{Expression, Selector},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Outcome {
    let cluster = Cluster::start().await?;
    let pods = Informer::<Pod>::builder(cluster.client.clone()).build();

    // At any time, of any type, and without a name that could be taken.
    let by_node: Index<Pod, String> = pods.index(|pod| pod.spec.as_ref()?.node_name.clone());

    let stop = CancellationToken::new();
    pods.start(stop.clone());
    pods.synced().await?;
    let names = |node: &str| by_node.get(node).iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(" ");
    println!("n0: {}\nn1: {}", names("n0"), names("n1"));

    // After one's own write one may want to wait until it is known here.
    cluster.pods.delete("web-0", &DeleteParams::default().grace_period(0)).await?;
    let version = cluster.pods.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
    pods.store().wait_for(&version, Duration::from_secs(10)).await?;
    println!("n0: {}", names("n0"));

    // Labels and namespaces need no index of one's own.
    let canary: Selector = Expression::Equal("track".into(), "canary".into()).into();
    let canaries = pods.store().in_namespace("default").list(&canary);
    println!("{} canaries", canaries.len());
    if let Err(missing) = pods.store().try_get(("default", "web-0")) {
        println!("{missing}");
    }

    stop.cancel();
    cluster.stop().await;
    Ok(())
}
