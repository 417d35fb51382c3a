//! Shows to Prometheus what informers and work queues measure.
//!
//! Kept true: nothing that is shown is kept alive by that, and its series are gone when it is dropped; no two things are
//! shown with the same labels, so the second one under a name that is taken stays silent. Everything is asked for when
//! Prometheus asks, so nothing is old and nothing has to be refreshed.
//!
//! Names and labels are those of client-go, with `informer_` before what client-go does not have.
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
    Informer, Object,
    informer::measured::Measures,
    measure::Measured,
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

/// What informers and work queues measure, for a registry of Prometheus. Cloning shares it.
#[derive(Clone)]
pub struct InformerMetrics {
    shared: Arc<Shared>,
}

struct Shared {
    descs: Vec<Desc>,
    informers: Mutex<Vec<Shown<Measures>>>,
    queues: Mutex<Vec<Shown<QueueCounts>>>,
}

/// Something that is shown for as long as it is there.
struct Shown<M> {
    labels: Vec<Label>,
    source: Weak<dyn Measured<M>>,
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
    /// Nothing is shown yet.
    pub fn new() -> Self {
        let informer = INFORMER.iter().map(|family| family.desc(&["name", "group", "version", "resource"]));
        let queue = QUEUE.iter().map(|family| family.desc(&["name"]));
        let descs = informer.chain(queue).collect();
        let shared = Shared { descs, informers: Mutex::default(), queues: Mutex::default() };
        InformerMetrics { shared: Arc::new(shared) }
    }

    /// Shows an informer under a name until it is dropped. Returns whether it is shown: it is not if the name is empty, or
    /// another informer of the same resource has it.
    pub fn informer<O: Object>(&self, name: &str, informer: &Informer<O>) -> bool {
        let [group, version, resource] = informer.kind();
        let labels = [("name", name), ("group", group), ("version", version), ("resource", resource)];
        let labels = labels.map(|(name, value)| (name, value.to_owned())).to_vec();
        !name.is_empty() && show(&self.shared.informers, labels, informer.measured())
    }

    /// Shows a queue under its name until it is dropped. Returns whether it is shown: it is not if it has no name, or
    /// another queue has the same.
    pub fn queue<T: Item>(&self, queue: &WorkQueue<T>) -> bool {
        let name = queue.measures().map(|counts| counts.name);
        name.is_some_and(|name| show(&self.shared.queues, vec![("name", name)], queue.measured()))
    }
}

fn show<M>(all: &Mutex<Vec<Shown<M>>>, labels: Vec<Label>, source: Weak<dyn Measured<M>>) -> bool {
    let mut all = all.lock();
    all.retain(|shown| shown.source.strong_count() > 0);
    let is_free = all.iter().all(|shown| shown.labels != labels);
    if is_free {
        all.push(Shown { labels, source });
    }
    is_free
}

/// What is still there is measured without a lock: whoever drops it meanwhile leaves that to us.
fn measured<M>(all: &Mutex<Vec<Shown<M>>>) -> Vec<(Vec<Label>, M)> {
    let there: Vec<_> = {
        let mut all = all.lock();
        all.retain(|shown| shown.source.strong_count() > 0);
        all.iter().filter_map(|shown| Some((shown.labels.clone(), shown.source.upgrade()?))).collect()
    };
    there.into_iter().filter_map(|(labels, source)| Some((labels, source.measures()?))).collect()
}

fn collect<M>(families: &[Family<M>], all: &Mutex<Vec<Shown<M>>>) -> Vec<MetricFamily> {
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
