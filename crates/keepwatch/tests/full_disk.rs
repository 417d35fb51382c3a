//! A server whose disk is full: what it says, what it still does, and how it recovers.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod common;

use common::*;
use keepwatch::Server;
use keepwatch_endpoints::auth::StaticTokens;
use serde_json::json;
use std::{env, path::Path, process::Command};

const DIRECTORY: &str = "KEEPWATCH_TEST_FULL_DIRECTORY";
const NAME: &str = "a_full_disk_is_told_and_what_makes_room_still_works";

#[test]
fn a_full_disk_is_told_and_what_makes_room_still_works() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(fill_and_make_room(Path::new(&directory)));
    }
    // A mount of our own, in a name space of our own, gone with the process: no traces, and no root needed where user
    // name spaces are allowed.
    let root = tempfile::tempdir().unwrap();
    let mounted = r#"mount -t tmpfs -o size=64m none "$0" && exec "$@""#;
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mounted])
        .arg(root.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(DIRECTORY, root.path())
        .status()
        .expect("unshare and mount of util-linux are needed for a small disk");
    assert!(status.success(), "the test inside the small disk failed, or none could be mounted: {status}");
}

async fn fill_and_make_room(disk: &Path) {
    let tokens = StaticTokens::parse("s3cret,alice,u-1").unwrap();
    let server = Server::builder().data_dir(disk.join("data")).http_port(0).tokens(tokens);
    let server = server.start().await.unwrap();
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
