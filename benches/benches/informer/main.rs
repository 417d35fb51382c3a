//! Informers: the cost for a client of holding the objects of a server and following them, beside kube-runtime.
//!
//! It is a program of its own because `keepwatch bench` measures servers, and `./test cost` counts instructions of our code
//! only: neither measures the memory of a client, nor another library that does the same work.
//!
//! Run: `cargo build --release && cargo bench -p keepwatch-benches --bench informer`, with `-- sync update` for some
//! rows; the rows are `sync`, `update`, `listeners`, `lookups`, and `big`, which runs only if it is asked for.
//! `KEEPWATCH_BIN` names another server than the one that was built beside this program.
//! Input: 10,000 pods, or 100,000 in `big`, that are 4,400 bytes when they are stored, in memory, in a server that is a
//! process of its own, over TLS. Every client is a process of its own too, with a runtime of as many threads as there are
//! cores and the allocator of the system.
//! CPU is the client's, user and system; memory is the resident memory minus that before it did anything. The figures are medians
//! of several runs, in which the clients take turns; in brackets is the multiple of kube-runtime's figure. Every
//! client must hold all pods and receive every event that is counted, else the program ends.

mod child;
mod client;
mod clients;
#[path = "../../cost/objects.rs"]
#[allow(dead_code, reason = "the program whose instructions are counted needs more of it")]
mod objects;
mod process;

use child::Measured;
use client::{Admin, Client, version_in};
use clients::{Kind, LISTENERS, Listeners};
use futures::future::join_all;
use http::Method;
use objects::POD_BYTES;
use process::Server;
use std::time::Duration;
use tokio::time::{interval, sleep};

const PODS: usize = 10_000;
const BIG_PODS: usize = 100_000;
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";
/// The number of concurrent writers where speed matters.
const WRITERS: usize = 16;
/// The number of runs of each measurement.
const RUNS: usize = 3;
/// The time after which a client's memory has settled.
const SETTLING: Duration = Duration::from_secs(1);
/// The number of events at a steady pace, and the time between them.
const STEADY_EVENTS: usize = 4000;
const STEADY_PAUSE: Duration = Duration::from_millis(1);
/// The number of events that are written as fast as the server takes them.
const BURST_EVENTS: usize = 20_000;
/// The same for many listeners, for which there is time for fewer.
const LISTENED_EVENTS: usize = 1000;
const LISTENED_PAUSE: Duration = Duration::from_millis(3);

#[tokio::main]
async fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    // A task that fails must not leave the others waiting for it.
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        std::process::exit(1);
    }));
    if let [mode, kind, audience, directory, pods] = &wanted[..]
        && mode == clients::MODE
    {
        return clients::run(kind, audience, directory, pods).await;
    }
    const ROWS: [&str; 5] = ["sync", "update", "listeners", "lookups", "big"];
    if let Some(unknown) = wanted.iter().find(|wanted| !ROWS.contains(&wanted.as_str())) {
        panic!("there is no row {unknown}; there are {}", ROWS.join(", "));
    }
    let is_wanted =
        |row: &str| if wanted.is_empty() { row != "big" } else { wanted.iter().any(|wanted| wanted == row) };
    println!("{}", process::program().display());
    let (server, mut writers) = filled(PODS).await;
    if is_wanted("sync") {
        sync(&server, PODS, RUNS).await;
    }
    if is_wanted("update") {
        update(&server, &mut writers).await;
    }
    if is_wanted("listeners") {
        listeners(&server, &mut writers).await;
    }
    if is_wanted("lookups") {
        lookups(&server);
    }
    drop((server, writers));
    if is_wanted("big") {
        let (server, _) = filled(BIG_PODS).await;
        sync(&server, BIG_PODS, RUNS).await;
    }
}

/// A server with so many pods, and clients that write to it.
async fn filled(pods: usize) -> (Server, Vec<Client>) {
    let server = Server::start();
    let mut writers = Admin::of(&server).connect_many(WRITERS).await;
    let each = writers.iter_mut().enumerate().map(|(own, writer)| async move {
        for number in (own..pods).step_by(WRITERS) {
            let stored = writer.ask(Method::POST, PODS_PATH, objects::pod(number)).await;
            objects::must_be_about(POD_BYTES, &stored);
        }
    });
    join_all(each).await;
    let path = format!("{PODS_PATH}/{}", objects::pod_name(0));
    if memchr::memmem::find(&writers[0].get(&path).await, b"managedFields").is_none() {
        println!("these pods have no managedFields: where they are dropped, that saves nothing here");
    }
    sleep(SETTLING).await;
    (server, writers)
}

/// A merge patch that changes no lengths.
fn patch(turn: usize) -> String {
    format!(r#"{{"metadata":{{"annotations":{{"turn":"{:06}"}}}}}}"#, turn % 1_000_000)
}

/// Changes a pod to something that it was not, and returns the new version.
async fn change(writer: &mut Client, turn: usize) -> u64 {
    let path = format!("{PODS_PATH}/{}", objects::pod_name(turn * 7919 % PODS));
    version_in(&writer.ask(Method::PATCH, &path, patch(turn)).await)
}

/// Changes so many pods one after another at this pace, and returns the last version.
async fn feed(writer: &mut Client, from: usize, events: usize, pause: Duration) -> u64 {
    let mut pace = interval(pause);
    let mut version = 0;
    for turn in from..from + events {
        pace.tick().await;
        version = change(writer, turn).await;
    }
    version
}

/// Changes so many pods as fast as possible, and returns the last version.
async fn burst(writers: &mut [Client], from: usize, events: usize) -> u64 {
    let each = writers.iter_mut().enumerate().map(|(own, writer)| async move {
        let mut version = 0;
        for turn in (from + own..from + events).step_by(WRITERS) {
            version = change(writer, turn).await;
        }
        version
    });
    join_all(each).await.into_iter().max().expect("there are writers")
}

/// A number for each run of each client, and for each measurement.
struct Results<const N: usize> {
    kinds: Vec<Kind>,
    measured: Vec<[Vec<f64>; N]>,
}

impl<const N: usize> Results<N> {
    fn of(kinds: &[Kind]) -> Self {
        let none = || std::array::from_fn(|_| Vec::new());
        Results { kinds: kinds.to_vec(), measured: kinds.iter().map(|_| none()).collect() }
    }

    fn add(&mut self, kind: Kind, measured: [f64; N]) {
        let place = self.kinds.iter().position(|own| *own == kind).expect("it is measured");
        self.measured[place].iter_mut().zip(measured).for_each(|(all, one)| all.push(one));
    }

    fn median(&self, kind: Kind, what: usize) -> f64 {
        let place = self.kinds.iter().position(|own| *own == kind).expect("it is measured");
        let mut all = self.measured[place][what].clone();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    /// Prints a table: one line for each client, one column for each measurement, with its unit.
    fn print(&self, title: &str, columns: [(&str, &str); N], goal: impl Fn(Kind) -> &'static str) {
        let names: String = columns.iter().map(|(name, _)| format!(" {name} |")).collect();
        println!("\n| {title} |{names} goal |");
        println!("|---|{}---|", "---:|".repeat(N));
        for kind in &self.kinds {
            let counterpart = kind.counterpart();
            let cell = |what: usize, unit: &str| {
                let median = self.median(*kind, what);
                if *kind == counterpart || !self.kinds.contains(&counterpart) {
                    return format!(" {} |", number(median, unit));
                }
                let multiple = median / self.median(counterpart, what);
                format!(" {} ({multiple:.2} x) |", number(median, unit))
            };
            let cells: String =
                columns.iter().enumerate().map(|(what, (_, unit))| cell(what, unit)).collect();
            println!("| {} |{cells} {} |", kind.name(), goal(*kind));
        }
    }
}

fn number(value: f64, unit: &str) -> String {
    let decimals = match value {
        _ if unit == "s" => 2,
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

async fn sync(server: &Server, pods: usize, runs: usize) {
    let mut results = Results::of(&Kind::ALL);
    for _ in 0..runs {
        for kind in Kind::ALL {
            let mut client = Measured::start(server, kind, Listeners::Nobody, pods);
            let synced = client.sync();
            sleep(SETTLING).await;
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            let (held, peak) = (megabytes(client.held()), megabytes(client.peak()));
            results.add(kind, [synced.cpu_seconds, synced.wall_seconds, held, peak]);
        }
    }
    let goal = |kind| match kind {
        Kind::Typed if pods == PODS => "0.5 s CPU, 0.6 x memory",
        Kind::Lean if pods == PODS => "0.2 s CPU, 70 MB",
        _ => "",
    };
    let columns = [("CPU", "s"), ("wall", "s"), ("held", "MB"), ("peak", "MB")];
    results.print(&format!("sync and hold {pods} pods of 4.4 KB"), columns, goal);
}

async fn update(server: &Server, writers: &mut [Client]) {
    let kinds = [
        Kind::Typed,
        Kind::Trimmed,
        Kind::Lean,
        Kind::Metadata,
        Kind::Runtime,
        Kind::RuntimeStreaming,
        Kind::Bytes,
    ];
    let mut results = Results::of(&kinds);
    let mut turn = 1;
    for _ in 0..RUNS {
        for kind in kinds {
            let mut client = Measured::start(server, kind, Listeners::One, PODS);
            client.sync();
            // As in a client that has run for a while, every pod was changed since then.
            client.until(burst(writers, turn, PODS).await);
            turn += PODS;
            sleep(SETTLING).await;
            client.mark();
            let version = feed(&mut writers[0], turn, STEADY_EVENTS, STEADY_PAUSE).await;
            turn += STEADY_EVENTS;
            let (steady, events) = client.until(version);
            assert_eq!(events, STEADY_EVENTS);
            sleep(SETTLING).await;
            client.mark();
            let version = burst(writers, turn, BURST_EVENTS).await;
            turn += BURST_EVENTS;
            let (burst, _) = client.until(version);
            sleep(SETTLING).await;
            let held = client.held() as f64 / 1e6;
            results.add(kind, [steady / STEADY_EVENTS as f64, burst / BURST_EVENTS as f64, held]);
        }
    }
    let pace = 1000 / STEADY_PAUSE.as_millis();
    let columns = [(&*format!("CPU, {pace}/s"), "µs"), ("CPU, in a burst", "µs"), ("held afterwards", "MB")];
    results.print("one update of a pod of 4.4 KB, one listener", columns, |kind| match kind {
        Kind::Typed => "60 µs",
        Kind::Lean => "20 µs",
        _ => "",
    });
}

async fn listeners(server: &Server, writers: &mut [Client]) {
    let kinds = [Kind::Typed, Kind::Lean, Kind::Runtime];
    let mut turn = 1;
    for (audience, what) in [(Listeners::Handlers, "handlers"), (Listeners::Streams, "streams")] {
        let mut results = Results::of(&kinds);
        for _ in 0..RUNS {
            for kind in kinds {
                let mut client = Measured::start(server, kind, audience, PODS);
                client.sync();
                sleep(SETTLING).await;
                client.mark();
                let version = feed(&mut writers[0], turn, LISTENED_EVENTS, LISTENED_PAUSE).await;
                turn += LISTENED_EVENTS;
                let (cpu, events) = client.until(version);
                assert_eq!(events, LISTENED_EVENTS * LISTENERS);
                results.add(kind, [cpu / LISTENED_EVENTS as f64, cpu / events as f64]);
            }
        }
        let columns = [("CPU an event", "µs"), ("CPU a delivery", "µs")];
        results.print(&format!("one update of a pod, {LISTENERS} {what}"), columns, |_| "");
    }
}

fn lookups(server: &Server) {
    let kinds = [Kind::Typed, Kind::Lean, Kind::Runtime];
    let mut results = Results::of(&kinds);
    for _ in 0..RUNS {
        for kind in kinds {
            let mut client = Measured::start(server, kind, Listeners::Nobody, PODS);
            client.sync();
            results.add(kind, client.lookups());
        }
    }
    let title = format!("look up, {PODS} pods");
    results.print(&title, [("a pod by its name", "ns"), ("2 pods by their node", "ns")], |_| "");
}
