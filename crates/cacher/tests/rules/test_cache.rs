//! A cache over a [`ControlledBackend`], with short methods for its clients and texts for their events.

use super::controlled_backend::{Call, ControlledBackend};
use futures::StreamExt;
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position, WatchStart},
    meta::Qualified,
};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_storage::{
    Backend, Key, List, ListRequest, Object, Storage, StorageError, Watch, WatchEvent, WatchRequest,
    testing::{Fixture, Pod, names, pod, pods_prefix},
};
use std::{future::Future, ops::Deref, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// The time for which a client waits for an expected event. It is longer than any test takes; the time is virtual.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A cache of pods. It is also the [`Fixture`] of the storage suite, with the cache as its storage.
pub(crate) struct TestCache {
    pub(crate) backend: ControlledBackend,
    pub(crate) cacher: Arc<Cacher>,
    registry: prometheus::Registry,
    fixture: Fixture,
}

impl Deref for TestCache {
    type Target = Fixture;
    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl TestCache {
    /// A cache that starts to follow a backend.
    pub(crate) fn start(backend: ControlledBackend, options: CacherOptions) -> Self {
        let registry = prometheus::Registry::new();
        let metrics = CacheMetrics::register(&registry).unwrap();
        let inner: Arc<dyn Backend> = Arc::new(backend.clone());
        let mut fixture = Fixture::new(inner);
        let options = CacherOptions { seed: Some(7), ..options };
        let cacher = Cacher::new(fixture.source(), pods_prefix(), Qualified::core("pods"), options, &metrics);
        let cacher = Arc::new(cacher);
        fixture.storage = cacher.clone();
        fixture.capabilities.cached = true;
        Self { backend, cacher, registry, fixture }
    }

    /// A cache that has caught up with a backend.
    pub(crate) async fn ready(backend: ControlledBackend, options: CacherOptions) -> Self {
        let cache = Self::start(backend, options);
        timeout(TIMEOUT, cache.cacher.until_ready()).await.expect("the cache becomes ready");
        cache
    }

    /// A cache over an empty backend that knows its revision.
    pub(crate) async fn empty() -> Self {
        Self::ready(ControlledBackend::in_memory(), CacherOptions::default()).await
    }

    /// A cache that has seen pods `a`, `b` and `c` being created, at 2, 3 and 4.
    pub(crate) async fn abc() -> Self {
        Self::empty().await.create_abc().await
    }

    /// The same over a backend whose revision has to be requested.
    pub(crate) async fn abc_without_frontier() -> Self {
        Self::ready(ControlledBackend::without_frontier(), CacherOptions::default()).await.create_abc().await
    }

    pub(crate) async fn create_abc(self) -> Self {
        for name in ["a", "b", "c"] {
            self.create(&pod(name)).await;
        }
        self.caught_up().await;
        self
    }

    /// Waits until the cache has seen every change.
    pub(crate) async fn caught_up(&self) {
        let revision = self.backend.inner.current_revision().await.unwrap();
        self.cacher.get_list("/pods", list_at(ListAt::NotOlderThan(revision))).await.unwrap();
    }

    /// A fixture whose requests bypass the cache.
    pub(crate) fn bypass(&self) -> Fixture {
        Fixture::new(self.backend.inner.clone())
    }

    /// Writes to another resource.
    pub(crate) async fn write_elsewhere(&self) -> ResourceVersion {
        self.bypass().put_raw(&Key::from_backend("/registry/other/x"), "x").await
    }

    /// Opens a watch of all pods.
    pub(crate) async fn client(&self, start: WatchStart) -> Client {
        self.client_of("/pods", WatchRequest::from(start)).await
    }

    /// Opens a watch.
    pub(crate) async fn client_of(&self, key: &str, request: WatchRequest) -> Client {
        Client::new(self.cacher.watch(key, request).await.expect("the watch is opened"))
    }

    /// The names in a list, and its revision: `a b c @4`.
    pub(crate) async fn list_names(&self, request: ListRequest) -> String {
        match self.cacher.get_list("/pods", request).await {
            Ok(list) => describe_list(&list),
            Err(error) => error.to_string(),
        }
    }

    /// Awaits a future, and returns the calls to the backend that it caused, other than requests for progress: `Get 1,
    /// Range 1`.
    pub(crate) async fn calls_during<T>(&self, what: impl Future<Output = T>) -> (T, String) {
        let before = self.backend.all_calls();
        let done = what.await;
        let after = self.backend.all_calls();
        let new = after.into_iter().map(|(call, count)| (call, count - before.get(&call).unwrap_or(&0)));
        let calls = new.filter(|(call, count)| *count > 0 && *call != Call::Progress);
        (done, calls.map(|(call, count)| format!("{call:?} {count}")).collect::<Vec<_>>().join(", "))
    }

    /// The value of a metric that has these labels, besides those of the resource; zero if it was never counted.
    pub(crate) fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
        let has = |metric: &&prometheus::proto::Metric| {
            labels.iter().all(|(name, value)| {
                metric.get_label().iter().any(|label| label.name() == *name && label.value() == *value)
            })
        };
        metrics.iter().find(has).map_or(0.0, |metric| {
            metric.get_counter().get_value()
                + metric.get_gauge().get_value()
                + metric.get_histogram().get_sample_count() as f64
        })
    }

    /// The names and labels of all metrics: `watch_cache_capacity{group,resource}`.
    pub(crate) fn metric_names(&self) -> Vec<String> {
        let name = |family: &prometheus::proto::MetricFamily| {
            let labels = family.get_metric()[0].get_label().iter().map(|label| label.name());
            format!("{}{{{}}}", family.name(), labels.collect::<Vec<_>>().join(","))
        };
        self.registry.gather().iter().map(name).collect()
    }

    /// The number of times that the cache has listed storage.
    pub(crate) fn initializations(&self) -> f64 {
        self.metric("apiserver_watch_cache_initializations_total", &[])
    }
}

/// A watch that a client reads.
pub(crate) struct Client {
    watch: Watch,
    opened: Instant,
}

impl Client {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch, opened: Instant::now() }
    }

    /// The next event as text.
    pub(crate) async fn next(&mut self) -> String {
        match timeout(TIMEOUT, self.watch.next()).await.expect("the watch delivers something") {
            None => "END".to_owned(),
            Some(Err(error)) => format!("ERROR {error}"),
            Some(Ok(event)) => describe(&event),
        }
    }

    /// Reads as many events as `expected` has, and compares them.
    pub(crate) async fn receives(&mut self, expected: &str) {
        let mut received = Vec::new();
        for _ in expected.split("; ") {
            received.push(self.next().await);
        }
        assert_eq!(received.join("; "), expected);
    }

    /// Asserts that nothing is delivered for this many seconds.
    pub(crate) async fn receives_nothing_for(&mut self, seconds: u64) {
        if let Ok(item) = timeout(Duration::from_secs(seconds), self.watch.next()).await {
            panic!("unexpected: {item:?}");
        }
    }

    /// The events until the end of the watch, or until this many seconds after it was opened, each with its second:
    /// `61s BOOKMARK @5`.
    pub(crate) async fn receives_within(&mut self, seconds: u64) -> String {
        let end = self.opened + Duration::from_secs(seconds);
        let mut received = Vec::new();
        while let Ok(item) = tokio::time::timeout_at(end, self.next()).await {
            received.push(format!("{}s {item}", self.opened.elapsed().as_secs_f64().round()));
            if item == "END" {
                break;
            }
        }
        received.join("; ")
    }
}

fn describe(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(object) => format!("ADDED {}", describe_object(object)),
        WatchEvent::Modified(object) => format!("MODIFIED {}", describe_object(object)),
        WatchEvent::Deleted(object) => format!("DELETED {}", describe_object(object)),
        WatchEvent::Bookmark { revision, initial_state_end: false } => format!("BOOKMARK @{revision}"),
        WatchEvent::Bookmark { revision, initial_state_end: true } => format!("STATE END @{revision}"),
    }
}

/// An object's name, data and revision: `a=7@3`.
pub(crate) fn describe_object(object: &Object) -> String {
    let name = object.key.rsplit('/').next().unwrap_or_default();
    match Pod::data_of(&object.value) {
        0 => format!("{name}@{}", object.revision),
        data => format!("{name}={data}@{}", object.revision),
    }
}

/// A list's names and revision: `a b c @4`.
pub(crate) fn describe_list(list: &List) -> String {
    format!("{} @{}", names(list), list.revision)
}

/// A list of all objects at a position.
pub(crate) fn list_at(at: ListAt) -> ListRequest {
    ListRequest { at, ..ListRequest::all() }
}

/// A watch that starts with the state and marks its end.
pub(crate) fn initial_events(position: Position) -> WatchStart {
    WatchStart::InitialEvents { position, end_bookmark: true }
}

/// A watch of the changes after a revision.
pub(crate) fn after(revision: u64) -> WatchStart {
    WatchStart::after(version(revision))
}

pub(crate) fn version(revision: u64) -> ResourceVersion {
    ResourceVersion::new(revision).unwrap()
}

/// Awaits a future, and returns how many seconds that took.
pub(crate) async fn timed<T>(what: impl Future<Output = T>) -> (T, f64) {
    let begun = Instant::now();
    let done = what.await;
    (done, begun.elapsed().as_secs_f64())
}

/// Waits until a condition holds.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TIMEOUT, polling).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

/// Sleeps for this many seconds.
pub(crate) async fn sleep_for(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds)).await;
}

/// The error of storage that has lost its leader.
pub(crate) fn no_leader() -> StorageError {
    StorageError::WatchFailed("etcdserver: no leader".to_owned())
}

/// The error of storage that does not answer.
pub(crate) fn unreachable() -> StorageError {
    StorageError::Unreachable { doing: "asking storage", source: "connection refused".into() }
}
