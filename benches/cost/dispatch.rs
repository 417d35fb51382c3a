//! An update in the watch cache: from storage's watch to every watcher that it matches.
//!
//! The storage is a script, so that only the instructions of the cache and its watchers are counted. Each watcher is a
//! task, and an update follows when all watchers have received the one before.

use crate::{
    Ready, objects,
    script::{Round, Script, version},
    server::{self, SEED},
};
use bytes::Bytes;
use futures::{StreamExt, channel::mpsc};
use keepwatch_apimachinery::{
    list_options::{Position, WatchStart},
    meta::Qualified,
    selector::{FieldSelector, LabelSelector},
};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_registry::inspect::ResourceInspector;
use keepwatch_storage::{
    Attributes, Inspector, Key, Object, Predicate, ResourcePrefix, Storage, Version, WatchEvent, WatchRequest,
};
use std::{iter, sync::Arc};
use tokio::runtime::Runtime;

const PODS: usize = 1000;
const WATCHERS: usize = 1000;
/// The number of events in flight.
const EVENTS_UNDER_WAY: usize = 1;

pub(crate) fn to_one(runtime: &Runtime, times: usize) -> Ready<'_> {
    dispatch_to(runtime, times, iter::once(Predicate::everything()), 1)
}

pub(crate) fn to_all(runtime: &Runtime, times: usize) -> Ready<'_> {
    dispatch_to(runtime, times, iter::repeat_n(Predicate::everything(), WATCHERS), WATCHERS)
}

/// Each watcher follows the pods of a node, as a kubelet does. All pods are on the node of the first.
pub(crate) fn to_one_of_many(runtime: &Runtime, times: usize) -> Ready<'_> {
    let of_node = |number| {
        let selector = format!("spec.nodeName={}", objects::node_name(number));
        let fields = FieldSelector::parse(&selector).expect("a fine selector");
        Predicate { labels: LabelSelector::everything(), fields }
    };
    dispatch_to(runtime, times, (0..WATCHERS).map(of_node), 1)
}

/// Updates that are dispatched to watchers with these predicates; each update matches `due` of them.
fn dispatch_to(
    runtime: &Runtime,
    times: usize,
    watchers: impl Iterator<Item = Predicate>,
    due: usize,
) -> Ready<'_> {
    let pods = Pods::prepare(runtime);
    let mut updates = pods.changes(times).into_iter();
    let round = Arc::new(Round::default());
    let (mut sender, cache) = runtime.block_on(async {
        let (sender, events) = mpsc::channel(EVENTS_UNDER_WAY);
        let events = events.map(|object| Ok(WatchEvent::Modified(object))).boxed();
        let cache = cache(Script::new(pods.state(), version(PODS), events)).await;
        for predicate in watchers {
            add_watcher(&cache, predicate, &round).await;
        }
        (sender, cache)
    });
    Box::new(move |times| {
        // The cache ends its watches when it is dropped.
        let _cache = &cache;
        runtime.block_on(async {
            for update in updates.by_ref().take(times) {
                round.begin(due);
                sender.try_send(update).expect("the one before was taken");
                round.over.notified().await;
            }
        });
    })
}

/// A cache of pods as a server has it.
async fn cache(storage: Script) -> Cacher {
    let prefix = ResourcePrefix::new("/registry", "pods").expect("a fine prefix");
    let metrics = CacheMetrics::register(&prometheus::Registry::new()).expect("it is the first");
    let options = CacherOptions { seed: Some(SEED), ..CacherOptions::default() };
    let cache = Cacher::new(Arc::new(storage), prefix, Qualified::core("pods"), options, &metrics);
    cache.until_ready().await;
    cache
}

async fn add_watcher(cache: &Cacher, predicate: Predicate, round: &Arc<Round>) {
    let start = WatchStart::Changes { position: Position::Any };
    let request = WatchRequest { predicate, ..WatchRequest::from(start) };
    let mut watch = cache.watch("/pods/", request).await.expect("the cache is ready");
    let round = Arc::clone(round);
    tokio::spawn(async move {
        while let Some(event) = watch.next().await {
            event.expect("nothing is lost");
            round.received();
        }
    });
    // Lets the watcher reach its pending state.
    tokio::task::yield_now().await;
}

/// Pods as a server has them in storage.
pub(crate) struct Pods(Vec<(Key, Bytes, Arc<Attributes>)>);

impl Pods {
    pub(crate) fn prepare(runtime: &Runtime) -> Self {
        let values = runtime.block_on(async { server::stored_pods(&server::registry().await, PODS).await });
        let inspector = ResourceInspector::new(server::resource("pods"));
        let found = values.into_iter().enumerate().map(|(number, value)| {
            let name = objects::pod_name(number);
            let key = Key::from_backend(format!("/registry/pods/{}/{name}", server::NAMESPACE));
            let attributes = inspector.inspect(&key, &value).expect("a pod");
            (key, value, attributes.into())
        });
        Self(found.collect())
    }

    /// Each pod once.
    fn state(&self) -> Vec<Object> {
        (0..self.0.len()).map(|number| self.object(number)).collect()
    }

    /// This many changes after the state, of one pod after the other.
    pub(crate) fn changes(&self, count: usize) -> Vec<Object> {
        (self.0.len()..).take(count).map(|number| self.object(number)).collect()
    }

    fn object(&self, number: usize) -> Object {
        let (key, value, attributes) = self.0[number % self.0.len()].clone();
        Version { key, value, revision: version(number + 1), attributes }.into()
    }
}
