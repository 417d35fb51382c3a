//! How an informer is made.

use super::{Informer, OnError, Scope, Shared, StatusBoard, Transform};
use crate::{
    ApiSource, BackoffPolicy, Fetch, InformerError, Lean, ListWatch, Object, Random, ReflectorOptions, Store,
    object::is_cluster_scoped,
    processor::{Processor, Telling},
    source::Source,
    stats::Stats,
};
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, Resource, metadata::PartialObjectMeta};
use parking_lot::Mutex;
use std::{fmt, sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;

/// What an informer shall be. Nothing is asked for before it runs.
pub struct Builder<O> {
    origin: Origin<O>,
    /// The same objects as bytes, where they can be had.
    lean: Option<Origin<Lean<O>>>,
    /// As `deployments.apps`.
    resource: String,
    /// As `v1`; empty if that is not known.
    api_version: String,
    selection: Selection,
    is_cluster_scoped: bool,
    resync: Duration,
    telling: Telling,
    reflector: ReflectorOptions,
    random: Option<fn() -> Random>,
    transform: Option<Transform<O>>,
    verifies_states: bool,
    on_error: Option<OnError>,
}

/// Which objects are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    pub(crate) namespaces: Vec<String>,
    pub(crate) labels: String,
    pub(crate) fields: String,
}

impl Selection {
    /// In order and each once, so that the same selection is equal. The empty namespace means all.
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

/// Makes the source of the objects of a namespace, or of all.
type Origin<O> = Box<dyn Fn(Option<&str>, &Selection) -> Arc<dyn Source<O>> + Send>;

/// What listeners are told of objects that a relist shows to be as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnchangedOnRelist {
    /// Nothing.
    #[default]
    Drop,
    /// An update with the same object twice, as client-go does it: to all who were due for a resync when that was last
    /// looked at, and to those for whom it was not looked at yet.
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
    /// An informer of all objects of a kind that the compiler knows.
    pub fn builder(client: Client) -> Builder<K>
    where
        K::DynamicType: Default,
    {
        Self::builder_with(client, Default::default())
    }

    /// An informer of all objects of a kind that is described.
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
    /// An informer of all objects of a kind that is known only when the program runs.
    pub fn dynamic(client: Client, kind: &ApiResource) -> Builder<DynamicObject> {
        Self::builder_with(client, kind.clone())
    }
}

impl Informer<PartialObjectMeta<DynamicObject>> {
    /// The same, of their metadata only: the server sends nothing else.
    pub fn metadata(client: Client, kind: &ApiResource) -> Builder<PartialObjectMeta<DynamicObject>> {
        Self::builder_with(client, kind.clone())
    }
}

impl<O: Object> Informer<O> {
    /// An informer of whatever comes from there: which namespaces, labels and fields that has is for the source to say.
    /// `resource` is how errors name it, as `deployments.apps`.
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
            telling: Telling::default(),
            reflector: ReflectorOptions::default(),
            random: None,
            transform: None,
            verifies_states: false,
            on_error: None,
        }
    }

    /// Only the objects of these namespaces, each watched on its own; all if there are none, or one of them is empty.
    /// Kinds that are in no namespace do not mind.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.selection = self.selection.namespaces(namespaces);
        self
    }

    /// Only the objects of one namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects with such labels, as `tier=web,track!=canary`.
    pub fn labels(mut self, selector: impl fmt::Display) -> Self {
        self.selection.labels = selector.to_string();
        self
    }

    /// Only objects with such fields, as `status.phase=Running`.
    pub fn fields(mut self, selector: impl fmt::Display) -> Self {
        self.selection.fields = selector.to_string();
        self
    }

    /// How often listeners are told of all objects once more; never if zero, as it is unless this is called. Nothing is
    /// asked of the server for that.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// Changes every object once when it comes, before anything else sees it; to keep less of it, for example. Its name
    /// and version must stay.
    pub fn transform(mut self, transform: impl Fn(&mut O) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Is told of everything that goes wrong, instead of a log. It should return quickly.
    pub fn on_error(mut self, on_error: impl Fn(&InformerError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(on_error));
        self
    }

    /// How many objects are asked for at once where a list is needed.
    pub fn page_size(mut self, page_size: u32) -> Self {
        self.reflector.page_size = Some(page_size);
        self
    }

    /// Whether the first state is asked for as events, which costs server and client less; it is, where the server can.
    pub fn watch_list(mut self, is_tried: bool) -> Self {
        self.reflector.watch_list = is_tried;
        self
    }

    /// Watches last so long, or up to twice as long; at least five minutes.
    pub fn watch_timeout(mut self, shortest: Duration) -> Self {
        self.reflector.watch_timeout = shortest;
        self
    }

    /// After so long without a word from the server a watch is opened anew. Without this call that is when the server
    /// should have ended it. Servers send something about once a minute.
    pub fn idle_timeout(mut self, longest: Duration) -> Self {
        self.reflector.idle_timeout = Some(longest);
        self
    }

    /// For how long failures of the server inside a watch are answered by watching again at once.
    pub fn internal_retry(mut self, budget: Duration) -> Self {
        self.reflector.internal_retry = budget;
        self
    }

    /// How long it waits after failures.
    pub fn backoff(mut self, policy: BackoffPolicy) -> Self {
        self.reflector.backoff = policy;
        self
    }

    /// What listeners are told of objects that a relist shows to be as they were.
    pub fn unchanged_on_relist(mut self, what: UnchangedOnRelist) -> Self {
        self.telling.unchanged_on_relist = what == UnchangedOnRelist::Deliver;
        self
    }

    /// Whether listeners are told of the deletion of objects that they were never told of, as client-go does it.
    pub fn unknown_deletes(mut self, are_told: bool) -> Self {
        self.telling.unknown_deletes = are_told;
        self
    }

    /// Compares every state that a watch sent with a list at the same version, and reports if they differ. For tests: it
    /// costs a list each time.
    pub fn verify_states(mut self, they_are: bool) -> Self {
        self.verifies_states = they_are;
        self
    }

    /// Chance for waits and time-outs, for tests.
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
    /// Keeps the JSON of objects instead of decoded ones, which takes a fraction of the memory and of the time; whoever
    /// wants an object decoded calls [`Lean::read`].
    ///
    /// # Panics
    /// If a transform was given before: it is for decoded objects. And for objects that do not come from an API server.
    pub fn lean(self) -> Builder<Lean<K>> {
        assert!(self.transform.is_none(), "`lean()` comes before `transform(..)`, whose objects it changes");
        let origin = self.lean.expect("only what comes from an API server can be kept as JSON");
        Builder {
            origin,
            lean: None,
            resource: self.resource,
            api_version: self.api_version,
            selection: self.selection,
            is_cluster_scoped: self.is_cluster_scoped,
            resync: self.resync,
            telling: self.telling,
            reflector: self.reflector,
            random: self.random,
            transform: None,
            verifies_states: self.verifies_states,
            on_error: self.on_error,
        }
    }
}

impl<O: Object> Builder<O> {
    /// The informer. Nothing runs yet.
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
        let parts = scopes.len();
        let store = Store::new(self.resource, parts);
        let shared = Shared {
            processor: Processor::new(store.clone(), parts, self.resync, self.telling),
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
            heard: Mutex::new(vec![String::new(); parts]),
            handlers: TaskTracker::new(),
        };
        Informer { shared: Arc::new(shared) }
    }
}
