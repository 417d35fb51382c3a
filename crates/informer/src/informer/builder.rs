//! Configures informers.

use super::{Informer, OnError, Scope, Shared, StatusBoard, Transform};
use crate::{
    backoff::{BackoffPolicy, Random},
    error::InformerError,
    informer::processor::{NotifyOptions, Processor},
    object::{Fetch, Lean, Object, is_cluster_scoped},
    reflector::ReflectorOptions,
    source::{ApiSource, ListWatch, Source},
    stats::Stats,
    store::Store,
};
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, Resource, metadata::PartialObjectMeta};
use parking_lot::Mutex;
use std::{fmt, sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;

/// Configures an informer. No request is sent before it runs.
pub struct Builder<O> {
    origin: Origin<O>,
    /// The same source with objects kept as JSON, if there is one.
    lean: Option<Origin<Lean<O>>>,
    /// The resource, such as `deployments.apps`.
    resource: String,
    /// The API version, such as `v1`; empty if unknown.
    api_version: String,
    selection: Selection,
    is_cluster_scoped: bool,
    resync: Duration,
    notify: NotifyOptions,
    reflector: ReflectorOptions,
    random: Option<fn() -> Random>,
    transform: Option<Transform<O>>,
    verifies_states: bool,
    on_error: Option<OnError>,
}

/// The objects to request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    pub(crate) namespaces: Vec<String>,
    pub(crate) labels: String,
    pub(crate) fields: String,
}

impl Selection {
    /// Sorted and without duplicates, so that equal selections compare as equal. The empty namespace means all.
    pub(crate) fn namespaces<N: Into<String>>(self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let mut namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        if namespaces.iter().any(String::is_empty) {
            namespaces.clear();
        }
        namespaces.sort();
        namespaces.dedup();
        Selection { namespaces, ..self }
    }
}

/// Creates the source of the objects of one namespace, or of all.
type Origin<O> = Box<dyn Fn(Option<&str>, &Selection) -> Arc<dyn Source<O>> + Send>;

/// Whether listeners receive objects that a relist did not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnchangedOnRelist {
    /// They receive no event.
    #[default]
    Drop,
    /// They receive an update with the same object twice, as in client-go: every listener that was due for a resync
    /// at the last check, and every listener that was added since.
    Deliver,
}

impl<O> fmt::Debug for Builder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("resource", &self.resource)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl<K> Informer<K>
where
    K: Fetch<Resource = K> + Resource<DynamicType: Clone + Send + Sync, Scope: 'static>,
{
    /// An informer of all objects of a typed kind.
    pub fn builder(client: Client) -> Builder<K>
    where
        K::DynamicType: Default,
    {
        Self::builder_with(client, Default::default())
    }

    /// An informer of all objects of a kind that is described at runtime.
    pub fn builder_with(client: Client, kind: K::DynamicType) -> Builder<K> {
        let resource = resource_name::<K>(&kind);
        let lean = origin::<Lean<K>>(client.clone(), kind.clone());
        let api_version = K::version(&kind).into_owned();
        let is_cluster_scoped = is_cluster_scoped::<K>();
        let builder = Builder::new(origin::<K>(client, kind), resource);
        Builder { lean: Some(lean), api_version, is_cluster_scoped, ..builder }
    }
}

impl Informer<DynamicObject> {
    /// An informer of all objects of a kind that is known only at runtime.
    pub fn dynamic(client: Client, kind: &ApiResource) -> Builder<DynamicObject> {
        Self::builder_with(client, kind.clone())
    }
}

impl Informer<PartialObjectMeta<DynamicObject>> {
    /// An informer of the metadata of all objects of a kind. The server sends nothing else.
    pub fn metadata(client: Client, kind: &ApiResource) -> Builder<PartialObjectMeta<DynamicObject>> {
        Self::builder_with(client, kind.clone())
    }
}

impl<O: Object> Informer<O> {
    /// An informer of the objects of a source. The source selects namespaces, labels and fields. `resource` names the
    /// resource in errors, such as `deployments.apps`.
    pub fn from_source(resource: &str, source: impl ListWatch<O>) -> Builder<O> {
        let source: Arc<dyn Source<O>> = Arc::new(source);
        Builder::new(Box::new(move |_, _| Arc::clone(&source)), resource.to_owned())
    }
}

fn origin<O: Fetch>(client: Client, kind: <O::Resource as Resource>::DynamicType) -> Origin<O> {
    Box::new(move |namespace, selection| {
        let mut source = ApiSource::<O>::new(client.clone(), kind.clone());
        if let Some(namespace) = namespace {
            source = source.namespace(namespace);
        }
        if !selection.labels.is_empty() {
            source = source.labels(&selection.labels);
        }
        if !selection.fields.is_empty() {
            source = source.fields(&selection.fields);
        }
        Arc::new(source)
    })
}

fn resource_name<K: Resource>(kind: &K::DynamicType) -> String {
    match &*K::group(kind) {
        "" => K::plural(kind).into_owned(),
        group => format!("{}.{group}", K::plural(kind)),
    }
}

impl<O> Builder<O> {
    fn new(origin: Origin<O>, resource: String) -> Self {
        Builder {
            origin,
            lean: None,
            resource,
            api_version: String::new(),
            selection: Selection::default(),
            is_cluster_scoped: false,
            resync: Duration::ZERO,
            notify: NotifyOptions::default(),
            reflector: ReflectorOptions::default(),
            random: None,
            transform: None,
            verifies_states: false,
            on_error: None,
        }
    }

    /// Only objects of these namespaces, each with a watch of its own. All namespaces if the list is empty or
    /// contains the empty name. Cluster-scoped kinds ignore this.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.selection = self.selection.namespaces(namespaces);
        self
    }

    /// Only the objects of one namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects that match this label selector, such as `tier=web,track!=canary`.
    pub fn labels(mut self, selector: impl fmt::Display) -> Self {
        self.selection.labels = selector.to_string();
        self
    }

    /// Only objects that match this field selector, such as `status.phase=Running`.
    pub fn fields(mut self, selector: impl fmt::Display) -> Self {
        self.selection.fields = selector.to_string();
        self
    }

    /// The resync period: how often listeners receive all objects again. Zero, the default, disables resyncs. A
    /// resync sends no request to the server.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// Changes every object once when it arrives, for example to keep less of it. Its name and version must not
    /// change.
    pub fn transform(mut self, transform: impl Fn(&mut O) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Sets a function that is called with every error, instead of logging it. It must not block.
    pub fn on_error(mut self, on_error: impl Fn(&InformerError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(on_error));
        self
    }

    /// The number of objects in a page of a list.
    pub fn page_size(mut self, page_size: u32) -> Self {
        self.reflector.page_size = Some(page_size);
        self
    }

    /// Whether the first list is streamed as watch events (`sendInitialEvents`), which costs server and client less.
    /// By default it is, if the server supports it.
    pub fn watch_list(mut self, is_tried: bool) -> Self {
        self.reflector.watch_list = is_tried;
        self
    }

    /// The minimum duration of a watch; the actual one is random, up to twice as long. At least five minutes.
    pub fn watch_timeout(mut self, shortest: Duration) -> Self {
        self.reflector.watch_timeout = shortest;
        self
    }

    /// Reopens a watch after this time without any event. The default is the time at which the server should have
    /// ended the watch. Servers send a bookmark about once a minute.
    pub fn idle_timeout(mut self, longest: Duration) -> Self {
        self.reflector.idle_timeout = Some(longest);
        self
    }

    /// For how long internal errors inside a watch are retried at once, without backoff.
    pub fn internal_retry(mut self, budget: Duration) -> Self {
        self.reflector.internal_retry = budget;
        self
    }

    /// The backoff after failures.
    pub fn backoff(mut self, policy: BackoffPolicy) -> Self {
        self.reflector.backoff = policy;
        self
    }

    /// Whether listeners receive objects that a relist did not change.
    pub fn unchanged_on_relist(mut self, what: UnchangedOnRelist) -> Self {
        self.notify.unchanged_on_relist = what == UnchangedOnRelist::Deliver;
        self
    }

    /// Whether listeners receive the deletion of an object that was not in the store, as in client-go.
    pub fn unknown_deletes(mut self, are_delivered: bool) -> Self {
        self.notify.unknown_deletes = are_delivered;
        self
    }

    /// Compares every streamed list with a normal list at the same version and reports a difference. For tests: each
    /// costs an additional list.
    pub fn verify_states(mut self, they_are: bool) -> Self {
        self.verifies_states = they_are;
        self
    }

    /// The source of randomness for backoff and timeouts, for tests.
    pub fn random(mut self, random: fn() -> Random) -> Self {
        self.random = Some(random);
        self
    }

    pub(crate) fn is_cluster_scoped(&self) -> bool {
        self.is_cluster_scoped
    }

    pub(crate) fn select(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }
}

impl<K> Builder<K> {
    /// Keeps objects as JSON instead of decoding them, which takes a fraction of the memory and CPU. [`Lean::read`]
    /// decodes one.
    ///
    /// # Panics
    /// If a transform is set, because it takes decoded objects; and if the objects do not come from an API server.
    pub fn lean(self) -> Builder<Lean<K>> {
        assert!(self.transform.is_none(), "call `lean()` before `transform(..)`: it changes the object type");
        let origin = self.lean.expect("only objects of an API server can be kept as JSON");
        Builder {
            origin,
            lean: None,
            resource: self.resource,
            api_version: self.api_version,
            selection: self.selection,
            is_cluster_scoped: self.is_cluster_scoped,
            resync: self.resync,
            notify: self.notify,
            reflector: self.reflector,
            random: self.random,
            transform: None,
            verifies_states: self.verifies_states,
            on_error: self.on_error,
        }
    }
}

impl<O: Object> Builder<O> {
    /// Creates the informer. It does not run yet.
    pub fn build(self) -> Informer<O> {
        let scope = |namespace: Option<&str>| Scope {
            namespace: namespace.map(str::to_owned),
            source: (self.origin)(namespace, &self.selection),
        };
        let scopes: Vec<_> = match &*self.selection.namespaces {
            _ if self.is_cluster_scoped => vec![scope(None)],
            [] => vec![scope(None)],
            namespaces => namespaces.iter().map(|namespace| scope(Some(namespace))).collect(),
        };
        let scope_count = scopes.len();
        let store = Store::new(self.resource, scope_count);
        let shared = Shared {
            processor: Processor::new(store.clone(), scope_count, self.resync, self.notify),
            store,
            status: StatusBoard::new(scopes.iter().map(|scope| scope.namespace.clone())),
            scopes,
            api_version: self.api_version,
            reflector: self.reflector,
            random: self.random,
            transform: self.transform,
            verifies_states: self.verifies_states,
            on_error: self.on_error,
            stats: Stats::new(),
            versions: Mutex::new(vec![String::new(); scope_count]),
            handlers: TaskTracker::new(),
        };
        Informer { shared: Arc::new(shared) }
    }
}
