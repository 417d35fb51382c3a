//! The watch cache: the costs of dispatching to watchers, lists, applying changes, and of objects and watchers in memory.
//!
//! Run: `cargo bench -p keepwatch-benches --bench cacher`, with `-- fanout` for a part; the parts are `fanout`, `queues`,
//! `selective`, `list`, `ingest`, `memory`, `history` and `encode`.
//! Input: pods of 4,400 bytes of JSON with four labels (memory also 1,000), in 100 namespaces, made from seed 3. Over
//! `store` there is a `Store` on `Embedded::memory`, and every write is committed and inspected. Over `events` the cache
//! follows a storage that has its events ready in memory, so that the cost is that of the cache and its watchers alone.
//! CPU is this process's, user and system; it never includes filling stores and opening watches.

#[path = "../script.rs"]
mod script;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future, stream, task::AtomicWaker};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position, WatchStart},
    meta::{Peek, Qualified},
    selector::{FieldSelector, LabelSelector},
    watch::EventType,
};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_endpoints::watch::Encodings;
use keepwatch_storage::{
    Attributes, Backend, CacheSource, Inspector, Key, ListRequest, Object, Predicate, ResourcePrefix,
    Storage, Store, StoreOptions, Undecodable, Update, UpdateOptions, Version, Watch, WatchEvent,
    WatchRequest,
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use script::{Round, Script, version};
use std::{
    fmt::Write,
    fs,
    future::Future,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};
use tokio::runtime::Builder;

const POD_BYTES: usize = 4400;
const SMALL_POD_BYTES: usize = 1000;
const NAMESPACES: usize = 100;
const SEED: u64 = 3;
const PODS: &str = "/pods/";
/// How long a repeated measurement takes at least, because CPU time comes in steps of 10 ms.
const MEASURED_MIN: Duration = Duration::from_secs(1);
/// How many times a cost is measured where noise matters. The lowest is reported, because other load on the machine can
/// only add to it.
const SHARES: usize = 5;

type Part = (&'static str, fn());

const PARTS: [Part; 8] = [
    ("fanout", fanout),
    ("queues", queues),
    ("selective", selective),
    ("list", list),
    ("ingest", ingest),
    ("memory", memory),
    ("history", history),
    ("encode", encode),
];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    // Memory is only comparable in a process that has done nothing else.
    if let Some(("hold", child)) = arguments.split_first().map(|(part, child)| (part.as_str(), child)) {
        return hold(child);
    }
    if let Some(unknown) = arguments.iter().find(|argument| PARTS.iter().all(|(name, _)| name != argument)) {
        panic!("there is no part {unknown}");
    }
    for (name, part) in PARTS {
        if arguments.is_empty() || arguments.iter().any(|argument| argument == name) {
            part();
            println!();
        }
    }
}

/// Runs tasks on this many threads, the given one among them.
fn run<T: Send + 'static>(threads: usize, task: impl Future<Output = T> + Send + 'static) -> T {
    match threads {
        1 => Builder::new_current_thread().enable_all().build().expect("a runtime starts").block_on(task),
        threads => {
            let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
            let runtime = runtime.expect("a runtime starts");
            runtime.block_on(runtime.spawn(task)).expect("the task ends well")
        }
    }
}

struct Meter {
    cpu: Duration,
    begun: Instant,
}

#[derive(Clone, Copy)]
struct Cost {
    cpu: Duration,
    wall: Duration,
}

impl Meter {
    fn start() -> Self {
        Self { cpu: cpu(), begun: Instant::now() }
    }

    fn cost(&self) -> Cost {
        Cost { cpu: cpu() - self.cpu, wall: self.begun.elapsed() }
    }
}

impl Cost {
    /// CPU time for each of `count`, in microseconds.
    fn cpu_us(&self, count: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / count as f64
    }

    fn per_second(&self, count: usize) -> f64 {
        count as f64 / self.wall.as_secs_f64()
    }
}

fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let after_name = stat.rsplit(')').next().expect("the name ends");
    // User and system time, in hundredths of a second.
    let times = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(times.map(|time| time.parse::<u64>().expect("a number") * 10).sum())
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

/// The smallest value, and how far the one in the middle is above it, as a share of it.
fn cheapest(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2] / values[0] - 1.0)
}

/// Every number below `count` once, far from the one before.
fn scattered(count: usize) -> impl Iterator<Item = usize> + Clone {
    let golden = (count as f64 * 0.618) as usize | 1;
    let step = (golden..).find(|step| gcd(*step, count) == 1).expect("there are primes");
    (0..count).map(move |n| n * step % count)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A pod. Its number determines everything but its node and its app.
#[derive(Clone, Copy)]
struct Pod {
    number: usize,
    node: usize,
    app: usize,
}

impl Pod {
    /// One of very many, on one of 5,000 nodes and in one of 1,000 apps.
    fn ordinary(number: usize) -> Self {
        Self { number, node: number % 5000, app: number % 1000 }
    }

    fn namespace(self) -> String {
        format!("namespace-{}", self.number % NAMESPACES)
    }

    fn name(self) -> String {
        format!("web-7d4b9c6f5-{:06}", self.number)
    }

    /// The path in requests.
    fn path(self) -> String {
        format!("{PODS}{}/{}", self.namespace(), self.name())
    }

    fn labels(self) -> [(&'static str, String); 4] {
        [
            ("app", format!("app-{}", self.app)),
            ("pod-template-hash", "7d4b9c6f5".to_owned()),
            ("tier", ["backend", "frontend", "batch"][self.number % 3].to_owned()),
            ("version", format!("v{}", self.number % 7)),
        ]
    }

    /// The attributes that [`PodInspector`] finds.
    fn attributes(self) -> Attributes {
        Attributes {
            uid: Some(Random(self.number as u64).uuid().into()),
            labels: self.labels().into_iter().collect(),
            fields: [
                ("metadata.name", self.name()),
                ("metadata.namespace", self.namespace()),
                ("spec.nodeName", format!("node-{}", self.node)),
            ]
            .into_iter()
            .collect(),
            version_at: Some(200),
            has_version: false,
            ..Attributes::default()
        }
    }

    /// Its JSON, in the order in which Kubernetes writes it. Different generations have the same length.
    fn json(self, bytes: usize, generation: usize) -> Bytes {
        let mut random = Random(self.number as u64);
        let (uid, name, namespace) = (random.uuid(), self.name(), self.namespace());
        let mut json = String::with_capacity(bytes + 256);
        let mut write = |text: std::fmt::Arguments<'_>| json.write_fmt(text).expect("memory takes it");
        write(format_args!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","generateName":"web-7d4b9c6f5-","namespace":"{namespace}","uid":"{uid}","creationTimestamp":"2025-03-14T09:26:53Z","labels":{{"#
        ));
        for (at, (key, value)) in self.labels().iter().enumerate() {
            write(format_args!(r#"{}"{key}":"{value}""#, if at == 0 { "" } else { "," }));
        }
        write(format_args!(
            r#"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5","uid":"{}","controller":true}}]}},"spec":{{"#,
            random.uuid()
        ));
        let is_small = bytes < 2 * SMALL_POD_BYTES;
        if !is_small {
            write(format_args!(
                r#""volumes":[{{"name":"config","configMap":{{"name":"app-{}-config","defaultMode":420}}}},{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}],"defaultMode":420}}}}],"#,
                self.app
            ));
        }
        write(format_args!(
            r#""containers":[{{"name":"main","image":"registry.example.com/team/app-{}:v{}","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"#,
            self.app,
            self.number % 7
        ));
        if !is_small {
            write(format_args!(
                r#""resources":{{"limits":{{"cpu":"1","memory":"512Mi"}},"requests":{{"cpu":"250m","memory":"256Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/app"}},{{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"initialDelaySeconds":10,"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"#
            ));
        }
        write(format_args!(r#""env":[{{"name":"POD_UID","value":"{uid}"}}"#));
        let rest = self.rest_of_json(generation, is_small, &mut random);
        // Environment variables fill it up to the exact size.
        for variable in 0.. {
            const VARIABLE: usize = r#",{"name":"SETTING_00","value":""}"#.len();
            const TEXT: usize = 32;
            let missing = bytes.saturating_sub(json.len() + rest.len());
            let text = if missing < 2 * VARIABLE + TEXT { missing.saturating_sub(VARIABLE) } else { TEXT };
            let value = random.hex(text);
            write!(json, r#",{{"name":"SETTING_{variable:02}","value":"{value}"}}"#)
                .expect("memory takes it");
            if missing < 2 * VARIABLE + TEXT {
                break;
            }
        }
        json.push_str(&rest);
        assert_eq!(json.len(), bytes);
        json.shrink_to_fit();
        Bytes::from(json)
    }

    fn rest_of_json(self, generation: usize, is_small: bool, random: &mut Random) -> String {
        let mut json = format!(
            r#"]}}],"restartPolicy":"Always","nodeName":"node-{}"}},"status":{{"observedGeneration":{:08},"phase":"Running""#,
            self.node,
            10_000_000 + generation
        );
        if !is_small {
            json.push_str(r#","conditions":["#);
            for kind in ["Initialized", "Ready", "ContainersReady", "PodScheduled"] {
                write!(
                    json,
                    r#"{{"type":"{kind}","status":"True","lastTransitionTime":"2025-03-14T09:26:59Z"}},"#
                )
                .expect("memory takes it");
            }
            json.pop();
            write!(
                json,
                r#"],"hostIP":"10.0.0.1","podIP":"10.1.2.3","containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2025-03-14T09:26:58Z"}}}},"ready":true,"restartCount":0,"image":"registry.example.com/team/app","imageID":"sha256:{}","containerID":"containerd://{}"}}],"qosClass":"Burstable""#,
                random.hex(64),
                random.hex(64)
            )
            .expect("memory takes it");
        }
        json.push_str("}}");
        json
    }
}

/// SplitMix64, which gives the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0 ^ SEED;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn hex(&mut self, digits: usize) -> String {
        let mut hex = String::with_capacity(digits + 16);
        while hex.len() < digits {
            write!(hex, "{:016x}", self.next()).expect("memory takes it");
        }
        hex.truncate(digits);
        hex
    }

    fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

struct PodInspector;

impl Inspector for PodInspector {
    fn inspect(&self, _: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        let peek = Peek::at(value).map_err(|error| Undecodable(error.to_string()))?;
        let meta = &peek.metadata;
        // No other field of these pods has this name: looking for it is cheaper than reading all of them once more.
        const NODE: &str = r#""nodeName":""#;
        let text = std::str::from_utf8(value).map_err(|error| Undecodable(error.to_string()))?;
        let after = text.find(NODE).map(|at| &text[at + NODE.len()..]);
        let node = after.and_then(|after| after.split('"').next()).unwrap_or_default();
        Ok(Attributes {
            uid: (!meta.uid.is_empty()).then(|| (*meta.uid).into()),
            labels: meta.labels.iter().map(|(name, value)| (&**name, &**value)).collect(),
            fields: [
                ("metadata.name", &*meta.name),
                ("metadata.namespace", &*meta.namespace),
                ("spec.nodeName", node),
            ]
            .into_iter()
            .collect(),
            version_at: peek.version_at,
            has_version: !meta.resource_version.is_empty(),
            ..Attributes::default()
        })
    }
}

fn prefix() -> ResourcePrefix {
    ResourcePrefix::new("/registry", "pods").expect("a fine prefix")
}

/// The options over the embedded store.
fn near() -> CacherOptions {
    CacherOptions {
        indexed_fields: vec!["spec.nodeName".into()],
        seed: Some(SEED),
        ..CacherOptions::default()
    }
}

/// A cache over a storage, once it is ready.
async fn cacher(storage: Arc<dyn CacheSource>, options: CacherOptions) -> Arc<Cacher> {
    let metrics = CacheMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let cacher = Cacher::new(storage, prefix(), Qualified::core("pods"), options, &metrics);
    cacher.until_ready().await;
    Arc::new(cacher)
}

fn store() -> Arc<Store> {
    let backend: Arc<dyn Backend> = Arc::new(Embedded::memory(EmbeddedOptions::default()));
    Arc::new(Store::new(backend, StoreOptions::new(prefix(), Arc::new(PodInspector))))
}

async fn create(storage: &dyn Storage, pod: Pod, bytes: usize) -> ResourceVersion {
    let created = storage.create(&pod.path(), pod.json(bytes, 0), None).await;
    created.expect("the pod is new").revision
}

/// Pods in a storage, each with two values that are written in turn.
struct Writer {
    storage: Arc<dyn Storage>,
    pods: Vec<(String, [Bytes; 2])>,
    writes: usize,
    last: ResourceVersion,
}

impl Writer {
    async fn new(storage: Arc<dyn Storage>, pods: impl Iterator<Item = Pod>) -> Self {
        let mut writer = Self { storage, pods: Vec::new(), writes: 0, last: version(1) };
        for pod in pods {
            writer.last = create(&*writer.storage, pod, POD_BYTES).await;
            writer.pods.push((pod.path(), [1, 2].map(|generation| pod.json(POD_BYTES, generation))));
        }
        writer
    }

    async fn update(&mut self) {
        let (path, values) = &self.pods[self.writes % self.pods.len()];
        let value = &values[self.writes / self.pods.len() % 2];
        self.writes += 1;
        let mut replace = |_: Option<&Object>| Ok(Update::new(value.clone()));
        let written = self.storage.guaranteed_update(path, UpdateOptions::default(), &mut replace).await;
        self.last = written.expect("the pod is there").revision;
    }
}

/// A storage with a state and later events, which are delivered when the gate opens.
struct Prepared {
    storage: Arc<Script>,
    last: ResourceVersion,
    gate: Arc<Gate>,
}

/// Limits how many events are delivered.
#[derive(Default)]
struct Gate {
    open_for: AtomicUsize,
    watch: AtomicWaker,
}

impl Gate {
    fn open(&self, events: usize) {
        self.open_for.fetch_add(events, Ordering::AcqRel);
        self.watch.wake();
    }
}

impl Prepared {
    /// These pods, and `events` updates of one after the other.
    fn new(pods: &[Pod], events: usize) -> Self {
        let value = Pod::ordinary(0).json(POD_BYTES, 0);
        let keys: Vec<_> = pods.iter().map(|pod| prefix().object(&pod.path()).expect("a fine key")).collect();
        let attributes: Vec<_> = pods.iter().map(|pod| pod.attributes()).collect();
        let object = |at: usize, revision: usize| {
            let (key, attributes) = (keys[at % pods.len()].clone(), attributes[at % pods.len()].clone());
            Object::from(Version {
                key,
                value: value.clone(),
                revision: version(revision),
                attributes: attributes.into(),
            })
        };
        let first = 2 + pods.len();
        let state = (0..pods.len()).map(|at| object(at, 2 + at)).collect();
        let events = (0..events).map(|at| object(at, first + at)).collect::<Vec<_>>();
        let (begin, last) = (version(first - 1), version(first - 1 + events.len()));
        let gate = Arc::<Gate>::default();
        let delivered = deliver_through_gate(events, Arc::clone(&gate));
        Prepared { storage: Arc::new(Script::new(state, begin, delivered)), last, gate }
    }
}

/// Delivers as many of these events as the gate allows.
fn deliver_through_gate(events: Vec<Object>, gate: Arc<Gate>) -> Watch {
    let (mut events, mut delivered) = (events.into_iter(), 0);
    stream::poll_fn(move |context| {
        if delivered == gate.open_for.load(Ordering::Acquire) {
            gate.watch.register(context.waker());
            if delivered == gate.open_for.load(Ordering::Acquire) {
                return Poll::Pending;
            }
        }
        match events.next() {
            Some(object) => {
                delivered += 1;
                Poll::Ready(Some(Ok(WatchEvent::Modified(object))))
            }
            None => Poll::Pending,
        }
    })
    .boxed()
}

async fn watch(cacher: &Cacher, predicate: Predicate) -> Watch {
    let start = WatchStart::Changes { position: Position::Any };
    let request = WatchRequest { predicate, ..WatchRequest::from(start) };
    cacher.watch(PODS, request).await.expect("the watch starts")
}

/// A watcher that counts its events and reports after each `burst` of them.
async fn listen(cacher: &Cacher, predicate: Predicate, round: &Arc<Round>, burst: usize) {
    let (mut watch, round) = (watch(cacher, predicate).await, round.clone());
    tokio::spawn(async move {
        let mut received = 0;
        while let Some(event) = watch.next().await {
            event.expect("nothing is lost");
            received += 1;
            if received == burst {
                round.received();
                received = 0;
            }
        }
    });
}

fn with_label(selector: &str) -> Predicate {
    Predicate {
        labels: LabelSelector::parse(selector).expect("a fine selector"),
        fields: FieldSelector::everything(),
    }
}

fn with_field(selector: &str) -> Predicate {
    Predicate {
        labels: LabelSelector::everything(),
        fields: FieldSelector::parse(selector).expect("a fine selector"),
    }
}

/// Waits until the cache has applied every change up to a revision.
async fn until_reached(cacher: &Cacher, revision: ResourceVersion) {
    let path = Pod::ordinary(0).path();
    // It waits for three seconds at a time.
    while cacher.get(&path, Position::At(revision)).await.is_err() {}
}

fn fanout() {
    println!(
        "fanout: updates of one pod after the other, each delivered to every watcher; over store, 2 threads"
    );
    println!(
        "{:>8} {:>8} {:>14} {:>20} {:>16}",
        "burst", "watchers", "delivered/s", "CPU µs per delivery", "CPU µs per update"
    );
    for burst in [1, 32] {
        for watchers in [1, 10, 100, 1_000, 10_000] {
            let (updates, cost) = run(2, async move {
                let cacher = cacher(store(), near()).await;
                let mut writer = Writer::new(cacher.clone(), (0..1000).map(Pod::ordinary)).await;
                until_reached(&cacher, writer.last).await;
                let round = Arc::new(Round::default());
                for _ in 0..watchers {
                    listen(&cacher, Predicate::everything(), &round, burst).await;
                }
                let mut updates = 0;
                let mut meter = Meter::start();
                // The first rounds only warm up.
                for n in 0.. {
                    if n == 10 {
                        (updates, meter) = (0, Meter::start());
                    }
                    round.begin(watchers);
                    for _ in 0..burst {
                        writer.update().await;
                    }
                    round.over.notified().await;
                    updates += burst;
                    if n >= 20 && meter.begun.elapsed() > 2 * MEASURED_MIN {
                        break;
                    }
                }
                (updates, meter.cost())
            });
            println!(
                "{burst:>8} {watchers:>8} {:>14.0} {:>20.3} {:>16.1}",
                cost.per_second(updates * watchers),
                cost.cpu_us(updates * watchers),
                cost.cpu_us(updates),
            );
        }
    }
}

fn queues() {
    println!("queues: the same over events. Goal: 5,000,000 delivered/s to 10 watchers");
    println!(
        "{:>8} {:>8} {:>8} {:>14} {:>20} {:>16}",
        "threads", "burst", "watchers", "delivered/s", "CPU µs per delivery", "CPU µs per update"
    );
    for threads in [1, 2] {
        // A watcher's queue holds 58 of these pods. More than that it reads from the history.
        for burst in [1, 32, 4096] {
            for watchers in [1, 10, 100, 1_000] {
                let events = (10_000_000 / watchers).clamp(1 << 15, 1 << 19) / burst * burst;
                let cost = run(threads, async move {
                    let pods: Vec<_> = (0..1000).map(Pod::ordinary).collect();
                    let warm_up = burst.max(1024);
                    let prepared = Prepared::new(&pods, events + warm_up);
                    let cacher = cacher(prepared.storage.clone(), near()).await;
                    let round = Arc::new(Round::default());
                    for _ in 0..watchers {
                        listen(&cacher, Predicate::everything(), &round, burst).await;
                    }
                    let mut meter = Meter::start();
                    for n in 0..(events + warm_up) / burst {
                        if n == warm_up / burst {
                            meter = Meter::start();
                        }
                        round.begin(watchers);
                        prepared.gate.open(burst);
                        round.over.notified().await;
                    }
                    meter.cost()
                });
                println!(
                    "{threads:>8} {burst:>8} {watchers:>8} {:>14.0} {:>20.3} {:>16.2}",
                    cost.per_second(events * watchers),
                    cost.cpu_us(events * watchers),
                    cost.cpu_us(events)
                );
            }
        }
    }
}

fn selective() {
    println!("selective: each update is for one of N watchers, one update at a time, 1 thread");
    println!(
        "One: it is always the same watcher. All: each in turn, among 100,000 pods. Goal: ratio up to 1.1"
    );
    println!(
        "{:>8} {:>6} {:>18} {:>8} {:>18} {:>8} {:>8}",
        "over", "to", "selector", "watchers", "CPU µs per update", "ratio", "noise"
    );
    type Select = fn(usize) -> Predicate;
    let field: Select = |n| with_field(&format!("spec.nodeName=node-{n}"));
    let label: Select = |n| with_label(&format!("app=app-{n}"));
    for (over, recipients, selector, select) in [
        ("events", "one", "spec.nodeName=", field),
        ("events", "one", "app=", label),
        ("events", "all", "spec.nodeName=", field),
        ("events", "all", "app=", label),
        ("store", "one", "spec.nodeName=", field),
        ("store", "one", "app=", label),
    ] {
        let mut of_one = None;
        for watchers in [1, 10, 100, 1_000, 10_000, 100_000] {
            let shares = run(1, select_among(over, recipients == "all", watchers, select));
            let (each, noise) = cheapest(shares);
            let ratio = each / *of_one.get_or_insert(each);
            println!(
                "{over:>8} {recipients:>6} {selector:>18} {watchers:>8} {each:>18.2} {ratio:>8.2} {:>7.1}%",
                noise * 100.0
            );
        }
    }
}

/// The CPU time of an update, in shares.
async fn select_among(
    over: &'static str,
    all: bool,
    watchers: usize,
    select: fn(usize) -> Predicate,
) -> Vec<f64> {
    const EVENTS_PER_SHARE: usize = 300_000;
    const UPDATES_PER_SHARE: usize = 25_000;
    // Only the watchers may depend on how many there are, so there is no index whose order does.
    let options = CacherOptions { indexed_fields: Vec::new(), ..near() };
    let pods: Vec<_> = if all {
        scattered(100_000)
            .map(|number| Pod { number, node: number % watchers, app: number % watchers })
            .collect()
    } else {
        (0..1000).map(|number| Pod { number, node: 0, app: 0 }).collect()
    };
    let round = Arc::new(Round::default());
    let listen_all = async |cacher: &Cacher| {
        for n in 0..watchers {
            listen(cacher, select(n), &round, 1).await;
        }
        // Lets each watcher reach its pending state.
        tokio::task::yield_now().await;
    };
    let mut shares = Vec::new();
    if over == "events" {
        let prepared = Prepared::new(&pods, EVENTS_PER_SHARE * (SHARES + 1));
        let cacher = cacher(prepared.storage.clone(), options).await;
        listen_all(&cacher).await;
        for _ in 0..=SHARES {
            let meter = Meter::start();
            for _ in 0..EVENTS_PER_SHARE {
                round.begin(1);
                prepared.gate.open(1);
                round.over.notified().await;
            }
            shares.push(meter.cost().cpu_us(EVENTS_PER_SHARE));
        }
    } else {
        let cacher = cacher(store(), options).await;
        let mut writer = Writer::new(cacher.clone(), pods.into_iter()).await;
        until_reached(&cacher, writer.last).await;
        listen_all(&cacher).await;
        for _ in 0..=SHARES {
            let meter = Meter::start();
            for _ in 0..UPDATES_PER_SHARE {
                round.begin(1);
                writer.update().await;
                round.over.notified().await;
            }
            shares.push(meter.cost().cpu_us(UPDATES_PER_SHARE));
        }
    }
    // The first one warms up.
    shares.split_off(1)
}

fn list() {
    println!("list: a list and letting go of it; over store, 2 threads");
    println!("Began: the cache was filled from a full store. Lived: pods came one by one, in no order");
    println!("{:>8} {:>6} {:>40} {:>9} {:>10} {:>10}", "pods", "cache", "list", "found", "CPU ms", "wall ms");
    for (count, lived) in [(10_000, false), (10_000, true), (150_000, false), (150_000, true)] {
        run(2, async move {
            let cacher = populated(count, lived).await;
            let all = ListRequest::all;
            report_list(&cacher, count, lived, "any", || ListRequest { at: ListAt::Any, ..all() }).await;
            report_list(&cacher, count, lived, "most recent", all).await;
            report_list(&cacher, count, lived, "limit=500", || ListRequest { limit: Some(500), ..all() })
                .await;
            let of_node = || ListRequest { predicate: with_field("spec.nodeName=node-0007"), ..all() };
            report_list(&cacher, count, lived, "spec.nodeName=node-0007", of_node).await;
        });
    }
    println!("Goal for those that find nothing: up to 25 ms");
    for lived in [false, true] {
        run(2, async move {
            let cacher = populated(300_000, lived).await;
            for selector in ["app=nothing", "app in (nothing,none)", "app!=x,tier=none,version=v1"] {
                let request = || ListRequest { predicate: with_label(selector), ..ListRequest::all() };
                report_list(&cacher, 300_000, lived, selector, request).await;
            }
            for selector in ["metadata.name=nothing", "spec.nodeName=nothing", "spec.nodeName!=nothing"] {
                let request = || ListRequest { predicate: with_field(selector), ..ListRequest::all() };
                report_list(&cacher, 300_000, lived, selector, request).await;
            }
        });
    }
}

async fn populated(count: usize, lived: bool) -> Arc<Cacher> {
    let store = store();
    let begun = if lived { Some(cacher(store.clone(), near()).await) } else { None };
    let mut last = version(1);
    for number in scattered(count) {
        last = create(&*store, Pod::ordinary(number), POD_BYTES).await;
    }
    let cacher = match begun {
        Some(cacher) => cacher,
        None => cacher(store, near()).await,
    };
    until_reached(&cacher, last).await;
    cacher
}

async fn report_list(
    cacher: &Cacher,
    pods: usize,
    lived: bool,
    name: &str,
    request: impl Fn() -> ListRequest,
) {
    let list = async || cacher.get_list(PODS, request()).await.expect("the list is there").items.len();
    let found = list().await;
    let (meter, mut lists) = (Meter::start(), 0);
    while meter.begun.elapsed() < MEASURED_MIN {
        list().await;
        lists += 1;
    }
    let cost = meter.cost();
    println!(
        "{pods:>8} {:>6} {name:>40} {found:>9} {:>10.3} {:>10.3}",
        if lived { "lived" } else { "began" },
        cost.cpu_us(lists) / 1e3,
        cost.wall.as_secs_f64() * 1e3 / lists as f64
    );
}

fn ingest() {
    println!("ingest: updates of one pod after the other, nobody watching, 2 threads. Goal: 150,000/s");
    println!("{:>24} {:>8} {:>8} {:>12} {:>18}", "over", "pods", "indexes", "updates/s", "CPU µs per update");
    let report = |over: &str, pods: usize, indexes: usize, updates: usize, cost: Cost| {
        println!(
            "{over:>24} {pods:>8} {indexes:>8} {:>12.0} {:>18.2}",
            cost.per_second(updates),
            cost.cpu_us(updates)
        );
    };
    let value = Pod::ordinary(0).json(POD_BYTES, 0);
    let key = Key::from_backend("/registry/pods/namespace-0/pod");
    let (meter, mut inspected) = (Meter::start(), 0);
    while meter.begun.elapsed() < MEASURED_MIN {
        PodInspector.inspect(&key, &value).expect("a pod");
        inspected += 1;
    }
    report("(inspecting a pod)", 1, 0, inspected, meter.cost());
    for through_cache in [None, Some(false), Some(true)] {
        const UPDATES: usize = 100_000;
        let cost = run(2, async move {
            let store = store();
            let cacher = match through_cache {
                Some(_) => Some(cacher(store.clone(), near()).await),
                None => None,
            };
            let storage: Arc<dyn Storage> = match &cacher {
                Some(cacher) if through_cache == Some(true) => cacher.clone(),
                _ => store,
            };
            let mut writer = Writer::new(storage, (0..10_000).map(Pod::ordinary)).await;
            if let Some(cacher) = &cacher {
                until_reached(cacher, writer.last).await;
            }
            let meter = Meter::start();
            for _ in 0..UPDATES {
                writer.update().await;
            }
            if let Some(cacher) = cacher {
                until_reached(&cacher, writer.last).await;
            }
            meter.cost()
        });
        let over = match through_cache {
            None => "store, no cache",
            Some(false) => "store, written directly",
            Some(true) => "store, written through",
        };
        report(over, 10_000, 1, UPDATES, cost);
    }
    for (pods, indexed_fields) in [(1_000, 0), (1_000, 1), (150_000, 0), (150_000, 1)] {
        let indexed_fields: Vec<Arc<str>> =
            std::iter::repeat_n("spec.nodeName".into(), indexed_fields).collect();
        let indexes = indexed_fields.len();
        const EVENTS: usize = 600_000;
        let cost = run(2, async move {
            let all: Vec<_> = scattered(pods).map(Pod::ordinary).collect();
            let prepared = Prepared::new(&all, EVENTS);
            let cacher = cacher(prepared.storage.clone(), CacherOptions { indexed_fields, ..near() }).await;
            let meter = Meter::start();
            prepared.gate.open(EVENTS);
            until_reached(&cacher, prepared.last).await;
            meter.cost()
        });
        report("events", pods, indexes, EVENTS, cost);
    }
}

/// Runs a part of this program by itself.
fn child(arguments: &[&str]) {
    let program = std::env::current_exe().expect("a program has a path");
    let status = Command::new(program).arg("hold").args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()));
}

fn memory() {
    println!(
        "memory: resident for 100,000 pods in store and cache, as a multiple of their JSON. Goal: up to 1.3"
    );
    println!("{:>8} {:>22} {:>12} {:>8}", "bytes", "cache", "beyond JSON", "multiple");
    for bytes in [POD_BYTES, SMALL_POD_BYTES].map(|bytes| bytes.to_string()) {
        for cache in ["none", "began", "lived"] {
            child(&["pods", &bytes, cache]);
        }
    }
    println!("\nmemory: resident for each of 10,000 idle watches. Goal: up to 2,048 bytes");
    println!("{:>16} {:>22} {:>8}", "of", "after", "bytes");
    for of in ["everything", "one node"] {
        for after in ["opening", "being read once", "reading 50 events"] {
            child(&["watches", of, after]);
        }
    }
}

fn history() {
    println!(
        "history: 2,000 updates of 4,400 bytes (8.8 MB) that N watchers read only afterwards; over store"
    );
    println!("Goal: none lost");
    println!("{:>8} {:>12} {:>20} {:>20}", "watchers", "read", "grown by, unread", "grown by, read");
    for watchers in ["0", "50"] {
        child(&["unread", watchers]);
    }
}

fn hold(child: &[String]) {
    let number = |text: &str| text.parse::<usize>().expect("a number");
    match child.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["pods", bytes, cache] => run(2, hold_pods(number(bytes), (*cache).to_owned())),
        ["watches", of, after] => run(2, hold_watches((*of).to_owned(), (*after).to_owned())),
        ["unread", watchers] => run(2, hold_unread(number(watchers))),
        other => panic!("there is no {other:?}"),
    }
}

async fn hold_pods(bytes: usize, cache: String) {
    const COUNT: usize = 100_000;
    let store = store();
    let begun = if cache == "lived" { Some(cacher(store.clone(), near()).await) } else { None };
    create(&*store, Pod::ordinary(COUNT), bytes).await;
    let before = resident_bytes();
    let mut last = version(1);
    for number in scattered(COUNT) {
        last = create(&*store, Pod::ordinary(number), bytes).await;
    }
    let cacher = match begun {
        None if cache == "began" => Some(cacher(store.clone(), near()).await),
        begun => begun,
    };
    if let Some(cacher) = &cacher {
        until_reached(cacher, last).await;
    }
    let each = (resident_bytes() - before) as f64 / COUNT as f64;
    println!("{bytes:>8} {cache:>22} {:>12.0} {:>8.2}", each - bytes as f64, each / bytes as f64);
}

async fn hold_watches(of: String, after: String) {
    const COUNT: usize = 10_000;
    let cacher = cacher(store(), near()).await;
    // All are on the first node.
    let pods = (0..100).map(|number| Pod { number, node: 0, app: 0 });
    let mut writer = Writer::new(cacher.clone(), pods).await;
    until_reached(&cacher, writer.last).await;
    let mut watches = Vec::with_capacity(COUNT);
    drop(watch(&cacher, Predicate::everything()).await);
    let before = resident_bytes();
    for n in 0..COUNT {
        let predicate = if of == "everything" {
            Predicate::everything()
        } else if after.starts_with("reading") {
            with_field("spec.nodeName=node-0")
        } else {
            with_field(&format!("spec.nodeName=node-{n}"))
        };
        watches.push(watch(&cacher, predicate).await);
    }
    if after != "opening" {
        for watch in &mut watches {
            assert!(watch.next().now_or_never().is_none());
        }
    }
    if after.starts_with("reading") {
        for _ in 0..50 {
            writer.update().await;
        }
        for watch in &mut watches {
            for _ in 0..50 {
                watch.next().await.expect("the watch goes on").expect("nothing is lost");
            }
            assert!(watch.next().now_or_never().is_none());
        }
    }
    println!("{of:>16} {after:>22} {:>8}", (resident_bytes() - before) / COUNT);
}

async fn hold_unread(watchers: usize) {
    const UPDATES: usize = 2000;
    let cacher = cacher(store(), near()).await;
    let pods: Vec<_> = (0..1000).map(Pod::ordinary).collect();
    let mut last = version(1);
    for pod in &pods {
        last = create(&*cacher, *pod, POD_BYTES).await;
    }
    until_reached(&cacher, last).await;
    let mut watches = Vec::new();
    for _ in 0..watchers {
        watches.push(watch(&cacher, Predicate::everything()).await);
    }
    let before = resident_bytes();
    for n in 0..UPDATES {
        let pod = pods[n % pods.len()];
        let mut replace = |_: Option<&Object>| Ok(Update::new(pod.json(POD_BYTES, 1 + n)));
        let written = cacher.guaranteed_update(&pod.path(), UpdateOptions::default(), &mut replace).await;
        last = written.expect("the pod is there").revision;
    }
    until_reached(&cacher, last).await;
    let unread = resident_bytes() - before;
    let read = future::join_all(watches.iter_mut().map(|watch| async {
        let mut revisions = Vec::with_capacity(UPDATES);
        while revisions.last() != Some(&last) {
            let event = watch.next().await.expect("the watch goes on").expect("nothing is lost");
            revisions.push(event.revision());
        }
        assert!(revisions.is_sorted());
        assert_eq!(revisions.len(), UPDATES);
        revisions.len()
    }))
    .await;
    println!(
        "{watchers:>8} {:>12} {:>17.1} MB {:>17.1} MB",
        read.iter().sum::<usize>(),
        unread as f64 / 1e6,
        (resident_bytes() - before) as f64 / 1e6
    );
}

fn encode() {
    println!("encode: a line of JSON for each of 1,000 watchers of one event of 4,400 bytes");
    println!(
        "{:>8} {:>10} {:>10} {:>14} {:>16} {:>10}",
        "threads", "events", "made", "CPU ns a get", "CPU µs an event", "gets/s"
    );
    for threads in [1, 2] {
        const EVENTS: usize = 10_000;
        const WATCHERS: usize = 1000;
        let objects: Arc<[Object]> = (0..EVENTS)
            .map(|number| {
                let pod = Pod::ordinary(number);
                let (key, value) =
                    (prefix().object(&pod.path()).expect("a fine key"), pod.json(POD_BYTES, 0));
                let attributes = PodInspector.inspect(&key, &value).expect("a pod");
                Object::from(Version {
                    key,
                    value,
                    revision: version(1_000_000 + number),
                    attributes: attributes.into(),
                })
            })
            .collect();
        let encodings = Arc::new(Encodings::new(64 << 20));
        let meter = Meter::start();
        let readers: Vec<_> = (0..threads)
            .map(|_| {
                let (objects, encodings) = (objects.clone(), encodings.clone());
                std::thread::spawn(move || {
                    let mut bytes = 0;
                    for object in objects.iter() {
                        for _ in 0..WATCHERS / threads {
                            bytes += encodings.json(object, EventType::Modified).len();
                        }
                    }
                    bytes
                })
            })
            .collect();
        let bytes: usize = readers.into_iter().map(|reader| reader.join().expect("a reader ends well")).sum();
        let cost = meter.cost();
        assert!(bytes > EVENTS * WATCHERS * POD_BYTES);
        println!(
            "{threads:>8} {EVENTS:>10} {:>10} {:>14.1} {:>16.2} {:>10.0}",
            encodings.encoded(),
            cost.cpu_us(EVENTS * WATCHERS) * 1e3,
            cost.cpu_us(EVENTS),
            cost.per_second(EVENTS * WATCHERS)
        );
    }
}
