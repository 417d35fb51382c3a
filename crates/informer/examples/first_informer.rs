//! A first informer: it keeps a copy of all pods and prints changes.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example first_informer
//! ```

#[path = "cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, Outcome, pod};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{Event, Informer};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Outcome {
    let cluster = Cluster::start().await?;

    let pods = Informer::<Pod>::builder(cluster.client.clone()).labels("app=web").build();
    let mut events = pods.subscribe();
    let stop = CancellationToken::new();
    let running = pods.start(stop.clone());

    // From here on, reads need no request.
    pods.synced().await?;
    let store = pods.store();
    println!("{} pods are known, web-0 is on {:?}", store.len(), node(&store.get(("default", "web-0"))));

    cluster.pods.create(&PostParams::default(), &pod(6)?).await?;
    cluster.pods.delete("web-0", &DeleteParams::default().grace_period(0)).await?;

    // The stream starts with the existing objects; changes follow.
    while let Some(event) = events.next().await {
        match event {
            Event::Added { obj, initial } => {
                println!("added {}{}", obj.name_any(), if initial { " (was there)" } else { "" })
            }
            Event::Updated { new, .. } => println!("changed {}", new.name_any()),
            Event::Deleted { obj, .. } => {
                println!("deleted {}", obj.name_any());
                break;
            }
            _ => {}
        }
    }

    stop.cancel();
    running.await?;
    cluster.stop().await;
    Ok(())
}

fn node(pod: &Option<std::sync::Arc<Pod>>) -> Option<&str> {
    pod.as_ref()?.spec.as_ref()?.node_name.as_deref()
}
