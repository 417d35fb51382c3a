//! Servers on one etcd: what they ask it for, and what they make of what they have not heard of yet.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod common;

use common::*;
use keepwatch::Server;
use keepwatch_storage_etcd::{EtcdOptions, testing::EtcdServer};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// None of them is notified by another.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_defines_all_of_them_serve() {
    let etcd = EtcdServer::start().await;
    let (first, second) = (on(&etcd).await, on(&etcd).await);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let boats = "/apis/example.com/v1/boats";
    assert_eq!(post(&first, DEFINITIONS, &definition.to_string()).await.code, 201);
    for server in [&first, &second] {
        until("it is served", || async { get(server, boats).await.code == 200 }).await;
    }
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a"}});
    assert_eq!(post(&second, boats, &boat.to_string()).await.code, 201);
    until("it is seen", || async { get(&first, &format!("{boats}/a")).await.code == 200 }).await;
    let gone = ask(&second, "DELETE", &format!("{DEFINITIONS}/boats.example.com"), "", b"").await;
    assert_eq!(gone.code, 200);
    for server in [&first, &second] {
        until("it is gone", || async { get(server, boats).await.code == 404 }).await;
    }
    let third = on(&etcd).await;
    assert_eq!(get(&third, "/apis/example.com").await.code, 404);
}

const MERGE: &str = "Content-Type: application/merge-patch+json\r\n";

async fn on(etcd: &EtcdServer) -> Server {
    server().etcd(EtcdOptions::new([etcd.url()])).start().await.unwrap()
}

fn at(name: &str) -> String {
    format!("{CONFIGMAPS}/{name}")
}

/// How often etcd was asked for a ConfigMap.
async fn gets(server: &Server) -> f64 {
    let all = get(server, "/metrics").await.text();
    let own = all.lines().filter(|line| {
        line.starts_with("etcd_requests_total{")
            && line.contains(r#"operation="get""#)
            && line.contains(r#"resource="configmaps""#)
    });
    own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until the server's cache has everything: a list of the newest state does.
async fn caught_up(server: &Server) {
    assert_eq!(get(server, CONFIGMAPS).await.code, 200);
}

/// There were a hundred for a hundred updates, and as many for patches and deletions.
#[tokio::test(flavor = "multi_thread")]
async fn changes_do_not_read_from_etcd_what_the_cache_has() {
    const OBJECTS: usize = 100;
    let etcd = EtcdServer::start().await;
    let server = on(&etcd).await;
    let mut made = Vec::new();
    for number in 0..OBJECTS {
        let answer = post(&server, CONFIGMAPS, &config_map(&format!("m{number}"))).await;
        made.push(answer.json());
    }
    caught_up(&server).await;
    let before = gets(&server).await;
    for (number, document) in made.iter_mut().enumerate() {
        document["data"] = json!({"k": "1"});
        let answer =
            ask(&server, "PUT", &at(&format!("m{number}")), "", document.to_string().as_bytes()).await;
        assert_eq!(answer.code, 200, "{answer:?}");
    }
    caught_up(&server).await;
    for number in 0..OBJECTS {
        let answer = ask(&server, "PATCH", &at(&format!("m{number}")), MERGE, br#"{"data":{"k":"2"}}"#).await;
        assert_eq!(answer.code, 200, "{answer:?}");
    }
    caught_up(&server).await;
    for number in 0..OBJECTS {
        assert_eq!(ask(&server, "DELETE", &at(&format!("m{number}")), "", b"").await.code, 200);
    }
    let after = gets(&server).await;
    assert_eq!(after - before, 0.0, "of {} changes", 3 * OBJECTS);
}

/// Each server hears of what the other wrote a moment later, so about every write begins with an old state.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_take_turns_lose_nothing_and_refuse_nothing() {
    let etcd = EtcdServer::start().await;
    let servers = [on(&etcd).await, on(&etcd).await];
    let mut newest: Value = post(&servers[0], CONFIGMAPS, &config_map("a")).await.json();
    caught_up(&servers[1]).await;
    for turn in 0..60 {
        let server = &servers[turn % 2];
        newest["data"][format!("put{turn}")] = "1".into();
        let answer = ask(server, "PUT", &at("a"), "", newest.to_string().as_bytes()).await;
        assert_eq!(answer.code, 200, "turn {turn}: {}", answer.text());
        let old = newest.clone();
        let patch = json!({"data": {format!("patch{turn}"): "1"}}).to_string();
        let answer = ask(&servers[(turn + 1) % 2], "PATCH", &at("a"), MERGE, patch.as_bytes()).await;
        assert_eq!(answer.code, 200, "turn {turn}: {}", answer.text());
        newest = answer.json();
        assert_eq!(newest["data"].as_object().unwrap().len(), 2 * (turn + 1), "nothing is lost");
        let answer = ask(server, "PUT", &at("a"), "", old.to_string().as_bytes()).await;
        assert_eq!(
            answer.code, 409,
            "an old version is refused, whichever server has the new one in its cache"
        );
    }
    for turn in 0..30 {
        let name = format!("b{turn}");
        let uid =
            post(&servers[turn % 2], CONFIGMAPS, &config_map(&name)).await.json()["metadata"]["uid"].clone();
        let other = &servers[(turn + 1) % 2];
        let options = json!({"preconditions": {"uid": uid}}).to_string();
        let answer = ask(other, "DELETE", &at(&name), "", options.as_bytes()).await;
        assert_eq!(answer.code, 200, "turn {turn}: {}", answer.text());
        let gone = ask(&servers[turn % 2], "PATCH", &at(&name), MERGE, br#"{"data":{"k":"1"}}"#).await;
        assert_eq!(gone.code, 404, "turn {turn}: {}", gone.text());
    }
}
