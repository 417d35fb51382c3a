//! The metrics of watch caches, under the names that kube-apiserver uses for them.

use keepwatch_apimachinery::{ResourceVersion, meta::Qualified};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::{LabelPair, Metric, MetricFamily},
};
use std::collections::HashMap;

/// Revisions are exported modulo this number, so that a Prometheus value can represent them exactly.
const REVISION_MODULUS: u64 = 1_000_000_000_000_000;
/// The upper bounds of the buckets for the time that a read waits, which is at most three seconds.
const READ_WAIT_SECONDS: [f64; 16] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0];

/// The labels of the resource.
const RESOURCE: [&str; 2] = ["group", "resource"];

/// The metrics of all caches of a server. Each cache counts under its own resource.
#[derive(Clone)]
pub struct CacheMetrics {
    events_received: IntCounterVec,
    events_dispatched: IntCounterVec,
    initializations: IntCounterVec,
    resource_version: IntGaugeVec,
    read_wait: HistogramVec,
    consistent_reads: IntCounterVec,
    capacity: IntGaugeVec,
    capacity_increases: IntCounterVec,
    capacity_decreases: IntCounterVec,
    init_events: IntCounterVec,
    terminated_watchers: IntCounterVec,
    history_reads: IntCounterVec,
    lists: IntCounterVec,
    fetched_objects: IntCounterVec,
    returned_objects: IntCounterVec,
    consistency_checks: IntCounterVec,
    objects: IntGaugeVec,
    object_bytes: IntGaugeVec,
}

impl CacheMetrics {
    /// Registers the metrics. Fails if the registry has some of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), &RESOURCE)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let read_wait = HistogramOpts::new(
            "apiserver_watch_cache_read_wait_seconds",
            "How long reads waited for the watch cache to become fresh.",
        );
        let read_wait = HistogramVec::new(read_wait.buckets(READ_WAIT_SECONDS.to_vec()), &RESOURCE)?;
        registry.register(Box::new(read_wait.clone()))?;
        let objects = gauge("apiserver_resource_objects", "How many objects of a resource there are.")?;
        registry.register(Box::new(StorageObjects::new(objects.clone())?))?;
        Ok(Self {
            read_wait,
            objects,
            events_received: counter(
                "apiserver_watch_cache_events_received_total",
                "Events that watch caches received from storage.",
                &RESOURCE,
            )?,
            events_dispatched: counter(
                "apiserver_watch_cache_events_dispatched_total",
                "Events and storage bookmarks that watch caches dispatched.",
                &RESOURCE,
            )?,
            initializations: counter(
                "apiserver_watch_cache_initializations_total",
                "How often watch caches were filled from storage.",
                &RESOURCE,
            )?,
            resource_version: gauge(
                "apiserver_watch_cache_resource_version",
                "The version that the watch cache has reached.",
            )?,
            consistent_reads: counter(
                "apiserver_watch_cache_consistent_read_total",
                "Consistent reads from the watch cache, by whether they succeeded and fell back to storage.",
                &["group", "resource", "success", "fallback"],
            )?,
            object_bytes: gauge(
                "apiserver_resource_size_estimate_bytes",
                "How many bytes the objects of a resource have together.",
            )?,
            capacity: gauge("watch_cache_capacity", "How many events the watch cache keeps.")?,
            capacity_increases: counter(
                "watch_cache_capacity_increase_total",
                "How often watch caches began to keep more events.",
                &RESOURCE,
            )?,
            capacity_decreases: counter(
                "watch_cache_capacity_decrease_total",
                "How often watch caches began to keep fewer events.",
                &RESOURCE,
            )?,
            init_events: counter(
                "apiserver_init_events_total",
                "Events that watches began with.",
                &RESOURCE,
            )?,
            terminated_watchers: counter(
                "apiserver_terminated_watchers_total",
                "Watches that were ended because the events they had yet to read are gone.",
                &RESOURCE,
            )?,
            history_reads: counter(
                "keepwatch_watch_cache_history_reads_total",
                "Pages of older changes that were read from storage for watches that need more than the watch cache holds.",
                &RESOURCE,
            )?,
            lists: counter(
                "apiserver_cache_list_total",
                "Lists served from the watch cache, by the index that was used.",
                &["group", "resource", "index"],
            )?,
            fetched_objects: counter(
                "apiserver_cache_list_fetched_objects_total",
                "Objects looked at for lists served from the watch cache, by the index that was used.",
                &["group", "resource", "index"],
            )?,
            returned_objects: counter(
                "apiserver_cache_list_returned_objects_total",
                "Objects returned by lists served from the watch cache.",
                &RESOURCE,
            )?,
            consistency_checks: counter(
                "apiserver_storage_consistency_checks_total",
                "Comparisons of the watch cache with storage, by their outcome.",
                &["group", "resource", "status"],
            )?,
        })
    }

    /// The metrics of one resource.
    pub(crate) fn for_resource(&self, resource: Qualified<'_>) -> Metrics {
        let labels = [resource.group, resource.kind];
        let read = |success, fallback| {
            self.consistent_reads.with_label_values(&[resource.group, resource.kind, success, fallback])
        };
        Metrics {
            events_received: self.events_received.with_label_values(&labels),
            events_dispatched: self.events_dispatched.with_label_values(&labels),
            initializations: self.initializations.with_label_values(&labels),
            resource_version: self.resource_version.with_label_values(&labels),
            read_wait: self.read_wait.with_label_values(&labels),
            consistent_reads: read("true", "false"),
            consistent_reads_from_storage: read("true", "true"),
            consistent_reads_failed: read("false", "true"),
            capacity: self.capacity.with_label_values(&labels),
            capacity_increases: self.capacity_increases.with_label_values(&labels),
            capacity_decreases: self.capacity_decreases.with_label_values(&labels),
            init_events: self.init_events.with_label_values(&labels),
            terminated_watchers: self.terminated_watchers.with_label_values(&labels),
            history_reads: self.history_reads.with_label_values(&labels),
            returned_objects: self.returned_objects.with_label_values(&labels),
            objects: self.objects.with_label_values(&labels),
            object_bytes: self.object_bytes.with_label_values(&labels),
            all: self.clone(),
            labels: labels.map(str::to_owned),
        }
    }
}

/// `apiserver_storage_objects`, the deprecated name of `apiserver_resource_objects`, with one label for the resource.
/// It is derived from that metric when it is collected.
struct StorageObjects {
    source: IntGaugeVec,
    desc: Desc,
}

impl StorageObjects {
    fn new(source: IntGaugeVec) -> prometheus::Result<Self> {
        let help = "How many objects of a resource there are. Deprecated: see apiserver_resource_objects.";
        let labels = vec!["resource".to_owned()];
        let desc =
            Desc::new("apiserver_storage_objects".to_owned(), help.to_owned(), labels, HashMap::new())?;
        Ok(Self { source, desc })
    }
}

impl Collector for StorageObjects {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.source.collect();
        for family in &mut families {
            family.set_name(self.desc.fq_name.clone());
            family.set_help(self.desc.help.clone());
            for metric in family.mut_metric() {
                let mut label = LabelPair::default();
                label.set_name("resource".to_owned());
                label.set_value(qualified_name(metric));
                metric.set_label(vec![label]);
            }
        }
        families
    }
}

/// The resource as one word: `pods`, `deployments.apps`.
fn qualified_name(metric: &Metric) -> String {
    let label = |name| metric.get_label().iter().find(|label| label.name() == name).map_or("", |l| l.value());
    Qualified::new(label("group"), label("resource")).to_string()
}

/// The metrics of one cache.
pub(crate) struct Metrics {
    pub(crate) events_received: IntCounter,
    pub(crate) events_dispatched: IntCounter,
    pub(crate) initializations: IntCounter,
    pub(crate) read_wait: Histogram,
    pub(crate) consistent_reads: IntCounter,
    pub(crate) consistent_reads_from_storage: IntCounter,
    pub(crate) consistent_reads_failed: IntCounter,
    pub(crate) capacity: IntGauge,
    pub(crate) capacity_increases: IntCounter,
    pub(crate) capacity_decreases: IntCounter,
    pub(crate) init_events: IntCounter,
    pub(crate) terminated_watchers: IntCounter,
    pub(crate) history_reads: IntCounter,
    returned_objects: IntCounter,
    resource_version: IntGauge,
    objects: IntGauge,
    object_bytes: IntGauge,
    all: CacheMetrics,
    labels: [String; 2],
}

impl Metrics {
    pub(crate) fn set_revision(&self, revision: ResourceVersion) {
        self.resource_version.set((revision.get() % REVISION_MODULUS) as i64);
    }

    pub(crate) fn set_objects(&self, objects: usize, bytes: usize) {
        self.objects.set(objects as i64);
        self.object_bytes.set(bytes as i64);
    }

    pub(crate) fn count_list(&self, index: Option<&str>, fetched: usize, returned: usize) {
        let [group, resource] = &self.labels;
        // Kubernetes names the index of a field `f:<field>`.
        let index = index.map(|field| format!("f:{field}")).unwrap_or_default();
        let labels = [group, resource, &index];
        self.all.lists.with_label_values(&labels).inc();
        self.all.fetched_objects.with_label_values(&labels).inc_by(fetched as u64);
        self.returned_objects.inc_by(returned as u64);
    }

    pub(crate) fn count_consistency_check(&self, status: &str) {
        let [group, resource] = &self.labels;
        self.all.consistency_checks.with_label_values(&[group, resource, status]).inc();
    }
}
