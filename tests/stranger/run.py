#!/usr/bin/env python3
"""Builds and runs a crate outside of this workspace that depends on keepwatch and keepwatch-informer.

The crate lies outside of this repository and chooses a version of Kubernetes that no crate here chooses. Its environment
is empty: no flags for the compiler, no settings of cargo. Its dependencies have the versions of Cargo.lock, so that a
release of one of them changes nothing here. The first run builds 204 crates into target/stranger, later runs what changed.
Ends as `cargo test` does.
"""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR") or "target", "stranger")
# The variables that locate programs, downloaded crates and the network proxy; none that changes a build.
KEPT = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "TMPDIR", "SSL_CERT_FILE",
        "http_proxy", "https_proxy", "no_proxy"]

MANIFEST = f"""
[package]
name = "stranger"
version = "0.0.0"
edition = "2024"

[dependencies]
k8s-openapi = {{ version = "0.29", features = ["latest"] }}
keepwatch = {{ path = "{ROOT}/crates/keepwatch", features = ["client"] }}
keepwatch-informer = {{ path = "{ROOT}/crates/informer" }}
kube = {{ version = "5", default-features = false, features = ["client"] }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread", "time"] }}
tokio-util = "0.7"

# Only to build it sooner.
[profile.dev]
debug = false
incremental = false
"""

TEST = """
use k8s_openapi::api::core::v1::ConfigMap;
use keepwatch::Server;
use keepwatch_informer::Informer;
use kube::{Api, api::PostParams};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_informer_sees_what_is_created_on_a_server_in_memory() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = Server::builder().memory().start().await?;
    let client = server.client().await?;
    let informer = Informer::<ConfigMap>::builder(client.clone()).namespace("default").build();
    let stop = CancellationToken::new();
    informer.start(stop.clone());
    informer.synced().await?;

    let mut settings = ConfigMap::default();
    settings.metadata.name = Some("settings".to_owned());
    Api::default_namespaced(client).create(&PostParams::default(), &settings).await?;
    let appears = async {
        while informer.store().get(("default", "settings")).is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), appears).await?;
    stop.cancel();
    server.stop().await;
    Ok(())
}
"""


def main() -> int:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment["CARGO_TARGET_DIR"] = TARGET
    with tempfile.TemporaryDirectory(prefix="keepwatch-stranger-") as crate:
        os.mkdir(os.path.join(crate, "src"))
        with open(os.path.join(crate, "Cargo.toml"), "w") as file:
            file.write(MANIFEST)
        with open(os.path.join(crate, "src", "lib.rs"), "w") as file:
            file.write("#![cfg(test)]\n" + TEST)
        shutil.copy(os.path.join(ROOT, "Cargo.lock"), crate)
        code = subprocess.run(["cargo", "test", "--lib"], cwd=crate, env=environment).returncode
        # The folder has another name each time, and so would its build.
        subprocess.run(["cargo", "clean", "--quiet", "--package", "stranger"], cwd=crate, env=environment)
        return code


if __name__ == "__main__":
    sys.exit(main())
