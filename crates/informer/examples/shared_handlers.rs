//! Many who want to know, and one watch: handlers come and go, early and late, fast and slow.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example shared_handlers
//! ```

#[path = "cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, Outcome, pod};
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{Event, Filtering, Handler, HandlerOptions, InformerFactory};
use kube::{ResourceExt, api::PostParams};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Counts; a closure would do as well.
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

    // Whoever asks for the same objects gets the same informer: there is one watch, however many listen.
    let count = Arc::new(AtomicUsize::new(0));
    factory.informer::<Pod>().add_handler(Counter(Arc::clone(&count)), HandlerOptions::default())?;

    // One that wants to know only of some; what stops being among them is told as deleted.
    let is_canary = |pod: &Pod| pod.labels().get("track").is_some_and(|track| track == "canary");
    let tell = |event: Event<Pod>| println!("canary: {event:?}");
    let canaries = Filtering { wanted: is_canary, handler: tell };
    let canaries =
        factory.informer::<Pod>().add_handler(canaries, HandlerOptions::default().name("canaries"))?;

    factory.start();
    factory.synced(Duration::from_secs(10)).await.into_result()?;
    canaries.synced().await?;

    // One that comes late is told of everything that is there.
    let late = Arc::new(AtomicUsize::new(0));
    let registration =
        factory.informer::<Pod>().add_handler(Counter(Arc::clone(&late)), HandlerOptions::default())?;
    registration.synced().await?;
    println!("early: {}, late: {}", count.load(Ordering::SeqCst), late.load(Ordering::SeqCst));

    // One that leaves is not told any more; the others are.
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
