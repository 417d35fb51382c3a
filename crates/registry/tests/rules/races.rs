//! Many at once: nothing is lost, nothing is done twice, nothing is left behind.

use super::{
    documents::kinds,
    world::{Answer, World, bound_pod, map, pod, text, until},
};
use futures::future::join_all;
use keepwatch_apimachinery::list_options::Position;
use keepwatch_registry::RegistryOptions;
use keepwatch_storage::{
    DeleteOptions, Key, List, ListRequest, Object, Storage, StorageError, TryUpdate, Unchanged,
    UpdateOptions, Validate, Watch, WatchRequest,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

/// Runs many requests at once, each in a task of its own.
async fn all<F>(requests: impl IntoIterator<Item = F>) -> Vec<Answer>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let tasks: Vec<_> = requests.into_iter().map(tokio::spawn).collect();
    join_all(tasks).await.into_iter().map(|joined| joined.expect("no request panics")).collect()
}

fn count(answers: &[Answer], code: u16) -> usize {
    answers.iter().filter(|answer| answer.code == code).count()
}

async fn worlds() -> [World; 2] {
    [World::new().await, World::cached().await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_patches_of_one_object_lose_nothing() {
    for world in worlds().await {
        let sent = json!({"metadata": {"name": "a"}, "data": {"k0": ""}});
        world.post("configmaps default", sent).await.ok();
        let answers = all((0..50).map(|number| {
            let world = world.clone();
            async move {
                let at = "configmaps default/a";
                let (name, value) = (format!("k{number}"), number.to_string());
                match number % 3 {
                    0 => world.merge(at, json!({"data": {name: value}})).await,
                    1 => world.strategic(at, json!({"data": {name: value}})).await,
                    _ => {
                        let path = format!("/data/{name}");
                        world.json_patch(at, json!([{"op": "add", "path": path, "value": value}])).await
                    }
                }
            }
        }))
        .await;
        assert_eq!(
            count(&answers, 200),
            50,
            "{:?}",
            answers.iter().map(Answer::line).collect::<BTreeSet<_>>()
        );
        let data = world.get("configmaps default/a").await.ok()["data"].clone();
        let expected: Value =
            (0..50).map(|number| (format!("k{number}"), json!(number.to_string()))).collect();
        assert_eq!(data, expected);
        let versions: BTreeSet<_> =
            answers.iter().map(|answer| text(&answer.body, "/metadata/resourceVersion").to_owned()).collect();
        assert_eq!(versions.len(), 50, "each write has a version of its own");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_replacements_based_on_one_version_one_succeeds() {
    for world in worlds().await {
        let made = world.post("configmaps default", map("a")).await.ok();
        let answers = all((0..50).map(|number| {
            let (world, mut sent) = (world.clone(), made.clone());
            sent["data"] = json!({"k": number.to_string()});
            async move { world.put("configmaps default/a", sent).await }
        }))
        .await;
        assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 49));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counting_by_read_and_write_ends_at_the_right_number() {
    let world = World::cached().await;
    world
        .post("leases default", json!({"metadata": {"name": "l"}, "spec": {"leaseTransitions": 0}}))
        .await
        .ok();
    let counters = (0..10).map(|_| {
        let world = world.clone();
        async move {
            for _ in 0..5 {
                loop {
                    let mut lease = world.get("leases default/l").await.ok();
                    let next = lease["spec"]["leaseTransitions"].as_i64().unwrap() + 1;
                    lease["spec"]["leaseTransitions"] = next.into();
                    match world.put("leases default/l", lease).await.code {
                        200 => break,
                        409 => continue,
                        other => panic!("{other}"),
                    }
                }
            }
            world.get("leases default/l").await
        }
    });
    all(counters).await;
    assert_eq!(world.get("leases default/l").await.ok()["spec"]["leaseTransitions"], 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_creates_of_one_name_succeeds() {
    for world in worlds().await {
        let answers = all((0..30).map(|_| {
            let world = world.clone();
            async move { world.post("configmaps default", map("a")).await }
        }))
        .await;
        assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 29));
        // The first request creates the lease; the others have no version, so they replace nothing.
        let answers = all((0..30).map(|_| {
            let world = world.clone();
            async move { world.put("leases default/a", map("a")).await }
        }))
        .await;
        assert_eq!(count(&answers, 201), 1);
        assert!(answers.iter().all(|answer| [201, 409, 422].contains(&answer.code)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_deletions_one_removes_the_object() {
    for round in 0..10 {
        for world in worlds().await {
            world.post("configmaps default", map("a")).await.ok();
            let mut follower = world.follow("configmaps").await;
            let answers = all((0..20).map(|_| {
                let world = world.clone();
                async move { world.delete("configmaps default/a").await }
            }))
            .await;
            assert_eq!(count(&answers, 200), 1, "{round}");
            assert_eq!(count(&answers, 404), 19, "{round}");
            follower.expect("DELETED a").await;
        }
    }
}

/// A deletion and the removal of the last finalizer can run at the same time: the object is removed, and the only error
/// is that it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deletion_and_the_removal_of_the_last_finalizer_leave_nothing() {
    for round in 0..60 {
        let world = if round % 2 == 0 { World::new().await } else { World::cached().await };
        let held = json!({"metadata": {"name": "a", "finalizers": ["example.com/x"]}});
        world.post("configmaps default", held).await.ok();
        let (one, two) = (world.clone(), world.clone());
        let deleting = tokio::spawn(async move { one.delete("configmaps default/a").await });
        let removing = tokio::spawn(async move {
            two.merge("configmaps default/a", json!({"metadata": {"finalizers": null}})).await
        });
        let (deleted, removed) = (deleting.await.unwrap(), removing.await.unwrap());
        assert_eq!(deleted.line(), "200", "{round}");
        assert!([200, 404].contains(&removed.code), "{round}: {}", removed.line());
        assert_eq!(world.get("configmaps default/a").await.code, 404, "{round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deletions_and_changes_of_one_object_end_with_it_gone() {
    for round in 0..20 {
        let world = if round % 2 == 0 { World::new().await } else { World::cached().await };
        let kinds = ["configmaps", "pods"];
        for kind in kinds {
            let sent = if kind == "pods" { pod("a") } else { map("a") };
            world.post(&format!("{kind} default"), sent).await.ok();
            let at = format!("{kind} default/a");
            let writers = (0..8).map(|number| {
                let (world, at) = (world.clone(), at.clone());
                tokio::spawn(async move {
                    world.merge(&at, json!({"metadata": {"labels": {"l": number.to_string()}}})).await
                })
            });
            let writers: Vec<_> = writers.collect();
            let (deleter, place) = (world.clone(), at.clone());
            let deleted = tokio::spawn(async move { deleter.delete(&place).await }).await.unwrap();
            assert_eq!(deleted.line(), "200", "{round} {kind}");
            for writer in writers {
                let written = writer.await.unwrap();
                assert!([200, 404].contains(&written.code), "{round} {kind}: {}", written.line());
            }
            assert_eq!(world.get(&at).await.code, 404, "{round} {kind}: nothing brings it back");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn names_that_are_generated_at_once_differ() {
    let world = World::new().await;
    let answers = all((0..100).map(|_| {
        let world = world.clone();
        async move { world.post("configmaps default", json!({"metadata": {"generateName": "g-"}})).await }
    }))
    .await;
    assert_eq!(count(&answers, 201), 100);
    let names: BTreeSet<_> =
        answers.iter().map(|answer| text(&answer.body, "/metadata/name").to_owned()).collect();
    assert_eq!(names.len(), 100);
}

fn service(name: String, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_services_gets_the_requested_address_and_one_the_requested_port() {
    for world in worlds().await {
        let ports = json!([{"port": 80, "nodePort": 30500}]);
        for (kind, spec) in
            [("ip", json!({"clusterIP": "10.0.0.99"})), ("port", json!({"type": "NodePort", "ports": ports}))]
        {
            let before = world.keys("/registry/ipaddresses/").await.len();
            let answers = all((0..20).map(|number| {
                let (world, sent) = (world.clone(), service(format!("{kind}{number}"), spec.clone()));
                async move { world.post("services default", sent).await }
            }))
            .await;
            assert_eq!((count(&answers, 201), count(&answers, 422)), (1, 19), "{kind}");
            assert_eq!(
                world.keys("/registry/ipaddresses/").await.len(),
                before + 1,
                "{kind}: no address is lost"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_made_and_deleted_at_once_have_addresses_of_their_own_and_leave_none() {
    let world = World::cached().await;
    let before = world.keys("/registry/ipaddresses/").await;
    let spec = json!({"type": "NodePort"});
    let answers = all((0..100).map(|number| {
        let (world, sent) = (world.clone(), service(format!("s{number}"), spec.clone()));
        async move { world.post("services default", sent).await }
    }))
    .await;
    assert_eq!(count(&answers, 201), 100);
    for pointer in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        let given: BTreeSet<_> =
            answers.iter().map(|answer| answer.body.pointer(pointer).unwrap().to_string()).collect();
        assert_eq!(given.len(), 100, "{pointer}");
    }
    all((0..100).map(|number| {
        let world = world.clone();
        async move { world.delete(&format!("services default/s{number}")).await }
    }))
    .await;
    assert_eq!(world.keys("/registry/ipaddresses/").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_service_that_changes_its_type_again_and_again_leaks_nothing() {
    let world = World::new().await;
    let before = world.keys("/registry/ipaddresses/").await.len();
    world.post("services default", service("s".to_owned(), json!({}))).await.ok();
    let types = ["ClusterIP", "NodePort", "ExternalName"];
    all((0..30).map(|number| {
        let world = world.clone();
        let patch = json!({"spec": {"type": types[number % 3], "externalName": (number % 3 == 2).then_some("a.example")}});
        async move { world.merge("services default/s", patch).await }
    }))
    .await;
    let left = world.get("services default/s").await.ok();
    let has = usize::from(!text(&left, "/spec/clusterIP").is_empty());
    assert_eq!(world.keys("/registry/ipaddresses/").await.len(), before + has, "{left}");
    if has == 1 {
        let own = format!("ipaddresses {}", text(&left, "/spec/clusterIP"));
        assert_eq!(world.get(&own).await.code, 200);
    }
    world.delete("services default/s").await.ok();
    assert_eq!(world.keys("/registry/ipaddresses/").await.len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_bindings_puts_a_pod_on_its_node() {
    for world in worlds().await {
        world.post("pods default", pod("p")).await.ok();
        let answers = all((0..20).map(|number| {
            let world = world.clone();
            let binding = json!({"target": {"kind": "Node", "name": format!("n{number}")}});
            async move { world.post("pods default/p/binding", binding).await }
        }))
        .await;
        assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 19));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_budget_is_not_overspent() {
    for world in worlds().await {
        for number in 0..10 {
            let mut sent = bound_pod(&format!("p{number}"));
            sent["metadata"]["labels"] = json!({"app": "x"});
            world.post("pods default", sent).await.ok();
            let ready =
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            world.merge(&format!("pods default/p{number}/status"), ready).await.ok();
        }
        let budget = json!({"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}});
        world.post("poddisruptionbudgets default", budget).await.ok();
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 3, "currentHealthy": 10, "desiredHealthy": 7, "expectedPods": 10}});
        world.merge("poddisruptionbudgets default/b/status", status).await.ok();
        let answers = all((0..10).map(|number| {
            let world = world.clone();
            async move { world.post(&format!("pods default/p{number}/eviction"), json!({})).await }
        }))
        .await;
        assert_eq!((count(&answers, 201), count(&answers, 429)), (3, 7));
        let budget = world.get("poddisruptionbudgets default/b").await.ok();
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        assert_eq!(budget["status"]["disruptedPods"].as_object().unwrap().len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scaling_and_patching_at_once_lose_nothing() {
    let world = World::new().await;
    let kind = super::documents::kinds().into_iter().find(|kind| kind.name == "deployments").unwrap();
    world.post(&kind.collection(), kind.object.clone()).await.ok();
    let answers = all((0..20).map(|number| {
        let (world, place) = (world.clone(), kind.place());
        async move {
            if number % 2 == 0 {
                return world
                    .merge(&format!("{place}/scale"), json!({"spec": {"replicas": 40 + number}}))
                    .await;
            }
            let label = format!("l{number}");
            world.merge(&place, json!({"metadata": {"labels": {label: "1"}}})).await
        }
    }))
    .await;
    assert_eq!(count(&answers, 200), 20);
    let after = world.get(&kind.place()).await.ok();
    assert_eq!(after["metadata"]["labels"].as_object().unwrap().len(), 10);
    assert!(after["spec"]["replicas"].as_i64().unwrap() >= 40);
    assert_eq!(after["metadata"]["generation"], 11, "each scaling counted once");
}

/// A namespace that is being deleted takes no new content, whatever the moment: an object that slipped in would lie in no
/// namespace, invisible to every list of namespaces and in the way of the next one of that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_left_in_a_namespace_that_is_deleted_while_it_is_filled() {
    for round in 0..40 {
        let world = if round % 2 == 0 { World::new().await } else { World::cached().await };
        let world = world.emptying();
        world.namespace("n").await;
        let makers: Vec<_> = (0..8)
            .map(|maker| {
                let world = world.clone();
                tokio::spawn(async move {
                    for number in 0..1000 {
                        let made = world.post("configmaps n", map(&format!("m{maker}-{number}"))).await;
                        match made.code {
                            201 => {}
                            403 | 404 => return,
                            _ => panic!("{}", made.line()),
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(std::time::Duration::from_micros(200 * (round % 7))).await;
        world.delete("namespaces n").await.ok();
        for maker in makers {
            maker.await.unwrap();
        }
        world.until_gone("namespaces n").await;
        let left = world.keys("/registry/configmaps/n/").await;
        assert_eq!(left, [] as [&str; 0], "round {round}");
    }
}

/// The emptying of one namespace once waited for fewer creations because another one was emptied too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_left_in_namespaces_that_are_deleted_together() {
    let world = World::cached().await.emptying();
    for round in 0..500 {
        let names = [format!("a{round}"), format!("b{round}")];
        fill_and_delete(&world, &world, &names).await;
    }
}

/// Two servers on one store: what one is creating is not known to the other, which empties the namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_left_in_a_namespace_that_is_deleted_through_another_server() {
    let filling = World::cached().await.emptying();
    let deleting = filling.beside().await.emptying();
    for round in 0..500 {
        fill_and_delete(&filling, &deleting, &[format!("n{round}")]).await;
    }
}

/// Fills namespaces through one server with objects, some of which take long to create, deletes them meanwhile through
/// another, and looks for what is left.
async fn fill_and_delete(filling: &World, deleting: &World, names: &[String]) {
    let mut makers = Vec::new();
    for name in names {
        filling.namespace(name).await;
        for maker in 0..3 {
            let (world, place) = (filling.clone(), format!("configmaps {name}"));
            makers.push(tokio::spawn(async move {
                let mut sent = map("");
                if maker == 0 {
                    sent["data"] = (0..2000).map(|key| (format!("k{key}"), json!("v"))).collect();
                }
                for number in 0..1000 {
                    sent["metadata"]["name"] = format!("m{maker}-{number}").into();
                    match world.post(&place, sent.clone()).await.code {
                        201 => tokio::task::yield_now().await,
                        403 | 404 => return,
                        other => panic!("{other}"),
                    }
                }
            }));
        }
    }
    let deletions = names.iter().map(|name| {
        let (world, place) = (deleting.clone(), format!("namespaces {name}"));
        tokio::spawn(async move { world.delete(&place).await.ok() })
    });
    join_all(deletions).await;
    join_all(makers).await.into_iter().for_each(|maker| maker.expect("creations end"));
    for name in names {
        deleting.until_gone(&format!("namespaces {name}")).await;
        let left = deleting.keys(&format!("/registry/configmaps/{name}/")).await;
        assert_eq!(left, [] as [&str; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_namespace_can_be_made_and_deleted_again_and_again() {
    for world in worlds().await {
        let world = world.emptying();
        for round in 0..150 {
            world.namespace("n").await;
            world.post("configmaps n", map("a")).await.ok();
            let deleted = world.delete("namespaces n").await;
            assert_eq!(deleted.line(), "200", "{round}");
            world.until_gone("namespaces n").await;
        }
        assert_eq!(world.keys("/registry/configmaps/n/").await, [] as [&str; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deleting_a_collection_while_it_changes_succeeds() {
    for world in worlds().await {
        for number in 0..30 {
            world.post("configmaps default", map(&format!("a{number}"))).await.ok();
        }
        let others = (0..30).map(|number| {
            let world = world.clone();
            let at = format!("configmaps default/a{number}");
            tokio::spawn(async move {
                if number % 2 == 0 {
                    world.delete(&at).await
                } else {
                    world.merge(&at, json!({"data": {"k": "1"}})).await
                }
            })
        });
        let others: Vec<_> = others.collect();
        let both = all((0..2).map(|_| {
            let world = world.clone();
            async move { world.delete_collection("configmaps default", json!({})).await }
        }))
        .await;
        assert_eq!(count(&both, 200), 2, "{:?}", both.iter().map(Answer::line).collect::<Vec<_>>());
        for other in others {
            assert!([200, 404].contains(&other.await.unwrap().code));
        }
        until("all are gone", || async { world.names("configmaps default").await.is_empty() }).await;
    }
}

/// Somebody else always writes first.
struct Crowded(Arc<dyn Storage>);

#[async_trait::async_trait]
impl Storage for Crowded {
    async fn create_while(
        &self,
        key: &str,
        value: bytes::Bytes,
        ttl: Option<Duration>,
        unchanged: Option<&Unchanged>,
    ) -> Result<Object, StorageError> {
        self.0.create_while(key, value, ttl, unchanged).await
    }
    async fn get(&self, key: &str, position: Position) -> Result<Option<Object>, StorageError> {
        self.0.get(key, position).await
    }
    async fn delete(
        &self,
        key: &str,
        options: DeleteOptions,
        validate: Validate<'_>,
    ) -> Result<Object, StorageError> {
        self.0.delete(key, options, validate).await
    }
    async fn guaranteed_update(
        &self,
        key: &str,
        _: UpdateOptions,
        _: TryUpdate<'_>,
    ) -> Result<Object, StorageError> {
        let message = "somebody else was faster".to_owned();
        Err(StorageError::InvalidObject { key: Key::from_backend(key), message })
    }
    async fn get_list(&self, key: &str, request: ListRequest) -> Result<List, StorageError> {
        self.0.get_list(key, request).await
    }
    async fn watch(&self, key: &str, request: WatchRequest) -> Result<Watch, StorageError> {
        self.0.watch(key, request).await
    }
}

/// Bindings, evictions and scales tried for ever, and with them the request's connection was never answered.
#[tokio::test]
async fn a_write_that_loses_every_race_fails_with_a_conflict() {
    let world = World::with(RegistryOptions::default(), |resource, storage| match resource.plural.as_str() {
        "pods" | "deployments" => Arc::new(Crowded(storage)),
        _ => storage,
    })
    .await;
    world.post("pods default", pod("p")).await.ok();
    let deployment = kinds().into_iter().find(|kind| kind.name == "deployments").unwrap();
    world.post(&deployment.collection(), deployment.object.clone()).await.ok();
    let binding = json!({"target": {"kind": "Node", "name": "n1"}});
    let scale = format!("{}/scale", deployment.place());
    let answers = async {
        [
            world.post("pods default/p/binding", binding).await,
            world.post("pods default/p/eviction", json!({"metadata": {"name": "p"}})).await,
            world.merge(&scale, json!({"spec": {"replicas": 3}})).await,
            world.merge("pods default/p", json!({"metadata": {"labels": {"l": "1"}}})).await,
        ]
    };
    let answers = tokio::time::timeout(Duration::from_secs(60), answers).await.expect("they are answered");
    assert_eq!(answers.map(|answer| answer.code), [409; 4]);
}
