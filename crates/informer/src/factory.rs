//! Shares one informer per kind and selection.
//!
//! Invariants: requests for the same objects in the same form return the same informer; for cluster-scoped kinds the
//! namespaces do not matter. An informer runs at most once, and none is started after the shutdown.

use crate::{
    informer::{Builder, Informer, Selection, Status},
    object::{Fetch, Lean, Object, ObjectKey},
};
use futures::future::{BoxFuture, join_all};
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, Resource, metadata::PartialObjectMeta};
use parking_lot::Mutex;
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
    time::Duration,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Creates informers, and runs them together. Clones share it.
///
/// ```no_run
/// # use keepwatch_informer::InformerFactory;
/// # use k8s_openapi::api::core::v1::{Pod, Service};
/// # use std::time::Duration;
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = InformerFactory::builder(client).namespaces(["apps"]).build();
/// let pods = factory.informer::<Pod>();
/// let services = factory.informer::<Service>();
/// factory.start();
/// factory.synced(Duration::from_secs(30)).await.into_result()?;
/// println!("{} pods, {} services", pods.store().len(), services.store().len());
/// factory.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InformerFactory {
    shared: Arc<Shared>,
    selection: Selection,
}

struct Shared {
    client: Client,
    resync: Duration,
    /// The configuration of informers by object type; each value is a [`Configure`].
    configure: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    state: Mutex<State>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

type Configure<O> = Box<dyn Fn(Builder<O>) -> Builder<O> + Send + Sync>;

#[derive(Default)]
struct State {
    informers: HashMap<Identity, Arc<dyn AnyInformer>>,
    /// In the order of the requests.
    order: Vec<Identity>,
    started: Vec<Arc<dyn AnyInformer>>,
    is_shut_down: bool,
}

/// Identifies an informer of the factory.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    form: TypeId,
    path: String,
    is_cluster_scoped: bool,
    selection: Selection,
}

impl Identity {
    /// The namespaces do not matter for cluster-scoped kinds.
    fn new(form: TypeId, path: String, is_cluster_scoped: bool, mut selection: Selection) -> Self {
        if is_cluster_scoped {
            selection.namespaces.clear();
        }
        Identity { form, path, is_cluster_scoped, selection }
    }

    /// Whether it has this path and selection, in any form.
    fn is_of(&self, path: &str, selection: &Selection) -> bool {
        let asked = Identity::new(self.form, path.to_owned(), self.is_cluster_scoped, selection.clone());
        *self == asked
    }
}

/// Configures a factory.
pub struct FactoryBuilder {
    client: Client,
    selection: Selection,
    resync: Duration,
    configure: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder").field("selection", &self.selection).finish_non_exhaustive()
    }
}

impl FactoryBuilder {
    /// Only objects of these namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.selection = self.selection.namespaces(namespaces);
        self
    }

    /// Only the objects of one namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects that match this label selector.
    pub fn labels(mut self, selector: impl fmt::Display) -> Self {
        self.selection.labels = selector.to_string();
        self
    }

    /// Only objects that match this field selector.
    pub fn fields(mut self, selector: impl fmt::Display) -> Self {
        self.selection.fields = selector.to_string();
        self
    }

    /// The resync period of the informers.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// The resync period of the informers of one kind.
    pub fn resync_for<O: Object>(self, period: Duration) -> Self {
        self.configure::<O>(move |builder| builder.resync(period))
    }

    /// Configures the informers of one kind: transforms, backoff, error handlers. The factory sets the selection. The
    /// last call for a kind replaces earlier ones, including [`FactoryBuilder::resync_for`].
    pub fn configure<O: Object>(
        mut self,
        how: impl Fn(Builder<O>) -> Builder<O> + Send + Sync + 'static,
    ) -> Self {
        let configure: Configure<O> = Box::new(how);
        self.configure.insert(TypeId::of::<O>(), Box::new(configure));
        self
    }

    /// Creates the factory.
    pub fn build(self) -> InformerFactory {
        let shared = Shared {
            client: self.client,
            resync: self.resync,
            configure: self.configure,
            state: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        InformerFactory { shared: Arc::new(shared), selection: self.selection }
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerFactory").field("selection", &self.selection).finish_non_exhaustive()
    }
}

impl InformerFactory {
    /// A factory with this client.
    pub fn builder(client: Client) -> FactoryBuilder {
        let (selection, configure) = Default::default();
        FactoryBuilder { client, selection, resync: Duration::ZERO, configure }
    }

    /// The same factory with other namespaces.
    pub fn namespaces<N: Into<String>>(&self, namespaces: impl IntoIterator<Item = N>) -> Self {
        InformerFactory {
            shared: Arc::clone(&self.shared),
            selection: self.selection.clone().namespaces(namespaces),
        }
    }

    /// The same factory with another label selector.
    pub fn labels(&self, selector: impl fmt::Display) -> Self {
        let selection = Selection { labels: selector.to_string(), ..self.selection.clone() };
        InformerFactory { shared: Arc::clone(&self.shared), selection }
    }

    /// The same factory with another field selector.
    pub fn fields(&self, selector: impl fmt::Display) -> Self {
        let selection = Selection { fields: selector.to_string(), ..self.selection.clone() };
        InformerFactory { shared: Arc::clone(&self.shared), selection }
    }

    /// The informer of a typed kind.
    pub fn informer<K>(&self) -> Informer<K>
    where
        K: Fetch<Resource = K> + Resource<DynamicType: Clone + Default + Send + Sync, Scope: 'static>,
    {
        let kind = K::DynamicType::default();
        self.get(K::url_path(&kind, None), Informer::builder(self.shared.client.clone()))
    }

    /// The informer of a typed kind, with objects kept as JSON.
    pub fn lean<K>(&self) -> Informer<Lean<K>>
    where
        K: Fetch<Resource = K> + Resource<DynamicType: Clone + Default + Send + Sync, Scope: 'static>,
    {
        let kind = K::DynamicType::default();
        self.get(K::url_path(&kind, None), Informer::<K>::builder(self.shared.client.clone()).lean())
    }

    /// The informer of a kind that is known only at runtime.
    pub fn dynamic(&self, kind: &ApiResource) -> Informer<DynamicObject> {
        let path = DynamicObject::url_path(kind, None);
        self.get(path, Informer::dynamic(self.shared.client.clone(), kind))
    }

    /// The informer of the metadata of a kind.
    pub fn metadata(&self, kind: &ApiResource) -> Informer<PartialObjectMeta<DynamicObject>> {
        let path = DynamicObject::url_path(kind, None);
        self.get(path, Informer::metadata(self.shared.client.clone(), kind))
    }

    fn get<O: Object>(&self, path: String, builder: Builder<O>) -> Informer<O> {
        let identity =
            Identity::new(TypeId::of::<O>(), path, builder.is_cluster_scoped(), self.selection.clone());
        let mut state = self.shared.state.lock();
        let known =
            state.informers.get(&identity).and_then(|known| known.as_any().downcast_ref::<Informer<O>>());
        if let Some(informer) = known {
            return informer.clone();
        }
        let builder = builder.resync(self.shared.resync);
        let configure = self.shared.configure.get(&TypeId::of::<O>());
        let builder = match configure.and_then(|configure| configure.downcast_ref::<Configure<O>>()) {
            Some(configure) => configure(builder),
            None => builder,
        };
        let informer = builder.select(identity.selection.clone()).build();
        state.order.push(identity.clone());
        state.informers.insert(identity, Arc::new(informer.clone()));
        informer
    }

    /// An informer that was requested before, by its resource, without the type of its objects.
    pub fn find(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Arc<dyn AnyInformer>, UnknownResource> {
        let path = match group {
            "" => format!("/api/{version}/{plural}"),
            group => format!("/apis/{group}/{version}/{plural}"),
        };
        let state = self.shared.state.lock();
        let found = state.order.iter().find(|identity| identity.is_of(&path, &self.selection));
        found.map(|identity| Arc::clone(&state.informers[identity])).ok_or(UnknownResource { path })
    }

    /// Starts every requested informer that does not run yet. Does nothing after [`InformerFactory::shutdown`].
    pub fn start(&self) {
        let mut state = self.shared.state.lock();
        if state.is_shut_down {
            return;
        }
        let new = state.order[state.started.len()..].to_vec();
        for identity in new {
            let informer = Arc::clone(&state.informers[&identity]);
            self.shared.tasks.spawn(Arc::clone(&informer).run(self.shared.stop.child_token()));
            state.started.push(informer);
        }
    }

    /// Waits until all informers that were started are synced, or until the timeout.
    pub async fn synced(&self, timeout: Duration) -> SyncResult {
        let started = self.shared.state.lock().started.clone();
        let waits = started.iter().map(async |informer| {
            let is_synced = matches!(tokio::time::timeout(timeout, informer.synced()).await, Ok(true));
            (informer.resource(), is_synced, informer.status())
        });
        SyncResult { informers: join_all(waits).await }
    }

    /// Stops all informers, and waits until they and their handlers have stopped. None is started after that. Further
    /// calls do nothing.
    pub async fn shutdown(&self) {
        self.shared.state.lock().is_shut_down = true;
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// Whether the informers of a factory are synced.
#[derive(Clone, Debug)]
pub struct SyncResult {
    /// The resource of each informer, whether it is synced, and its status.
    pub informers: Vec<(String, bool, Status)>,
}

impl SyncResult {
    /// An error if an informer is not synced.
    pub fn into_result(self) -> Result<(), NotSynced> {
        let late = self.informers.into_iter().filter(|(_, is_synced, _)| !is_synced);
        let late: Vec<_> = late.map(|(resource, _, status)| (resource, status)).collect();
        if late.is_empty() { Ok(()) } else { Err(NotSynced { late }) }
    }
}

/// Some informers are not synced.
#[derive(Clone, Debug)]
pub struct NotSynced {
    /// Their resources and statuses.
    pub late: Vec<(String, Status)>,
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not synced in time: ")?;
        for (index, (resource, status)) in self.late.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match status {
                Status::Retrying { error, .. } => write!(f, "{comma}{resource} ({error})")?,
                status => write!(f, "{comma}{resource} ({status:?})")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for NotSynced {}

/// The factory has no such informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownResource {
    /// The path, such as `/apis/apps/v1/deployments`.
    pub path: String,
}

impl fmt::Display for UnknownResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the factory has no informer for {}", self.path)
    }
}

impl std::error::Error for UnknownResource {}

/// An informer without the type of its objects.
pub trait AnyInformer: Send + Sync {
    /// The resource, such as `deployments.apps`.
    fn resource(&self) -> String;

    /// The keys of all objects in the store.
    fn keys(&self) -> Vec<ObjectKey>;

    /// The current status.
    fn status(&self) -> Status;

    /// Waits until the first list is in the store; false if the informer stopped before.
    fn synced(&self) -> BoxFuture<'_, bool>;

    /// Runs the informer.
    fn run(self: Arc<Self>, stop: CancellationToken) -> BoxFuture<'static, ()>;

    /// The [`Informer`] itself.
    fn as_any(&self) -> &dyn Any;
}

impl<O: Object> AnyInformer for Informer<O> {
    fn resource(&self) -> String {
        self.store().resource().to_owned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.store().keys()
    }

    fn status(&self) -> Status {
        Informer::status(self).borrow().clone()
    }

    fn synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { Informer::synced(self).await.is_ok() })
    }

    fn run(self: Arc<Self>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move { Informer::run(&self, stop).await })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
    use kube_client::client::Body;

    /// A server without objects and without watch events.
    fn factory() -> FactoryBuilder {
        let service = tower::service_fn(async |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let body = if is_watch {
                r#"{"type":"BOOKMARK","object":{"kind":"X","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#
            } else {
                r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}"#
            };
            if request.uri().path().contains("secrets") {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.as_bytes().to_vec())))
        });
        InformerFactory::builder(Client::new(service, "default"))
    }

    fn is_same<O: Object>(a: &Informer<O>, b: &Informer<O>) -> bool {
        a.is_same(b)
    }

    /// Case 52.
    #[tokio::test(start_paused = true)]
    async fn equal_requests_return_the_same_informer() {
        let factory = factory().namespace("x").build();
        let first = factory.informer::<ConfigMap>();
        assert!(is_same(&first, &factory.informer::<ConfigMap>()));
        assert!(!is_same(&first, &factory.labels("a=b").informer::<ConfigMap>()));
        assert!(!is_same(&first, &factory.namespaces(["x", "y"]).informer::<ConfigMap>()));
        assert!(is_same(
            &first,
            &factory.labels("a=b").labels("").namespaces(["x", "x"]).informer::<ConfigMap>()
        ));
        assert!(is_same(&factory.lean::<ConfigMap>(), &factory.lean::<ConfigMap>()));
        let kind = ApiResource::erase::<ConfigMap>(&());
        assert!(is_same(&factory.dynamic(&kind), &factory.dynamic(&kind)));
        assert!(is_same(&factory.metadata(&kind), &factory.metadata(&kind)));
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_scoped_kinds_ignore_namespaces() {
        let factory = factory().build();
        let of = |namespace: &str| factory.namespaces([namespace]);
        assert!(is_same(&factory.informer::<Node>(), &of("x").informer::<Node>()));
        assert!(is_same(&of("x").lean::<Node>(), &of("y").lean::<Node>()));
        assert!(of("z").find("", "v1", "nodes").is_ok());
        assert!(of("z").labels("a=b").find("", "v1", "nodes").is_err());
        of("x").informer::<ConfigMap>();
        assert!(of("z").find("", "v1", "configmaps").is_err());
    }

    /// Case 52.
    #[tokio::test(start_paused = true)]
    async fn an_informer_that_is_requested_after_the_start_needs_another_start() {
        let factory = factory().build();
        let first = factory.informer::<ConfigMap>();
        factory.start();
        factory.start();
        let late = factory.namespaces(["x"]).informer::<ConfigMap>();
        factory.synced(Duration::from_secs(5)).await.into_result().unwrap();
        assert!(first.has_synced() && !late.has_synced());
        factory.start();
        factory.synced(Duration::from_secs(5)).await.into_result().unwrap();
        assert!(late.has_synced());
        factory.shutdown().await;
        factory.shutdown().await;
        assert!(first.is_stopped() && late.is_stopped());
        let after = factory.namespaces(["z"]).informer::<ConfigMap>();
        factory.start();
        assert!(!after.has_synced());
        assert_eq!(factory.synced(Duration::from_secs(5)).await.informers.len(), 2);
    }

    /// Case 52.
    #[tokio::test(start_paused = true)]
    async fn the_sync_result_names_every_informer() {
        let factory = factory().build();
        factory.informer::<ConfigMap>();
        factory.informer::<Secret>();
        factory.start();
        let result = factory.synced(Duration::from_secs(5)).await;
        let synced: Vec<_> =
            result.informers.iter().map(|(name, is_synced, _)| (name.as_str(), *is_synced)).collect();
        assert_eq!(synced, [("configmaps", true), ("secrets", false)]);
        let error = result.into_result().unwrap_err();
        assert_eq!(error.to_string(), "not synced in time: secrets (Listing)");
        assert_eq!(factory.find("", "v1", "secrets").map(|found| found.resource()), Ok("secrets".to_owned()));
        let unknown = factory.find("apps", "v1", "deployments").err().unwrap();
        assert_eq!(unknown.to_string(), "the factory has no informer for /apis/apps/v1/deployments");
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_can_be_configured_separately() {
        let factory =
            factory().resync(Duration::from_secs(60)).resync_for::<Secret>(Duration::from_secs(5)).build();
        assert_eq!(factory.informer::<ConfigMap>().resync_period(), Duration::from_secs(60));
        assert_eq!(factory.informer::<Secret>().resync_period(), Duration::from_secs(5));
    }
}
