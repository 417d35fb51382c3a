//! Simulates a cluster in virtual time, from a seed: writers; watchers that read, read slowly, pause, disconnect and
//! resume; lists; and a storage that fails, cuts watches and is compacted, so that the cache lags and relists. In every
//! run, every watcher's streams keep the five guarantees, and every list is the state at the revision that it names;
//! and if storage never fails, a watcher gets 410 only after compaction has passed it.
//!
//! A failing run prints its seed; `KEEPWATCH_SEED=<seed> cargo test -p keepwatch-cacher --test simulation` repeats it,
//! step by step. `./test` runs a few thousand seeds, `./test long` a hundred thousand.

#![allow(clippy::unwrap_used, reason = "this is test code: a panic is how it says that something is wrong")]

use futures::{FutureExt, StreamExt, future::BoxFuture};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position, WatchStart},
    meta::Qualified,
};
use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
use keepwatch_storage::{
    Attributes, Backend, Inspector, Key, List, ListRequest, Predicate, Scope, Storage, StorageError, Store,
    StoreOptions, Undecodable, Update, UpdateOptions, Watch, WatchEvent, WatchRequest, WatchTurn, WatchTurns,
    testing::{
        Pod,
        faulty::{Faulty, Plan, Rates},
        fields,
        guarantees::{self, Change, History, Kind, Recorded, Start},
        labels, pod, pods_prefix,
    },
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use std::{
    cell::RefCell,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// A watcher that waits this long for an event has been forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Counts of the events of all runs. A simulation in which nothing fails proves nothing.
#[derive(Default)]
struct Tally {
    events: AtomicUsize,
    resumed: AtomicUsize,
    expired: AtomicUsize,
    bookmarks: AtomicUsize,
    lists: AtomicUsize,
    faults: AtomicUsize,
    relists: AtomicUsize,
    history_reads: AtomicUsize,
}

struct Simulation {
    /// The storage for writes, which never fails.
    healthy: Store,
    backend: Arc<Embedded>,
    faulty: Faulty,
    registry: prometheus::Registry,
    cacher: Cacher,
    changes: Mutex<Vec<Change>>,
    lists: Mutex<Vec<Listed>>,
    /// Whether there are many objects.
    many: bool,
    /// Whether storage never fails.
    never_fails: bool,
    /// Set after the last write.
    written: AtomicBool,
    tally: Arc<Tally>,
}

/// A list, and the revision that it had to reach.
struct Listed {
    position: ListAt,
    committed: ResourceVersion,
    viewer: Viewer,
    list: List,
}

/// The scope and the selectors of a reader.
#[derive(Clone, Debug)]
struct Viewer {
    key: &'static str,
    recursive: bool,
    predicate: Predicate,
}

impl Viewer {
    fn any(random: &mut SmallRng) -> Self {
        let (key, recursive) = *[("/pods", true), ("/pods", true), ("/pods/ns", true), ("/pods/ns/a", false)]
            .choose(random)
            .unwrap();
        let predicates = [
            Predicate::everything(),
            Predicate::everything(),
            labels("app=web"),
            labels("app in (web,db)"),
            labels("app!=db"),
            fields("spec.nodeName=n1"),
            Predicate { fields: fields("spec.nodeName=n1").fields, ..labels("app=web") },
            fields("metadata.name=a"),
        ];
        Self { key, recursive, predicate: predicates.choose(random).unwrap().clone() }
    }

    fn sees(&self, key: &str, value: &[u8]) -> bool {
        let attributes = attributes(key, value);
        self.scope().contains(key) && self.predicate.matches(&attributes)
    }

    fn scope(&self) -> Scope {
        pods_prefix().scope(self.key, self.recursive).unwrap()
    }
}

/// Reads the attributes of a [`Pod`] without parsing its JSON, because the simulation does this very often.
struct QuickInspector;

impl Inspector for QuickInspector {
    fn inspect(&self, key: &Key, value: &[u8]) -> Result<Attributes, Undecodable> {
        Ok(attributes(key, value))
    }
}

fn attributes(key: &str, value: &[u8]) -> Attributes {
    let text = std::str::from_utf8(value).unwrap();
    let after = |name: &str| {
        let begin = text.find(name)? + name.len();
        text[begin..].split('"').next()
    };
    let [.., namespace, name] = key.split('/').collect::<Vec<_>>()[..] else { panic!("{key}") };
    let node = after("\"nodeName\":\"").unwrap();
    let fields = [("metadata.name", name), ("metadata.namespace", namespace), ("spec.nodeName", node)];
    Attributes {
        labels: after("\"app\":\"").map(|app| ("app", app)).into_iter().collect(),
        fields: fields.into_iter().collect(),
        ..Attributes::default()
    }
}

/// One of few pods, or one of more pods than a batch of the initial state holds.
fn some_pod(random: &mut SmallRng, many: bool) -> Pod {
    let name = if many { format!("pod-{}", random.random_range(0..300)) } else { String::new() };
    let name = if name.is_empty() { ["a", "b", "c", "d"].choose(random).unwrap() } else { name.as_str() };
    let mut pod = pod(name).data(random.random_range(0..1_000_000));
    if random.random_bool(0.2) {
        pod = pod.in_namespace("other");
    }
    if let Some(app) = [None, Some("web"), Some("db")].choose(random).unwrap() {
        pod = pod.label("app", app);
    }
    pod.node(["", "n1", "n2"].choose(random).unwrap())
}

impl Simulation {
    fn new(seed: u64, random: &mut SmallRng, tally: Arc<Tally>) -> Self {
        let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
        let fault_rate = *[0, 20, 100].choose(random).unwrap();
        let rates = Rates {
            unreachable: fault_rate,
            timeout: fault_rate,
            delay: fault_rate,
            delay_max: Duration::from_secs(5),
            cut: fault_rate * 3,
            cut_with_error: fault_rate * 2,
            cut_expired: fault_rate / 4,
            cut_after_events_max: 40,
            ..Rates::default()
        };
        let faulty = Faulty::new(backend.clone(), Plan::seeded(seed, rates));
        let options = || StoreOptions::new(pods_prefix(), Arc::new(QuickInspector));
        let cacher_options = CacherOptions {
            indexed_fields: vec!["spec.nodeName".into()],
            // From a few events to more than there are.
            history_bytes_max: *[2_000, 20_000, 10_000_000].choose(random).unwrap(),
            seed: Some(seed),
            ..CacherOptions::default()
        };
        let registry = prometheus::Registry::new();
        let metrics = CacheMetrics::register(&registry).unwrap();
        let store = Arc::new(Store::new(Arc::new(faulty.clone()), options()));
        Self {
            healthy: Store::new(backend.clone(), options()),
            cacher: Cacher::new(store, pods_prefix(), Qualified::core("pods"), cacher_options, &metrics),
            backend,
            faulty,
            registry,
            changes: Mutex::default(),
            lists: Mutex::default(),
            many: random.random_bool(0.2),
            never_fails: fault_rate == 0,
            written: AtomicBool::new(false),
            tally,
        }
    }

    async fn put(&self, pod: &Pod) {
        let options = UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() };
        let mut replace = |_: Option<&_>| Ok(Update::new(pod.value()));
        let object = self.healthy.guaranteed_update(&pod.key(), options, &mut replace).await.unwrap();
        self.changes.lock().unwrap().push(Change::write(&object));
    }

    async fn delete(&self, pod: &Pod) {
        if let Ok(object) = self.healthy.delete(&pod.key(), Default::default(), &mut |_| Ok(())).await {
            self.changes.lock().unwrap().push(Change::deletion(&object));
        }
    }

    async fn write_elsewhere(&self) {
        let key = Key::from_backend("/registry/other/x");
        let (revision, item) = self.backend.get(&key).await.unwrap();
        let value = format!("after {revision}").into();
        self.backend.put_if(&key, item.map(|item| item.modified), value, None).await.unwrap();
    }

    async fn writer(self: Arc<Self>, mut random: SmallRng) {
        for _ in 0..random.random_range(5..20) {
            sleep(Duration::from_millis(random.random_range(0..8000))).await;
            // Sometimes more events at once than a queue holds.
            let burst = if random.random_bool(0.08) {
                random.random_range(100..300)
            } else {
                random.random_range(1..6)
            };
            for _ in 0..burst {
                match random.random_range(0..10) {
                    0 => self.write_elsewhere().await,
                    1 | 2 => self.delete(&some_pod(&mut random, self.many)).await,
                    _ => self.put(&some_pod(&mut random, self.many)).await,
                }
            }
        }
    }

    async fn compactor(self: Arc<Self>, mut random: SmallRng) {
        while !self.written.load(Ordering::Acquire) {
            sleep(Duration::from_millis(random.random_range(1000..40_000))).await;
            let current = self.backend.current_revision().await.unwrap();
            let keep = *[0, 5, 50, 500, 5000].choose(&mut random).unwrap();
            if let Some(revision) = ResourceVersion::new(current.get().saturating_sub(keep)) {
                self.backend.compact(revision).await.unwrap();
            }
        }
    }

    async fn lister(self: Arc<Self>, mut random: SmallRng) {
        while !self.written.load(Ordering::Acquire) {
            sleep(Duration::from_millis(random.random_range(0..10_000))).await;
            let committed = self.backend.current_revision().await.unwrap();
            let furthest = *[30, 1000].choose(&mut random).unwrap();
            let back =
                ResourceVersion::new(committed.get().saturating_sub(random.random_range(0..furthest)).max(1));
            let position = match random.random_range(0..4) {
                0 => ListAt::Any,
                1 => ListAt::NotOlderThan(back.unwrap()),
                2 => ListAt::Exact(back.unwrap()),
                _ => ListAt::MostRecent,
            };
            let viewer = Viewer::any(&mut random);
            let limit = *[None, Some(1), Some(3), Some(40)].choose(&mut random).unwrap();
            match self.list_in_pages(&viewer, position.clone(), limit, &mut random).await {
                Ok(list) => self.lists.lock().unwrap().push(Listed { position, committed, viewer, list }),
                Err(error) => assert!(is_allowed_error(&error), "{error:?}"),
            }
        }
    }

    /// Reads a list page by page, with occasional pauses.
    async fn list_in_pages(
        &self,
        viewer: &Viewer,
        mut at: ListAt,
        limit: Option<usize>,
        random: &mut SmallRng,
    ) -> Result<List, StorageError> {
        let mut whole: Option<List> = None;
        loop {
            let (recursive, predicate) = (viewer.recursive, viewer.predicate.clone());
            let request = ListRequest { recursive, at: at.clone(), limit, predicate };
            let page = self.cacher.get_list(viewer.key, request).await?;
            // Until the cache is ready, storage answers and applies the limit.
            assert!(limit.is_none_or(|limit| page.items.len() <= limit || at == ListAt::Any));
            let next = page.next.clone();
            match &mut whole {
                Some(whole) => {
                    assert_eq!(page.revision, whole.revision, "pages of one list are of one revision");
                    whole.items.extend(page.items);
                }
                None => whole = Some(page),
            }
            match next {
                Some(next) => at = ListAt::Continue(next),
                None => return Ok(whole.expect("there was a page")),
            }
            if random.random_bool(0.1) {
                sleep(Duration::from_millis(random.random_range(0..5000))).await;
            }
        }
    }

    async fn watcher(self: Arc<Self>, mut random: SmallRng) {
        let mut watcher = Watcher {
            viewer: Viewer::any(&mut random),
            behavior: *[Behavior::Reads, Behavior::ReadsSlowly, Behavior::Pauses, Behavior::Disconnects]
                .choose(&mut random)
                .unwrap(),
            random,
            simulation: self.clone(),
            last_due: None,
        };
        let mut streams: Vec<Recorded> = Vec::new();
        loop {
            let delivered = streams.last().map(|_| delivered_until(&streams));
            let start = delivered.map_or(Start::State, Start::After);
            let Some(watch) = watcher.open(start).await else { continue };
            let (events, end) = watcher.read(watch, start).await;
            let stream = Recorded { start, events };
            let is_complete = stream.reached().is_some();
            if is_complete {
                self.tally.resumed.fetch_add(usize::from(!streams.is_empty()), Ordering::Relaxed);
                streams.push(stream);
            } else {
                watcher.check(&[stream]);
            }
            match end {
                End::Done => return watcher.check(&streams),
                End::Resume => {}
                End::Expired => {
                    self.tally.expired.fetch_add(1, Ordering::Relaxed);
                    watcher.check(&streams);
                    streams.clear();
                }
            }
        }
    }

    fn history(&self) -> History {
        let mut changes = self.changes.lock().unwrap().clone();
        // A put that changes nothing returns the previous object.
        changes.sort_by_key(|change| change.revision);
        changes.dedup_by_key(|change| change.revision);
        History::new(changes)
    }

    /// Checks that every list is the state at its revision, and that this is an allowed revision.
    fn check_lists(&self) {
        let history = self.history();
        for Listed { position, committed, viewer, list } in self.lists.lock().unwrap().drain(..) {
            self.tally.lists.fetch_add(1, Ordering::Relaxed);
            let revision = list.revision;
            match position {
                ListAt::MostRecent => assert!(revision >= committed, "{revision} < {committed}"),
                ListAt::NotOlderThan(wanted) => assert!(revision >= wanted, "{revision} < {wanted}"),
                ListAt::Exact(wanted) => assert_eq!(revision, wanted),
                ListAt::Any | ListAt::Continue(_) => {}
            }
            let state = history.state_at(revision.get());
            let due = state.into_iter().filter(|(key, (_, value))| viewer.sees(key, value));
            let due: Vec<_> = due.map(|(key, (revision, value))| (key, revision, value)).collect();
            let found = list.items.iter().map(|item| (&*item.key, item.revision.get(), &item.value));
            assert_eq!(found.collect::<Vec<_>>(), due, "{position:?} at {revision} by {viewer:?}");
        }
    }
}

/// The revision up to which a sequence of streams has delivered every event.
fn delivered_until(streams: &[Recorded]) -> u64 {
    streams.last().and_then(Recorded::reached).expect("only complete streams are recorded")
}

/// The errors that storage may return while it has faults.
fn is_allowed_error(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Unready { .. }
            | StorageError::Unreachable { .. }
            | StorageError::Timeout { .. }
            | StorageError::TooLarge { .. }
            | StorageError::Expired(_)
    )
}

#[derive(Clone, Copy, Debug)]
enum Behavior {
    Reads,
    ReadsSlowly,
    Pauses,
    Disconnects,
}

enum End {
    /// Every event was delivered.
    Done,
    Resume,
    /// The watcher has to start again with the state.
    Expired,
}

/// Turns for which a watch waits a random time, or not at all.
#[derive(Debug)]
struct RandomTurns(Mutex<SmallRng>);

impl RandomTurns {
    fn from_random(random: &mut SmallRng) -> Arc<dyn WatchTurns> {
        Arc::new(Self(Mutex::new(SmallRng::from_rng(random))))
    }
}

impl WatchTurns for RandomTurns {
    fn turn(&self) -> BoxFuture<'static, WatchTurn> {
        let mut random = self.0.lock().unwrap();
        let wait = random.random_bool(0.2).then(|| Duration::from_millis(random.random_range(1..2000)));
        async move {
            if let Some(wait) = wait {
                sleep(wait).await;
            }
            Box::new(()) as WatchTurn
        }
        .boxed()
    }
}

struct Watcher {
    viewer: Viewer,
    behavior: Behavior,
    random: SmallRng,
    simulation: Arc<Simulation>,
    /// The revision of the last change for this watcher, once there are no more writes.
    last_due: Option<u64>,
}

impl Watcher {
    async fn open(&mut self, start: Start) -> Option<Watch> {
        let start = match start {
            Start::State => WatchStart::InitialEvents {
                position: *[Position::MostRecent, Position::Any].choose(&mut self.random).unwrap(),
                end_bookmark: true,
            },
            Start::After(revision) => WatchStart::after(ResourceVersion::new(revision).unwrap()),
        };
        let request = WatchRequest {
            recursive: self.viewer.recursive,
            start,
            progress: self.random.random(),
            predicate: self.viewer.predicate.clone(),
            timeout: self
                .random
                .random_bool(0.5)
                .then(|| Duration::from_secs(self.random.random_range(1..200))),
            turns: self.random.random_bool(0.5).then(|| RandomTurns::from_random(&mut self.random)),
        };
        match self.simulation.cacher.watch(self.viewer.key, request).await {
            Ok(watch) => Some(watch),
            Err(error) => {
                assert!(is_allowed_error(&error), "{error:?}");
                sleep(Duration::from_millis(500)).await;
                None
            }
        }
    }

    /// Reads until every event is delivered, or the stream ends.
    async fn read(&mut self, mut watch: Watch, start: Start) -> (Vec<guarantees::RecordedEvent>, End) {
        let mut stream = Recorded { start, events: Vec::new() };
        let begun = Instant::now();
        loop {
            if self.has_received_all(&stream) {
                return (stream.events, End::Done);
            }
            match self.behavior {
                Behavior::Reads => {}
                Behavior::ReadsSlowly if self.random.random_bool(0.1) => {
                    sleep(Duration::from_millis(self.random.random_range(0..3000))).await;
                }
                Behavior::Pauses if self.random.random_bool(0.05) => {
                    sleep(Duration::from_secs(self.random.random_range(0..100))).await;
                }
                Behavior::Disconnects if self.random.random_bool(0.01) => {
                    drop(watch);
                    sleep(Duration::from_secs(self.random.random_range(0..200))).await;
                    return (stream.events, End::Resume);
                }
                _ => {}
            }
            // Goes on after a while without events, or if the connection breaks.
            match timeout(Duration::from_secs(30), watch.next()).await {
                Err(_)
                    if begun.elapsed() > FORGOTTEN_AFTER
                        && self.simulation.written.load(Ordering::Acquire) =>
                {
                    panic!(
                        "{:?} {:?} was forgotten after {:?}",
                        self.viewer,
                        self.behavior,
                        stream.reached()
                    );
                }
                Err(_) => {}
                Ok(None) => return (stream.events, End::Resume),
                Ok(Some(Ok(event))) => {
                    self.simulation.tally.events.fetch_add(1, Ordering::Relaxed);
                    if let WatchEvent::Bookmark { initial_state_end: false, .. } = event {
                        self.simulation.tally.bookmarks.fetch_add(1, Ordering::Relaxed);
                    }
                    stream.events.push((&event).into());
                    if self.random.random_bool(0.002) {
                        return (stream.events, End::Resume);
                    }
                }
                Ok(Some(Err(error))) => {
                    // A storage that keeps failing cannot be read.
                    let is_storage_failure =
                        matches!(error, StorageError::WatchFailed(_)) && !self.simulation.never_fails;
                    assert!(is_allowed_error(&error) || is_storage_failure, "{error:?}");
                    assert!(watch.next().await.is_none(), "nothing follows an error");
                    if self.simulation.never_fails && error.is_expired() {
                        let compacted =
                            self.simulation.backend.compacted_revision().map(ResourceVersion::get);
                        assert!(compacted > stream.reached(), "{error} though compacted to {compacted:?}");
                    }
                    let end = if error.is_expired() { End::Expired } else { End::Resume };
                    return (stream.events, end);
                }
            }
        }
    }

    fn has_received_all(&mut self, stream: &Recorded) -> bool {
        if !self.simulation.written.load(Ordering::Acquire) {
            return false;
        }
        let last_due = *self.last_due.get_or_insert_with(|| {
            let sees = |key: &str, value: &[u8]| self.viewer.sees(key, value);
            let due = self.simulation.history().expected(0, u64::MAX, &sees);
            due.last().map_or(0, |last| last.revision)
        });
        stream.reached().is_some_and(|delivered| delivered >= last_due)
    }

    /// Checks the five guarantees.
    fn check(&self, streams: &[Recorded]) {
        // Values are shared and live until the end of the run, so an address identifies a value.
        let known = RefCell::new(HashMap::new());
        let sees = |key: &str, value: &[u8]| {
            *known.borrow_mut().entry(value.as_ptr()).or_insert_with(|| self.viewer.sees(key, value))
        };
        let history = self.simulation.history();
        let check = || {
            for stream in streams {
                guarantees::ordered(stream)?;
                guarantees::unique(stream)?;
                guarantees::reliable(stream, &history, &sees)?;
                guarantees::bookmarkable(stream, &history, &sees)?;
            }
            guarantees::resumable(streams, &history, &sees)
        };
        if let Err(violation) = check() {
            panic!("{violation}\nby {:?}, behavior {:?}", self.viewer, self.behavior);
        }
        let ends = |stream: &Recorded| {
            stream.events.iter().filter(|seen| seen.kind == Kind::InitialStateEnd).count()
        };
        assert!(streams.iter().all(|stream| ends(stream) <= 1));
    }
}

async fn simulate(seed: u64, tally: Arc<Tally>) {
    let mut random = SmallRng::seed_from_u64(seed);
    let simulation = Arc::new(Simulation::new(seed, &mut random, tally));
    let mut fork = || SmallRng::seed_from_u64(random.random());
    let writers: Vec<_> = (0..2).map(|_| tokio::spawn(simulation.clone().writer(fork()))).collect();
    let others = [
        tokio::spawn(simulation.clone().compactor(fork())),
        tokio::spawn(simulation.clone().lister(fork())),
        tokio::spawn(simulation.clone().lister(fork())),
    ];
    let watchers: Vec<_> = (0..6).map(|_| tokio::spawn(simulation.clone().watcher(fork()))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    simulation.faulty.follow(Plan::none());
    simulation.written.store(true, Ordering::Release);
    for task in others.into_iter().chain(watchers) {
        task.await.unwrap();
    }
    simulation.check_lists();
    simulation.cacher.until_ready().await;
    simulation.tally.faults.fetch_add(simulation.faulty.injected().len(), Ordering::Relaxed);
    let initializations = simulation.registry.gather();
    let lists =
        initializations.iter().find(|family| family.name() == "apiserver_watch_cache_initializations_total");
    let lists = lists.unwrap().get_metric()[0].get_counter().get_value() as usize;
    simulation.tally.relists.fetch_add(lists - 1, Ordering::Relaxed);
    let families = simulation.registry.gather();
    let reads = families.iter().find(|family| family.name() == "keepwatch_watch_cache_history_reads_total");
    let reads = reads.unwrap().get_metric()[0].get_counter().get_value() as usize;
    simulation.tally.history_reads.fetch_add(reads, Ordering::Relaxed);
}

/// Runs one seed, and prints it if the run fails.
fn run(seed: u64, tally: &Arc<Tally>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(simulate(seed, tally.clone()))));
    if let Err(panic) = outcome {
        eprintln!("simulation failed: KEEPWATCH_SEED={seed} repeats it");
        std::panic::resume_unwind(panic);
    }
}

/// Runs a quarter of the seeds, so that the quarters run at the same time.
fn run_quarter(quarter: u64) {
    let tally = Arc::new(Tally::default());
    if let Ok(seed) = std::env::var("KEEPWATCH_SEED") {
        return run(seed.parse().expect("a number"), &tally);
    }
    let seeds = match std::env::var("KEEPWATCH_SEEDS") {
        Ok(seeds) => seeds.parse().expect("a number"),
        Err(_) if std::env::var_os("KEEPWATCH_LONG").is_some() => 100_000,
        Err(_) => 2_000,
    };
    let first: u64 =
        std::env::var("KEEPWATCH_FIRST_SEED").map_or(0, |first| first.parse().expect("a number"));
    for seed in (first..first + seeds).filter(|seed| seed % 4 == quarter) {
        run(seed, &tally);
    }
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{} events delivered, {} streams resumed, {} expired, {} bookmarks, {} lists, {} faults, {} relists, {} \
         pages of old history",
        count(&tally.events),
        count(&tally.resumed),
        count(&tally.expired),
        count(&tally.bookmarks),
        count(&tally.lists),
        count(&tally.faults),
        count(&tally.relists),
        count(&tally.history_reads),
    );
    for (what, count) in [
        ("events", count(&tally.events)),
        ("resumed", count(&tally.resumed)),
        ("expired", count(&tally.expired)),
        ("bookmarks", count(&tally.bookmarks)),
        ("lists", count(&tally.lists)),
        ("relists", count(&tally.relists)),
        ("old history", count(&tally.history_reads)),
    ] {
        assert!(count > 0 || seeds < 100, "no {what}: the simulation does not cover this");
    }
}

#[test]
fn simulation_keeps_the_guarantees_1() {
    run_quarter(0);
}

#[test]
fn simulation_keeps_the_guarantees_2() {
    run_quarter(1);
}

#[test]
fn simulation_keeps_the_guarantees_3() {
    run_quarter(2);
}

#[test]
fn simulation_keeps_the_guarantees_4() {
    run_quarter(3);
}
