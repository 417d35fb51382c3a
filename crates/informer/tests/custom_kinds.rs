//! Informers on a custom kind: typed, lean and dynamic, before and after the server was restarted.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use keepwatch::Server;
use keepwatch_informer::{Event, Informer, Lean, Object};
use kube::{
    Api, Client, CustomResource,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use kube_runtime::wait::{await_condition, conditions::is_crd_established};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const WAIT_MAX: Duration = Duration::from_secs(20);

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "Site",
    plural = "sites",
    namespaced,
    schema = "disabled"
)]
struct SiteSpec {
    host: String,
    replicas: i64,
}

fn definition() -> CustomResourceDefinition {
    let spec = json!({"type": "object", "required": ["host"], "properties": {
        "host": {"type": "string"},
        "replicas": {"type": "integer", "default": 1},
    }});
    serde_json::from_value(json!({
        "metadata": {"name": "sites.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "sites", "kind": "Site"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "selectableFields": [{"jsonPath": ".spec.host"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    }))
    .unwrap()
}

fn resource() -> ApiResource {
    ApiResource::erase::<Site>(&())
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(WAIT_MAX, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {WAIT_MAX:?}"))
}

async fn define(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let established = await_condition(definitions, "sites.example.org", is_crd_established());
    within("the definition is established", established).await.unwrap();
}

async fn create(client: &Client, name: &str, spec: Value) {
    let sites: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource());
    let made = DynamicObject::new(name, &resource()).data(json!({ "spec": spec }));
    sites.create(&PostParams::default(), &made).await.unwrap();
}

async fn merge(client: &Client, name: &str, spec: Value) {
    let sites: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource());
    let patch = Patch::Merge(json!({ "spec": spec }));
    sites.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn delete(client: &Client, name: &str) {
    let sites: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource());
    sites.delete(name, &DeleteParams::default()).await.unwrap();
}

/// As `initial a 1` or `updated a 2`: what happened, to which object, and its replicas.
fn describe<O: Object>(event: &Event<O>, replicas: fn(&O) -> i64) -> String {
    let word = match event {
        Event::Added { initial: true, .. } => "initial",
        Event::Added { .. } => "added",
        Event::Updated { .. } => "updated",
        Event::Deleted { final_state_unknown: false, .. } => "deleted",
        _ => "missed",
    };
    format!("{word} {} {}", event.key().name, replicas(event.object()))
}

/// Checks the events of an informer while objects change, and then while the server is restarted.
async fn check<O: Object>(make: fn(Client) -> Informer<O>, replicas: fn(&O) -> i64) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::builder().data_dir(data.path()).start().await.unwrap();
    let (address, client) = (server.address(), server.client().await.unwrap());
    define(&client).await;
    create(&client, "a", json!({"host": "a.test"})).await;

    let informer = make(client.clone());
    let mut events = informer.subscribe();
    let stop = CancellationToken::new();
    informer.start(stop.clone());
    let mut next = async || describe(&within("an event", events.next()).await.unwrap(), replicas);
    assert_eq!(next().await, "initial a 1");
    within("it is synced", informer.synced()).await.unwrap();
    create(&client, "b", json!({"host": "b.test", "replicas": 2})).await;
    merge(&client, "a", json!({"replicas": 3})).await;
    assert_eq!([next().await, next().await], ["added b 2", "updated a 3"]);

    within("the server stops", server.stop()).await;
    let _server = Server::builder().data_dir(data.path()).address(address).start().await.unwrap();
    create(&client, "c", json!({"host": "c.test"})).await;
    delete(&client, "b").await;
    assert_eq!([next().await, next().await], ["added c 1", "deleted b 2"]);
    assert_eq!(informer.counts().states, 1, "the watch resumes without a new list");
    stop.cancel();
}

#[tokio::test]
async fn a_typed_informer_on_a_custom_kind_resumes_after_a_restart() {
    check::<Site>(|client| Informer::builder(client).namespace("default").build(), |site| site.spec.replicas)
        .await;
}

#[tokio::test]
async fn a_lean_informer_on_a_custom_kind_resumes_after_a_restart() {
    let make = |client| Informer::<Site>::builder(client).lean().build();
    let replicas = |site: &Lean<Site>| site.read().unwrap().spec.replicas;
    check(make, replicas).await;
}

#[tokio::test]
async fn a_dynamic_informer_on_a_custom_kind_resumes_after_a_restart() {
    let make = |client| Informer::dynamic(client, &resource()).build();
    check(make, |site| site.data["spec"]["replicas"].as_i64().unwrap()).await;
}

#[tokio::test]
async fn an_informer_selects_by_a_field_of_the_definition() {
    let server = Server::builder().memory().start().await.unwrap();
    let client = server.client().await.unwrap();
    define(&client).await;
    let informer = Informer::<Site>::builder(client.clone()).fields("spec.host=b.test").build();
    let mut events = informer.subscribe();
    let stop = CancellationToken::new();
    informer.start(stop.clone());
    within("it is synced", informer.synced()).await.unwrap();
    let mut next =
        async || describe(&within("an event", events.next()).await.unwrap(), |site| site.spec.replicas);
    create(&client, "a", json!({"host": "a.test"})).await;
    create(&client, "b", json!({"host": "b.test"})).await;
    merge(&client, "a", json!({"host": "b.test", "replicas": 2})).await;
    merge(&client, "b", json!({"host": "a.test"})).await;
    assert_eq!([next().await, next().await, next().await], ["added b 1", "added a 2", "deleted b 1"]);
    stop.cancel();
}
