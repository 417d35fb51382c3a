//! kube-rs on kinds that are defined by `#[derive(CustomResource)]`: schemas, rules, subresources, columns, a controller.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use keepwatch::Server;
use kube::{
    Api, Client, CustomResource, CustomResourceExt, Error, KubeSchema, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    core::Status,
    runtime::{
        Controller,
        controller::Action,
        finalizer::{self, finalizer},
        wait::{self, conditions::is_crd_established},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

/// How long anything may take that has to happen.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// What is wanted of a site.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "Site",
    plural = "sites",
    shortname = "st",
    category = "web",
    namespaced,
    status = "SiteStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name":"Host","type":"string","jsonPath":".spec.host"}"#,
    printcolumn = r#"{"name":"Ready","type":"boolean","jsonPath":".status.ready","priority":1}"#,
    selectable = ".spec.host",
    validation = Rule::new("self.metadata.name.size() <= 10").message("the name is too long")
)]
#[x_kube(validation = Rule::new("self.replicas >= self.pages.size() || self.host.endsWith('.test')").message("one replica for each page"))]
#[serde(rename_all = "camelCase")]
struct SiteSpec {
    /// The name in the domain name system.
    #[x_kube(validation = Rule::new("self == oldSelf").message("the host stays").reason(Reason::FieldValueForbidden))]
    host: String,
    /// How many processes serve it.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 9))]
    replicas: i32,
    #[serde(default)]
    #[schemars(length(max = 3))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["path".into()]))]
    pages: Vec<Page>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    theme: Option<Theme>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Page {
    path: String,
    #[serde(default)]
    text: String,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Theme {
    Light,
    Dark,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SiteStatus {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    replicas: i32,
    #[serde(default)]
    selector: String,
}

fn one() -> i32 {
    1
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(WAIT_MAX, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {WAIT_MAX:?}"))
}

/// A server in memory with the definition, and a client of it.
async fn start() -> (Server, Client) {
    let server = Server::builder().memory().start().await.expect("a server in memory starts");
    let client = server.client().await.expect("a client can be made");
    define(&client).await;
    (server, client)
}

/// Creates the definition and waits until it is established, as a controller does when it starts.
async fn define(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Site::crd()).await.expect("a valid definition");
    let established = wait::await_condition(definitions, Site::crd_name(), is_crd_established());
    within("the definition is established", established).await.expect("a watch");
}

fn site(name: &str, spec: Value) -> Site {
    let mut whole = json!({"host": "example.org"});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    Site::new(name, serde_json::from_value(whole).expect("a spec"))
}

async fn create(sites: &Api<Site>, name: &str, spec: Value) -> Site {
    sites.create(&PostParams::default(), &site(name, spec)).await.expect(name)
}

async fn merge(sites: &Api<Site>, name: &str, change: Value) -> Result<Site, Error> {
    sites.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Box<Status> {
    match result {
        Err(Error::Api(status)) => status,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_derived_kind_is_created_read_changed_and_deleted() -> Result<(), Error> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client);
    let mut made = create(&sites, "a", json!({"pages": [{"path": "/"}], "theme": "Dark"})).await;
    assert_eq!((made.spec.replicas, made.metadata.generation), (1, Some(1)));
    made.spec.replicas = 2;
    let replaced = sites.replace("a", &PostParams::default(), &made).await?;
    assert_eq!((replaced.spec.replicas, replaced.metadata.generation), (2, Some(2)));
    assert!(refusal(sites.replace("a", &PostParams::default(), &made).await).is_conflict());
    let merged = merge(&sites, "a", json!({"spec": {"theme": null, "headers": {"a": "b"}}})).await?;
    assert_eq!((merged.spec.theme, merged.spec.headers.len()), (None, 1));
    sites.delete("a", &DeleteParams::default()).await?;
    assert!(sites.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn schemas_refuse_what_they_forbid() -> Result<(), Error> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client);
    create(&sites, "a", json!({})).await;
    for (change, message) in [
        (
            json!({"replicas": 10}),
            "spec.replicas: Invalid value: 10: spec.replicas in body should be less than or equal to 9",
        ),
        (
            json!({"theme": "Red"}),
            r#"spec.theme: Unsupported value: "Red": supported values: "Light", "Dark""#,
        ),
        (
            json!({"pages": [{"path": "/"}, {"path": "/"}], "replicas": 2}),
            r#"spec.pages[1]: Duplicate value: {"path":"/"}"#,
        ),
        (
            json!({"pages": [{"path": "a"}, {"path": "b"}, {"path": "c"}, {"path": "d"}], "replicas": 4}),
            "spec.pages: Too many: 4: must have at most 3 items",
        ),
    ] {
        let status = refusal(merge(&sites, "a", json!({ "spec": change })).await);
        assert!(status.is_invalid() && status.message.contains(message), "{change}: {}", status.message);
    }
    Ok(())
}

#[tokio::test]
async fn rules_refuse_what_they_forbid() -> Result<(), Error> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client);
    create(&sites, "a", json!({})).await;
    for (change, message) in [
        (json!({"host": "example.com"}), "spec.host: Forbidden: the host stays"),
        (json!({"pages": [{"path": "/"}, {"path": "/b"}]}), "spec: Invalid value: one replica for each page"),
    ] {
        let status = refusal(merge(&sites, "a", json!({ "spec": change })).await);
        assert!(status.is_invalid() && status.message.ends_with(message), "{change}: {}", status.message);
    }
    let long = sites.create(&PostParams::default(), &site("a-long-name-indeed", json!({}))).await;
    assert_eq!(
        refusal(long).message,
        r#"Site.example.org "a-long-name-indeed" is invalid: <nil>: Invalid value: the name is too long"#
    );
    Ok(())
}

#[tokio::test]
async fn status_and_scale_are_subresources_of_a_derived_kind() -> Result<(), Error> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client);
    create(&sites, "a", json!({})).await;
    let params = PatchParams::default();
    let status =
        json!({"status": {"ready": true, "replicas": 1, "selector": "app=site"}, "spec": {"replicas": 7}});
    let patched = sites.patch_status("a", &params, &Patch::Merge(status)).await?;
    assert_eq!((patched.spec.replicas, patched.metadata.generation), (1, Some(1)));
    let scale = sites.patch_scale("a", &params, &Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(3));
    let scale = sites.get_scale("a").await?.status.expect("it has a status");
    assert_eq!((scale.replicas, scale.selector.as_deref()), (1, Some("app=site")));
    let found = sites.get("a").await?;
    assert_eq!((found.spec.replicas, found.status.map(|status| status.ready)), (3, Some(true)));
    Ok(())
}

#[tokio::test]
async fn a_list_and_a_watch_select_by_the_fields_of_the_definition() -> Result<(), Error> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client);
    create(&sites, "a", json!({"host": "a.test"})).await;
    create(&sites, "b", json!({"host": "b.test"})).await;
    let list = sites.list(&ListParams::default().fields("spec.host=b.test")).await?;
    assert_eq!(list.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
    let version = list.metadata.resource_version.unwrap_or_default();
    let mut events = sites.watch(&WatchParams::default().fields("spec.host=b.test"), &version).await?.boxed();
    merge(&sites, "a", json!({"spec": {"replicas": 2}})).await?;
    merge(&sites, "b", json!({"spec": {"replicas": 2}})).await?;
    let event = within("an event", events.try_next()).await?.expect("the watch goes on");
    assert!(matches!(event, WatchEvent::Modified(ref site) if site.name_any() == "b"), "{event:?}");
    let unknown = refusal(sites.list(&ListParams::default().fields("spec.replicas=2")).await);
    assert_eq!(unknown.code, 400);
    Ok(())
}

#[tokio::test]
async fn a_table_has_the_columns_of_the_definition() -> Result<(), Error> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client.clone());
    create(&sites, "a", json!({"host": "a.test"})).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get(sites.resource_url()).header("Accept", accept).body(Vec::new());
    let table: Value = client.request(request.expect("a request")).await?;
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().into_iter().flatten().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Host", "Ready"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "a.test", null]));
    Ok(())
}

/// What the controller below puts on each site.
const FINALIZER: &str = "example.org/site";

/// Keeps a config map with the pages of each site, and reports it in the site's status.
async fn reconcile(site: Arc<Site>, client: Arc<Client>) -> Result<Action, finalizer::Error<Error>> {
    let namespace = site.namespace().expect("sites have one");
    let sites: Api<Site> = Api::namespaced((*client).clone(), &namespace);
    finalizer(&sites, FINALIZER, site, |event| async {
        let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
        match event {
            finalizer::Event::Apply(site) => {
                publish(&maps, &site).await?;
                let status =
                    SiteStatus { ready: true, replicas: site.spec.replicas, selector: String::new() };
                if site.status.as_ref() != Some(&status) {
                    let patch = Patch::Merge(json!({ "status": status }));
                    sites.patch_status(&site.name_any(), &PatchParams::default(), &patch).await?;
                }
            }
            finalizer::Event::Cleanup(site) => {
                maps.delete(&site.name_any(), &DeleteParams::default()).await.map(drop)?
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn publish(maps: &Api<ConfigMap>, site: &Site) -> Result<(), Error> {
    let data = site.spec.pages.iter().map(|page| (page.path.replace('/', "_"), page.text.clone()));
    let metadata = ObjectMeta {
        name: site.metadata.name.clone(),
        owner_references: site.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let map = ConfigMap { metadata, data: Some(data.collect()), ..ConfigMap::default() };
    match maps.get_opt(&site.name_any()).await? {
        None => maps.create(&PostParams::default(), &map).await.map(drop),
        Some(found) if found.data == map.data => Ok(()),
        Some(_) => maps.patch(&site.name_any(), &PatchParams::default(), &Patch::Merge(&map)).await.map(drop),
    }
}

#[tokio::test]
async fn a_controller_reconciles_a_derived_kind() -> Result<(), Box<dyn std::error::Error>> {
    let (_server, client) = start().await;
    let sites: Api<Site> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let running = Controller::new(sites.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client))
        .for_each(|_| async {});
    let running = tokio::spawn(running);

    create(&sites, "a", json!({"pages": [{"path": "/", "text": "Welcome"}]})).await;
    within("the status", wait::await_condition(sites.clone(), "a", reports(1))).await?;
    assert_eq!(json!(maps.get("a").await?.data), json!({"_": "Welcome"}));
    merge(&sites, "a", json!({"spec": {"replicas": 4}})).await?;
    within("the new status", wait::await_condition(sites.clone(), "a", reports(4))).await?;
    let found = sites.get("a").await?;
    assert_eq!((found.finalizers(), found.metadata.generation), (&[FINALIZER.to_owned()][..], Some(2)));
    sites.delete("a", &DeleteParams::default()).await?;
    let gone = |site: Option<&Site>| site.is_none();
    within("the end of a", wait::await_condition(sites.clone(), "a", gone)).await?;
    assert!(maps.get_opt("a").await?.is_none());
    running.abort();
    Ok(())
}

fn reports(replicas: i32) -> impl wait::Condition<Site> {
    move |site: Option<&Site>| {
        site.and_then(|site| site.status.as_ref())
            .is_some_and(|status| status.ready && status.replicas == replicas)
    }
}
