//! Finds the pods of a node with an index, without scanning all pods.
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

    // An index can be added at any time. It is typed, and needs no name.
    let by_node: Index<Pod, String> = pods.index(|pod| pod.spec.as_ref()?.node_name.clone());

    let stop = CancellationToken::new();
    pods.start(stop.clone());
    pods.synced().await?;
    let names = |node: &str| by_node.get(node).iter().map(|pod| pod.name_any()).collect::<Vec<_>>().join(" ");
    println!("n0: {}\nn1: {}", names("n0"), names("n1"));

    // After a write of its own, a program can wait until the store has it.
    cluster.pods.delete("web-0", &DeleteParams::default().grace_period(0)).await?;
    let version = cluster.pods.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
    pods.store().wait_for(&version, Duration::from_secs(10)).await?;
    println!("n0: {}", names("n0"));

    // Labels and namespaces need no index.
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
