//! A controller with a work queue, several workers and retries. It records on each pod how often it was seen.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example controller
//! ```

#[path = "cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, Outcome};
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{Action, Controller, Informer, ObjectKey, Store};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const SEEN: &str = "example.com/seen";

/// Reconciles one pod. It reads from the store and sends a request only for a change.
async fn reconcile(key: ObjectKey, store: Store<Pod>, client: Client) -> Result<Action, kube::Error> {
    let Some(pod) = store.get(key.clone()).filter(|pod| !pod.annotations().contains_key(SEEN)) else {
        return Ok(Action::Done);
    };
    let version = pod.resource_version();
    let patch = json!({"metadata": {"annotations": {SEEN: "true"}, "resourceVersion": version}});
    // If the pod has changed meanwhile, this fails and is retried with its new state.
    let pods: Api<Pod> = Api::namespaced(client, key.namespace());
    pods.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    println!("noted {key}");
    Ok(Action::Done)
}

#[tokio::main]
async fn main() -> Outcome {
    let cluster = Cluster::start().await?;
    let pods = Informer::<Pod>::builder(cluster.client.clone()).labels("app=web").build();
    let noted = pods.index(|pod| pod.annotations().contains_key(SEEN).then_some(()));

    let stop = CancellationToken::new();
    let controller = Controller::new("notes").workers(2).reconciles(&pods)?;
    let working = tokio::spawn(controller.run(stop.clone(), {
        let (store, client) = (pods.store(), cluster.client.clone());
        move |key| reconcile(key, store.clone(), client.clone())
    }));
    let running = pods.start(stop.clone());

    while noted.keys(&()).len() < 6 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    working.await??;
    running.await?;
    cluster.stop().await;
    Ok(())
}
