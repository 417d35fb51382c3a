//! Writes: ConfigMaps are created, changed, moved into and out of selectors, deleted, and created again.
//!
//! Kept true: a write that fails is only counted. The final state is listed from the server, not computed here, because a write
//! whose response was lost may have been done or not.

use crate::Fault;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The number of namespaces that are written to.
pub const NAMESPACES: usize = 4;
/// The label whose value `web` the informers with selectors select.
pub const LABEL: &str = "tier";
/// The label that objects are indexed by.
pub(crate) const COLOUR: &str = "colour";
pub(crate) const COLOURS: [&str; 3] = ["red", "green", "blue"];
const TIERS: [&str; 2] = ["web", "db"];
const WRITERS: u64 = 4;
/// Few, so that each object is written often.
const NAMES: u32 = 40;
const PAUSE_MAX_MS: u64 = 10;
/// Most objects are small; some take many packets.
const SMALL_BYTES_MAX: usize = 512;
const LARGE_BYTES_MAX: usize = 48 << 10;
/// The timeout of a write: not every lost connection is noticed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes until it is stopped.
#[derive(Debug)]
pub struct Load {
    counts: Arc<Counts>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Load {
    /// Starts to write to these namespaces.
    pub fn start(client: &Client, namespaces: &[String], seed: u64) -> Load {
        let load = Load { counts: Arc::default(), stop: CancellationToken::new(), tasks: TaskTracker::new() };
        for number in 0..WRITERS {
            let mut writer = Writer::new(client, namespaces, seed.wrapping_mul(WRITERS).wrapping_add(number));
            let (counts, stop) = (Arc::clone(&load.counts), load.stop.clone());
            load.tasks.spawn(async move {
                while !stop.is_cancelled() {
                    match tokio::time::timeout(PATIENCE, writer.write()).await {
                        Ok(Ok(())) => counts.done.fetch_add(1, Relaxed),
                        _ => counts.failed.fetch_add(1, Relaxed),
                    };
                    tokio::time::sleep(writer.pause()).await;
                }
            });
        }
        load.tasks.close();
        load
    }

    /// The number of writes that succeeded, and of those that failed or may have.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.done.load(Relaxed), self.counts.failed.load(Relaxed))
    }

    /// Finishes the writes that have begun, and ends.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

/// Creates the namespaces that are written to, as `prefix-0` and so on.
pub(crate) async fn make_namespaces(client: &Client, prefix: &str) -> Result<Vec<String>, Fault> {
    let all: Api<Namespace> = Api::all(client.clone());
    let mut names = Vec::new();
    for number in 0..NAMESPACES {
        let name = format!("{prefix}-{number}");
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        all.create(&PostParams::default(), &namespace).await?;
        names.push(name);
    }
    Ok(names)
}

/// Writes at random, one write after another.
#[derive(Debug)]
pub struct Writer {
    maps: Vec<Api<ConfigMap>>,
    rng: StdRng,
}

impl Writer {
    /// Writes to these namespaces.
    pub fn new(client: &Client, namespaces: &[String], seed: u64) -> Writer {
        let maps = namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace));
        Writer { maps: maps.collect(), rng: StdRng::seed_from_u64(seed) }
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(0..=PAUSE_MAX_MS))
    }

    /// Writes once. It is no failure if the object exists already, does not exist, or was changed by another client.
    pub async fn write(&mut self) -> Result<(), kube::Error> {
        let Some(maps) = self.maps.choose(&mut self.rng).cloned() else { return Ok(()) };
        let name = format!("map-{}", self.rng.random_range(0..NAMES));
        let done = match self.rng.random_range(0..100) {
            0..30 => self.create(&maps, &name).await,
            30..50 => self.replace(&maps, &name).await,
            50..80 => self.relabel(&maps, &name).await,
            80..93 => delete(&maps, &name).await,
            _ => match delete(&maps, &name).await {
                Ok(()) => self.create(&maps, &name).await,
                failed => failed,
            },
        };
        match done {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            done => done,
        }
    }

    async fn create(&mut self, maps: &Api<ConfigMap>, name: &str) -> Result<(), kube::Error> {
        let map = config_map(json!({
            "metadata": {"name": name, "labels": self.labels()},
            "data": self.data(),
        }));
        maps.create(&PostParams::default(), &map).await.map(drop)
    }

    async fn replace(&mut self, maps: &Api<ConfigMap>, name: &str) -> Result<(), kube::Error> {
        let mut map = maps.get(name).await?;
        map.data = serde_json::from_value(self.data()).ok();
        maps.replace(name, &PostParams::default(), &map).await.map(drop)
    }

    async fn relabel(&mut self, maps: &Api<ConfigMap>, name: &str) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"metadata": {"labels": self.labels()}}));
        maps.patch(name, &PatchParams::default(), &patch).await.map(drop)
    }

    /// A label that is null is removed by a patch, and left out of a new object.
    fn labels(&mut self) -> Value {
        let mut labels = serde_json::Map::new();
        for (label, values) in [(LABEL, &TIERS[..]), (COLOUR, &COLOURS)] {
            let value = self.rng.random_bool(0.8).then(|| values.choose(&mut self.rng)).flatten();
            labels.insert(label.to_owned(), json!(value));
        }
        Value::Object(labels)
    }

    fn data(&mut self) -> Value {
        let most = if self.rng.random_bool(0.03) { LARGE_BYTES_MAX } else { SMALL_BYTES_MAX };
        let length = self.rng.random_range(0..most);
        json!({"number": self.rng.random::<u32>().to_string(), "filling": "x".repeat(length)})
    }
}

async fn delete(maps: &Api<ConfigMap>, name: &str) -> Result<(), kube::Error> {
    maps.delete(name, &DeleteParams::default()).await.map(drop)
}

/// Labels that are null are left out.
fn config_map(mut json: Value) -> ConfigMap {
    if let Some(labels) = json.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(json).expect("this is a ConfigMap")
}

/// Writes an object that every informer sees and no other client writes. Returns its version.
pub(crate) async fn mark(client: &Client, namespace: &str, name: &str) -> Result<String, Fault> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {LABEL: "web"}},
        "data": {"number": rand::random::<u64>().to_string()},
    });
    let patch = Patch::Merge(&map);
    let written = match maps.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            maps.create(&PostParams::default(), &config_map(map)).await?
        }
        written => written?,
    };
    Ok(written.resource_version().unwrap_or_default())
}
