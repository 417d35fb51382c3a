//! kube-rs as a client of a server in the same process: typed calls, watchers, reflectors and a controller.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Secret},
    },
};
use keepwatch::Server;
use kube::{
    Api, Client, Error, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        PropagationPolicy, WatchEvent, WatchParams,
    },
    core::{GroupVersionKind, PartialObjectMeta, Status},
    discovery::oneshot::pinned_kind,
    runtime::{
        Controller, WatchStreamExt,
        controller::Action,
        finalizer::{self, finalizer},
        reflector, wait,
        watcher::{self, watcher},
    },
};
use serde_json::{Value, json};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

/// How long anything may take that has to happen.
const WAIT_MAX: Duration = Duration::from_secs(20);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(WAIT_MAX, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {WAIT_MAX:?}"))
}

/// A server in memory and a client of it.
async fn start() -> (Server, Client) {
    let server = Server::builder().memory().start().await.expect("a server in memory starts");
    let client = server.client().await.expect("a client can be made");
    (server, client)
}

fn config_map(name: &str, data: Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).expect("a config map")
}

fn labelled(name: &str, labels: Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).expect("a config map")
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> ConfigMap {
    maps.create(&PostParams::default(), &config_map(name, json!({}))).await.expect(name)
}

fn data(map: &ConfigMap) -> Value {
    json!(map.data.clone().unwrap_or_default())
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Box<Status> {
    match result {
        Err(Error::Api(status)) => status,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() -> Result<(), Error> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut made = maps.create(&PostParams::default(), &config_map("a", json!({"x": "1"}))).await?;
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());

    made.data = Some([("x".to_owned(), "2".to_owned())].into());
    let replaced = maps.replace("a", &PostParams::default(), &made).await?;
    assert_eq!(data(&replaced), json!({"x": "2"}));
    assert!(refusal(maps.replace("a", &PostParams::default(), &made).await).is_conflict());

    let merge = Patch::Merge(json!({"data": {"x": null, "y": "3"}}));
    assert_eq!(data(&maps.patch("a", &PatchParams::default(), &merge).await?), json!({"y": "3"}));
    let again = maps.create(&PostParams::default(), &config_map("a", json!({}))).await;
    assert!(refusal(again).is_already_exists());

    maps.delete("a", &DeleteParams::default()).await?;
    assert!(maps.get_opt("a").await?.is_none());
    assert!(refusal(maps.get("a").await).is_not_found());
    Ok(())
}

#[tokio::test]
async fn a_dry_run_answers_but_changes_nothing() -> Result<(), Error> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert!(maps.create(&dry, &config_map("a", json!({}))).await?.uid().is_some());
    assert!(maps.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_list_is_read_in_pages_and_by_labels() -> Result<(), Error> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        maps.create(&PostParams::default(), &labelled(name, json!({"app": app}))).await?;
    }
    let mut params = ListParams::default().limit(2);
    let mut pages = Vec::new();
    loop {
        let page = maps.list(&params).await?;
        pages.push(page.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(pages, [vec!["a", "b"], vec!["c"]]);
    let web = ListParams::default().labels("app=web");
    let found = maps.list(&web).await?;
    assert_eq!(found.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a", "c"]);
    maps.delete_collection(&DeleteParams::default(), &web).await?;
    assert_eq!(maps.list(&ListParams::default()).await?.items.len(), 1);
    Ok(())
}

#[tokio::test]
async fn scale_and_status_are_subresources() -> Result<(), Error> {
    let (_server, client) = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let deployment = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "a", "image": "a:1"}]},
        },
    }}))
    .expect("a deployment");
    deployments.create(&PostParams::default(), &deployment).await?;
    let params = PatchParams::default();
    deployments.patch_scale("web", &params, &Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    let status = json!({"status": {"replicas": 2}, "spec": {"replicas": 9}});
    deployments.patch_status("web", &params, &Patch::Merge(status)).await?;
    let found = deployments.get("web").await?;
    assert_eq!(found.spec.and_then(|spec| spec.replicas), Some(3));
    assert_eq!(found.status.and_then(|status| status.replicas), Some(2));
    Ok(())
}

#[tokio::test]
async fn lists_and_watches_can_be_of_metadata_only() -> Result<(), Error> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("a", json!({"x": "1"}))).await?;
    let list = maps.list_metadata(&ListParams::default()).await?;
    let kinds: Vec<_> =
        list.items.iter().filter_map(|item| item.types.as_ref()).map(|t| t.kind.as_str()).collect();
    assert_eq!(kinds, ["PartialObjectMetadata"]);
    let version = list.metadata.resource_version.unwrap_or_default();
    let mut events = maps.watch_metadata(&WatchParams::default(), &version).await?.boxed();
    create(&maps, "b").await;
    let event: WatchEvent<PartialObjectMeta<ConfigMap>> =
        within("an event", events.try_next()).await?.expect("the watch goes on");
    assert!(matches!(event, WatchEvent::Added(ref added) if added.name_any() == "b"), "{event:?}");
    Ok(())
}

#[tokio::test]
async fn a_list_can_be_asked_for_as_a_table() -> Result<(), Error> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("a", json!({"x": "1"}))).await?;
    let request = http_get(maps.resource_url(), "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table: Value = client.request(request).await?;
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().into_iter().flatten().map(|c| &c["name"]).collect();
    assert_eq!(
        (&table["kind"], columns),
        (&json!("Table"), vec![&json!("Name"), &json!("Data"), &json!("Age")])
    );
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["cells"][1], 1);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    Ok(())
}

fn http_get(path: &str, accept: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).header("Accept", accept).body(Vec::new()).expect("a request")
}

#[tokio::test]
async fn kinds_are_found_by_discovery() -> Result<(), Error> {
    let (_server, client) = start().await;
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (resource, capabilities) = pinned_kind(&client, &kind).await?;
    assert_eq!((resource.plural.as_str(), capabilities.subresources.len()), ("deployments", 2));
    let resource = ApiResource::erase::<ConfigMap>(&());
    let maps: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let made = DynamicObject::new("a", &resource).data(json!({"data": {"x": "1"}}));
    assert_eq!(maps.create(&PostParams::default(), &made).await?.data["data"]["x"], "1");
    Ok(())
}

/// The events of a watcher, in words.
fn in_words(event: &watcher::Event<ConfigMap>) -> String {
    match event {
        watcher::Event::Init => "init".to_owned(),
        watcher::Event::InitApply(map) => format!("there is {}", map.name_any()),
        watcher::Event::InitDone => "all".to_owned(),
        watcher::Event::Apply(map) => format!("{} is {}", map.name_any(), data(map)),
        watcher::Event::Delete(map) => format!("{} is gone", map.name_any()),
    }
}

/// Whether by a list and a watch or by a watch that begins with the state, a watcher sees the same.
async fn check_watcher(config: watcher::Config) -> Result<(), Box<dyn std::error::Error>> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        create(&maps, name).await;
    }
    let mut events = watcher(maps.clone(), config).boxed();
    let mut next =
        async || within("an event", events.try_next()).await.map(|event| in_words(&event.expect("endless")));
    for expected in ["init", "there is a", "there is b", "there is c", "all"] {
        assert_eq!(next().await?, expected);
    }
    maps.patch("b", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "1"}}))).await?;
    maps.delete("a", &DeleteParams::default()).await?;
    create(&maps, "d").await;
    for expected in [r#"b is {"x":"1"}"#, "a is gone", "d is {}"] {
        assert_eq!(next().await?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn a_watcher_lists_in_pages_and_then_watches() -> Result<(), Box<dyn std::error::Error>> {
    check_watcher(watcher::Config::default().page_size(2)).await
}

#[tokio::test]
async fn a_watcher_can_get_the_state_from_the_watch_itself() -> Result<(), Box<dyn std::error::Error>> {
    check_watcher(watcher::Config::default().streaming_lists()).await
}

#[tokio::test]
async fn a_watcher_goes_on_after_the_server_was_restarted() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let server = Server::builder().data_dir(directory.path()).start().await?;
    let address = server.address();
    let maps: Api<ConfigMap> =
        Api::default_namespaced(server.client().await.map_err(|error| error.to_string())?);
    create(&maps, "a").await;
    let mut events = watcher(maps.clone(), watcher::Config::default()).default_backoff().boxed();
    let mut next = async || loop {
        // Errors are what a client gets that finds nobody; it tries again.
        match within("an event", events.next()).await.expect("endless") {
            Ok(event) => return in_words(&event),
            Err(_) => continue,
        }
    };
    for expected in ["init", "there is a", "all"] {
        assert_eq!(next().await, expected);
    }
    within("the server stops", server.stop()).await;
    let _server = started_again(directory.path(), address).await;
    create(&maps, "b").await;
    // Not "init": it receives only the events after the last one.
    assert_eq!(next().await, "b is {}");
    Ok(())
}

async fn started_again(directory: &std::path::Path, address: SocketAddr) -> Server {
    let builder = Server::builder().data_dir(directory).address(address);
    builder.start().await.expect("the same address is free again")
}

#[tokio::test]
async fn a_reflector_holds_what_the_server_holds() -> Result<(), Box<dyn std::error::Error>> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    create(&maps, "a").await;
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().labels("app!=ignored");
    let mut applied =
        watcher(maps.clone(), config).default_backoff().reflect(writer).applied_objects().boxed();
    within("a", applied.try_next()).await?;
    maps.create(&PostParams::default(), &labelled("b", json!({"app": "ignored"}))).await?;
    create(&maps, "c").await;
    within("c", applied.try_next()).await?;
    within("the store is filled", reader.wait_until_ready()).await?;
    let mut names: Vec<_> = reader.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["a", "c"]);
    Ok(())
}

/// What the controller below puts on each config map that is its own.
const FINALIZER: &str = "example.org/sealed";

/// A controller that keeps a secret with the same data beside each config map with the label `seal`, and counts in the
/// annotation of another object what it has cleaned up.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, finalizer::Error<Error>> {
    let namespace = map.namespace().expect("config maps have one");
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
    finalizer(&maps, FINALIZER, map, |event| async {
        let secrets: Api<Secret> = Api::namespaced((*client).clone(), &namespace);
        match event {
            finalizer::Event::Apply(map) => seal(&secrets, &map).await?,
            finalizer::Event::Cleanup(map) => {
                let record = config_map(&format!("{}-was-cleaned", map.name_any()), data(&map));
                maps.create(&PostParams::default(), &record).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn seal(secrets: &Api<Secret>, map: &ConfigMap) -> Result<(), Error> {
    let mut secret = Secret::default();
    secret.metadata.name = map.metadata.name.clone();
    secret.metadata.owner_references = map.controller_owner_ref(&()).map(|owner| vec![owner]);
    let sealed =
        map.data.iter().flatten().map(|(key, value)| (key.clone(), ByteString(value.clone().into())));
    secret.data = Some(sealed.collect());
    match secrets.get_opt(&map.name_any()).await? {
        None => secrets.create(&PostParams::default(), &secret).await.map(drop),
        Some(found) if found.data == secret.data => Ok(()),
        Some(found) => {
            secret.metadata.resource_version = found.metadata.resource_version;
            secrets.replace(&map.name_any(), &PostParams::default(), &secret).await.map(drop)
        }
    }
}

#[tokio::test]
async fn a_controller_keeps_up_its_children_and_cleans_up_with_its_finalizer()
-> Result<(), Box<dyn std::error::Error>> {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let running = Controller::new(maps.clone(), watcher::Config::default().labels("seal"))
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client))
        .for_each(|_| async {});
    let running = tokio::spawn(running);

    let mut map = labelled("a", json!({"seal": "yes"}));
    map.data = Some([("x".to_owned(), "1".to_owned())].into());
    maps.create(&PostParams::default(), &map).await?;
    within("the secret", wait::await_condition(secrets.clone(), "a", holds("1"))).await?;
    assert_eq!(maps.get("a").await?.finalizers(), [FINALIZER]);

    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "2"}}))).await?;
    within("the new secret", wait::await_condition(secrets.clone(), "a", holds("2"))).await?;

    let old = secrets.get("a").await?.uid().expect("it has one");
    secrets.delete("a", &DeleteParams::default()).await?;
    let another =
        move |secret: Option<&Secret>| secret.is_some_and(|secret| secret.uid().as_ref() != Some(&old));
    within("another secret", wait::await_condition(secrets.clone(), "a", another)).await?;

    maps.delete("a", &DeleteParams::background()).await?;
    let gone = |map: Option<&ConfigMap>| map.is_none();
    within("the end of a", wait::await_condition(maps.clone(), "a", gone)).await?;
    assert_eq!(data(&maps.get("a-was-cleaned").await?), json!({"x": "2"}));
    running.abort();
    Ok(())
}

fn holds(value: &'static str) -> impl wait::Condition<Secret> {
    move |secret: Option<&Secret>| {
        let data = secret.and_then(|secret| secret.data.as_ref());
        data.and_then(|data| data.get("x")).is_some_and(|held| held.0 == value.as_bytes())
    }
}

#[tokio::test]
async fn openapi_has_the_descriptions_that_the_builder_was_given() -> Result<(), Box<dyn std::error::Error>> {
    let about = |name: &&str| (name.to_string(), json!({"description": format!("About {name}.")}));
    let described = Server::builder().memory().descriptions(move |types| types.iter().map(about).collect());
    for (builder, description) in
        [(described, Some("About io.k8s.api.apps.v1.Deployment.")), (Server::builder().memory(), None)]
    {
        let server = builder.start().await?;
        let client = server.client().await.map_err(|error| error.to_string())?;
        let request = http::Request::get("/openapi/v3/apis/apps/v1").body(Vec::new())?;
        let document: Value = client.request(request).await?;
        let deployment = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(deployment["description"].as_str(), description);
        let selector = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["required"];
        assert_eq!(*selector, json!(["selector", "template"]));
    }
    Ok(())
}

#[tokio::test]
async fn a_deleted_namespace_empties_itself() -> Result<(), Box<dyn std::error::Error>> {
    let (_server, client) = start().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "short"}}))?;
    let uid = namespaces.create(&PostParams::default(), &namespace).await?.uid().expect("it has one");
    let maps: Api<ConfigMap> = Api::namespaced(client, "short");
    create(&maps, "a").await;
    let params =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    namespaces.delete("short", &params).await?;
    let deleted = wait::conditions::is_deleted(&uid);
    within("the end of the namespace", wait::await_condition(namespaces, "short", deleted)).await?;
    assert!(maps.get_opt("a").await?.is_none());
    Ok(())
}
