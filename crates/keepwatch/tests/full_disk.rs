//! A server whose disk is full: what it says, what it still does, and how it recovers.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod common;

use common::*;
use keepwatch::{Builder, Server};
use keepwatch_endpoints::auth::StaticTokens;
use serde_json::json;
use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

const DIRECTORY: &str = "KEEPWATCH_TEST_FULL_DIRECTORY";

#[test]
fn a_full_disk_is_reported_and_deletions_still_make_room() {
    on_a_small_disk("a_full_disk_is_reported_and_deletions_still_make_room", fill_and_make_room);
}

/// All of it was removed at once, and rewriting the log found no room for the rest.
#[test]
fn a_disk_that_objects_have_filled_has_room_when_their_namespace_is_gone() {
    on_a_small_disk(
        "a_disk_that_objects_have_filled_has_room_when_their_namespace_is_gone",
        fill_and_delete_namespace,
    );
}

/// Nobody could delete anything otherwise.
#[test]
fn a_server_starts_on_a_full_disk() {
    on_a_small_disk("a_server_starts_on_a_full_disk", start_on_a_full_disk);
}

/// It wrote its number, its kubeconfig and a certificate before it looked at anything, and gave up the reserve for that.
#[test]
fn a_server_starts_on_a_disk_without_a_free_byte() {
    on_a_small_disk("a_server_starts_on_a_disk_without_a_free_byte", start_without_a_free_byte);
}

#[test]
fn a_server_without_reserves_starts_on_a_disk_without_a_free_byte() {
    on_a_small_disk("a_server_without_reserves_starts_on_a_disk_without_a_free_byte", start_without_reserves);
}

#[test]
fn a_new_data_directory_on_a_full_disk_is_an_error_that_says_what_to_do() {
    on_a_small_disk(
        "a_new_data_directory_on_a_full_disk_is_an_error_that_says_what_to_do",
        start_anew_on_a_full_disk,
    );
}

/// The reserve was removed to be used, somebody else took its room, and nothing could be deleted any more.
#[test]
fn what_is_reserved_goes_to_nobody_else() {
    on_a_small_disk("what_is_reserved_goes_to_nobody_else", delete_while_others_take_all_room);
}

/// Does something with a directory on a disk of 64 MB. `name` is that of the test, which is started once more.
fn on_a_small_disk<F: Future<Output = ()>>(name: &str, work: impl FnOnce(PathBuf) -> F) {
    if let Some(directory) = env::var_os(DIRECTORY) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(work(directory.into()));
    }
    // A mount of our own, in a name space of our own, gone with the process: no traces, and no root needed where user
    // name spaces are allowed.
    let root = tempfile::tempdir().unwrap();
    let mounted = r#"mount -t tmpfs -o size=64m none "$0" && exec "$@""#;
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mounted])
        .arg(root.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(DIRECTORY, root.path())
        .status()
        .expect("unshare and mount of util-linux are needed for a small disk");
    assert!(status.success(), "the test inside the small disk failed, or none could be mounted: {status}");
}

async fn server_on(disk: &Path) -> Server {
    server_at(disk, (Ipv4Addr::LOCALHOST, 0)).await
}

async fn server_at(disk: &Path, address: impl Into<SocketAddr>) -> Server {
    builder(disk).address(address).start().await.unwrap()
}

fn builder(disk: &Path) -> Builder {
    let tokens = StaticTokens::parse("s3cret,alice,u-1").unwrap();
    Server::builder().data_dir(disk.join("data")).http_port(0).tokens(tokens)
}

async fn fill_and_delete_namespace(disk: PathBuf) {
    let server = server_on(&disk).await;
    assert_eq!(post(&server, "/api/v1/namespaces", &config_map("full")).await.code, 201);
    let mut wire = Wire::open(&server).await;
    for number in 0.. {
        let body = json!({"metadata": {"name": format!("m{number}")}, "data": {"text": "x".repeat(27_000)}});
        wire.request("POST", "/api/v1/namespaces/full/configmaps", "", body.to_string().as_bytes()).await;
        if wire.answer().await.unwrap().code != 201 {
            break;
        }
    }
    assert_eq!(get(&server, "/readyz").await.code, 500);
    assert_eq!(ask(&server, "DELETE", "/api/v1/namespaces/full", "", b"").await.code, 200);
    until("it is ready again by itself", || async { get(&server, "/readyz").await.code == 200 }).await;
    create(&server, "after").await;
    server.stop().await;
}

async fn start_on_a_full_disk(disk: PathBuf) {
    let server = server_on(&disk).await;
    create(&server, "kept").await;
    let address = server.address();
    // One of the server's own objects is missing when it starts.
    assert_eq!(ask(&server, "DELETE", KUBERNETES, "", b"").await.code, 200);
    server.stop().await;
    let ballast = disk.join("ballast");
    let _ = std::fs::remove_file(disk.join("data/store/reserve"));
    let copied = std::fs::File::create(&ballast)
        .and_then(|mut file| std::io::copy(&mut std::io::Read::take(std::io::repeat(1), 1 << 30), &mut file));
    assert!(copied.is_err(), "the disk is full");

    let server = server_at(&disk, address).await;
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/kept")).await.code, 200);
    assert_eq!(get(&server, "/readyz").await.code, 500);
    std::fs::remove_file(&ballast).unwrap();
    until("it is ready", || async { get(&server, "/readyz").await.code == 200 }).await;
    until("its own objects are there", || async { get(&server, KUBERNETES).await.code == 200 }).await;
    server.stop().await;
}

/// A server at another address has another kubeconfig, and one with another advertised address another certificate.
async fn another_server_on(disk: &Path) -> Server {
    builder(disk)
        .address((Ipv4Addr::LOCALHOST, 0))
        .advertise_address(Ipv4Addr::new(192, 0, 2, 7).into())
        .start()
        .await
        .unwrap()
}

async fn expect_trouble(server: &Server) {
    let ready = get(server, "/readyz").await;
    assert_eq!(ready.code, 500);
    assert!(ready.text().contains("delete objects, or free 24 MiB"), "{}", ready.text());
    let watched = get(server, &format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(watched.code, 200);
    assert!(watched.text().contains(r#""type":"ADDED""#), "{}", watched.text());
}

async fn start_without_a_free_byte(disk: PathBuf) {
    let server = server_on(&disk).await;
    for n in 0..9 {
        create(&server, &format!("m{n}")).await;
    }
    server.stop().await;
    std::fs::write(disk.join("data/store/lock"), "").unwrap();
    let mut ballast = Ballast::on(&disk);
    // The log uses its reserve from the first round on.
    for round in 0..2 {
        let server = another_server_on(&disk).await;
        assert_eq!(server.kubeconfig_path(), None, "there is no room to write it");
        ballast.take_all();
        expect_trouble(&server).await;
        assert_eq!(post(&server, CONFIGMAPS, &config_map("new")).await.code, 500);
        for n in round * 4..round * 4 + 4 {
            let deleted = ask(&server, "DELETE", &format!("{CONFIGMAPS}/m{n}"), "", b"").await;
            assert_eq!(deleted.code, 200, "{n}: {}", deleted.text());
            ballast.take_all();
        }
        server.stop().await;
        ballast.take_all();
    }
    ballast.give_back();
    let server = another_server_on(&disk).await;
    assert!(server.kubeconfig_path().is_some());
    until("it is ready", || async { get(&server, "/readyz").await.code == 200 }).await;
    create(&server, "after").await;
    server.stop().await;
}

async fn start_without_reserves(disk: PathBuf) {
    let server = server_on(&disk).await;
    create(&server, "kept").await;
    server.stop().await;
    for reserve in ["reserve", "reserve-log"] {
        std::fs::remove_file(disk.join("data/store").join(reserve)).unwrap();
    }
    let ballast = Ballast::on(&disk);
    let server = another_server_on(&disk).await;
    expect_trouble(&server).await;
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/kept")).await.code, 200);
    ballast.give_back();
    until("it is ready by itself", || async { get(&server, "/readyz").await.code == 200 }).await;
    create(&server, "after").await;
    server.stop().await;
}

async fn start_anew_on_a_full_disk(disk: PathBuf) {
    let ballast = Ballast::on(&disk);
    let refused = builder(&disk).address((Ipv4Addr::LOCALHOST, 0)).start().await.unwrap_err().to_string();
    assert!(refused.contains("its disk is full: free 24 MiB, or choose another directory"), "{refused}");
    ballast.give_back();
    let server = server_on(&disk).await;
    create(&server, "first").await;
    server.stop().await;
}

/// Another program that takes all the room there is, again and again.
struct Ballast(std::fs::File);

impl Ballast {
    fn on(disk: &Path) -> Self {
        let mut ballast = Self(std::fs::File::create(disk.join("ballast")).unwrap());
        ballast.take_all();
        ballast
    }

    fn give_back(self) {
        self.0.set_len(0).unwrap();
    }

    fn take_all(&mut self) {
        let taken = std::io::copy(&mut std::io::Read::take(std::io::repeat(1), 1 << 30), &mut self.0);
        assert!(taken.is_err(), "the disk is full");
    }
}

async fn delete_while_others_take_all_room(disk: PathBuf) {
    const OBJECTS: usize = 60;
    let server = server_on(&disk).await;
    let body =
        |n: usize| json!({"metadata": {"name": format!("m{n}")}, "data": {"text": "x".repeat(300_000)}});
    for n in 0..OBJECTS {
        assert_eq!(post(&server, CONFIGMAPS, &body(n).to_string()).await.code, 201);
    }
    let mut ballast = Ballast::on(&disk);
    // Updates that do not grow, until what was prepared for the log is used up.
    for _ in 0..9 {
        ask(&server, "PUT", &format!("{CONFIGMAPS}/m0"), "", body(0).to_string().as_bytes()).await;
        let other = body(0).to_string().replace('x', "y");
        ask(&server, "PUT", &format!("{CONFIGMAPS}/m0"), "", other.as_bytes()).await;
        ballast.take_all();
    }
    for n in 0..OBJECTS {
        let deleted = ask(&server, "DELETE", &format!("{CONFIGMAPS}/m{n}"), "", b"").await;
        assert_eq!(deleted.code, 200, "{n}: {}", deleted.text());
        ballast.take_all();
    }
    until("it is ready again by itself", || async { get(&server, "/readyz").await.code == 200 }).await;
    create(&server, "after").await;
    server.stop().await;
    let server = server_on(&disk).await;
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/after")).await.code, 200);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/m1")).await.code, 404);
    server.stop().await;
}

const KUBERNETES: &str = "/api/v1/namespaces/default/services/kubernetes";

async fn fill_and_make_room(disk: PathBuf) {
    let server = server_on(&disk).await;
    assert_eq!(get(&server, "/readyz").await.text(), "ok");
    create(&server, "before").await;
    let mut held = json!({"metadata": {"name": "held", "finalizers": ["example.com/x"]}});
    assert_eq!(post(&server, CONFIGMAPS, &held.to_string()).await.code, 201);

    // Somebody else takes all there is. Nothing is written meanwhile, and it is noticed all the same.
    let ballast = disk.join("ballast");
    let copied = std::fs::File::create(&ballast)
        .and_then(|mut file| std::io::copy(&mut std::io::Read::take(std::io::repeat(1), 1 << 30), &mut file));
    assert!(copied.is_err(), "the disk is full");
    until("it is not ready", || async { get(&server, "/readyz").await.code == 500 }).await;
    let said = get(&server, "/readyz").await.text();
    assert!(said.contains("[-]storage-writable failed: there is hardly any room on the disk of"), "{said}");
    assert!(said.contains("delete objects, or free 24 MiB"), "{said}");
    assert_eq!(get(&server, "/livez").await.text(), "ok", "to be started anew would not help it");

    let refused = post(&server, CONFIGMAPS, &config_map("new")).await;
    assert_eq!(refused.code, 500, "{}", refused.text());
    let status = refused.json();
    assert_eq!(status["reason"], "InternalError");
    assert!(
        status["message"].as_str().unwrap().contains("storage is full: free some disk space"),
        "{status}"
    );

    let at = |name: &str| format!("{CONFIGMAPS}/{name}");
    assert_eq!(ask(&server, "DELETE", &at("before"), "", b"").await.code, 200);
    assert_eq!(get(&server, &at("before")).await.code, 404);
    // One that is held is marked first, and goes with its last finalizer.
    assert_eq!(ask(&server, "DELETE", &at("held"), "", b"").await.code, 200);
    held = get(&server, &at("held")).await.json();
    held["metadata"]["finalizers"] = json!([]);
    assert_eq!(ask(&server, "PUT", &at("held"), "", held.to_string().as_bytes()).await.code, 200);
    assert_eq!(get(&server, &at("held")).await.code, 404);

    std::fs::remove_file(&ballast).unwrap();
    until("it is ready again by itself", || async { get(&server, "/readyz").await.code == 200 }).await;
    create(&server, "after").await;
    server.stop().await;
}
