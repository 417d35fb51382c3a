//! A registry over a store in memory, and requests to it in one line each.
//!
//! A place is written `configmaps default/a?dryRun=All`: the resource (`events.events.k8s.io` and
//! `horizontalpodautoscalers/v1` where it would be ambiguous), a space, the namespace if it has one, the name, the
//! subresource, the query.

use futures::StreamExt;
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListOptions, Position, WatchStart},
    status::Status,
};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_endpoints::to_status;
use keepwatch_registry::{
    Error, ObjectView, Registry, RegistryOptions,
    codec::{self, Body, Expected, Media},
    convert,
    kind::Kind,
    kinds::TokenIssuer,
    kinds::built_in,
    options::{DeleteOptions, WriteOptions, Writing},
    patch,
    rest::{Change, Deleted, Patch, Target, WriteError, Written},
    schema::{self, Problems},
    strategy::{Part, Requester},
};
use keepwatch_storage::{
    Backend, CacheSource, Key, KeyValue, RangeRequest, ResourcePrefix, Scope, Storage, Store, StoreOptions,
    Watch, WatchEvent, WatchRequest,
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use serde_json::{Value, json};
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::Duration,
};

/// The time that a test waits for something to happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A registry that has what a server makes for itself.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) registry: Arc<Registry>,
    pub(crate) backend: Arc<Embedded>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
    /// Whether a deletion removed the object.
    pub(crate) gone: bool,
}

impl Answer {
    fn new(code: u16, body: Value) -> Answer {
        Answer { code, body, warnings: Vec::new(), gone: false }
    }

    /// The document, which there must be.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}", self.line());
        self.body
    }

    /// The code, and what went wrong if anything did: `404 NotFound: pods "a" not found`.
    pub(crate) fn line(&self) -> String {
        if self.code < 300 {
            return self.code.to_string();
        }
        let reason = self.body["reason"].as_str().unwrap_or("?");
        format!("{} {reason}: {}", self.code, self.body["message"].as_str().unwrap_or_default())
    }

    /// The reason and field of each cause.
    pub(crate) fn causes(&self) -> Vec<String> {
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        causes.iter().map(|cause| format!("{} {}", text(cause, "/reason"), text(cause, "/field"))).collect()
    }
}

/// Makes "tokens" that can be read: the claims.
pub(crate) struct Plain;

impl TokenIssuer for Plain {
    fn issue(&self, claims: &Value) -> Result<String, Error> {
        Ok(claims.to_string())
    }
    fn issuer(&self) -> &str {
        "https://issuer.example"
    }
}

/// The object or collection of a request.
struct Place<'a> {
    kind: &'static Kind,
    target: Target<'a>,
    subresource: &'a str,
    query: Vec<(&'a str, &'a str)>,
}

/// The resource of that name; the core group and the preferred version first.
pub(crate) fn resource(name: &str) -> &'static Arc<Kind> {
    let (rest, version) = name.split_once('/').unwrap_or((name, ""));
    let (plural, group) = rest.split_once('.').unwrap_or((rest, ""));
    built_in()
        .iter()
        .find(|own| {
            own.plural == plural
                && (group.is_empty() || own.group == group)
                && (version.is_empty() || own.version == version)
        })
        .unwrap_or_else(|| panic!("there is no resource {name}"))
}

fn place(text: &str) -> Place<'_> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let (what, at) = path.split_once(' ').unwrap_or((path, ""));
    let resource = resource(what);
    let mut parts = at.split('/');
    let mut next = || parts.next().unwrap_or_default();
    let namespace = if resource.namespaced { next() } else { "" };
    let (name, subresource) = (next(), next());
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    Place { kind: resource, target: Target { kind: resource, namespace, name }, subresource, query }
}

fn part(subresource: &str) -> Part {
    match subresource {
        "" => Part::Main,
        "status" => Part::Status,
        "finalize" => Part::Finalize,
        "approval" => Part::Approval,
        "ephemeralcontainers" => Part::EphemeralContainers,
        "resize" => Part::Resize,
        other => panic!("{other} is no part of an object"),
    }
}

fn decode(document: &Value, expected: Expected, options: &WriteOptions) -> Result<codec::Decoded, Error> {
    let bytes = serde_json::to_vec(document).unwrap();
    codec::decode(&Body { bytes: &bytes, media: Media::Json }, expected, options.field_validation)
}

fn expected(group: &'static str, kind: &'static str, ty: &str) -> Expected<'static> {
    Expected::part(group, "v1", kind, schema::lookup(ty).unwrap())
}

/// The user of every request.
pub(crate) fn requester() -> Requester {
    Requester {
        name: "jane".to_owned(),
        uid: "u1".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..Requester::default()
    }
}

/// In the version of the request.
pub(crate) fn shown(resource: &Kind, shown: &ObjectView) -> Value {
    convert::from_stored(resource, shown.document())
}

impl World {
    /// Over a store.
    pub(crate) async fn new() -> World {
        World::with(RegistryOptions::default(), |_, storage| storage).await
    }

    /// Over a store, each resource's as `wrap` makes it.
    pub(crate) async fn with(
        options: RegistryOptions,
        wrap: impl Fn(&Kind, Arc<dyn Storage>) -> Arc<dyn Storage> + Send + Sync + 'static,
    ) -> World {
        let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
        let world = World::over(backend, options, move |kind, storage, _| wrap(kind, storage));
        world.bootstrap().await;
        world
    }

    /// Over a store on which no server has started yet.
    pub(crate) fn empty() -> World {
        let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
        World::over(backend, RegistryOptions::default(), |_, storage, _| storage)
    }

    /// Over the store of another world: a second server, or the same one after a restart.
    pub(crate) async fn again(&self, options: RegistryOptions) -> World {
        self.again_at(options, World::ADDRESS).await
    }

    /// The same, of a server that is reached there.
    pub(crate) async fn again_at(&self, options: RegistryOptions, address: (IpAddr, u16)) -> World {
        let world = World::over(Arc::clone(&self.backend), options, |_, storage, _| storage);
        world.registry.bootstrap(address).await.unwrap();
        world
    }

    /// Over a watch cache of each resource.
    pub(crate) async fn cached() -> World {
        Self::cached_over(Arc::new(Embedded::memory(EmbeddedOptions::default()))).await
    }

    /// Another registry over the same store, with watch caches of its own.
    pub(crate) async fn beside(&self) -> World {
        Self::cached_over(self.backend.clone()).await
    }

    async fn cached_over(backend: Arc<Embedded>) -> World {
        Self::cached_through(backend.clone(), backend).await
    }

    /// Over a watch cache of each resource, whose store is reached through another one.
    pub(crate) async fn cached_through(backend: Arc<Embedded>, through: Arc<dyn Backend>) -> World {
        let metrics = CacheMetrics::register(&prometheus::Registry::new()).unwrap();
        let caches: Arc<Mutex<Vec<Arc<Cacher>>>> = Arc::default();
        let made = Arc::clone(&caches);
        let world = World::over_through(
            backend,
            through,
            RegistryOptions::default(),
            move |kind, storage, prefix| {
                let options = CacherOptions::default();
                let cache = Arc::new(Cacher::new(storage, prefix, kind.qualified(), options, &metrics));
                made.lock().unwrap().push(Arc::clone(&cache));
                cache
            },
        );
        let caches = std::mem::take(&mut *caches.lock().unwrap());
        for cache in caches {
            cache.until_ready().await;
        }
        world.bootstrap().await;
        world
    }

    fn over(
        backend: Arc<Embedded>,
        options: RegistryOptions,
        wrap: impl Fn(&Kind, Arc<dyn CacheSource>, ResourcePrefix) -> Arc<dyn Storage> + Send + Sync + 'static,
    ) -> World {
        World::over_through(backend.clone(), backend, options, wrap)
    }

    fn over_through(
        backend: Arc<Embedded>,
        through: Arc<dyn Backend>,
        options: RegistryOptions,
        wrap: impl Fn(&Kind, Arc<dyn CacheSource>, ResourcePrefix) -> Arc<dyn Storage> + Send + Sync + 'static,
    ) -> World {
        let registry = Registry::new(options, move |kind, inspector| {
            let prefix = ResourcePrefix::new("/registry", kind.storage.as_ref().unwrap()).unwrap();
            let store = Store::new(through.clone(), StoreOptions::new(prefix.clone(), inspector));
            wrap(kind, Arc::new(store), prefix)
        });
        World { registry: Arc::new(registry), backend }
    }

    /// The address of its server.
    pub(crate) const ADDRESS: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)), 6443);

    async fn bootstrap(&self) {
        self.registry.bootstrap(World::ADDRESS).await.unwrap();
    }

    /// The same, with its deleted namespaces being emptied.
    pub(crate) fn emptying(self) -> World {
        tokio::spawn(keepwatch_registry::kinds::empty_deleted_namespaces(Arc::clone(&self.registry)));
        self
    }

    pub(crate) async fn get(&self, at: &str) -> Answer {
        let Place { target, subresource, .. } = place(at);
        let answered = match subresource {
            "scale" => self.registry.scale(target).await,
            _ => self
                .registry
                .get(target, Position::MostRecent)
                .await
                .map(|object| shown(target.kind, &ObjectView::from(&object))),
        };
        answer(answered.map(|document| Answer::new(200, document)).map_err(Refused::from))
    }

    pub(crate) async fn post(&self, at: &str, document: Value) -> Answer {
        answer(self.try_post(place(at), document).await)
    }

    async fn try_post(&self, place: Place<'_>, document: Value) -> Result<Answer, Refused> {
        let options = WriteOptions::from_query(&place.query, Writing::Create)?;
        let target = place.target;
        match place.subresource {
            "binding" => {
                let ty = expected("", "Binding", "core.v1.Binding");
                let binding = decode(&document, ty, &options)?.document;
                self.registry.bind(target, &binding, options.dry_run).await?;
                Ok(status(&Status::done(201)))
            }
            "eviction" => {
                let ty = expected("policy", "Eviction", "policy.v1.Eviction");
                let eviction = decode(&document, ty, &options)?.document;
                let inner = eviction.get("deleteOptions").filter(|inner| !inner.is_null());
                let delete = inner.map(DeleteOptions::from_document).transpose()?.unwrap_or_default();
                self.registry.evict(target, &delete, options.dry_run).await?;
                Ok(status(&Status::done(201)))
            }
            "token" => {
                let ty = expected("authentication.k8s.io", "TokenRequest", "authentication.v1.TokenRequest");
                let request = decode(&document, ty, &options)?.document;
                Ok(Answer::new(201, self.registry.request_token(target, &request, &Plain).await?))
            }
            "" => {
                let decoded = decode(&document, Expected::of(target.kind), &options)?;
                let written = self.registry.create(target, decoded, &options, &requester()).await?;
                Ok(written_answer(target.kind, written))
            }
            other => panic!("nothing can be posted to {other}"),
        }
    }

    pub(crate) async fn put(&self, at: &str, document: Value) -> Answer {
        answer(self.try_put(place(at), document).await)
    }

    async fn try_put(&self, place: Place<'_>, document: Value) -> Result<Answer, Refused> {
        let options = WriteOptions::from_query(&place.query, Writing::Update)?;
        let scales = place.subresource == "scale";
        let ty = if scales { scale() } else { Expected::of(place.target.kind) };
        // A replacement must have a name; only the tests of this rule set it themselves.
        let mut document = document;
        if document.pointer("/metadata/name").is_none() {
            document["metadata"]["name"] = place.target.name.into();
        }
        let decoded = decode(&document, ty, &options)?;
        let mut answer = self.change(&place, Change::Replace(decoded.document), &options).await?;
        answer.warnings.splice(0..0, decoded.warnings);
        Ok(answer)
    }

    async fn change(
        &self,
        place: &Place<'_>,
        change: Change<'_>,
        options: &WriteOptions,
    ) -> Result<Answer, Refused> {
        let (target, who) = (place.target, requester());
        if place.subresource == "scale" {
            let (scale, warnings) = self.registry.set_scale(target, change, options, &who).await?;
            return Ok(Answer { warnings, ..Answer::new(200, scale) });
        }
        let written = self.registry.update(target, part(place.subresource), change, options, &who).await?;
        Ok(written_answer(target.kind, written))
    }

    async fn patch(&self, at: &str, patch: Patch) -> Answer {
        let place = place(at);
        let patched = async {
            let options = WriteOptions::from_query(&place.query, Writing::Patch { apply: false })?;
            let change = Change::Patch { patch: &patch, strictness: options.field_validation };
            self.change(&place, change, &options).await
        };
        answer(patched.await)
    }

    pub(crate) async fn merge(&self, at: &str, patch: Value) -> Answer {
        self.patch(at, Patch::Merge(patch)).await
    }

    pub(crate) async fn strategic(&self, at: &str, patch: Value) -> Answer {
        self.patch(at, Patch::Strategic(patch)).await
    }

    pub(crate) async fn json_patch(&self, at: &str, operations: Value) -> Answer {
        let body = serde_json::to_vec(&operations).unwrap();
        match patch::json::Patch::parse(&body, &mut Problems::default()) {
            Ok(patch) => self.patch(at, Patch::Json(patch)).await,
            Err(error) => answer(Err(Error::from(error).into())),
        }
    }

    pub(crate) async fn delete(&self, at: &str) -> Answer {
        self.delete_with(at, Value::Null).await
    }

    /// Deletes, with options in the body.
    pub(crate) async fn delete_with(&self, at: &str, options: Value) -> Answer {
        let place = place(at);
        let deleted = async {
            let options = delete_options(&place, &options)?;
            let deleted = self.registry.delete(place.target, &options).await?;
            let gone = matches!(deleted, Deleted::Gone(_));
            let (Deleted::Gone(last) | Deleted::Held(last)) = deleted;
            Ok(Answer { gone, ..Answer::new(200, shown(place.target.kind, &last)) })
        };
        answer(deleted.await)
    }

    pub(crate) async fn delete_collection(&self, at: &str, options: Value) -> Answer {
        self.delete_collection_while(at, options, &|| true).await
    }

    /// Deletes a collection as long as it may go on.
    pub(crate) async fn delete_collection_while(
        &self,
        at: &str,
        options: Value,
        may_go_on: &(dyn Fn() -> bool + Sync),
    ) -> Answer {
        let place = place(at);
        let deleted = async {
            let list_options = ListOptions::from_query(place.query.iter().copied())?.check()?;
            let options = delete_options(&place, &options)?;
            let list =
                self.registry.delete_collection(place.target, list_options, &options, may_go_on).await?;
            Ok(Answer::new(200, listed(place.target.kind, &list)))
        };
        answer(deleted.await)
    }

    pub(crate) async fn list(&self, at: &str) -> Answer {
        let place = place(at);
        let found = async {
            let options = ListOptions::from_query(place.query.iter().copied())?.check()?;
            let list = self.registry.list(place.target, options).await?;
            Ok(Answer::new(200, listed(place.target.kind, &list)))
        };
        answer(found.await)
    }

    /// The names that a list shows.
    #[track_caller]
    pub(crate) fn names(&self, at: &str) -> impl Future<Output = String> {
        let (world, at) = (self.clone(), at.to_owned());
        async move {
            let list = world.list(&at).await;
            assert_eq!(list.code, 200, "{at}: {}", list.line());
            let items = list.body["items"].as_array().unwrap();
            items.iter().map(|item| text(item, "/metadata/name")).collect::<Vec<_>>().join(" ")
        }
    }

    pub(crate) async fn watch(&self, at: &str) -> Result<Watcher, Refused> {
        let place = place(at);
        let pairs = place.query.iter().copied().chain([("watch", "1")]);
        let options = ListOptions::from_query(pairs)?.check()?;
        let watch = self.registry.watch(place.target, options, Duration::from_secs(60), None).await?;
        Ok(Watcher { resource: place.kind, watch })
    }

    /// Follows everything from now on, below the registry.
    pub(crate) async fn follow(&self, name: &str) -> Watcher {
        let resource = resource(name);
        let key = Target { kind: resource, namespace: "", name: "" }.key();
        let storage = self.registry.storage(resource).unwrap();
        let watch = storage.watch(&key, WatchRequest::from(WatchStart::now())).await.unwrap();
        Watcher { resource, watch }
    }

    /// All that is stored, and how often it was written to.
    pub(crate) async fn everything(&self) -> (ResourceVersion, Vec<KeyValue>) {
        let scope = Scope::Children(Key::from_backend("/registry/"));
        let range = self.backend.range(RangeRequest::all(scope)).await.unwrap();
        (range.current, range.items)
    }

    /// The keys below a prefix.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let (_, all) = self.everything().await;
        let keys = all.iter().map(|item| item.key.to_string());
        keys.filter(|key| key.starts_with(prefix)).collect()
    }

    /// Makes a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        self.post("namespaces", json!({"metadata": {"name": name}})).await.ok();
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, at: &str) {
        until(at, || async { self.get(at).await.code == 404 }).await;
    }
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}: it never came so far"));
}

fn scale() -> Expected<'static> {
    expected("autoscaling", "Scale", "autoscaling.v1.Scale")
}

fn delete_options(place: &Place<'_>, body: &Value) -> Result<DeleteOptions, Error> {
    if body.is_null() {
        return DeleteOptions::read(None, &place.query);
    }
    let bytes = serde_json::to_vec(body).unwrap();
    DeleteOptions::read(Some(&Body { bytes: &bytes, media: Media::Json }), &place.query)
}

fn answer(result: Result<Answer, Refused>) -> Answer {
    result.unwrap_or_else(|refused| status(&refused.0))
}

/// The error that a client receives instead of an answer.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Status);

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        Refused(status)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused(to_status(error))
    }
}

impl From<WriteError> for Refused {
    fn from(failed: WriteError) -> Refused {
        failed.error.into()
    }
}

fn status(status: &Status) -> Answer {
    Answer::new(status.code, serde_json::to_value(status).unwrap())
}

fn written_answer(resource: &Kind, written: Written) -> Answer {
    let code = if written.created { 201 } else { 200 };
    Answer { warnings: written.warnings, ..Answer::new(code, shown(resource, &written.object)) }
}

fn listed(resource: &Kind, list: &keepwatch_storage::List) -> Value {
    let items: Vec<Value> =
        list.items.iter().map(|object| shown(resource, &ObjectView::from(object))).collect();
    json!({
        "metadata": {
            "resourceVersion": list.revision.to_string(),
            "continue": list.next.as_ref().map(|token| token.encode()),
        },
        "items": items,
    })
}

/// A watch of a client.
pub(crate) struct Watcher {
    resource: &'static Kind,
    watch: Watch,
}

impl Watcher {
    /// The next event: `ADDED a`.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let event = tokio::time::timeout(TIMEOUT, self.watch.next()).await.expect("an event comes");
        let (kind, object) = match event.expect("the watch goes on").expect("the watch does not fail") {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark { revision, .. } => return (format!("BOOKMARK {revision}"), Value::Null),
        };
        let document = shown(self.resource, &ObjectView::from(&object));
        (format!("{kind} {}", text(&document, "/metadata/name")), document)
    }

    /// Expects this event next.
    pub(crate) async fn expect(&mut self, event: &str) -> Value {
        let (heard, document) = self.next().await;
        assert_eq!(heard, event);
        document
    }
}

/// The text at a pointer; empty if there is none.
pub(crate) fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A pod that needs nothing.
pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]}})
}

/// A pod that is on a node.
pub(crate) fn bound_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "n1".into();
    pod
}

/// A config map.
pub(crate) fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}
