//! The stores: the cost of durable writes, watches, opening, and memory.
//!
//! It is a program of its own because `keepwatch bench` measures whole servers: the cost of HTTP, TLS and validation
//! would hide the behaviour of a store with 1, 16 and 256 writers, new and opened again.
//!
//! Run: `eval "$(scripts/fetch-tools)" && cargo bench -p keepwatch-benches --bench storage`, with `-- creates` for a
//! part; the parts are `creates`, `watch`, `open` and `memory`. etcd is a real one on the same disk, with fsync.
//! Input: values of 2,500 bytes (open: 2,048), keys `/registry/pods/namespace-N/object-N`, fresh directories.
//! CPU is this process's, and with etcd also etcd's. Data is in `benches` and, for etcd, in the folder for temporary
//! files: both should be on a real disk.

use bytes::Bytes;
use futures::{StreamExt, future};
use keepwatch_storage::{Backend, Key, Scope, Swap};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use keepwatch_storage_etcd::{
    EtcdBackend, EtcdOptions,
    testing::{EtcdServer, ServerOptions},
};
use std::{
    fs,
    io::Write,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

const VALUE_BYTES: usize = 2500;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    // Memory is only comparable in a process that has done nothing else.
    if let [part, child] = arguments.as_slice()
        && part == "hold"
    {
        return runtime.block_on(memory_child(child));
    }
    let wanted = |part: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == part);
    if wanted("creates") {
        println!("durable creates of {VALUE_BYTES} bytes");
        println!(
            "{:<10} {:>8} {:>10} {:>14} {:>10} {:>10}",
            "store", "writers", "per s", "CPU µs each", "p50 µs", "p99 µs"
        );
        runtime.block_on(creates());
    }
    if wanted("watch") {
        println!("\none writer, every watcher receives every write");
        println!("{:<10} {:>8} {:>14} {:>20}", "store", "watchers", "delivered/s", "CPU µs per delivery");
        runtime.block_on(watches());
    }
    if wanted("open") {
        println!("\nopening 100,000 objects of 2,048 bytes");
        runtime.block_on(open());
    }
    if wanted("memory") {
        println!("\nmemory held for 100,000 objects of {VALUE_BYTES} bytes");
        for child in ["memory", "embedded"] {
            let program = std::env::current_exe().expect("a program has a path");
            let status =
                Command::new(program).args(["hold", child]).status().expect("the program starts again");
            assert!(status.success());
        }
    }
}

/// A store under test, and its resources.
struct Subject {
    name: &'static str,
    backend: Arc<dyn Backend>,
    etcd: Option<EtcdServer>,
    _directory: tempfile::TempDir,
}

impl Subject {
    async fn embedded() -> Self {
        let directory = data_directory();
        let store = Embedded::open(directory.path(), EmbeddedOptions::default()).expect("the store opens");
        Self { name: "embedded", backend: Arc::new(store), etcd: None, _directory: directory }
    }

    /// A store that was closed and opened again.
    async fn reopened() -> Self {
        let directory = data_directory();
        let store = Embedded::open(directory.path(), EmbeddedOptions::default()).expect("the store opens");
        let first = store.put_if(&key(usize::MAX, 0), None, value(VALUE_BYTES).into(), None).await;
        assert!(matches!(first, Ok(Swap::Done(_))), "{first:?}");
        drop(store);
        let store = Embedded::open(directory.path(), EmbeddedOptions::default()).expect("the store opens");
        Self { name: "reopened", backend: Arc::new(store), etcd: None, _directory: directory }
    }

    async fn memory() -> Self {
        let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
        Self { name: "memory", backend, etcd: None, _directory: data_directory() }
    }

    async fn etcd() -> Self {
        let etcd = EtcdServer::with(ServerOptions::durable()).await;
        let store = EtcdBackend::connect(EtcdOptions::new([etcd.url()])).await.expect("etcd answers");
        Self { name: "etcd", backend: Arc::new(store), etcd: Some(etcd), _directory: data_directory() }
    }

    /// CPU time used so far by this process and etcd's.
    fn cpu(&self) -> Duration {
        let etcd = self.etcd.as_ref().and_then(EtcdServer::pid);
        cpu("self") + etcd.map_or(Duration::ZERO, |pid| cpu(&pid.to_string()))
    }
}

fn data_directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("bench-data-").tempdir_in(".").expect("the current folder is writable")
}

fn cpu(process: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it is Linux");
    let after_name = stat.rsplit(')').next().expect("the name ends");
    // User and system time, in hundredths of a second.
    let times = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(times.map(|time| time.parse::<u64>().expect("a number") * 10).sum())
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("it is Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

fn key(namespace: usize, object: usize) -> Key {
    Key::from_backend(format!("/registry/pods/namespace-{namespace}/object-{object}"))
}

fn value(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

/// `count` creates by `writers` concurrent clients. Returns the latency of each.
async fn create(store: &Arc<dyn Backend>, writers: usize, count: usize, bytes: usize) -> Vec<Duration> {
    let tasks = (0..writers).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut took = Vec::with_capacity(count / writers);
            for n in 0..count / writers {
                let begun = Instant::now();
                let swap = store.put_if(&key(writer, n), None, value(bytes).into(), None).await;
                assert!(matches!(swap, Ok(Swap::Done(_))), "{swap:?}");
                took.push(begun.elapsed());
            }
            took
        })
    });
    future::join_all(tasks).await.into_iter().flat_map(|took| took.expect("a writer ends well")).collect()
}

/// Measures the disk itself: appends a value and syncs, repeatedly. Nothing that syncs each write can be faster.
fn report_disk() {
    const SYNCS: usize = 3000;
    let directory = data_directory();
    let mut file = fs::File::create(directory.path().join("file")).expect("the folder is writable");
    let (cpu_before, begun) = (cpu("self"), Instant::now());
    for _ in 0..SYNCS {
        file.write_all(&value(VALUE_BYTES)).and_then(|()| file.sync_data()).expect("the disk takes it");
    }
    let (cpu, elapsed) = (cpu("self") - cpu_before, begun.elapsed());
    println!(
        "{:<10} {:>8} {:>10.0} {:>14.1}",
        "(the disk)",
        1,
        SYNCS as f64 / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / SYNCS as f64
    );
}

async fn creates() {
    report_disk();
    for (writers, count) in [(1, 20_000), (16, 100_000), (256, 200_000)] {
        report_creates(Subject::embedded().await, writers, count).await;
        report_creates(Subject::reopened().await, writers, count).await;
    }
    for (writers, count) in [(1, 3_000), (16, 20_000), (256, 40_000)] {
        report_creates(Subject::etcd().await, writers, count).await;
    }
}

async fn report_creates(subject: Subject, writers: usize, count: usize) {
    let (cpu_before, begun) = (subject.cpu(), Instant::now());
    let mut took = create(&subject.backend, writers, count, VALUE_BYTES).await;
    let (cpu, elapsed) = (subject.cpu() - cpu_before, begun.elapsed());
    took.sort_unstable();
    println!(
        "{:<10} {:>8} {:>10.0} {:>14.1} {:>10} {:>10}",
        subject.name,
        writers,
        took.len() as f64 / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / took.len() as f64,
        took[took.len() / 2].as_micros(),
        took[took.len() * 99 / 100].as_micros(),
    );
}

async fn watches() {
    for watchers in [1, 100] {
        report_watch(Subject::memory().await, watchers, 20_000).await;
        report_watch(Subject::embedded().await, watchers, 20_000).await;
        report_watch(Subject::etcd().await, watchers, 2_000).await;
    }
}

/// The cost includes that of the writes, divided among the deliveries.
async fn report_watch(subject: Subject, watchers: usize, writes: usize) {
    let start = subject.backend.current_revision().await.expect("the store answers");
    let scope = Scope::Children(Key::from_backend("/registry/pods/"));
    let mut watching = Vec::new();
    for _ in 0..watchers {
        let watch = subject.backend.watch(scope.clone(), start, false).await.expect("the watch starts");
        watching.push(tokio::spawn(watch.take(writes).for_each(|event| {
            event.expect("the watch goes on");
            future::ready(())
        })));
    }
    let (cpu_before, begun) = (subject.cpu(), Instant::now());
    create(&subject.backend, 16, writes, VALUE_BYTES).await;
    future::join_all(watching).await;
    let (cpu, elapsed) = (subject.cpu() - cpu_before, begun.elapsed());
    let delivered = (writes * watchers) as f64;
    println!(
        "{:<10} {watchers:>8} {:>14.0} {:>20.2}",
        subject.name,
        delivered / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / delivered
    );
}

async fn open() {
    let directory = data_directory();
    let options = EmbeddedOptions::default();
    let store: Arc<dyn Backend> =
        Arc::new(Embedded::open(directory.path(), options).expect("the store opens"));
    create(&store, 256, 100_096, 2048).await;
    drop(store);
    for _ in 0..3 {
        let (cpu_before, begun) = (cpu("self"), Instant::now());
        let store = Embedded::open(directory.path(), options).expect("the store opens");
        println!(
            "{} objects: {} ms, {} ms of CPU",
            store.object_count(),
            begun.elapsed().as_millis(),
            (cpu("self") - cpu_before).as_millis()
        );
    }
}

async fn memory_child(kind: &str) {
    const OBJECTS: usize = 100_096;
    let options = EmbeddedOptions::default();
    let directory = data_directory();
    if kind == "embedded" {
        // Written by another process, so that only the memory of an opened store is counted.
        let program = std::env::current_exe().expect("a program has a path");
        let status = Command::new(program).args(["hold"]).arg(directory.path()).status();
        assert!(status.is_ok_and(|status| status.success()));
    } else if kind != "memory" {
        let store: Arc<dyn Backend> = Arc::new(Embedded::open(kind, options).expect("the store opens"));
        create(&store, 256, OBJECTS, VALUE_BYTES).await;
        return;
    }
    let before = resident_bytes();
    let store: Arc<dyn Backend> = if kind == "embedded" {
        Arc::new(Embedded::open(directory.path(), options).expect("the store opens"))
    } else {
        let store: Arc<dyn Backend> = Arc::new(Embedded::memory(options));
        create(&store, 1, OBJECTS, VALUE_BYTES).await;
        store
    };
    let each = (resident_bytes() - before) / OBJECTS;
    println!("{kind:<10} {each} bytes each: {} more than the value", each - VALUE_BYTES);
    drop(store);
}
