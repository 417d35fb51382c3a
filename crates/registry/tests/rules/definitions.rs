//! Definitions of custom resources, below HTTP: what is opened when, and what two servers make of one store.

use crate::world::{World, until};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_registry::{
    Error, Registry, RegistryOptions,
    codec::{self, Body, Expected, Media},
    custom::Definitions,
    kind::Kind,
    options::{FieldValidation, WriteOptions},
    rest::Target,
    strategy::Requester,
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

fn definition(plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": plural, "kind": plural[..1].to_uppercase() + &plural[1..plural.len() - 1]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                }},
            }],
        },
    })
}

async fn follow(world: &World) {
    let definitions = Definitions::load(Arc::clone(&world.registry)).await.unwrap();
    tokio::spawn(definitions.follow());
}

fn served(registry: &Registry, plural: &str) -> Option<Arc<Kind>> {
    registry.catalog().find("example.com", "v1", plural)
}

async fn create(registry: &Registry, kind: &Kind, name: &str, spec: Value) -> Result<(), String> {
    let created = create_with(registry, kind, name, spec, &WriteOptions::default()).await;
    created.map_err(|error| error.to_string())
}

async fn create_with(
    registry: &Registry,
    kind: &Kind,
    name: &str,
    spec: Value,
    options: &WriteOptions,
) -> Result<(), Error> {
    let document = json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name}, "spec": spec,
    });
    let bytes = serde_json::to_vec(&document).unwrap();
    let body = Body { bytes: &bytes, media: Media::Json };
    let decoded = codec::decode(&body, Expected::of(kind), FieldValidation::Warn)?;
    let target = Target { kind, namespace: "", name: "" };
    let written = registry.create(target, decoded, options, &Requester::default()).await;
    written.map(drop).map_err(|refusal| refusal.error)
}

#[tokio::test]
async fn a_store_is_opened_when_its_kind_is_first_used() {
    let opened: Arc<Mutex<Vec<String>>> = Arc::default();
    let opening = Arc::clone(&opened);
    let world = World::with(RegistryOptions::default(), move |kind, storage| {
        if kind.group == "example.com" {
            opening.lock().unwrap().push(kind.plural.clone());
        }
        storage
    })
    .await;
    follow(&world).await;
    for plural in ["boats", "ships"] {
        world.post("customresourcedefinitions", definition(plural)).await.ok();
    }
    until("both are served", || async {
        ["boats", "ships"].iter().all(|plural| served(&world.registry, plural).is_some())
    })
    .await;
    assert!(opened.lock().unwrap().is_empty());
    let boats = served(&world.registry, "boats").unwrap();
    create(&world.registry, &boats, "a", json!({"n": 1})).await.unwrap();
    assert_eq!(*opened.lock().unwrap(), ["boats"]);
}

#[tokio::test]
async fn an_object_that_is_stored_as_it_is_shown_is_known_to_be_from_its_write_on() {
    let world = World::cached().await;
    follow(&world).await;
    world.post("customresourcedefinitions", definition("boats")).await.ok();
    until("it is served", || async { served(&world.registry, "boats").is_some() }).await;
    let boats = served(&world.registry, "boats").unwrap();
    create(&world.registry, &boats, "a", json!({"n": 1, "unknown": 2})).await.unwrap();
    let target = Target { kind: &boats, namespace: "", name: "a" };
    let object = world.registry.get(target, Position::MostRecent).await.unwrap();
    let stored: Value = serde_json::from_slice(&object.value).unwrap();
    assert_eq!(stored["spec"], json!({"n": 1}));
    let shown = keepwatch_registry::ObjectView::of(&boats, &object);
    assert_eq!(shown.value, object.value);
    assert!(boats.shows_as_stored(&object));
}

#[tokio::test]
async fn another_server_on_the_store_serves_what_one_defines_and_what_was_defined_before_it_started() {
    let first = World::cached().await;
    follow(&first).await;
    first.post("customresourcedefinitions", definition("boats")).await.ok();
    until("it is served", || async { served(&first.registry, "boats").is_some() }).await;
    let second = first.beside().await;
    follow(&second).await;
    assert!(served(&second.registry, "boats").is_some(), "it is served at once");
    second.post("customresourcedefinitions", definition("ships")).await.ok();
    for world in [&first, &second] {
        until("both serve it", || async { served(&world.registry, "ships").is_some() }).await;
    }
    first.delete("customresourcedefinitions ships.example.com").await.ok();
    for world in [&first, &second] {
        until("none serves it", || async { served(&world.registry, "ships").is_none() }).await;
    }
}

/// The evaluation of a rule that never ends used to block a thread of the runtime for as long as its budget allowed.
#[tokio::test]
async fn rules_end_when_the_thread_or_the_client_has_no_more_time() {
    let world = World::new().await;
    follow(&world).await;
    let mut boats = definition("boats");
    let schema = &mut boats["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let hundred = json!((0..100).collect::<Vec<_>>());
    let long = format!("{hundred}.all(x, {hundred}.all(y, {hundred}.all(z, self.n >= 0)))");
    schema["x-kubernetes-validations"] = json!([{"rule": long}]);
    world.post("customresourcedefinitions", boats).await.ok();
    until("it is served", || async { served(&world.registry, "boats").is_some() }).await;
    let boats = served(&world.registry, "boats").unwrap();
    let (now, soon) = (Instant::now(), Duration::from_millis(1));
    for (options, expected) in [
        (WriteOptions { rules_time_max: Some(soon), ..WriteOptions::default() }, Error::TakesLong),
        (WriteOptions { deadline: Some(now), ..WriteOptions::default() }, Error::Late),
        (WriteOptions { deadline: Some(now + soon), ..WriteOptions::default() }, Error::Late),
    ] {
        let error = create_with(&world.registry, &boats, "a", json!({"n": 1}), &options).await.unwrap_err();
        assert_eq!(error.to_string(), expected.to_string());
    }
    let error = create(&world.registry, &boats, "a", json!({"n": 1})).await.unwrap_err();
    assert!(
        error.contains("no further validation rules will be run due to call cost exceeds limit"),
        "{error}"
    );
}
