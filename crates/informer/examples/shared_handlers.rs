//! Many handlers share one watch. They can be added early or late, and removed.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example shared_handlers
//! ```

#[path = "cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, Outcome, pod};
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{Event, Handler, HandlerOptions, InformerFactory, informer::FilteringHandler};
use kube::{ResourceExt, api::PostParams};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Counts added pods. A closure would work too.
struct Counter(Arc<AtomicUsize>);

impl Handler<Pod> for Counter {
    fn on_added(&mut self, _pod: Arc<Pod>, _initial: bool) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let cluster = Cluster::start().await?;
    let factory = InformerFactory::builder(cluster.client.clone()).namespace("default").build();

    // Equal requests return the same informer, so there is one watch for any number of handlers.
    let count = Arc::new(AtomicUsize::new(0));
    factory.informer::<Pod>().add_handler(Counter(Arc::clone(&count)), HandlerOptions::default())?;

    // A filtering handler: a pod that stops matching is delivered as deleted.
    let is_canary = |pod: &Pod| pod.labels().get("track").is_some_and(|track| track == "canary");
    let print = |event: Event<Pod>| println!("canary: {event:?}");
    let canaries = FilteringHandler { filter: is_canary, handler: print };
    let canaries =
        factory.informer::<Pod>().add_handler(canaries, HandlerOptions::default().name("canaries"))?;

    factory.start();
    factory.synced(Duration::from_secs(10)).await.into_result()?;
    canaries.synced().await?;

    // A handler added late first receives every existing object.
    let late = Arc::new(AtomicUsize::new(0));
    let registration =
        factory.informer::<Pod>().add_handler(Counter(Arc::clone(&late)), HandlerOptions::default())?;
    registration.synced().await?;
    println!("early: {}, late: {}", count.load(Ordering::SeqCst), late.load(Ordering::SeqCst));

    // A removed handler receives no more events; the others do.
    registration.remove();
    cluster.pods.create(&PostParams::default(), &pod(6)?).await?;
    while count.load(Ordering::SeqCst) < 7 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("early: {}, late: {}", count.load(Ordering::SeqCst), late.load(Ordering::SeqCst));

    factory.shutdown().await;
    cluster.stop().await;
    Ok(())
}
