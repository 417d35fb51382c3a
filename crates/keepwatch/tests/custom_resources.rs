//! Custom resources over HTTP: definitions come, change and go, and their objects with them.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod common;

use common::*;
use keepwatch::Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, rustls, rustls::pki_types::PrivateKeyDer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";
const MERGE: &str = "Content-Type: application/merge-patch+json\r\n";

/// A version whose spec has these properties.
fn version(name: &str, stored: bool, properties: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": stored,
        "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": properties}},
        }},
    })
}

fn definition(plural: &str, versions: Value) -> Value {
    let kind = plural[..1].to_uppercase() + &plural[1..plural.len() - 1];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": versions,
        },
    })
}

fn boats() -> Value {
    definition("boats", json!([version("v1", true, json!({"crew": {"type": "integer"}}))]))
}

fn boat(version: &str, name: &str, spec: Value) -> String {
    let api_version = format!("example.com/{version}");
    json!({"apiVersion": api_version, "kind": "Boat", "metadata": {"name": name}, "spec": spec}).to_string()
}

async fn is_served(server: &Server, path: &str) -> bool {
    get(server, path).await.code == 200
}

/// Defines a kind and waits until it is served.
async fn define(server: &Server, definition: &Value) {
    let made = post(server, DEFINITIONS, &definition.to_string()).await;
    assert_eq!(made.code, 201, "{made:?}");
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
    let path = format!("/apis/example.com/v1/{plural}");
    until("the kind is served", || is_served(server, &path)).await;
}

/// Changes a definition by a merge patch.
async fn redefine(server: &Server, name: &str, patch: Value) -> Answer {
    let path = format!("{DEFINITIONS}/{name}");
    ask(server, "PATCH", &path, MERGE, patch.to_string().as_bytes()).await
}

/// Opens a watch and returns its connection, behind the head.
async fn watch(server: &Server, path: &str) -> Wire<TcpStream> {
    let mut wire = Wire::open(server).await;
    wire.request("GET", path, "", b"").await;
    assert_eq!(wire.head().await.unwrap().code, 200);
    wire
}

/// The next event of a watch: `ADDED a example.com/v1`; none at its end.
async fn event(wire: &mut Wire<TcpStream>) -> Option<(String, Value)> {
    // Chunked: a line with the length, the event, an empty line.
    loop {
        let line = wire.line().await?;
        if line.trim() == "0" {
            return None;
        }
        if let Ok(event) = serde_json::from_str::<Value>(&line)
            && event.is_object()
        {
            let object = &event["object"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let shown =
                [text(&event["type"]), text(&object["metadata"]["name"]), text(&object["apiVersion"])]
                    .join(" ");
            return Some((shown, object.clone()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_served_and_takes_its_objects_with_it_when_it_goes() {
    let server = server().start().await.unwrap();
    let before = get(&server, BOATS).await;
    assert_eq!((before.code, before.text().as_str()), (404, "404 page not found\n"));
    define(&server, &boats()).await;
    let named = get(&server, &format!("{DEFINITIONS}/boats.example.com")).await.json();
    let conditions: Vec<String> = named["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| format!("{} {} {}", own["type"], own["status"], own["reason"]).replace('"', ""))
        .collect();
    assert_eq!(conditions, ["NamesAccepted True NoConflicts", "Established True InitialNamesAccepted"]);
    assert_eq!(post(&server, BOATS, &boat("v1", "a", json!({"crew": 2}))).await.code, 201);
    let held =
        r#"{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"b","finalizers":["x.y/z"]}}"#;
    assert_eq!(post(&server, BOATS, held).await.code, 201);

    let gone = ask(&server, "DELETE", &format!("{DEFINITIONS}/boats.example.com"), "", b"").await;
    assert_eq!(gone.json()["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    until("a is deleted", || async { get(&server, &format!("{BOATS}/a")).await.code == 404 }).await;
    until("nothing new is taken", || async {
        let refused = post(&server, BOATS, &boat("v1", "c", json!({}))).await;
        refused.code == 403
            && refused.text().contains("create not allowed while custom resource definition is terminating")
    })
    .await;
    let freed =
        ask(&server, "PATCH", &format!("{BOATS}/b"), MERGE, br#"{"metadata":{"finalizers":null}}"#).await;
    assert_eq!(freed.code, 200, "{freed:?}");
    until("the kind is gone", || async { get(&server, BOATS).await.text() == "404 page not found\n" }).await;
    assert_eq!(get(&server, "/apis/example.com").await.code, 404);

    // A kind of the same name is another one.
    define(&server, &boats()).await;
    assert_eq!(get(&server, BOATS).await.json()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_receives_the_deletion_of_every_object_of_a_deleted_definition() {
    const BOATS_MADE: usize = 300;
    let server = server().start().await.unwrap();
    define(&server, &boats()).await;
    for number in 0..BOATS_MADE {
        let one = boat("v1", &format!("b{number:03}"), json!({"crew": number}));
        assert_eq!(post(&server, BOATS, &one).await.code, 201);
    }
    let version = get(&server, BOATS).await.json()["metadata"]["resourceVersion"].clone();
    let path = format!("{BOATS}?watch=true&resourceVersion={}", version.as_str().unwrap());
    let mut watching = Vec::new();
    for _ in 0..4 {
        watching.push(watch(&server, &path).await);
    }
    let gone = ask(&server, "DELETE", &format!("{DEFINITIONS}/boats.example.com"), "", b"").await;
    assert_eq!(gone.code, 200);
    until("the kind is gone", || async { get(&server, BOATS).await.text() == "404 page not found\n" }).await;
    for mut wire in watching {
        for number in 0..BOATS_MADE {
            let (shown, _) = event(&mut wire).await.expect("no event is lost");
            assert_eq!(shown, format!("DELETED b{number:03} example.com/v1"));
        }
        assert_eq!(event(&mut wire).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_its_definition_changes_and_goes_on_where_it_was() {
    let server = server().start().await.unwrap();
    define(&server, &boats()).await;
    let first = post(&server, BOATS, &boat("v1", "a", json!({"crew": 1}))).await.json();
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watching = watch(&server, &format!("{BOATS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(
        redefine(&server, "boats.example.com", json!({"metadata": {"labels": {"a": "b"}}})).await.code,
        200
    );
    post(&server, BOATS, &boat("v1", "b", json!({"crew": 1}))).await;
    let (shown, object) = event(&mut watching).await.unwrap();
    assert_eq!(shown, "ADDED b example.com/v1", "a label is none of its business");

    let columns = json!([version_with_column()]);
    assert_eq!(
        redefine(&server, "boats.example.com", json!({"spec": {"versions": columns}})).await.code,
        200
    );
    assert!(event(&mut watching).await.is_none());
    post(&server, BOATS, &boat("v1", "c", json!({"crew": 1}))).await;
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watching = watch(&server, &format!("{BOATS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(event(&mut watching).await.unwrap().0, "ADDED c example.com/v1");
}

fn version_with_column() -> Value {
    let mut own =
        version("v1", true, json!({"crew": {"type": "integer", "default": 7}, "name": {"type": "string"}}));
    own["additionalPrinterColumns"] = json!([{"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"}]);
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_shown_in_every_version_with_the_defaults_of_now() {
    let server = server().start().await.unwrap();
    let crew = json!({"crew": {"type": "integer"}});
    let both = json!([version("v1", true, crew.clone()), version("v2", false, crew.clone())]);
    define(&server, &definition("boats", both)).await;
    post(&server, BOATS, &boat("v1", "a", json!({}))).await;
    let newer = "/apis/example.com/v2/namespaces/default/boats";
    post(&server, newer, &boat("v2", "b", json!({"crew": 2}))).await;
    for (path, version) in [(BOATS, "example.com/v1"), (newer, "example.com/v2")] {
        let items = get(&server, path).await.json()["items"].as_array().unwrap().clone();
        assert!(items.iter().all(|item| item["apiVersion"] == version), "{items:?}");
        assert_eq!(items.len(), 2);
    }

    // What was stored before is shown with a default that is new, and in a version that is not stored any more.
    let with_default = json!({"crew": {"type": "integer", "default": 9}});
    let versions = json!([version("v1", false, with_default.clone()), version("v2", true, with_default)]);
    assert_eq!(
        redefine(&server, "boats.example.com", json!({"spec": {"versions": versions}})).await.code,
        200
    );
    until("the default is seen", || async {
        get(&server, &format!("{newer}/a")).await.json()["spec"]["crew"] == 9
    })
    .await;
    let stored = get(&server, &format!("{DEFINITIONS}/boats.example.com")).await.json();
    assert_eq!(stored["status"]["storedVersions"], json!(["v1", "v2"]));
    let both = get(&server, newer).await.json();
    assert_eq!(
        (&both["items"][0]["spec"]["crew"], &both["items"][1]["spec"]["crew"]),
        (&json!(9), &json!(2))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_objects_are_there_after_a_restart_and_watches_resume() {
    let folder = tempfile::tempdir().unwrap();
    let start = || async { server().data_dir(folder.path()).start().await.unwrap() };
    let first = start().await;
    define(&first, &boats()).await;
    let made = post(&first, BOATS, &boat("v1", "a", json!({"crew": 1}))).await.json();
    post(&first, BOATS, &boat("v1", "b", json!({"crew": 1}))).await;
    first.stop().await;

    let second = start().await;
    assert_eq!(get(&second, &format!("{BOATS}/a")).await.json()["spec"]["crew"], 1, "it is served at once");
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watching = watch(&second, &format!("{BOATS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(event(&mut watching).await.unwrap().0, "ADDED b example.com/v1");
    post(&second, BOATS, &boat("v1", "c", json!({"crew": 1}))).await;
    assert_eq!(event(&mut watching).await.unwrap().0, "ADDED c example.com/v1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_given_when_it_is_free_again() {
    let server = server().start().await.unwrap();
    let named = |plural: &str, kind: &str| {
        let mut own = definition(plural, json!([version("v1", true, json!({}))]));
        own["spec"]["names"] = json!({"plural": plural, "kind": kind});
        own
    };
    define(&server, &named("boats", "Boat")).await;
    post(&server, DEFINITIONS, &named("ships", "Boat").to_string()).await;
    let accepted = || async {
        let ships = get(&server, &format!("{DEFINITIONS}/ships.example.com")).await.json();
        let all = ships["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let own = all.iter().find(|own| own["type"] == "NamesAccepted").cloned().unwrap_or_default();
        format!("{} {}", own["reason"], own["message"]).replace(['"', '\\'], "")
    };
    until("the conflict is reported", || async {
        accepted().await == "ListKindConflict BoatList is already in use"
    })
    .await;
    assert_eq!(get(&server, "/apis/example.com/v1/ships").await.code, 404);
    ask(&server, "DELETE", &format!("{DEFINITIONS}/boats.example.com"), "", b"").await;
    until("the other gets the name", || is_served(&server, "/apis/example.com/v1/ships")).await;
    assert_eq!(accepted().await, "NoConflicts no conflicts found");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_about_the_api_follow_the_definitions() {
    let server = server().start().await.unwrap();
    let index = |answer: Answer| answer.json()["paths"]["apis/example.com/v1"]["serverRelativeURL"].clone();
    assert!(index(get(&server, "/openapi/v3").await).is_null());
    define(&server, &boats()).await;
    let url = index(get(&server, "/openapi/v3").await);
    let document = get(&server, url.as_str().unwrap()).await.json();
    let schema = &document["components"]["schemas"]["com.example.v1.Boat"];
    assert_eq!(schema["properties"]["spec"]["properties"]["crew"], json!({"type": "integer"}));
    let core = get(&server, "/openapi/v3").await.json()["paths"]["api/v1"].clone();
    redefine(&server, "boats.example.com", json!({"spec": {"versions": [version_with_column()]}})).await;
    until("the schema is published", || async { index(get(&server, "/openapi/v3").await) != url }).await;
    assert_eq!(get(&server, "/openapi/v3").await.json()["paths"]["api/v1"], core, "others stay as they are");
    let swagger = get(&server, "/openapi/v2").await.json();
    assert!(swagger["definitions"]["com.example.v1.Boat"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_find_objects_by_defaults_that_are_not_stored() {
    let server = server().start().await.unwrap();
    let with = |properties: Value| {
        let mut own = version("v1", true, properties);
        own["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
        json!([own])
    };
    define(&server, &definition("boats", with(json!({"colour": {"type": "string"}})))).await;
    post(&server, BOATS, &boat("v1", "a", json!({}))).await;
    post(&server, BOATS, &boat("v1", "b", json!({"colour": "red"}))).await;
    let names = |path: &'static str| {
        let server = &server;
        async move {
            let list = get(server, &format!("{BOATS}?fieldSelector={path}")).await.json();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    assert_eq!(names("spec.colour=red").await, ["b"]);
    assert_eq!(names("spec.colour=").await, ["a"]);
    let versions = with(json!({"colour": {"type": "string", "default": "blue"}}));
    redefine(&server, "boats.example.com", json!({"spec": {"versions": versions}})).await;
    until("the default counts", || async { names("spec.colour=blue").await == ["a"] }).await;
    assert_eq!(names("spec.colour!=blue").await, ["b"]);
}

/// A webhook that renames `crew` to `sailors` from v1 to v2, and counts the calls.
struct Hook {
    url: String,
    ca: String,
    calls: Arc<AtomicUsize>,
    /// Set: it converts nothing any more.
    refuses: Arc<AtomicBool>,
}

impl Hook {
    /// With a certificate that its CA signed.
    async fn start() -> Hook {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        Hook::serve(&own, &key, &ca.pem()).await
    }

    /// With a certificate that is its own CA, as `openssl req -x509` makes them.
    async fn self_signed() -> Hook {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        Hook::serve(&own, &key, &own.pem()).await
    }

    async fn serve(own: &rcgen::Certificate, key: &KeyPair, ca: &str) -> Hook {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/convert", listener.local_addr().unwrap());
        let (calls, acceptor) = (Arc::new(AtomicUsize::new(0)), TlsAcceptor::from(Arc::new(config)));
        let counted = Arc::clone(&calls);
        let refuses: Arc<AtomicBool> = Arc::default();
        let is_refused = Arc::clone(&refuses);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, counted) = (acceptor.clone(), Arc::clone(&counted));
                let is_refused = Arc::clone(&is_refused);
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let mut wire = Wire::over(stream);
                    while let Some(head) = wire.head().await {
                        let length = head.header("content-length").unwrap().parse().unwrap();
                        let review = wire.bytes(length).await.unwrap();
                        counted.fetch_add(1, Ordering::Relaxed);
                        let mut answer = converted(&serde_json::from_slice(&review).unwrap());
                        if is_refused.load(Ordering::Relaxed) {
                            answer["response"]["result"] = json!({"status": "Failed", "message": "no way"});
                        }
                        let body = answer.to_string();
                        wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
                            .await;
                    }
                });
            }
        });
        use base64::Engine;
        let ca = base64::prelude::BASE64_STANDARD.encode(ca);
        Hook { url, ca, calls, refuses }
    }

    fn definition(&self, ca: &str) -> Value {
        let versions = json!([
            version("v1", true, json!({"crew": {"type": "integer"}})),
            version("v2", false, json!({"sailors": {"type": "integer"}})),
        ]);
        let mut own = definition("boats", versions);
        own["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"url": self.url, "caBundle": ca},
        }});
        own
    }
}

fn converted(review: &Value) -> Value {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let (from, to) = if wanted.ends_with("v2") { ("crew", "sailors") } else { ("sailors", "crew") };
    let objects = review["request"]["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.into();
        if object["metadata"]["name"] == "labelled" {
            object["metadata"]["labels"] = json!({"-": "yes?"});
        }
        if let Some(count) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
            object["spec"][to] = count;
        }
        object
    });
    let objects: Vec<Value> = objects.collect();
    json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {
            "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects,
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_converts_what_is_not_stored_as_it_is_asked_for() {
    let (server, hook) = (server().start().await.unwrap(), Hook::start().await);
    define(&server, &hook.definition(&hook.ca)).await;
    let newer = "/apis/example.com/v2/namespaces/default/boats";
    for number in 0..30 {
        let name = format!("a{number}");
        assert_eq!(post(&server, BOATS, &boat("v1", &name, json!({"crew": number}))).await.code, 201);
    }
    assert_eq!(get(&server, BOATS).await.json()["items"][0]["spec"]["crew"], 0);
    assert_eq!(hook.calls.load(Ordering::Relaxed), 0, "they are stored as they are asked for");
    let list = get(&server, newer).await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 30);
    assert_eq!(list["items"][1]["spec"], json!({"sailors": 1}));
    assert_eq!(hook.calls.load(Ordering::Relaxed), 1, "they are converted in one call");
    get(&server, newer).await;
    assert_eq!(hook.calls.load(Ordering::Relaxed), 1, "and not again");

    let made = post(&server, newer, &boat("v2", "b", json!({"sailors": 7}))).await;
    assert_eq!(made.json()["spec"], json!({"sailors": 7}));
    assert_eq!(get(&server, &format!("{BOATS}/b")).await.json()["spec"], json!({"crew": 7}));
    let version = made.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watching = watch(&server, &format!("{newer}?watch=true&resourceVersion={version}")).await;
    post(&server, BOATS, &boat("v1", "c", json!({"crew": 8}))).await;
    let (shown, object) = event(&mut watching).await.unwrap();
    assert_eq!((shown.as_str(), &object["spec"]), ("ADDED c example.com/v2", &json!({"sailors": 8})));
    let patched = ask(&server, "PATCH", &format!("{newer}/c"), MERGE, br#"{"spec":{"sailors":9}}"#).await;
    assert_eq!(patched.json()["spec"], json!({"sailors": 9}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_its_ca_did_not_sign_for_is_not_believed() {
    let (server, hook, other) = (server().start().await.unwrap(), Hook::start().await, Hook::start().await);
    define(&server, &hook.definition(&other.ca)).await;
    post(&server, BOATS, &boat("v1", "a", json!({"crew": 1}))).await;
    let refused = get(&server, "/apis/example.com/v2/namespaces/default/boats/a").await;
    assert_eq!(refused.code, 500);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("conversion webhook for example.com/v1, Kind=Boat failed: Post"),
        "{message}"
    );
    assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");
    assert_eq!(hook.calls.load(Ordering::Relaxed), 0);
    assert_eq!(get(&server, &format!("{BOATS}/a")).await.code, 200, "in the stored version nobody is asked");
}

/// A deletion through a version that a webhook converts used to be answered with 500 although the object was gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_webhook_cannot_convert_is_not_deleted_but_goes_with_its_definition() {
    let (server, hook) = (server().start().await.unwrap(), Hook::start().await);
    define(&server, &hook.definition(&hook.ca)).await;
    let newer = "/apis/example.com/v2/namespaces/default/boats";
    for name in ["a", "b", "c"] {
        post(&server, BOATS, &boat("v1", name, json!({"crew": 1}))).await;
    }
    get(&server, newer).await;
    let gone = ask(&server, "DELETE", &format!("{newer}/a"), "", b"").await;
    assert_eq!((gone.code, &gone.json()["status"]), (200, &json!("Success")));
    hook.refuses.store(true, Ordering::Relaxed);
    let gone = ask(&server, "DELETE", &format!("{newer}/b"), "", b"").await;
    let is_there = get(&server, &format!("{BOATS}/b")).await.code == 200;
    assert_eq!((gone.code, is_there), (if is_there { 500 } else { 200 }, is_there), "{gone:?}");
    let stored_newer = json!({"spec": {"versions": [
        version("v1", false, json!({"crew": {"type": "integer"}})),
        version("v2", true, json!({"sailors": {"type": "integer"}})),
    ]}});
    assert_eq!(redefine(&server, "boats.example.com", stored_newer).await.code, 200);
    let gone = ask(&server, "DELETE", &format!("{DEFINITIONS}/boats.example.com"), "", b"").await;
    assert_eq!(gone.code, 200);
    let path = format!("{DEFINITIONS}/boats.example.com");
    until("the definition is gone", || async { get(&server, &path).await.code == 404 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_that_a_webhook_makes_are_validated() {
    let (server, hook) = (server().start().await.unwrap(), Hook::start().await);
    define(&server, &hook.definition(&hook.ca)).await;
    let newer = "/apis/example.com/v2/namespaces/default/boats";
    let refused = post(&server, newer, &boat("v2", "labelled", json!({"sailors": 1}))).await;
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    let expected = "conversion webhook for example.com/v2, Kind=Boat returned invalid metadata: [metadata.labels: Invalid \
                    value: \"-\": ";
    assert!(refused.code == 500 && message.starts_with(expected), "{message}");
    assert_eq!(get(&server, &format!("{BOATS}/labelled")).await.code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_a_version_that_is_gone_is_shown_in_one_that_is_there_and_can_be_changed() {
    let server = server().start().await.unwrap();
    let crew = || json!({"crew": {"type": "integer"}});
    define(&server, &definition("boats", json!([version("v1", true, crew()), version("v2", false, crew())])))
        .await;
    post(&server, BOATS, &boat("v1", "a", json!({"crew": 1}))).await;
    let (own, status) =
        (format!("{DEFINITIONS}/boats.example.com"), format!("{DEFINITIONS}/boats.example.com/status"));
    for (path, patch) in [
        (&own, json!({"spec": {"versions": [version("v1", false, crew()), version("v2", true, crew())]}})),
        (&status, json!({"status": {"storedVersions": ["v2"]}})),
        (&own, json!({"spec": {"versions": [version("v2", true, crew())]}})),
    ] {
        let changed = ask(&server, "PATCH", path, MERGE, patch.to_string().as_bytes()).await;
        assert_eq!(changed.code, 200, "{changed:?}");
    }
    until("the old version is gone", || async { get(&server, BOATS).await.code == 404 }).await;
    let newer = "/apis/example.com/v2/namespaces/default/boats/a";
    assert_eq!(get(&server, newer).await.json()["apiVersion"], "example.com/v2");
    let changed = ask(&server, "PATCH", newer, MERGE, br#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!((changed.code, &changed.json()["apiVersion"]), (200, &json!("example.com/v2")));
}

/// Kubernetes believes such a webhook, and many have no other certificate.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_whose_certificate_is_its_own_ca_is_believed() {
    let (server, hook) = (server().start().await.unwrap(), Hook::self_signed().await);
    define(&server, &hook.definition(&hook.ca)).await;
    post(&server, BOATS, &boat("v1", "a", json!({"crew": 1}))).await;
    let shown = get(&server, "/apis/example.com/v2/namespaces/default/boats/a").await;
    assert_eq!(shown.json()["spec"], json!({"sailors": 1}));
}

/// A definition with a status and a scale.
fn scaled_boats() -> Value {
    let mut version = version("v1", true, json!({"crew": {"type": "integer"}}));
    version["subresources"] = json!({
        "status": {}, "scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"},
    });
    definition("boats", json!([version]))
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_shows_status_and_scale_of_custom_resources_as_kubernetes_does() {
    let server = server().start().await.unwrap();
    define(&server, &scaled_boats()).await;
    let list = get(&server, "/apis/example.com/v1").await.json();
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["boats", "boats/status", "boats/scale"]);
    let accept = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n";
    let all = ask(&server, "GET", "/apis", accept, b"").await.json();
    let groups = all["items"].as_array().unwrap();
    let group = groups.iter().find(|group| group["metadata"]["name"] == "example.com").unwrap();
    let boats = &group["versions"][0]["resources"][0];
    let boat = json!({"group": "example.com", "version": "v1", "kind": "Boat"});
    assert_eq!(boats["responseKind"], boat);
    assert_eq!(boats["subresources"][0]["responseKind"], boat);
    assert_eq!(
        boats["subresources"][1]["responseKind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
}

/// What a real kube-apiserver answers to `kubectl get --subresource=scale`.
#[tokio::test(flavor = "multi_thread")]
async fn scales_are_shown_as_tables_and_as_metadata() {
    let server = server().start().await.unwrap();
    define(&server, &scaled_boats()).await;
    post(&server, BOATS, &boat("v1", "a", json!({"crew": 3}))).await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    assert_eq!(post(&server, deployments, &deployment.to_string()).await.code, 201);
    let shown = async |path: &str, form: &str| {
        let accept = format!("Accept: application/json;as={form};g=meta.k8s.io;v=v1\r\n");
        ask(&server, "GET", path, &accept, b"").await.json()
    };
    for (path, replicas, described, name_format, age) in [
        (
            format!("{deployments}/a/scale"),
            2,
            [
                "replicas is the desired number of instances for the scaled object.",
                "replicas is the actual number of observed instances of the scaled object.",
            ],
            "",
            "string",
        ),
        (
            format!("{BOATS}/a/scale"),
            3,
            ["Number of desired replicas", "Number of actual replicas"],
            "name",
            "date",
        ),
    ] {
        let table = shown(&path, "Table").await;
        assert_eq!(table["kind"], "Table", "{path}");
        let columns: Vec<String> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                format!("{} {} {}", column["name"], column["type"], column["format"]).replace('"', "")
            })
            .collect();
        let expected = [
            format!("Name string {name_format}"),
            "Desired integer ".to_owned(),
            "Available integer ".to_owned(),
            format!("Age {age} "),
        ];
        assert_eq!(columns, expected, "{path}");
        assert_eq!(table["columnDefinitions"][1]["description"], described[0]);
        assert_eq!(table["columnDefinitions"][2]["description"], described[1]);
        let row = &table["rows"][0];
        assert_eq!(row["cells"].as_array().unwrap()[..3], [json!("a"), json!(replicas), json!(0)]);
        assert_eq!(
            (&row["object"]["kind"], &row["object"]["metadata"]["name"]),
            (&json!("PartialObjectMetadata"), &json!("a"))
        );
        assert_eq!(table["metadata"]["resourceVersion"], row["object"]["metadata"]["resourceVersion"]);
        let whole = shown(&format!("{path}?includeObject=Object"), "Table").await;
        assert_eq!(whole["rows"][0]["object"]["kind"], "Scale");
        let metadata = shown(&path, "PartialObjectMetadata").await;
        assert_eq!(
            (&metadata["kind"], &metadata["metadata"]["name"]),
            (&json!("PartialObjectMetadata"), &json!("a"))
        );
        assert!(metadata["spec"].is_null());
        assert_eq!(get(&server, &path).await.json()["kind"], "Scale");
        let accept = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\nContent-Type: application/merge-patch+json\r\n";
        let patched = ask(&server, "PATCH", &path, accept, br#"{"spec":{"replicas":5}}"#).await.json();
        assert_eq!(patched["rows"][0]["cells"][1], 5);
    }
}
