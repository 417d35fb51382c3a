//! An informer that keeps objects as JSON, in a fraction of the memory, and decodes them on demand.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example lean_store
//! ```

#[path = "cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, Outcome};
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{Informer, Lean, Object};
use kube::core::Expression;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// The fields of a pod that this program reads.
#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
struct Spec<'a> {
    #[serde(borrow)]
    containers: Vec<Container<'a>>,
}

#[derive(Deserialize)]
struct Container<'a> {
    image: &'a str,
}

#[tokio::main]
async fn main() -> Outcome {
    let cluster = Cluster::start().await?;
    let pods = Informer::<Pod>::builder(cluster.client.clone())
        .lean()
        .transform(|pod: &mut Lean<Pod>| _ = pod.remove(&["metadata", "managedFields"]))
        .build();

    // This scans the JSON only up to the field; the pod is not decoded.
    let by_node =
        pods.index(|pod: &Lean<Pod>| pod.field(&["spec", "nodeName"]).map(|node| node.into_owned()));

    let stop = CancellationToken::new();
    pods.start(stop.clone());
    pods.synced().await?;

    let kept: usize = pods.store().all().iter().map(|pod| pod.json().len()).sum();
    println!("{} pods in {kept} bytes of JSON", pods.store().len());
    for pod in by_node.get("n0") {
        let image = pod.view::<Image<'_>>()?.spec.containers[0].image;
        println!("{} runs {image}", pod.key());
    }

    // Label selectors read only the labels. `read` decodes the whole pod.
    for pod in pods.store().list(Expression::Equal("track".into(), "canary".into())) {
        let whole: Pod = pod.read()?;
        println!("{} has {} containers", pod.key(), whole.spec.map_or(0, |spec| spec.containers.len()));
    }

    stop.cancel();
    cluster.stop().await;
    Ok(())
}
