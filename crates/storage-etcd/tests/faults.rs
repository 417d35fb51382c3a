//! A cluster of three loses members while writers write and watchers watch, and nothing else may be lost.
//!
//! Each test runs writers and watchers throughout its rounds of faults (one, or ten with `KEEPWATCH_LONG=1`).
//! During each fault writes and watches must continue. Afterwards a watch through a member that was asked directly
//! delivers the whole history, which is checked: every acknowledged write is in it, none that was refused is, none
//! is in it twice, it contains nothing else, and each watcher received exactly this history, in order, once.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says that something is wrong")]

use bytes::Bytes;
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Backend, BackendEvent, Key, Scope, StorageError, Swap};
use keepwatch_storage_etcd::{
    EtcdBackend, EtcdOptions,
    testing::{EtcdCluster, Network, ServerOptions},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

const WRITERS: u64 = 4;
const WATCHERS: usize = 4;
const KEYS: usize = 12;
const PREFIX: &str = "/registry/faults/";
/// The key whose creation is the last event of every watcher.
const END: &str = "/registry/faults/zz-end";
/// The time in which writes and watches must go on after a fault.
const GOES_ON: Duration = Duration::from_secs(60);

fn rounds() -> usize {
    if std::env::var_os("KEEPWATCH_LONG").is_some_and(|long| long == "1") { 10 } else { 1 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_the_leader_is_killed() {
    let mut run = Run::start(Target::Leader).await;
    for _ in 0..rounds() {
        let leader = run.cluster.leader().await;
        run.cluster.members[leader].kill();
        run.goes_on("the leader is dead").await;
        run.cluster.members[leader].start();
        run.goes_on("the dead member is back").await;
    }
    run.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_a_member_is_paused() {
    let mut run = Run::start(Target::Follower).await;
    for round in 0..2 * rounds() {
        // The member that all connections use at first, then the leader.
        let leader = run.cluster.leader().await;
        let member = if round % 2 == 0 { run.target } else { leader };
        run.cluster.members[member].pause();
        run.goes_on("a member is paused").await;
        run.cluster.members[member].resume();
        run.goes_on("the paused member is back").await;
    }
    run.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_all_members_are_restarted() {
    let mut run = Run::start(Target::Leader).await;
    for _ in 0..rounds() {
        run.cluster.members.iter_mut().for_each(|member| member.kill());
        sleep(Duration::from_millis(500)).await;
        run.cluster.members.iter_mut().for_each(|member| member.start());
        run.goes_on("all members are back").await;
    }
    run.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_the_network_to_one_member_fails() {
    let run = Run::start(Target::Follower).await;
    for round in 0..2 * rounds() {
        let member = (run.target + round) % run.cluster.members.len();
        // Nothing arrives and no connection is closed, then every connection is closed.
        let network = if round % 2 == 0 { Network::BlackHole } else { Network::Cut };
        run.cluster.members[member].set_network(network);
        run.goes_on(&format!("one member is out of reach ({network:?})")).await;
        run.cluster.members[member].set_network(Network::Open);
        run.goes_on("the member is in reach again").await;
    }
    run.check().await;
}

/// Without requests, only the pings of the connection show that the member is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_an_idle_watch_leaves_a_member_out_of_reach() {
    let cluster = EtcdCluster::start(3, ServerOptions::durable()).await;
    let backend = EtcdBackend::connect(options(cluster.urls())).await.unwrap();
    let start = backend.current_revision().await.unwrap();
    let key = Key::from_backend(END);
    let mut watch = backend.watch(Scope::Object(key.clone()), start, false).await.unwrap();
    cluster.members[0].set_network(Network::BlackHole);
    let writer = EtcdBackend::connect(options(vec![cluster.members[1].url()])).await.unwrap();
    let cut = Instant::now();
    writer.put_if(&key, None, "1".into(), None).await.unwrap();
    let event = timeout(GOES_ON, watch.next()).await.expect("the watch moves").expect("the watch goes on");
    assert!(matches!(event, Ok(BackendEvent::Put { .. })), "{event:?}");
    eprintln!("an idle watch moved within {:?}", cut.elapsed());
}

/// The cost of a pause: one read waits for the paused member, then all go to another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_a_paused_member_delays_one_read() {
    let mut cluster = EtcdCluster::start(3, ServerOptions::durable()).await;
    let backend = EtcdBackend::connect(options(cluster.urls())).await.unwrap();
    let key = Key::from_backend("/registry/x");
    backend.get(&key).await.unwrap();
    // The leader's absence costs an election besides.
    let led = cluster.leader().await == 0;
    cluster.members[0].pause();
    let start = Instant::now();
    backend.get(&key).await.unwrap();
    let first = start.elapsed();
    backend.get(&key).await.unwrap();
    let second = start.elapsed() - first;
    eprintln!("paused member led: {led}; first read {first:?}, second {second:?}");
    assert!(led || second < first, "the second read did not go to another member: {first:?}, {second:?}");
    cluster.members[0].resume();
}

/// A write that no member took for certain is reported as what it is, and a cluster that is back is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_without_a_majority_writes_fail_and_then_go_on() {
    let mut cluster = EtcdCluster::start(3, ServerOptions::durable()).await;
    let options = EtcdOptions { request_timeout: Duration::from_secs(4), ..options(cluster.urls()) };
    let backend = EtcdBackend::connect(options).await.unwrap();
    let key = Key::from_backend("/registry/x");
    let start = backend.current_revision().await.unwrap();
    let mut watch = backend.watch(Scope::Object(key.clone()), start, false).await.unwrap();
    let leader = cluster.leader().await;
    for member in (0..3).filter(|member| *member != leader) {
        cluster.members[member].kill();
    }
    let failed = backend.put_if(&key, None, "1".into(), None).await.unwrap_err();
    assert!(matches!(failed, StorageError::Timeout { .. } | StorageError::Unreachable { .. }), "{failed:?}");
    let failed = backend.get(&key).await.unwrap_err();
    assert!(matches!(failed, StorageError::Timeout { .. } | StorageError::Unreachable { .. }), "{failed:?}");
    // etcd ends a watch that has had no leader for three election timeouts; those words are all it says.
    let ended = timeout(GOES_ON, watch.next()).await.expect("the watch ends").expect("with an error");
    assert_eq!(ended.unwrap_err().to_string(), "etcdserver: no leader");
    assert!(watch.next().await.is_none());
    for member in (0..3).filter(|member| *member != leader) {
        cluster.members[member].start();
    }
    cluster.leader().await;
    backend.get(&key).await.unwrap();
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Leader,
    Follower,
}

fn options(endpoints: Vec<String>) -> EtcdOptions {
    EtcdOptions { compaction_interval: Duration::ZERO, ..EtcdOptions::new(endpoints) }
}

/// One change as a watcher receives it: key, and value if it was a write.
type Change = (u64, String, Option<String>);

#[derive(Default)]
struct Written {
    /// By revision.
    acknowledged: BTreeMap<u64, (String, Option<String>)>,
    /// Values that may have been written, and keys that may have been deleted.
    attempted: BTreeSet<(String, Option<String>)>,
    /// Values that were refused. No value is tried twice.
    refused: BTreeSet<(String, Option<String>)>,
    unknown: usize,
    longest_wait: Duration,
}

struct Run {
    cluster: EtcdCluster,
    /// The member that connections go to at first.
    target: usize,
    start: ResourceVersion,
    backends: Vec<Arc<EtcdBackend>>,
    written: Arc<Mutex<Written>>,
    reached_by: Vec<Arc<AtomicU64>>,
    ends: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    writers: JoinSet<()>,
    watchers: JoinSet<Vec<Change>>,
}

impl Run {
    async fn start(target: Target) -> Self {
        let cluster = EtcdCluster::start(3, ServerOptions::durable()).await;
        let leader = cluster.leader().await;
        let target = if target == Target::Leader { leader } else { (leader + 1) % 3 };
        let mut urls = cluster.urls();
        urls.rotate_left(target);
        let mut backends = Vec::new();
        for _ in 0..2 {
            backends.push(Arc::new(EtcdBackend::connect(options(urls.clone())).await.unwrap()));
            // The second one has other members behind the first.
            urls[1..].reverse();
        }
        let start = backends[0].current_revision().await.unwrap();
        let mut run = Self {
            cluster,
            target,
            start,
            backends,
            written: Arc::default(),
            reached_by: (0..WATCHERS).map(|_| Arc::default()).collect(),
            ends: Arc::default(),
            stop: Arc::default(),
            writers: JoinSet::new(),
            watchers: JoinSet::new(),
        };
        for writer in 0..WRITERS {
            let backend = run.backends[writer as usize % run.backends.len()].clone();
            run.writers.spawn(write(backend, writer, run.written.clone(), run.stop.clone()));
        }
        for (watcher, reached_by) in run.reached_by.iter().enumerate() {
            let backend = run.backends[watcher % run.backends.len()].clone();
            // Half of them receive progress too.
            let progress = watcher >= WATCHERS / 2;
            run.watchers.spawn(follow(backend, start, progress, reached_by.clone(), run.ends.clone()));
        }
        for backend in &run.backends {
            let (backend, stop) = (backend.clone(), run.stop.clone());
            run.writers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    backend.request_progress().await.unwrap();
                    sleep(Duration::from_millis(100)).await;
                }
            });
        }
        run.goes_on("all is well").await;
        run
    }

    /// Waits until writes are acknowledged that began after now, and every watcher received one.
    async fn goes_on(&self, now: &str) {
        let start = Instant::now();
        let last = || self.written.lock().unwrap().acknowledged.keys().next_back().copied().unwrap_or(0);
        let wait_for = async |what: &str, done: &dyn Fn() -> bool| {
            while !done() {
                assert!(start.elapsed() < GOES_ON, "{now}: {what} do not go on");
                sleep(Duration::from_millis(10)).await;
            }
        };
        let before = self.written.lock().unwrap().acknowledged.len();
        wait_for("writes", &|| self.written.lock().unwrap().acknowledged.len() >= before + 200).await;
        let writes = start.elapsed();
        let reached = last();
        wait_for("watches", &|| {
            self.reached_by.iter().all(|reached_by| reached_by.load(Ordering::Relaxed) >= reached)
        })
        .await;
        eprintln!("{now}: writes went on within {writes:?}, watches within {:?}", start.elapsed());
    }

    async fn check(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(writer) = self.writers.join_next().await {
            writer.unwrap();
        }
        let end = Key::from_backend(END);
        let value = Bytes::from_static(b"end");
        while self.backends[0].put_if(&end, None, value.clone().into(), None).await.is_err() {}

        let direct = options(vec![self.cluster.members[self.cluster.leader().await].direct_url()]);
        let reference = Arc::new(EtcdBackend::connect(direct).await.unwrap());
        let history = timeout(GOES_ON, follow(reference, self.start, false, Arc::default(), Arc::default()));
        let history = history.await.expect("the history is read");

        assert!(history.windows(2).all(|pair| pair[0].0 < pair[1].0), "the history is out of order");
        let written = std::mem::take(&mut *self.written.lock().unwrap());
        let by_revision: BTreeMap<_, _> =
            history.iter().map(|(revision, key, value)| (*revision, (key.clone(), value.clone()))).collect();
        for (revision, change) in &written.acknowledged {
            assert_eq!(by_revision.get(revision), Some(change), "acknowledged at {revision} and lost");
        }
        let mut seen = BTreeSet::new();
        for (revision, key, value) in &history {
            let change = (key.clone(), value.clone());
            let attempted = key == END || written.attempted.contains(&change);
            assert!(attempted, "{key} at {revision}: nobody wrote {value:?}");
            assert!(!written.refused.contains(&change), "{key} at {revision}: {value:?} was refused");
            assert!(
                value.is_none() || seen.insert(change),
                "{key} at {revision}: {value:?} was written twice"
            );
        }
        // One more is the end. Deletions have no value that distinguishes them, but can be counted.
        let most = written.acknowledged.len() + written.unknown + 1;
        assert!(history.len() <= most, "{} changes where {most} can be accounted for", history.len());
        let mut watchers = 0;
        while let Some(received) = timeout(GOES_ON, self.watchers.join_next()).await.expect("watchers end") {
            let received = received.unwrap();
            if received != history {
                let differs = received.iter().zip(&history).position(|(received, real)| received != real);
                let at = differs.unwrap_or(received.len().min(history.len()));
                panic!("a watcher received {:?} where {:?} happened", received.get(at), history.get(at));
            }
            watchers += 1;
        }
        assert_eq!(watchers, WATCHERS);
        eprintln!(
            "{} changes, {} acknowledged, {} with unknown outcome; longest write {:?}; {} watches ended",
            history.len(),
            written.acknowledged.len(),
            written.unknown,
            written.longest_wait,
            self.ends.load(Ordering::Relaxed),
        );
    }
}

async fn write(backend: Arc<EtcdBackend>, writer: u64, written: Arc<Mutex<Written>>, stop: Arc<AtomicBool>) {
    let mut random = StdRng::seed_from_u64(writer);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = Key::from_backend(format!("{PREFIX}{:02}", random.random_range(0..KEYS)));
        let current = match backend.get(&key).await {
            Ok((_, current)) => current,
            Err(StorageError::Unreachable { .. } | StorageError::Timeout { .. }) => continue,
            Err(error) => panic!("reading: {error:?}"),
        };
        count += 1;
        let value = format!("{writer}-{count}");
        let delete = current.is_some() && random.random_ratio(1, 4);
        let change = (key.to_string(), (!delete).then(|| value.clone()));
        written.lock().unwrap().attempted.insert(change.clone());
        let start = Instant::now();
        let result = match current {
            Some(item) if delete => backend.delete_if(&key, item.modified).await,
            current => backend.put_if(&key, current.map(|item| item.modified), value.into(), None).await,
        };
        let mut written = written.lock().unwrap();
        written.longest_wait = written.longest_wait.max(start.elapsed());
        match result {
            Ok(Swap::Done(revision)) => {
                let before = written.acknowledged.insert(revision.get(), change);
                assert_eq!(before, None, "two writes were acknowledged at {revision}");
            }
            // A deletion looks like any other of its key.
            Ok(Swap::Conflict(_)) if delete => {}
            Ok(Swap::Conflict(_)) => assert!(written.refused.insert(change), "no value is tried twice"),
            Err(StorageError::Unreachable { .. } | StorageError::Timeout { .. }) => written.unknown += 1,
            Err(error) => panic!("writing: {error:?}"),
        }
    }
}

/// Records every change until the end; a watch that ends with an error is resumed where it ended.
async fn follow(
    backend: Arc<EtcdBackend>,
    start: ResourceVersion,
    progress: bool,
    reached_by: Arc<AtomicU64>,
    ends: Arc<AtomicU64>,
) -> Vec<Change> {
    let scope = Scope::Children(Key::from_backend(PREFIX));
    let mut changes = Vec::new();
    let mut last = start;
    loop {
        let mut watch = match backend.watch(scope.clone(), last, progress).await {
            Ok(watch) => watch,
            Err(StorageError::Unreachable { .. } | StorageError::Timeout { .. }) => continue,
            Err(error) => panic!("opening a watch: {error:?}"),
        };
        loop {
            let change = match watch.next().await.expect("a watch ends with an error") {
                Ok(BackendEvent::Put { item, .. }) => {
                    let value = String::from_utf8(item.value.bytes.to_vec()).unwrap();
                    (item.modified, item.key, Some(value))
                }
                Ok(BackendEvent::Delete { key, revision, .. }) => (revision, key, None),
                Ok(BackendEvent::Progress(revision)) => {
                    assert!(progress, "progress was not asked for");
                    assert!(revision >= last, "progress to {revision} after {last}");
                    last = revision;
                    continue;
                }
                Err(StorageError::WatchFailed(words)) if words == "etcdserver: no leader" => {
                    ends.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(error) => panic!("watching: {error:?}"),
            };
            let (revision, key, value) = change;
            assert!(revision > last, "{key} at {revision} was delivered after {last}");
            last = revision;
            reached_by.store(revision.get(), Ordering::Relaxed);
            changes.push((revision.get(), key.to_string(), value));
            if &*key == END {
                return changes;
            }
        }
    }
}
