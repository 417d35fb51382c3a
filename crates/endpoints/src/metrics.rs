//! The metrics of the HTTP side, under the names that kube-apiserver has for them.

use crate::request_info::RequestInfo;
use futures::future::BoxFuture;
use keepwatch_registry::kind::Kind;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector,
};
use std::time::{Duration, Instant};

/// The time for which the size of the store is waited for before the answer is sent without it.
const SIZE_WAIT_MAX: Duration = Duration::from_secs(1);

/// All metrics of the server, and those that are looked up only for a request.
pub struct MetricsEndpoint {
    registry: Registry,
    storage_size: IntGaugeVec,
    ask_size: Box<dyn Fn() -> BoxFuture<'static, Option<u64>> + Send + Sync>,
}

impl MetricsEndpoint {
    /// The metrics of this registry, and the size of the store on disk, if `ask_size` returns it.
    pub fn new<F>(
        registry: Registry,
        ask_size: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<MetricsEndpoint, prometheus::Error>
    where
        F: Future<Output = Option<u64>> + Send + 'static,
    {
        let storage_size = IntGaugeVec::new(
            Opts::new("apiserver_storage_size_bytes", "How much room the store takes on disk."),
            &["storage_cluster_id"],
        )?;
        registry.register(Box::new(storage_size.clone()))?;
        Ok(MetricsEndpoint { registry, storage_size, ask_size: Box::new(move || Box::pin(ask_size())) })
    }

    /// Where the parts of the server register what they count.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Encodes all metrics in the text form of Prometheus. The future is short; calling its result takes milliseconds.
    pub(crate) async fn encoder(&self) -> impl FnOnce() -> String + Send + 'static {
        // There is one store. Kubernetes can have several, and numbers them.
        const STORE: [&str; 1] = ["etcd-0"];
        let size = tokio::time::timeout(SIZE_WAIT_MAX, (self.ask_size)()).await.ok().flatten();
        match size.and_then(|size| i64::try_from(size).ok()) {
            Some(size) => self.storage_size.with_label_values(&STORE).set(size),
            // An old size is worse than none.
            None => self.storage_size.reset(),
        }
        let registry = self.registry.clone();
        move || prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap_or_default()
    }
}

/// Counters and histograms of requests. Cloning shares them.
#[derive(Clone)]
pub struct ApiMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    sli_durations: HistogramVec,
    watch_lists: HistogramVec,
    sizes: HistogramVec,
    in_flight: IntGaugeVec,
    long_running: IntGaugeVec,
    events: IntCounterVec,
    event_sizes: HistogramVec,
}

const DURATION_SECONDS: [f64; 12] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 10.0, 60.0];

impl ApiMetrics {
    /// Registers them.
    pub fn register(registry: &Registry) -> Result<ApiMetrics, prometheus::Error> {
        fn own<C: Collector + Clone + 'static>(
            registry: &Registry,
            made: prometheus::Result<C>,
        ) -> prometheus::Result<C> {
            let made = made?;
            registry.register(Box::new(made.clone()))?;
            Ok(made)
        }
        let powers =
            |first: f64, count: usize, factor: f64| prometheus::exponential_buckets(first, factor, count);
        let histogram = |name: &str, help: &str, buckets: Vec<f64>, labels: &[&str]| {
            HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), labels)
        };
        Ok(ApiMetrics {
            requests: own(
                registry,
                IntCounterVec::new(
                    Opts::new("apiserver_request_total", "Requests answered."),
                    &[
                        "verb",
                        "dry_run",
                        "group",
                        "version",
                        "resource",
                        "subresource",
                        "scope",
                        "component",
                        "code",
                    ],
                ),
            )?,
            durations: own(
                registry,
                histogram(
                    "apiserver_request_duration_seconds",
                    "How long answers took.",
                    DURATION_SECONDS.to_vec(),
                    &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"],
                ),
            )?,
            sli_durations: own(
                registry,
                histogram(
                    "apiserver_request_sli_duration_seconds",
                    "How long answers took, watches aside.",
                    DURATION_SECONDS.to_vec(),
                    &["verb", "group", "version", "resource", "subresource", "scope", "component"],
                ),
            )?,
            watch_lists: own(
                registry,
                histogram(
                    "apiserver_watch_list_duration_seconds",
                    "How long it took until a watch had sent its initial state.",
                    DURATION_SECONDS.to_vec(),
                    &["group", "version", "resource", "scope"],
                ),
            )?,
            sizes: own(
                registry,
                histogram(
                    "apiserver_response_sizes",
                    "How long answers are, in bytes.",
                    powers(1000.0, 7, 10.0)?,
                    &["verb", "group", "version", "resource", "subresource", "scope", "component"],
                ),
            )?,
            in_flight: own(
                registry,
                IntGaugeVec::new(
                    Opts::new("apiserver_current_inflight_requests", "Requests being answered."),
                    &["request_kind"],
                ),
            )?,
            long_running: own(
                registry,
                IntGaugeVec::new(
                    Opts::new("apiserver_longrunning_requests", "Watches that are open."),
                    &["verb", "group", "version", "resource", "subresource", "scope", "component"],
                ),
            )?,
            events: own(
                registry,
                IntCounterVec::new(
                    Opts::new("apiserver_watch_events_total", "Events sent to watches."),
                    &["group", "version", "resource"],
                ),
            )?,
            event_sizes: own(
                registry,
                histogram(
                    "apiserver_watch_events_sizes",
                    "How long events are, in bytes.",
                    powers(1024.0, 8, 2.0)?,
                    &["group", "version", "resource"],
                ),
            )?,
        })
    }

    /// A request was answered.
    pub fn answered(
        &self,
        info: &RequestInfo,
        kind: Option<&Kind>,
        dry_run: bool,
        code: u16,
        took: Duration,
        bytes: Option<u64>,
    ) {
        let verb = verb(info);
        let dry_run = if dry_run { "All" } else { "" };
        let scope = scope(info);
        let [group, version, resource, subresource] = labels(info, kind);
        let mut digits = [0; 5];
        let code = text(code, &mut digits);
        self.requests
            .with_label_values(&[
                verb,
                dry_run,
                group,
                version,
                resource,
                subresource,
                scope,
                "apiserver",
                code,
            ])
            .inc();
        self.durations
            .with_label_values(&[verb, dry_run, group, version, resource, subresource, scope, "apiserver"])
            .observe(took.as_secs_f64());
        if info.verb != "watch" {
            self.sli_durations
                .with_label_values(&[verb, group, version, resource, subresource, scope, "apiserver"])
                .observe(took.as_secs_f64());
        }
        if let Some(bytes) = bytes {
            self.sizes
                .with_label_values(&[verb, group, version, resource, subresource, scope, "apiserver"])
                .observe(bytes as f64);
        }
    }

    /// The number of requests of a kind that are being answered.
    pub fn in_flight(&self, mutating: bool) -> IntGauge {
        self.in_flight.with_label_values(&[if mutating { "mutating" } else { "readOnly" }])
    }

    /// A watch begins; it is counted for as long as what is returned lives.
    pub fn watch(&self, info: &RequestInfo, kind: &Kind) -> WatchMetrics {
        let kind = Some(kind);
        let [group, version, resource, subresource] = labels(info, kind);
        let own = [group, version, resource];
        let open = self.long_running.with_label_values(&[
            "WATCH",
            group,
            version,
            resource,
            subresource,
            scope(info),
            "apiserver",
        ]);
        open.inc();
        WatchMetrics {
            open,
            events: self.events.with_label_values(&own),
            sizes: self.event_sizes.with_label_values(&own),
            began: Instant::now(),
            initial: self.watch_lists.with_label_values(&[group, version, resource, scope(info)]),
        }
    }
}

/// The metrics of one watch.
pub struct WatchMetrics {
    open: IntGauge,
    events: IntCounter,
    sizes: prometheus::Histogram,
    began: Instant,
    initial: prometheus::Histogram,
}

impl WatchMetrics {
    /// An event of that many bytes was sent.
    pub fn event_sent(&self, bytes: usize) {
        self.events.inc();
        self.sizes.observe(bytes as f64);
    }
}

impl WatchMetrics {
    /// The initial state of the watch was sent.
    pub fn initial_state_sent(&self) {
        self.initial.observe(self.began.elapsed().as_secs_f64());
    }
}

impl Drop for WatchMetrics {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// The verb of a request in metrics: in capitals, or the method if the path is no resource.
fn verb(info: &RequestInfo) -> &'static str {
    match info.verb {
        "list" => "LIST",
        "watch" => "WATCH",
        "get" => "GET",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

fn scope(info: &RequestInfo) -> &'static str {
    match info {
        info if !info.is_resource => "",
        info if !info.name.is_empty() || info.verb == "create" => "resource",
        info if !info.namespace.is_empty() => "namespace",
        _ => "cluster",
    }
}

/// The label of a resource. Only existing ones are named: else clients could create any number of series.
fn labels<'a>(info: &RequestInfo, kind: Option<&'a Kind>) -> [&'a str; 4] {
    let Some(kind) = kind else { return [""; 4] };
    let subresource = kind.subresource(&info.subresource).map_or("", |subresource| &subresource.name);
    [&kind.group, &kind.version, &kind.plural, subresource]
}

fn text(code: u16, digits: &mut [u8; 5]) -> &str {
    use std::io::Write;
    let mut rest = &mut digits[..];
    let before = rest.len();
    write!(rest, "{code}").expect("a code has at most five digits");
    let length = before - rest.len();
    std::str::from_utf8(&digits[..length]).expect("digits are text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test(start_paused = true)]
    async fn the_size_of_the_store_is_reported_while_it_is_known() {
        let size = Arc::new(AtomicU64::new(0));
        let asked = Arc::clone(&size);
        let gathered = MetricsEndpoint::new(Registry::new(), move || {
            let size = asked.load(Ordering::Relaxed);
            async move {
                if size == 1 {
                    std::future::pending::<()>().await;
                }
                (size > 0).then_some(size)
            }
        });
        let gathered = gathered.unwrap();
        for (bytes, line) in [
            (4096, Some("apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 4096")),
            (8192, Some("apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 8192")),
            // Unknown, and not known in time.
            (0, None),
            (1, None),
        ] {
            size.store(bytes, Ordering::Relaxed);
            let text = (gathered.encoder().await)();
            assert_eq!(text.lines().find(|line| !line.starts_with('#')), line);
        }
    }
}
