//! Metrics of the requests to any [`Storage`], under the names that kube-apiserver uses for them.
//!
//! A [`MeteredStorage`] wraps the storage that a watch cache, or a server without caches, reads and writes.

use crate::{
    CacheSource, DeleteOptions, Frontier, HistoryReader, List, ListRequest, Object, PastChanges, Storage,
    StorageError, TryUpdate, Unchanged, UpdateOptions, Validate, Watch, WatchEvent, WatchRequest,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use keepwatch_apimachinery::{ResourceVersion, list_options::Position, meta::Qualified};
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// The upper bounds of the buckets for the duration of a request, in seconds.
const REQUEST_SECONDS: [f64; 21] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0,
];

/// The storage metrics of a server. Each storage counts under its own resource.
#[derive(Clone)]
pub struct StorageMetrics {
    durations: HistogramVec,
    requests: IntCounterVec,
    errors: IntCounterVec,
    bookmarks: IntCounterVec,
    events: IntCounterVec,
    decode_errors: IntCounterVec,
    lists: IntCounterVec,
    fetched: IntCounterVec,
    evaluated: IntCounterVec,
    returned: IntCounterVec,
}

impl StorageMetrics {
    /// Registers the metrics. Fails if the registry has some of these names already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        const RESOURCE: [&str; 2] = ["group", "resource"];
        const OPERATION: [&str; 3] = ["operation", "group", "resource"];
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let durations =
            HistogramOpts::new("etcd_request_duration_seconds", "How long requests to storage took.");
        let durations = HistogramVec::new(durations.buckets(REQUEST_SECONDS.to_vec()), &OPERATION)?;
        registry.register(Box::new(durations.clone()))?;
        Ok(Self {
            durations,
            requests: counter("etcd_requests_total", "Requests to storage.", &OPERATION)?,
            errors: counter("etcd_request_errors_total", "Requests to storage that failed.", &OPERATION)?,
            bookmarks: counter("etcd_bookmark_total", "Bookmarks that storage sent.", &RESOURCE)?,
            events: counter("apiserver_storage_events_received_total", "Events from storage.", &RESOURCE)?,
            decode_errors: counter(
                "apiserver_storage_decode_errors_total",
                "Values in storage that could not be read.",
                &RESOURCE,
            )?,
            lists: counter("apiserver_storage_list_total", "Lists read from storage.", &RESOURCE)?,
            fetched: counter(
                "apiserver_storage_list_fetched_objects_total",
                "Objects fetched from storage for lists.",
                &RESOURCE,
            )?,
            evaluated: counter(
                "apiserver_storage_list_evaluated_objects_total",
                "Objects from storage that selectors were asked about for lists.",
                &RESOURCE,
            )?,
            returned: counter(
                "apiserver_storage_list_returned_objects_total",
                "Objects from storage that lists returned.",
                &RESOURCE,
            )?,
        })
    }
}

/// The storage of one resource that counts and times the requests to it.
pub struct MeteredStorage {
    inner: Arc<dyn CacheSource>,
    create: Operation,
    get: Operation,
    update: Operation,
    delete: Operation,
    list: Operation,
    bookmarks: IntCounter,
    events: IntCounter,
    decode_errors: IntCounter,
    lists: IntCounter,
    fetched: IntCounter,
    evaluated: IntCounter,
    returned: IntCounter,
}

struct Operation {
    durations: Histogram,
    requests: IntCounter,
    errors: IntCounter,
}

impl MeteredStorage {
    /// Counts the requests to `inner` under a resource's name.
    pub fn new(inner: Arc<dyn CacheSource>, resource: Qualified<'_>, metrics: &StorageMetrics) -> Self {
        let labels = [resource.group, resource.kind];
        let operation = |name| {
            let labels = [name, resource.group, resource.kind];
            Operation {
                durations: metrics.durations.with_label_values(&labels),
                requests: metrics.requests.with_label_values(&labels),
                errors: metrics.errors.with_label_values(&labels),
            }
        };
        Self {
            inner,
            create: operation("create"),
            get: operation("get"),
            update: operation("update"),
            delete: operation("delete"),
            list: operation("list"),
            bookmarks: metrics.bookmarks.with_label_values(&labels),
            events: metrics.events.with_label_values(&labels),
            decode_errors: metrics.decode_errors.with_label_values(&labels),
            lists: metrics.lists.with_label_values(&labels),
            fetched: metrics.fetched.with_label_values(&labels),
            evaluated: metrics.evaluated.with_label_values(&labels),
            returned: metrics.returned.with_label_values(&labels),
        }
    }

    async fn count<T>(
        &self,
        operation: &Operation,
        request: impl Future<Output = Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        let begun = Instant::now();
        let answer = request.await;
        operation.requests.inc();
        operation.durations.observe(begun.elapsed().as_secs_f64());
        match &answer {
            Err(StorageError::Corrupt { .. }) => self.decode_errors.inc(),
            Err(error) if is_storage_failure(error) => operation.errors.inc(),
            _ => {}
        }
        answer
    }
}

/// Whether storage failed. A refusal, such as a conflict, is an answer.
fn is_storage_failure(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Unreachable { .. }
            | StorageError::Timeout { .. }
            | StorageError::Full { .. }
            | StorageError::Backend { .. }
    )
}

#[async_trait]
impl Storage for MeteredStorage {
    async fn create_while(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        self.count(&self.create, self.inner.create_while(key, value, ttl, unchanged)).await
    }

    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError> {
        self.count(&self.get, self.inner.get(key, position)).await
    }

    async fn delete(
        &self,
        key: &str,
        options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError> {
        self.count(&self.delete, self.inner.delete(key, options, validate)).await
    }

    async fn guaranteed_update(
        &self,
        key: &str,
        options: UpdateOptions,
        try_update: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        self.count(&self.update, self.inner.guaranteed_update(key, options, try_update)).await
    }

    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        let list = self.count(&self.list, self.inner.get_list(key, request)).await?;
        self.lists.inc();
        self.fetched.inc_by(list.looked_at as u64);
        self.evaluated.inc_by(list.looked_at as u64);
        self.returned.inc_by(list.items.len() as u64);
        Ok(list)
    }

    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        let watch = self.inner.watch(key, request).await?;
        let (bookmarks, events) = (self.bookmarks.clone(), self.events.clone());
        let decode_errors = self.decode_errors.clone();
        let counted = watch.inspect(move |item| match item {
            Ok(WatchEvent::Bookmark { .. }) => bookmarks.inc(),
            Ok(_) => events.inc(),
            Err(StorageError::Corrupt { .. }) => decode_errors.inc(),
            Err(_) => {}
        });
        Ok(counted.boxed())
    }
}

#[async_trait]
impl CacheSource for MeteredStorage {
    async fn past_changes(
        &self,
        key: &str,
        recursive: bool,
        after: ResourceVersion,
        until: ResourceVersion,
        with_old: bool,
    ) -> Result<PastChanges, StorageError> {
        let changes = self.inner.past_changes(key, recursive, after, until, with_old).await?;
        let (events, decode_errors) = (self.events.clone(), self.decode_errors.clone());
        let counted = changes.inspect(move |item| match item {
            Ok(_) => events.inc(),
            Err(StorageError::Corrupt { .. }) => decode_errors.inc(),
            Err(_) => {}
        });
        Ok(counted.boxed())
    }

    fn keep_history_for(&self, reader: Weak<dyn HistoryReader>) {
        self.inner.keep_history_for(reader);
    }

    async fn request_progress(&self) -> Result<(), StorageError> {
        self.inner.request_progress().await
    }

    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.inner.current_revision().await
    }

    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.inner.compacted_revision()
    }

    fn reports_progress(&self) -> bool {
        self.inner.reports_progress()
    }

    fn frontier(&self) -> Option<Frontier> {
        self.inner.frontier()
    }
}
