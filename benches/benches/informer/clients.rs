//! One client, in a process that does nothing else.
//!
//! It is this program once more. It reads commands from its input, line by line, and answers every line with one line: `sync`
//! once, then `mark`, `until <version>` and `lookups`, each any number of times.
//!
//! Kept true: both libraries have the same client, runtime and allocator, and their handlers do the same with an event.

use crate::objects;
use futures::{Stream, StreamExt, TryStreamExt, future::ready};
use k8s_openapi::api::core::v1::Pod;
use keepwatch_informer::{
    Event, HandlerOptions, Index, Informer, Lean, Object, ObjectKey, Store,
    informer::Builder,
    object::Fetch,
    source::{ApiSource, ListWatch, WatchEvent, WatchFrom},
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, ReflectHandle},
        watcher,
    },
};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    hash::Hash,
    hint::black_box,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio_util::sync::CancellationToken;

/// The argument that makes this program a client; which one, the data directory of a server and how many pods it has
/// follow.
pub(crate) const MODE: &str = "client";

/// The number of concurrent listeners where their cost is measured.
pub(crate) const LISTENERS: usize = 100;
/// The number of events that kube-runtime buffers for subscribers of a shared stream; a slower one holds up the others.
const SHARED_BUFFER_EVENTS: usize = 1000;
/// The number of lookups.
const LOOKUPS: usize = 200_000;
const SCANS: usize = 200;

/// A way to store pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Typed,
    /// Typed, without `metadata.managedFields`.
    Trimmed,
    Lean,
    LeanTrimmed,
    Metadata,
    /// kube-runtime with its defaults: lists, then watches.
    Runtime,
    /// kube-runtime with a streamed initial list.
    RuntimeStreaming,
    RuntimeTrimmed,
    RuntimeMetadata,
    /// Reads the bytes that the server sends and keeps nothing: the minimum for any client.
    Bytes,
}

impl Kind {
    pub(crate) const ALL: [Kind; 10] = [
        Kind::Typed,
        Kind::Trimmed,
        Kind::Lean,
        Kind::LeanTrimmed,
        Kind::Metadata,
        Kind::Runtime,
        Kind::RuntimeStreaming,
        Kind::RuntimeTrimmed,
        Kind::RuntimeMetadata,
        Kind::Bytes,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Typed => "keepwatch, typed",
            Kind::Trimmed => "keepwatch, typed, no managedFields",
            Kind::Lean => "keepwatch, lean",
            Kind::LeanTrimmed => "keepwatch, lean, no managedFields",
            Kind::Metadata => "keepwatch, metadata only",
            Kind::Runtime => "kube-runtime",
            Kind::RuntimeStreaming => "kube-runtime, streaming lists",
            Kind::RuntimeTrimmed => "kube-runtime, no managedFields",
            Kind::RuntimeMetadata => "kube-runtime, metadata only",
            Kind::Bytes => "reads the bytes, keeps nothing",
        }
    }

    /// The counterpart in kube-runtime.
    pub(crate) fn counterpart(self) -> Kind {
        match self {
            Kind::Trimmed | Kind::LeanTrimmed | Kind::RuntimeTrimmed => Kind::RuntimeTrimmed,
            Kind::Metadata | Kind::RuntimeMetadata => Kind::RuntimeMetadata,
            Kind::Typed | Kind::Lean | Kind::Runtime | Kind::RuntimeStreaming | Kind::Bytes => Kind::Runtime,
        }
    }
}

/// The listeners of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listeners {
    Nobody,
    One,
    /// [`LISTENERS`] callbacks. With kube-runtime these are streams too.
    Handlers,
    /// [`LISTENERS`] streams, each in a task of its own.
    Streams,
}

impl Listeners {
    pub(crate) const ALL: [Listeners; 4] =
        [Listeners::Nobody, Listeners::One, Listeners::Handlers, Listeners::Streams];

    fn len(self) -> usize {
        match self {
            Listeners::Nobody => 0,
            Listeners::One => 1,
            Listeners::Handlers | Listeners::Streams => LISTENERS,
        }
    }
}

/// The progress of a listener.
#[derive(Default)]
struct Acceptor {
    version: AtomicU64,
    events: AtomicU64,
}

impl Acceptor {
    fn record_event(&self, version: &str) {
        self.version.store(version.parse().expect("this server counts"), Relaxed);
        self.events.fetch_add(1, Relaxed);
    }
}

/// The store of a library, and its listeners.
struct Held {
    listening: Vec<Arc<Acceptor>>,
    len: Box<dyn Fn() -> usize>,
    lookups: Box<dyn Fn() -> Lookups>,
}

/// The durations of lookups, in nanoseconds.
#[derive(Clone, Copy)]
struct Lookups {
    by_key: f64,
    by_node: f64,
}

/// User and system time of all threads of this process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("it is not negative"),
        time.tv_nsec.try_into().expect("nor this"),
    )
}

/// Executes commands until the input ends.
pub(crate) async fn run(kind: &str, audience: &str, directory: &str, pods: &str) {
    let kind = named(Kind::ALL, kind);
    let audience = named(Listeners::ALL, audience);
    let pods: usize = pods.parse().expect("a number");
    let client = client(&Path::new(directory).join("admin.kubeconfig")).await;
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    respond("ready");
    assert_eq!(next(&mut orders).await.as_deref(), Some("sync"));
    let (began, before) = (Instant::now(), cpu());
    let held = hold(kind, audience, client).await;
    respond(format_args!("{} {}", (cpu() - before).as_micros(), began.elapsed().as_micros()));
    assert_eq!((held.len)(), pods);
    let mut marked = (Duration::ZERO, 0);
    let events = || held.listening.iter().map(|listening| listening.events.load(Relaxed)).sum::<u64>();
    while let Some(order) = next(&mut orders).await {
        match order.split_once(' ') {
            Some(("until", version)) => {
                let version: u64 = version.parse().expect("a version");
                let is_behind = |listening: &Arc<Acceptor>| listening.version.load(Relaxed) < version;
                while held.listening.iter().any(is_behind) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                respond(format_args!("{} {}", (cpu() - marked.0).as_micros(), events() - marked.1));
            }
            _ if order == "lookups" => {
                let Lookups { by_key, by_node } = (held.lookups)();
                respond(format_args!("{by_key} {by_node}"));
            }
            _ => {
                assert_eq!(order, "mark");
                marked = (cpu(), events());
                respond("marked");
            }
        }
    }
    // Skips the destructors, which would take long.
    std::process::exit(0);
}

fn named<T: fmt::Debug>(all: impl IntoIterator<Item = T>, name: &str) -> T {
    all.into_iter().find(|one| format!("{one:?}") == name).expect("there is one of that name")
}

fn respond(answer: impl fmt::Display) {
    println!("{answer}");
}

async fn next(orders: &mut Lines<BufReader<Stdin>>) -> Option<String> {
    orders.next_line().await.expect("input can be read")
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the server wrote it");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    keepwatch_informer::client(config.expect("it says enough")).expect("there is TLS")
}

async fn hold(kind: Kind, audience: Listeners, client: Client) -> Held {
    let pods = || Api::<Pod>::all(client.clone());
    let config = watcher::Config::default();
    match kind {
        Kind::Typed => typed(Informer::builder(client), audience).await,
        Kind::Trimmed => {
            let trim = |pod: &mut Pod| pod.metadata.managed_fields = None;
            typed(Informer::builder(client).transform(trim), audience).await
        }
        Kind::Lean => lean(Informer::<Pod>::builder(client).lean(), audience).await,
        Kind::LeanTrimmed => {
            let trim = |pod: &mut Lean<Pod>| {
                pod.remove(&["metadata", "managedFields"]);
            };
            lean(Informer::<Pod>::builder(client).lean().transform(trim), audience).await
        }
        Kind::Metadata => {
            let builder = Informer::metadata(client, &ApiResource::erase::<Pod>(&()));
            let node = |pod: &PartialObjectMeta<DynamicObject>| pod.labels().get("app").cloned();
            keepwatch(builder, audience, node).await
        }
        Kind::Runtime => runtime(watcher(pods(), config), audience, on_node).await,
        Kind::RuntimeStreaming => runtime(watcher(pods(), config.streaming_lists()), audience, on_node).await,
        Kind::RuntimeTrimmed => {
            let trimmed = watcher(pods(), config).modify(|pod| pod.metadata.managed_fields = None);
            runtime(trimmed, audience, on_node).await
        }
        Kind::RuntimeMetadata => {
            let labelled = |pod: &PartialObjectMeta<Pod>, app: &str| {
                pod.labels().get("app").is_some_and(|own| own == app)
            };
            let pods = Api::<PartialObjectMeta<Pod>>::all(client);
            runtime(watcher(pods, config), audience, labelled).await
        }
        Kind::Bytes => bytes(client).await,
    }
}

/// A pod of which only the version is decoded.
struct Version(String);

impl Object for Version {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", "")
    }

    fn revision(&self) -> &str {
        &self.0
    }

    fn identity(&self) -> &str {
        ""
    }

    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        Cow::default()
    }
}

impl Fetch for Version {
    type Resource = Pod;
    const NEEDS_KIND: bool = false;

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let name = br#""resourceVersion":""#;
        let from = memchr::memmem::find(json, name).expect("it has a version") + name.len();
        let length = memchr::memchr(b'"', &json[from..]).expect("it ends");
        Ok(Version(String::from_utf8_lossy(&json[from..from + length]).into_owned()))
    }
}

/// Reads the state and then the events of a watch, and stores none of it.
async fn bytes(client: Client) -> Held {
    let source = ApiSource::<Version>::new(client, ());
    let from = WatchFrom { version: String::new(), initial: true, timeout: Duration::from_secs(600) };
    let mut events = source.watch(from).await.expect("there is a server");
    let mut state = 0;
    while let Some(event) = events.next().await {
        match event.expect("it can be read") {
            WatchEvent::Bookmark { .. } => break,
            _ => state += 1,
        }
    }
    let own = Arc::new(Acceptor::default());
    let listening = vec![Arc::clone(&own)];
    tokio::spawn(events.for_each(move |event| {
        if let WatchEvent::Modified(version) = event.expect("it can be read") {
            own.record_event(version.revision());
        }
        ready(())
    }));
    Held { listening, len: Box::new(move || state), lookups: Box::new(|| unreachable!("it holds nothing")) }
}

async fn typed(builder: Builder<Pod>, audience: Listeners) -> Held {
    keepwatch(builder, audience, |pod| pod.spec.as_ref()?.node_name.clone()).await
}

async fn lean(builder: Builder<Lean<Pod>>, audience: Listeners) -> Held {
    keepwatch(builder, audience, |pod| Some(pod.field(&["spec", "nodeName"])?.into_owned())).await
}

/// Stores pods by an informer of ours, with an index of the objects on a node.
async fn keepwatch<O: Object>(
    builder: Builder<O>,
    audience: Listeners,
    node_of: impl Fn(&O) -> Option<String> + Copy + Send + Sync + 'static,
) -> Held {
    let informer = builder.on_error(|error| panic!("{error}")).build();
    let mut listening = Vec::new();
    for _ in 0..audience.len() {
        let own = Arc::new(Acceptor::default());
        listening.push(Arc::clone(&own));
        let hear = move |event: Event<O>| own.record_event(event.object().revision());
        if audience == Listeners::Streams {
            tokio::spawn(informer.subscribe().for_each(move |event| {
                hear(event);
                ready(())
            }));
        } else {
            informer.add_handler(hear, HandlerOptions::default()).expect("it is not stopped");
        }
    }
    informer.start(CancellationToken::new());
    informer.synced().await.expect("it is not stopped");
    let store = informer.store();
    let len = Box::new(move || informer.store().len());
    let lookups = Box::new(move || {
        let by_node = store.index(node_of);
        look_up(&store, &by_node)
    });
    Held { listening, len, lookups }
}

fn look_up<O>(store: &Store<O>, by_node: &Index<O, String>) -> Lookups {
    Lookups {
        by_key: each(LOOKUPS, |number| {
            let name = objects::pod_name(number);
            store.get(("default", &*name)).is_some()
        }),
        by_node: each(LOOKUPS, |number| !by_node.get(&objects::node_name(number)).is_empty()),
    }
}

fn on_node(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node))
}

/// Stores pods by a reflector of kube-runtime. To find those on a node it has to read all.
async fn runtime<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    audience: Listeners,
    is_on_node: impl Fn(&K, &str) -> bool + Copy + 'static,
) -> Held
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + Send + Sync + 'static,
    <K as Resource>::DynamicType: Hash + Eq,
{
    let mut listening = Vec::new();
    let mut listen = || {
        let own = Arc::new(Acceptor::default());
        listening.push(Arc::clone(&own));
        move |pod: &K| own.record_event(&pod.resource_version().expect("it has one"))
    };
    let store = if audience.len() > 1 {
        let (store, writer) = reflector::store_shared::<K>(SHARED_BUFFER_EVENTS);
        for _ in 0..audience.len() {
            let pods: ReflectHandle<K> = writer.subscribe().expect("it is shared");
            let hear = listen();
            tokio::spawn(pods.for_each(move |pod| {
                hear(&pod);
                ready(())
            }));
        }
        let events = events.default_backoff().reflect_shared(writer);
        tokio::spawn(events.try_for_each(|_| ready(Ok(()))));
        store
    } else {
        let (store, writer) = reflector::store::<K>();
        let events = events.default_backoff().reflect(writer).applied_objects();
        if audience == Listeners::One {
            let hear = listen();
            tokio::spawn(events.try_for_each(move |pod| {
                hear(&pod);
                ready(Ok(()))
            }));
        } else {
            tokio::spawn(events.try_for_each(|_| ready(Ok(()))));
        }
        store
    };
    store.wait_until_ready().await.expect("it goes on");
    let len = {
        let store = store.clone();
        Box::new(move || store.len())
    };
    let lookups = Box::new(move || Lookups {
        by_key: each(LOOKUPS, |number| {
            let name = objects::pod_name(number);
            store.get(&ObjectRef::new(&name).within("default")).is_some()
        }),
        by_node: each(SCANS, |number| {
            let node = objects::node_name(number);
            !store.state_filter(|pod| is_on_node(pod, &node)).is_empty()
        }),
    });
    Held { listening, len, lookups }
}

/// The duration of each of so many lookups, which must all find something, in nanoseconds.
fn each(count: usize, find: impl Fn(usize) -> bool) -> f64 {
    let began = Instant::now();
    for number in 0..count {
        assert!(black_box(find(number * 7919 % crate::PODS)));
    }
    began.elapsed().as_nanos() as f64 / count as f64
}
