//! Changes over a store that must be read for its newest state, as etcd must: they begin with the object in the watch
//! cache, read nothing if that is the newest, and are right if it is not.

use super::{
    documents::kinds,
    world::{World, bound_pod, map, pod},
};
use async_trait::async_trait;
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendWatch, Key, KeyValue, Range, RangeRequest, Scope, StorageError, Swap, Unchanged,
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// A store whose newest revision is not known without a read. It counts the reads of objects, and its watches can be
/// held up.
struct RemoteStore {
    inner: Arc<Embedded>,
    gets: AtomicUsize,
    held_up: watch::Sender<bool>,
}

#[async_trait]
impl Backend for RemoteStore {
    async fn get(&self, key: &Key) -> Result<(ResourceVersion, Option<KeyValue>), StorageError> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key).await
    }
    async fn put_while(
        &self,
        key: &Key,
        expected: Option<ResourceVersion>,
        value: keepwatch_storage::Value,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Swap, StorageError> {
        self.inner.put_while(key, expected, value, ttl, unchanged).await
    }
    async fn delete_if(&self, key: &Key, expected: ResourceVersion) -> Result<Swap, StorageError> {
        self.inner.delete_if(key, expected).await
    }
    async fn range(&self, request: RangeRequest) -> Result<Range, StorageError> {
        self.inner.range(request).await
    }
    async fn watch(
        &self,
        scope: Scope,
        after: ResourceVersion,
        progress: bool,
    ) -> Result<BackendWatch, StorageError> {
        let (watch, held_up) = (self.inner.watch(scope, after, progress).await?, self.held_up.subscribe());
        let late = watch.then(move |event| {
            let mut held_up = held_up.clone();
            async move {
                let _ = held_up.wait_for(|held_up| !held_up).await;
                event
            }
        });
        Ok(late.boxed())
    }
    async fn request_progress(&self) -> Result<(), StorageError> {
        self.inner.request_progress().await
    }
    async fn current_revision(&self) -> Result<ResourceVersion, StorageError> {
        self.inner.current_revision().await
    }
    async fn compact(&self, revision: ResourceVersion) -> Result<(), StorageError> {
        self.inner.compact(revision).await
    }
    fn compacted_revision(&self) -> Option<ResourceVersion> {
        self.inner.compacted_revision()
    }
}

fn deployment() -> Value {
    kinds().into_iter().find(|kind| kind.name == "deployments").unwrap().object
}

/// Two servers on one store.
struct Servers {
    /// Its watch cache can be held up.
    late: World,
    other: World,
    store: Arc<RemoteStore>,
}

impl Servers {
    async fn start() -> Servers {
        let inner = Arc::new(Embedded::memory(EmbeddedOptions::default()));
        let (gets, held_up) = (AtomicUsize::new(0), watch::Sender::new(false));
        let store = Arc::new(RemoteStore { inner: inner.clone(), gets, held_up });
        let late = World::cached_through(inner, store.clone()).await;
        let other = late.again(keepwatch_registry::RegistryOptions::default()).await;
        Servers { late, other, store }
    }

    /// Waits until the late server has seen everything.
    async fn caught_up(&self, collection: &str) {
        self.store.held_up.send_replace(false);
        // A list waits for that.
        self.late.list(collection).await;
    }

    /// From now on the late server sees nothing new.
    fn hold_up(&self) {
        self.store.held_up.send_replace(true);
    }

    /// The number of objects that the server whose cache lags reads from storage meanwhile.
    async fn gets<T>(&self, requests: impl Future<Output = T>) -> usize {
        let before = self.store.gets.load(Ordering::Relaxed);
        requests.await;
        self.store.gets.load(Ordering::Relaxed) - before
    }
}

/// Each of them read the object first.
#[tokio::test]
async fn changes_of_objects_that_the_cache_knows_read_nothing() {
    let servers = Servers::start().await;
    let world = &servers.late;
    let mut made = Vec::new();
    for number in 0..10 {
        made.push(world.post("configmaps default", map(&format!("m{number}"))).await.ok());
        world.post("pods default", pod(&format!("p{number}"))).await.ok();
    }
    world.post("deployments default", deployment()).await.ok();
    for collection in ["configmaps default", "pods default", "deployments default"] {
        servers.caught_up(collection).await;
    }
    let at = |number: usize| format!("configmaps default/m{number}");
    let replaced = servers.gets(async {
        for (number, sent) in made.iter_mut().enumerate() {
            sent["data"] = json!({"k": "1"});
            *sent = world.put(&at(number), sent.clone()).await.ok();
        }
    });
    assert_eq!(replaced.await, 0, "replacements");
    servers.caught_up("configmaps default").await;
    let patched = servers.gets(async {
        for number in 0..10 {
            world.merge(&at(number), json!({"data": {"k": "2"}})).await.ok();
        }
    });
    assert_eq!(patched.await, 0, "patches");
    servers.caught_up("configmaps default").await;
    let removed = servers.gets(async {
        for number in 0..10 {
            world.delete(&at(number)).await.ok();
        }
    });
    assert_eq!(removed.await, 0, "deletions");
    let bound = servers.gets(async {
        for number in 0..10 {
            let binding = json!({"target": {"kind": "Node", "name": "n1"}});
            world.post(&format!("pods default/p{number}/binding"), binding).await.ok();
        }
    });
    assert_eq!(bound.await, 0, "bindings");
    let scaled = servers.gets(async {
        world.merge("deployments default/a/scale", json!({"spec": {"replicas": 3}})).await.ok();
    });
    assert_eq!(scaled.await, 0, "scales");
}

#[tokio::test]
async fn a_change_that_an_old_version_would_refuse_is_tried_on_the_newest() {
    let servers = Servers::start().await;
    let Servers { late, other, .. } = &servers;
    for name in ["replaced", "patched", "tested", "emptied", "uid", "deleted", "version", "same"] {
        other.post("configmaps default", map(name)).await.ok();
    }
    servers.caught_up("configmaps default").await;
    servers.hold_up();
    let change = |name: &'static str| async move {
        other.merge(&format!("configmaps default/{name}"), json!({"data": {"k": "new"}})).await.ok()
    };
    let code = |answer: super::world::Answer| answer.line();

    let mut newest = change("replaced").await;
    newest["data"]["mine"] = "1".into();
    let answer = late.put("configmaps default/replaced", newest).await.ok();
    assert_eq!(answer["data"], json!({"k": "new", "mine": "1"}), "a version that the cache has not seen");

    change("patched").await;
    let answer = late.merge("configmaps default/patched", json!({"data": {"mine": "1"}})).await.ok();
    assert_eq!(answer["data"], json!({"k": "new", "mine": "1"}), "nothing is lost");

    change("tested").await;
    let patch =
        json!([{"op": "test", "path": "/data/k", "value": "new"}, {"op": "remove", "path": "/data/k"}]);
    assert_eq!(code(late.json_patch("configmaps default/tested", patch).await), "200");

    change("same").await;
    let answer = late.merge("configmaps default/same", json!({"data": null})).await.ok();
    assert_eq!(answer.get("data"), None, "it changes nothing of the old state but much of the new one");

    other.delete("configmaps default/uid").await.ok();
    let again = other.post("configmaps default", map("uid")).await.ok();
    assert_eq!(code(late.put("configmaps default/uid", again.clone()).await), "200");
    other.delete("configmaps default/deleted").await.ok();
    let again = other.post("configmaps default", map("deleted")).await.ok();
    let preconditions = json!({"preconditions": {"uid": again["metadata"]["uid"]}});
    assert!(late.delete_with("configmaps default/deleted", preconditions).await.gone);

    let newest = change("version").await;
    let preconditions = json!({"preconditions": {"resourceVersion": newest["metadata"]["resourceVersion"]}});
    assert!(late.delete_with("configmaps default/version", preconditions).await.gone);

    let old = other.get("configmaps default/emptied").await.ok();
    change("emptied").await;
    let refused = late.put("configmaps default/emptied", old).await;
    assert_eq!(refused.code, 409, "what is refused of the newest too stays refused");
    assert_eq!(other.get("configmaps default/emptied").await.ok()["data"], json!({"k": "new"}));
}

#[tokio::test]
async fn objects_that_come_and_go_elsewhere_are_seen_by_changes() {
    let servers = Servers::start().await;
    let Servers { late, other, .. } = &servers;
    for name in ["a", "b", "c"] {
        other.post("configmaps default", map(name)).await.ok();
        other.post("leases default", json!({"metadata": {"name": name}})).await.ok();
    }
    for collection in ["configmaps default", "leases default"] {
        servers.caught_up(collection).await;
    }
    servers.hold_up();
    for name in ["a", "b", "c"] {
        other.delete(&format!("configmaps default/{name}")).await.ok();
        other.delete(&format!("leases default/{name}")).await.ok();
    }
    let mut unversioned = map("a");
    unversioned["data"] = json!({"k": "1"});
    assert_eq!(late.put("configmaps default/a", unversioned).await.code, 404);
    assert_eq!(late.merge("configmaps default/b", json!({"data": {"k": "1"}})).await.code, 404);
    assert_eq!(late.delete("configmaps default/c").await.code, 404);
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    assert_eq!(late.put("leases default/a", lease).await.code, 201, "a replacement creates it anew");

    other.post("configmaps default", map("new")).await.ok();
    assert_eq!(late.merge("configmaps default/new", json!({"data": {"k": "1"}})).await.code, 200);
    other.post("configmaps default", map("newer")).await.ok();
    assert!(late.delete("configmaps default/newer").await.gone);
}

#[tokio::test]
async fn a_deletion_without_a_change_is_checked_against_the_newest_version() {
    let servers = Servers::start().await;
    let Servers { late, other, .. } = &servers;
    let mut held = map("a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    other.post("configmaps default", held.clone()).await.ok();
    assert!(!other.delete("configmaps default/a").await.gone);
    servers.caught_up("configmaps default").await;
    servers.hold_up();
    other.merge("configmaps default/a", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(late.delete("configmaps default/a").await.code, 404, "it is gone, not held");
    other.post("configmaps default", map("a")).await.ok();
    assert!(late.delete("configmaps default/a").await.gone, "the new one is another");
}

#[tokio::test]
async fn a_dry_run_is_based_on_the_newest_version() {
    let servers = Servers::start().await;
    let Servers { late, other, .. } = &servers;
    other.post("configmaps default", map("a")).await.ok();
    servers.caught_up("configmaps default").await;
    servers.hold_up();
    other.merge("configmaps default/a", json!({"data": {"k": "new"}})).await.ok();
    let shown = late.merge("configmaps default/a?dryRun=All", json!({"data": {"mine": "1"}})).await.ok();
    assert_eq!(shown["data"], json!({"k": "new", "mine": "1"}));
    other.delete("configmaps default/a").await.ok();
    assert_eq!(late.delete("configmaps default/a?dryRun=All").await.code, 404);
}

/// In virtual time, because a list of budgets waits for the cache before it reads the store.
#[tokio::test(start_paused = true)]
async fn pods_are_bound_and_evicted_and_scales_set_by_the_newest_state() {
    let servers = Servers::start().await;
    let Servers { late, other, .. } = &servers;
    for name in ["a", "b"] {
        other.post("pods default", pod(name)).await.ok();
    }
    other.post("pods default", bound_pod("bound")).await.ok();
    other.post("deployments default", deployment()).await.ok();
    for collection in ["pods default", "deployments default"] {
        servers.caught_up(collection).await;
    }
    servers.hold_up();
    let binding = |node: &str| -> Value { json!({"target": {"kind": "Node", "name": node}}) };
    other.post("pods default/a/binding", binding("n1")).await.ok();
    assert_eq!(late.post("pods default/a/binding", binding("n2")).await.code, 409);
    other.merge("pods default/b", json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    late.post("pods default/b/binding", binding("n2")).await.ok();
    let pod = other.get("pods default/b").await.ok();
    assert_eq!([&pod["spec"]["nodeName"], &pod["metadata"]["labels"]["l"]], ["n2", "1"]);
    other.merge("pods default/bound", json!({"metadata": {"labels": {"l": "1"}}})).await.ok();
    assert_eq!(
        late.post("pods default/bound/eviction", json!({"metadata": {"name": "bound"}})).await.code,
        201
    );

    let at = "deployments default/a";
    other.merge(at, json!({"spec": {"paused": true}})).await.ok();
    let scale = other.get(&format!("{at}/scale")).await.ok();
    late.merge(&format!("{at}/scale"), json!({"spec": {"replicas": 3}})).await.ok();
    let after = other.get(at).await.ok();
    assert_eq!([&after["spec"]["replicas"], &after["spec"]["paused"]], [&json!(3), &json!(true)]);
    let mut scale = scale;
    scale["spec"]["replicas"] = 5.into();
    assert_eq!(late.put(&format!("{at}/scale"), scale).await.code, 409, "an old version is still refused");
    let mut scale = other.get(&format!("{at}/scale")).await.ok();
    scale["spec"]["replicas"] = 5.into();
    assert_eq!(late.put(&format!("{at}/scale"), scale).await.ok()["spec"]["replicas"], 5);
}
