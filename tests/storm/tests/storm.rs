//! Short storms, one for each disruption, and tests without any. `KEEPWATCH_STORM_SECONDS` makes them longer.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use keepwatch_informer::{Informer, InformerFactory, Object};
use keepwatch_storm::{
    Disruption, InformerSet, Options, Outcome, Proxy, Report, ServerOptions, TestServer, Writer, run_storm,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const SEED: u64 = 7;
const WAIT_MAX: Duration = Duration::from_secs(30);

async fn storm(disruption: Disruption) -> Outcome {
    let seconds = std::env::var("KEEPWATCH_STORM_SECONDS").ok().and_then(|text| text.parse().ok());
    let lasts = Duration::from_secs(seconds.unwrap_or(6));
    let outcome = run_storm(disruption, Options { lasts, seed: SEED, prints: false }).await.unwrap();
    println!("{outcome}");
    assert!(outcome.has_passed(), "{outcome}");
    assert!(outcome.disruptions > 0 && outcome.writes > 100 && outcome.report.own_writes() > 0, "{outcome}");
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_survive_connections_that_break() {
    let outcome = storm(Disruption::Cut).await;
    assert!(outcome.cuts > 10, "{outcome}");
    for (name, parts, counts) in &outcome.informers {
        assert!(counts.watches > *parts as u64, "{name} watches again\n{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_are_late_but_correct_on_slow_connections() {
    storm(Disruption::Slow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_survive_a_server_that_is_killed() {
    storm(Disruption::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_survive_a_server_that_is_stopped_and_started() {
    storm(Disruption::Restarted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_that_missed_compacted_events_relist() {
    let outcome = storm(Disruption::Compacted).await;
    for (name, relists) in outcome.relists() {
        assert!(relists > 0, "{name}\n{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_that_wait_for_a_server_sync_once_it_can_be_reached() {
    let server = TestServer::start(ServerOptions::default()).await.unwrap();
    let proxy = Proxy::start(server.address(), SEED).await.unwrap();
    proxy.listen(false);
    let (direct, proxied) = clients(&server, &proxy).await;
    let namespaces = filled(&direct).await;
    let report = Arc::new(Report::default());
    let set = InformerSet::start(&proxied, &namespaces, &report);
    let early = set.synced(Duration::from_secs(2)).await;
    assert!(early.is_err(), "there is no server yet");
    assert!(set.counts().iter().all(|(_, _, counts)| !counts.errors.is_empty()), "{:?}", set.counts());
    proxy.listen(true);
    set.synced(WAIT_MAX).await.unwrap();
    set.settle(&direct, "1").await.unwrap();
    assert_eq!(report.faults(), [""; 0]);
    set.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_quiet_server_every_form_of_informer_equals_a_list() {
    let server = TestServer::start(ServerOptions::default()).await.unwrap();
    let client = server.client(None).await.unwrap();
    let namespaces = filled(&client).await;
    let report = Arc::new(Report::default());
    let set = InformerSet::start(&client, &namespaces, &report);
    set.synced(WAIT_MAX).await.unwrap();
    set.settle(&client, "1").await.unwrap();
    assert_eq!(report.faults(), [""; 0]);
    for (name, parts, counts) in set.counts() {
        assert_eq!((counts.states, counts.errors.len()), (parts as u64, 0), "{name}");
    }
    set.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_informer_of_a_factory_equals_a_list() {
    let server = TestServer::start(ServerOptions::default()).await.unwrap();
    let client = server.client(None).await.unwrap();
    let namespaces = filled(&client).await;
    let kind = kube::api::ApiResource::erase::<ConfigMap>(&());
    let factory =
        InformerFactory::builder(client.clone()).namespaces(&namespaces[..2]).labels("tier=web").build();
    let (typed, lean) = (factory.informer::<ConfigMap>(), factory.lean::<ConfigMap>());
    let (dynamic, metadata) = (factory.dynamic(&kind), factory.metadata(&kind));
    factory.start();
    factory.synced(WAIT_MAX).await.into_result().unwrap();
    let mut expected = Vec::new();
    for namespace in &namespaces[..2] {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        expected.extend(maps.list(&ListParams::default().labels("tier=web")).await.unwrap().items);
    }
    assert!(!expected.is_empty());
    let expected = sorted(expected.iter());
    assert_eq!(found(&typed), expected);
    assert_eq!(found(&lean), expected);
    assert_eq!(found(&dynamic), expected);
    assert_eq!(found(&metadata), expected);
    factory.shutdown().await;
}

/// A stop must not wait for a server.
#[tokio::test(flavor = "multi_thread")]
async fn an_informer_stops_even_if_no_server_responds() {
    let server = TestServer::start(ServerOptions::default()).await.unwrap();
    let proxy = Proxy::start(server.address(), SEED).await.unwrap();
    let (_, proxied) = clients(&server, &proxy).await;
    proxy.flow(false);
    let informer = Informer::<ConfigMap>::builder(proxied).build();
    let stop = CancellationToken::new();
    let running = informer.start(stop.clone());
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.cancel();
    tokio::time::timeout(WAIT_MAX, running).await.unwrap().unwrap();
    assert!(informer.is_stopped() && informer.synced().await.is_err());
}

async fn clients(server: &TestServer, proxy: &Proxy) -> (Client, Client) {
    (server.client(None).await.unwrap(), server.client(Some(proxy.address())).await.unwrap())
}

/// Creates namespaces, and some objects in them.
async fn filled(client: &Client) -> Vec<String> {
    let names: Vec<String> = (0..4).map(|number| format!("quiet-{number}")).collect();
    let all: Api<Namespace> = Api::all(client.clone());
    for name in &names {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        all.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let mut writer = Writer::new(client, &names, SEED);
    for _ in 0..300 {
        writer.write().await.unwrap();
    }
    names
}

fn sorted<'a, O: Object>(objects: impl Iterator<Item = &'a O>) -> Vec<(String, String)> {
    let mut sorted: Vec<_> =
        objects.map(|object| (object.key().to_string(), object.revision().to_owned())).collect();
    sorted.sort();
    sorted
}

fn found<O: Object>(informer: &Informer<O>) -> Vec<(String, String)> {
    let all = informer.store().all();
    sorted(all.iter().map(|object| &**object))
}
