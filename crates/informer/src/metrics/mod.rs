//! Exports the measurements of informers and work queues to Prometheus.
//!
//! Invariants: registering something here does not keep it alive, and its series disappear when it is dropped; no two
//! sources have the same labels, so a second one under the same name is not exported. All values are read when
//! Prometheus scrapes, so none is stale.
//!
//! Names and labels are those of client-go. Metrics that client-go does not have start with `informer_`.
//!
//! ```
//! use keepwatch_informer::{metrics::InformerMetrics, workqueue::WorkQueue};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let registry = prometheus::Registry::new();
//! let metrics = InformerMetrics::new();
//! registry.register(Box::new(metrics.clone())).unwrap();
//!
//! let queue = WorkQueue::builder().name("pods").build();
//! metrics.queue(&queue);
//! queue.add("apps/web");
//! let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
//! assert!(text.contains(r#"workqueue_depth{name="pods"} 1"#));
//! # });
//! ```

mod families;

use crate::{
    informer::{Informer, measured::Measurements},
    object::Object,
    stats::histogram::MetricsSource,
    workqueue::{Item, QueueCounts, WorkQueue},
};
use families::{Family, INFORMER, Label, QUEUE};
use parking_lot::Mutex;
use prometheus::{
    core::{Collector, Desc},
    proto::MetricFamily,
};
use std::{
    fmt,
    sync::{Arc, Weak},
};

/// A collector of the measurements of informers and work queues. Clones share it.
#[derive(Clone)]
pub struct InformerMetrics {
    shared: Arc<Shared>,
}

struct Shared {
    descs: Vec<Desc>,
    informers: Mutex<Vec<Registered<Measurements>>>,
    queues: Mutex<Vec<Registered<QueueCounts>>>,
}

/// A source that is exported until it is dropped.
struct Registered<M> {
    labels: Vec<Label>,
    source: Weak<dyn MetricsSource<M>>,
}

impl Default for InformerMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for InformerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerMetrics")
            .field("informers", &self.shared.informers.lock().len())
            .field("queues", &self.shared.queues.lock().len())
            .finish_non_exhaustive()
    }
}

impl InformerMetrics {
    /// A collector without sources.
    pub fn new() -> Self {
        let informer = INFORMER.iter().map(|family| family.desc(&["name", "group", "version", "resource"]));
        let queue = QUEUE.iter().map(|family| family.desc(&["name"]));
        let descs = informer.chain(queue).collect();
        let shared = Shared { descs, informers: Mutex::default(), queues: Mutex::default() };
        InformerMetrics { shared: Arc::new(shared) }
    }

    /// Exports an informer under a name until it is dropped. Returns false if the name is empty, or is used by
    /// another informer of the same resource.
    pub fn informer<O: Object>(&self, name: &str, informer: &Informer<O>) -> bool {
        let [group, version, resource] = informer.kind();
        let labels = [("name", name), ("group", group), ("version", version), ("resource", resource)];
        let labels = labels.map(|(name, value)| (name, value.to_owned())).to_vec();
        !name.is_empty() && register(&self.shared.informers, labels, informer.measured())
    }

    /// Exports a queue under its name until it is dropped. Returns false if the queue has no name, or another queue
    /// has the same name.
    pub fn queue<T: Item>(&self, queue: &WorkQueue<T>) -> bool {
        let name = queue.measures().map(|counts| counts.name);
        name.is_some_and(|name| register(&self.shared.queues, vec![("name", name)], queue.measured()))
    }
}

fn register<M>(
    all: &Mutex<Vec<Registered<M>>>,
    labels: Vec<Label>,
    source: Weak<dyn MetricsSource<M>>,
) -> bool {
    let mut all = all.lock();
    all.retain(|registered| registered.source.strong_count() > 0);
    let is_free = all.iter().all(|registered| registered.labels != labels);
    if is_free {
        all.push(Registered { labels, source });
    }
    is_free
}

/// Sources are measured without holding the lock, because the last reference may be dropped here.
fn measured<M>(all: &Mutex<Vec<Registered<M>>>) -> Vec<(Vec<Label>, M)> {
    let there: Vec<_> = {
        let mut all = all.lock();
        all.retain(|registered| registered.source.strong_count() > 0);
        all.iter()
            .filter_map(|registered| Some((registered.labels.clone(), registered.source.upgrade()?)))
            .collect()
    };
    there.into_iter().filter_map(|(labels, source)| Some((labels, source.measures()?))).collect()
}

fn collect<M>(families: &[Family<M>], all: &Mutex<Vec<Registered<M>>>) -> Vec<MetricFamily> {
    let measured = measured(all);
    families.iter().map(|family| family.collect(&measured)).collect()
}

impl Collector for InformerMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.shared.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = collect(&INFORMER, &self.shared.informers);
        families.extend(collect(&QUEUE, &self.shared.queues));
        families
    }
}

#[cfg(test)]
mod tests;
