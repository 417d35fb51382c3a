//! A cache over a [`Gate`], and short words for what its clients do and hear.

use super::gate::{Call, Gate};
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

/// How long a client waits for what must come, which is longer than anything here takes. The time is not real.
const PATIENCE: Duration = Duration::from_secs(600);

/// A cache of pods. It is also the [`Fixture`] of the storage suite, with the cache as its storage.
pub(crate) struct World {
    pub(crate) gate: Gate,
    pub(crate) cacher: Arc<Cacher>,
    registry: prometheus::Registry,
    fixture: Fixture,
}

impl Deref for World {
    type Target = Fixture;
    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl World {
    /// A cache that begins to follow a store.
    pub(crate) fn begin(gate: Gate, options: CacherOptions) -> Self {
        let registry = prometheus::Registry::new();
        let metrics = CacheMetrics::register(&registry).unwrap();
        let backend: Arc<dyn Backend> = Arc::new(gate.clone());
        let mut fixture = Fixture::new(backend);
        let options = CacherOptions { seed: Some(7), ..options };
        let cacher =
            Cacher::new(fixture.storage.clone(), pods_prefix(), Qualified::core("pods"), options, &metrics);
        let cacher = Arc::new(cacher);
        fixture.storage = cacher.clone();
        fixture.capabilities.cached = true;
        Self { gate, cacher, registry, fixture }
    }

    /// A cache that has caught up with a store.
    pub(crate) async fn over(gate: Gate, options: CacherOptions) -> Self {
        let world = Self::begin(gate, options);
        timeout(PATIENCE, world.cacher.until_ready()).await.expect("the cache is filled");
        world
    }

    /// A cache over an empty store that is near.
    pub(crate) async fn empty() -> Self {
        Self::over(Gate::near(), CacherOptions::default()).await
    }

    /// One that has seen pods `a`, `b` and `c` being created, at 2, 3 and 4.
    pub(crate) async fn abc() -> Self {
        Self::empty().await.with_abc().await
    }

    /// The same over a store that is far.
    pub(crate) async fn far_abc() -> Self {
        Self::over(Gate::far(), CacherOptions::default()).await.with_abc().await
    }

    pub(crate) async fn with_abc(self) -> Self {
        for name in ["a", "b", "c"] {
            self.create(&pod(name)).await;
        }
        self.caught_up().await;
        self
    }

    /// Waits until the cache has seen everything.
    pub(crate) async fn caught_up(&self) {
        let revision = self.gate.inner.current_revision().await.unwrap();
        self.cacher.get_list("/pods", list_at(ListAt::NotOlderThan(revision))).await.unwrap();
    }

    /// What is done to this is done behind the cache's back.
    pub(crate) fn behind(&self) -> Fixture {
        Fixture::new(self.gate.inner.clone())
    }

    /// Writes to another resource.
    pub(crate) async fn write_elsewhere(&self) -> ResourceVersion {
        self.behind().put_raw(&Key::from_backend("/registry/other/x"), "x").await
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
    pub(crate) async fn lists(&self, request: ListRequest) -> String {
        match self.cacher.get_list("/pods", request).await {
            Ok(list) => listed(&list),
            Err(error) => error.to_string(),
        }
    }

    /// Does something, and tells what it asked of the store besides how far it is: `Get 1, Range 1`.
    pub(crate) async fn asked_by<T>(&self, what: impl Future<Output = T>) -> (T, String) {
        let before = self.gate.all_calls();
        let done = what.await;
        let after = self.gate.all_calls();
        let new = after.into_iter().map(|(call, count)| (call, count - before.get(&call).unwrap_or(&0)));
        let asked = new.filter(|(call, count)| *count > 0 && *call != Call::Progress);
        (done, asked.map(|(call, count)| format!("{call:?} {count}")).collect::<Vec<_>>().join(", "))
    }

    /// The value of a metric with these labels beside those of the resource; zero if it was never counted.
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

    /// How often the cache was filled.
    pub(crate) fn fillings(&self) -> f64 {
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

    /// The next thing it hears, in words.
    pub(crate) async fn next(&mut self) -> String {
        match timeout(PATIENCE, self.watch.next()).await.expect("the watch tells something") {
            None => "END".to_owned(),
            Some(Err(error)) => format!("ERROR {error}"),
            Some(Ok(event)) => in_words(&event),
        }
    }

    /// Reads as many things as are written here, and compares.
    pub(crate) async fn hears(&mut self, expected: &str) {
        let mut heard = Vec::new();
        for _ in expected.split("; ") {
            heard.push(self.next().await);
        }
        assert_eq!(heard.join("; "), expected);
    }

    /// Shows that nothing comes for so many seconds.
    pub(crate) async fn hears_nothing_for(&mut self, seconds: u64) {
        if let Ok(item) = timeout(Duration::from_secs(seconds), self.watch.next()).await {
            panic!("nothing was due, not {item:?}");
        }
    }

    /// Everything until its end or until so many seconds after it was opened, each with the second it comes at:
    /// `61s BOOKMARK @5`.
    pub(crate) async fn hears_within(&mut self, seconds: u64) -> String {
        let end = self.opened + Duration::from_secs(seconds);
        let mut heard = Vec::new();
        while let Ok(item) = tokio::time::timeout_at(end, self.next()).await {
            heard.push(format!("{}s {item}", self.opened.elapsed().as_secs_f64().round()));
            if item == "END" {
                break;
            }
        }
        heard.join("; ")
    }
}

fn in_words(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(object) => format!("ADDED {}", named(object)),
        WatchEvent::Modified(object) => format!("MODIFIED {}", named(object)),
        WatchEvent::Deleted(object) => format!("DELETED {}", named(object)),
        WatchEvent::Bookmark { revision, initial_state_end: false } => format!("BOOKMARK @{revision}"),
        WatchEvent::Bookmark { revision, initial_state_end: true } => format!("STATE END @{revision}"),
    }
}

/// An object's name, data and revision: `a=7@3`.
pub(crate) fn named(object: &Object) -> String {
    let name = object.key.rsplit('/').next().unwrap_or_default();
    match Pod::data_of(&object.value) {
        0 => format!("{name}@{}", object.revision),
        data => format!("{name}={data}@{}", object.revision),
    }
}

/// A list's names and revision: `a b c @4`.
pub(crate) fn listed(list: &List) -> String {
    format!("{} @{}", names(list), list.revision)
}

/// Everything, as it is at some point.
pub(crate) fn list_at(at: ListAt) -> ListRequest {
    ListRequest { at, ..ListRequest::all() }
}

/// A watch that begins with the state, wherever that is, its end marked.
pub(crate) fn from_state(position: Position) -> WatchStart {
    WatchStart::InitialEvents { position, end_bookmark: true }
}

/// A watch of the changes after a revision.
pub(crate) fn after(revision: u64) -> WatchStart {
    WatchStart::after(version(revision))
}

pub(crate) fn version(revision: u64) -> ResourceVersion {
    ResourceVersion::new(revision).unwrap()
}

/// How many whole seconds something takes, rounded, and what it gives.
pub(crate) async fn timed<T>(what: impl Future<Output = T>) -> (T, f64) {
    let begun = Instant::now();
    let done = what.await;
    (done, begun.elapsed().as_secs_f64())
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

/// Lets so many seconds pass.
pub(crate) async fn pass(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds)).await;
}

/// What storage says when its leader is lost.
pub(crate) fn no_leader() -> StorageError {
    StorageError::WatchFailed("etcdserver: no leader".to_owned())
}

/// What storage says when nobody answers.
pub(crate) fn refused() -> StorageError {
    StorageError::Unreachable { doing: "asking storage", source: "connection refused".into() }
}
