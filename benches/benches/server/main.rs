//! The whole server: what requests and watches cost, over TLS, as a process of its own.
//!
//! Run: `cargo build --release && cargo bench -p keepwatch-benches --bench server`, with `-- list watchers`
//! for some rows; the rows are `start`, `memory`, `list`, `large`, `writes`, `pods`, `fanout`, `stalled`, `filtered`, `idle` and
//! `resume`. `KEEPWATCH_BIN` names another program than the one that was built beside this one.
//! Input: 10,000 pods that are 4,400 bytes when they are stored, 150,000 for `large`; config maps of 1,000 bytes. Every client has a
//! connection of its own and the certificate of the generated kubeconfig. Writes go to `--storage embedded`, in the
//! build directory, which should be on a real disk.
//! CPU is the server's, user and system; memory is what is resident. What is told is the median of several runs, with
//! the least and the most; only CPU is worth comparing on a machine that does other things, and best as a multiple of
//! what a bare server takes meanwhile, which `fanout` and `idle` tell. Every answer must be a success, and every watcher
//! must see every event once and in order, else the program ends.

mod client;
mod objects;
mod process;
mod bare;

use bytes::Bytes;
use client::{Admin, Client, Protocol, text_in, version_in};
use futures::future::{join_all, try_join_all};
use http::Method;
use objects::{CONFIG_BYTES, POD_BYTES};
use process::{Server, Store};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::JoinHandle};

const PODS: usize = 10_000;
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";
const CONFIGS_PATH: &str = "/api/v1/namespaces/default/configmaps";
/// How many clients write at once.
const WRITERS: usize = 16;
/// How often a cost is measured.
const RUNS: usize = 5;
/// After what time the server has put in order what it was left with.
const SETTLING: Duration = Duration::from_millis(1500);

#[tokio::main]
async fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    // A task that fails must not leave the others waiting for it.
    let tell_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell_panic(panic);
        std::process::exit(1);
    }));
    if let [mode, directory] = &wanted[..]
        && mode == bare::MODE
    {
        return bare::serve(Path::new(directory)).await;
    }
    const ROWS: [&str; 11] = [
        "start", "memory", "list", "large", "writes", "pods", "fanout", "stalled", "filtered", "idle",
        "resume",
    ];
    if let Some(unknown) = wanted.iter().find(|wanted| !ROWS.contains(&wanted.as_str())) {
        panic!("there is no row {unknown}; there are {}", ROWS.join(", "));
    }
    println!("{}", process::program().display());
    println!("{:<58} {:>14} {:>14}   least to most", "work", "goal", "median");
    for row in ROWS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == row) {
            continue;
        }
        match row {
            "start" => start().await,
            "memory" => memory().await,
            "list" => list().await,
            "large" => large().await,
            "writes" => writes().await,
            "pods" => pods().await,
            "fanout" => fanout().await,
            "stalled" => stalled().await,
            "filtered" => filtered().await,
            "idle" => idle().await,
            _ => resume().await,
        }
    }
}

/// Prints one line: the median of what was measured, in `unit`.
fn tell(work: &str, goal: &str, unit: &str, mut measured: Vec<f64>) {
    measured.sort_by(f64::total_cmp);
    let number = |value: f64| {
        let decimals = if unit == "x" { 2 } else { usize::from(value < 100.0) };
        format!("{value:.decimals$}")
    };
    let (least, most) = (measured[0], measured[measured.len() - 1]);
    let median = format!("{} {unit}", number(measured[measured.len() / 2]));
    let spread =
        if measured.len() > 1 { format!("{} to {}", number(least), number(most)) } else { String::new() };
    println!("{work:<58} {goal:>14} {median:>14}   {spread}");
}

/// Prints what a bare server took for the same, in `unit`, and what was measured as a multiple of that.
fn tell_beside_bare(goal: &str, unit: &str, measured: &[f64], bare: Vec<f64>) {
    let multiples = measured.iter().zip(&bare).map(|(measured, bare)| measured / bare).collect();
    tell("  a bare server that only writes the bytes", "", unit, bare);
    tell("  as a multiple of that", goal, "x", multiples);
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// What the server's threads and the clock did meanwhile.
struct Meter<'a> {
    server: &'a Server,
    cpu: Duration,
    began: Instant,
}

impl<'a> Meter<'a> {
    fn start(server: &'a Server) -> Meter<'a> {
        Meter { server, cpu: server.cpu(), began: Instant::now() }
    }

    /// CPU time for each of `count`, in microseconds.
    fn cpu_us(&self, count: usize) -> f64 {
        (self.server.cpu() - self.cpu).as_secs_f64() * 1e6 / count as f64
    }

    fn per_second(&self, count: usize) -> f64 {
        count as f64 / self.began.elapsed().as_secs_f64()
    }
}

/// Creates pods `from..to`, shared among the clients.
async fn fill(clients: &mut [Client], from: usize, to: usize) {
    let share = clients.len();
    let each = clients.iter_mut().enumerate().map(|(own, client)| async move {
        for number in (from + own..to).step_by(share) {
            let stored = client.ask(Method::POST, PODS_PATH, objects::pod(number)).await;
            objects::must_be_about(POD_BYTES, &stored);
        }
    });
    join_all(each).await;
}

/// Changes pod `number` to something that it never was, and returns the new version.
async fn change(client: &mut Client, number: usize) -> u64 {
    version_in(&changed(client, number).await)
}

/// The same, and returns the whole pod.
async fn changed(client: &mut Client, number: usize) -> Bytes {
    static TURNS: AtomicUsize = AtomicUsize::new(1);
    let turn = TURNS.fetch_add(1, Ordering::Relaxed);
    let path = format!("{PODS_PATH}/{}", objects::pod_name(number));
    client.ask(Method::PATCH, &path, objects::turn(turn)).await
}

async fn current_version(client: &mut Client) -> u64 {
    version_in(&client.get(&format!("{PODS_PATH}?limit=1")).await)
}

async fn start() {
    let (mut first, mut again, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    for _ in 0..2 * RUNS {
        let server = Server::start(Store::Embedded);
        first.push(milliseconds(server.until_ready));
        let mut client = Admin::of(&server, Protocol::Http1).connect().await;
        assert_eq!(client.get("/readyz").await, "ok");
        let server = Server::start_in(Store::Embedded, server.stop());
        again.push(milliseconds(server.until_ready));
        cpu.push(milliseconds(server.cpu()));
    }
    tell("start until ready, empty: certificates are made", "50 ms", "ms", first);
    tell("start until ready, empty: certificates are there", "50 ms", "ms", again);
    tell("  CPU of that", "", "ms", cpu);
    let mut within = Vec::new();
    for _ in 0..2 * RUNS {
        let began = Instant::now();
        let server = keepwatch::Server::builder().memory().start().await.expect("memory is all it needs");
        within.push(milliseconds(began.elapsed()));
        drop(server);
    }
    let first = within[0];
    tell("start until ready, in memory, inside a program", "20 ms", "ms", within);
    tell("  the first of them", "20 ms", "ms", vec![first]);
}

async fn memory() {
    let (mut empty, mut own) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let server = Server::start(Store::Embedded);
        Admin::of(&server, Protocol::Http1).connect().await.get("/readyz").await;
        tokio::time::sleep(SETTLING).await;
        empty.push(megabytes(server.resident()));
        own.push(megabytes(server.anonymous()));
    }
    tell("resident, empty", "20 MB", "MB", empty);
    tell("  of which the program asked for", "", "MB", own);
    for (name, store) in [("embedded", Store::Embedded), ("memory", Store::Memory)] {
        let server = Server::start(store);
        let mut clients = Admin::of(&server, Protocol::Http1).connect_many(WRITERS).await;
        fill(&mut clients, 0, PODS).await;
        drop(clients);
        tokio::time::sleep(SETTLING).await;
        let work = format!("resident, {PODS} pods just written, {name}");
        tell(&work, "90 MB", "MB", vec![megabytes(server.resident())]);
        let directory = server.stop();
        if let Store::Embedded = store {
            let server = Server::start_in(store, directory);
            tell("start until ready, with them", "", "ms", vec![server.until_ready.as_secs_f64() * 1e3]);
            tokio::time::sleep(SETTLING).await;
            tell("resident, started with them", "90 MB", "MB", vec![megabytes(server.resident())]);
        }
    }
}

/// A server with [`PODS`] pods, and a client of it.
async fn filled() -> (Server, Client) {
    let server = Server::start(Store::Embedded);
    let mut clients = Admin::of(&server, Protocol::Http1).connect_many(WRITERS).await;
    fill(&mut clients, 0, PODS).await;
    tokio::time::sleep(SETTLING).await;
    (server, clients.swap_remove(0))
}

async fn list() {
    const ONE_OF_EACH: &[u8] = br#""generateName":""#;
    const LISTS: usize = 10;
    const AT_ONCE: usize = 8;
    let (server, _) = filled().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let name = protocol.name();
        let mut clients = Admin::of(&server, protocol).connect_many(AT_ONCE).await;
        let read = async |client: &mut Client| {
            let (bytes, pods) = client.read_through(PODS_PATH, ONE_OF_EACH).await;
            assert!(pods == PODS && bytes > PODS * (POD_BYTES - 100), "{pods} pods in {bytes} bytes");
        };
        let (mut cpu, mut peak) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let before = server.resident();
            server.forget_peak();
            let meter = Meter::start(&server);
            for _ in 0..LISTS {
                read(&mut clients[0]).await;
            }
            cpu.push(meter.cpu_us(LISTS) / 1e3);
            peak.push(megabytes(server.peak().saturating_sub(before)));
        }
        tell(&format!("LIST {PODS} pods, {name}: CPU"), "45 ms", "ms", cpu);
        tell("  peak memory", "+10 MB", "MB", peak);
        let (mut cpu, mut peak) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let before = server.resident();
            server.forget_peak();
            let meter = Meter::start(&server);
            join_all(clients.iter_mut().map(read)).await;
            cpu.push(meter.cpu_us(AT_ONCE) / 1e3);
            peak.push(megabytes(server.peak().saturating_sub(before)));
        }
        tell(&format!("LIST {PODS} pods, {AT_ONCE} at once, {name}: CPU each"), "45 ms", "ms", cpu);
        tell("  peak memory", "+10 MB", "MB", peak);
        pages(&server, &mut clients[0], name, PODS, 5).await;
    }
}

/// What a large cluster asks for all the time: pages, and the pods of one node.
async fn large() {
    const MANY_PODS: usize = 150_000;
    const NODES: usize = 200;
    let server = Server::start(Store::Memory);
    let mut clients = Admin::of(&server, Protocol::Http1).connect_many(WRITERS).await;
    fill(&mut clients, 0, MANY_PODS).await;
    tokio::time::sleep(SETTLING).await;
    tell(&format!("resident memory, {MANY_PODS} pods"), "", "MB", vec![megabytes(server.resident())]);
    let client = &mut clients[0];
    pages(&server, client, &format!("of {MANY_PODS}"), MANY_PODS, 1).await;
    let mut cpu = Vec::new();
    for run in 0..RUNS {
        let meter = Meter::start(&server);
        for number in 0..NODES {
            let node = objects::node_name(run * NODES + number);
            let found = client.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await;
            assert!(found.len() > POD_BYTES * 29, "{} bytes", found.len());
        }
        cpu.push(meter.cpu_us(NODES));
    }
    tell(&format!("LIST the 30 pods of a node, of {MANY_PODS}: CPU"), "200 µs", "µs", cpu);
}

async fn pages(server: &Server, client: &mut Client, name: &str, pods: usize, walks: usize) {
    const PAGE: usize = 500;
    let mut cpu = Vec::new();
    for _ in 0..RUNS {
        let meter = Meter::start(server);
        for _ in 0..walks {
            let (mut pages, mut next) = (0, Some(String::new()));
            while let Some(token) = next {
                let more = if token.is_empty() { String::new() } else { format!("&continue={token}") };
                let page = client.get(&format!("{PODS_PATH}?limit={PAGE}{more}")).await;
                pages += 1;
                let head = &page[..page.len().min(1000)];
                next = text_in(head, br#""continue":""#).map(str::to_owned).filter(|token| !token.is_empty());
            }
            assert_eq!(pages, pods / PAGE);
        }
        cpu.push(meter.cpu_us(walks * pods / PAGE) / 1e3);
    }
    tell(&format!("LIST limit={PAGE}, {name}: CPU a page"), "2.5 ms", "ms", cpu);
}

async fn writes() {
    const EACH: usize = 500;
    let server = Server::start(Store::Embedded);
    let mut clients = Admin::of(&server, Protocol::Http1).connect_many(WRITERS).await;
    let mut measured: [(Vec<f64>, Vec<f64>); 3] = Default::default();
    for run in 0..RUNS + 1 {
        let mut versions = vec![Vec::new(); WRITERS];
        for (step, (cpu, rate)) in measured.iter_mut().enumerate() {
            let meter = Meter::start(&server);
            let each = clients.iter_mut().zip(&mut versions).enumerate().map(
                |(own, (client, versions))| async move {
                    for number in 0..EACH {
                        let name = format!("config-{own:02}-{number:04}");
                        let path = format!("{CONFIGS_PATH}/{name}");
                        match step {
                            0 => {
                                let stored = client
                                    .ask(Method::POST, CONFIGS_PATH, objects::config(&name, 0, None))
                                    .await;
                                objects::must_be_about(CONFIG_BYTES, &stored);
                                versions.push(version_in(&stored));
                            }
                            1 => {
                                let body = objects::config(&name, run + 1, Some(versions[number]));
                                client.ask(Method::PUT, &path, body).await;
                            }
                            _ => drop(client.ask(Method::DELETE, &path, "").await),
                        }
                    }
                },
            );
            join_all(each).await;
            // The first time everything is new to the server.
            if run > 0 {
                cpu.push(meter.cpu_us(WRITERS * EACH));
                rate.push(meter.per_second(WRITERS * EACH));
            }
        }
    }
    for (name, (cpu, rate)) in ["create", "update", "delete"].into_iter().zip(measured) {
        tell(&format!("{name} 1 KB, {WRITERS} clients, durable: CPU each"), "100 µs", "µs", cpu);
        tell("  rate", "10000 /s", "/s", rate);
    }
}

async fn pods() {
    const EACH: usize = 1000;
    let server = Server::start(Store::Embedded);
    let mut clients = Admin::of(&server, Protocol::Http1).connect_many(WRITERS).await;
    let mut measured: [(Vec<f64>, Vec<f64>); 2] = Default::default();
    for run in 0..RUNS + 1 {
        for (step, (cpu, rate)) in measured.iter_mut().enumerate() {
            let first = run * EACH;
            let meter = Meter::start(&server);
            if step == 0 {
                fill(&mut clients, first, first + EACH).await;
            } else {
                let each = clients.iter_mut().enumerate().map(|(own, client)| async move {
                    for number in (first + own..first + EACH).step_by(WRITERS) {
                        change(client, number).await;
                    }
                });
                join_all(each).await;
            }
            if run > 0 {
                cpu.push(meter.cpu_us(EACH));
                rate.push(meter.per_second(EACH));
            }
        }
    }
    for (name, (cpu, rate)) in ["create a pod", "merge-patch a pod"].into_iter().zip(measured) {
        tell(&format!("{name}, {WRITERS} clients, durable: CPU each"), "200 µs", "µs", cpu);
        tell("  rate", "", "/s", rate);
    }
}

/// Watchers that read all the time, and how many events all of them together have seen.
struct Audience {
    seen: Arc<Seen>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    events: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
}

impl Audience {
    /// One watcher for each of `paths`, `per_connection` of them on each connection.
    async fn gather(admin: &Admin, paths: impl Iterator<Item = String>, per_connection: usize) -> Audience {
        let seen = Arc::new(Seen::default());
        let mut readers = Vec::new();
        let (mut client, mut on_it) = (admin.connect().await, 0);
        for path in paths {
            if on_it == per_connection {
                (client, on_it) = (admin.connect().await, 0);
            }
            on_it += 1;
            let mut watcher = client.watch(&path).await;
            let seen = Arc::clone(&seen);
            readers.push(tokio::spawn(async move {
                loop {
                    let come = watcher.next().await.len();
                    assert!(come > 0, "the watch was cut");
                    let events = seen.events.fetch_add(come, Ordering::AcqRel) + come;
                    let wanted = seen.wanted.load(Ordering::Acquire);
                    assert!(events <= wanted, "more events than writes");
                    if events == wanted {
                        seen.reached.notify_one();
                    }
                }
            }));
        }
        Audience { seen, readers }
    }

    /// Does something that `count` events tell of, and waits until they were seen.
    async fn sees<T>(&self, count: usize, write: impl Future<Output = T>) -> T {
        let wanted = self.seen.wanted.fetch_add(count, Ordering::AcqRel) + count;
        let done = write.await;
        while self.seen.events.load(Ordering::Acquire) < wanted {
            let lost = tokio::time::timeout(Duration::from_secs(30), self.seen.reached.notified()).await;
            assert!(lost.is_ok(), "{} of {wanted} events came", self.seen.events.load(Ordering::Acquire));
        }
        done
    }

    async fn leave(self) {
        for reader in &self.readers {
            reader.abort();
        }
        for ended in join_all(self.readers).await {
            assert!(ended.is_err_and(|error| error.is_cancelled()), "a watcher failed");
        }
        tokio::time::sleep(SETTLING).await;
    }
}

async fn leave_all(audiences: Vec<Audience>) {
    for audience in audiences {
        audience.leave().await;
    }
}

async fn fanout() {
    const WATCHERS: usize = 1000;
    const UPDATES: usize = 100;
    let server = Server::start(Store::Embedded);
    let mut client = Admin::of(&server, Protocol::Http1).connect().await;
    fill(std::slice::from_mut(&mut client), 0, 100).await;
    let bare = server.start_bare();
    let mut bare_client = Admin::of(&bare, Protocol::Http1).connect().await;
    for (name, protocol, per_connection) in [
        ("HTTP/1.1", Protocol::Http1, 1),
        ("HTTP/2", Protocol::Http2, 1),
        ("HTTP/2, 100 on each connection", Protocol::Http2, 100),
    ] {
        let from = current_version(&mut client).await;
        let path = format!("{PODS_PATH}?watch=true&resourceVersion={from}");
        let gather = async |server: &Server| {
            let paths = std::iter::repeat_n(path.clone(), WATCHERS);
            Audience::gather(&Admin::of(server, protocol), paths, per_connection).await
        };
        let (audience, bare_audience) = (gather(&server).await, gather(&bare).await);
        let (mut cpu, mut bare_cpu) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let mut events = Vec::new();
            let meter = Meter::start(&server);
            for update in 0..UPDATES {
                let pod = audience.sees(WATCHERS, changed(&mut client, update)).await;
                events.push(objects::event(&pod));
            }
            cpu.push(meter.cpu_us(WATCHERS * UPDATES));
            let meter = Meter::start(&bare);
            for event in events {
                bare_audience.sees(WATCHERS, bare_client.ask(Method::POST, PODS_PATH, event)).await;
            }
            bare_cpu.push(meter.cpu_us(WATCHERS * UPDATES));
        }
        let work = format!("one event to each of {WATCHERS} watchers, {name}: CPU each");
        tell(&work, "9 µs", "µs", cpu.clone());
        tell_beside_bare("1.32 x", "µs", &cpu, bare_cpu);
        audience.leave().await;
        bare_audience.leave().await;
    }
}

async fn stalled() {
    const WATCHERS: usize = 50;
    const UPDATES: usize = 2000;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (server, mut client) = filled().await;
        // What the history of as many updates costs if nobody watches.
        let before = server.resident();
        for update in 0..UPDATES {
            change(&mut client, update).await;
        }
        tokio::time::sleep(SETTLING).await;
        let unwatched = server.resident().saturating_sub(before);
        let from = current_version(&mut client).await;
        let path = format!("{PODS_PATH}?watch=true&resourceVersion={from}");
        let admin = Admin::of(&server, protocol);
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            watchers.push(admin.connect().await.watch(&path).await);
        }
        tokio::time::sleep(SETTLING).await;
        let before = server.resident();
        server.forget_peak();
        let mut versions = Vec::new();
        for update in 0..UPDATES {
            versions.push(change(&mut client, update).await);
        }
        tokio::time::sleep(SETTLING).await;
        let while_stalled = server.peak().saturating_sub(before);
        let meter = Meter::start(&server);
        let versions = Arc::new(versions);
        let readers = watchers.into_iter().map(|mut watcher| {
            let versions = Arc::clone(&versions);
            tokio::spawn(async move { watcher.expect(&versions).await })
        });
        try_join_all(readers.collect::<Vec<_>>()).await.expect("none is cut and nothing is lost");
        let cpu = meter.cpu_us(WATCHERS * UPDATES);
        let name = protocol.name();
        tell(
            &format!("{WATCHERS} watchers stalled for {UPDATES} updates, {name}: peak"),
            "+10 MB",
            "MB",
            vec![megabytes(while_stalled)],
        );
        tell("  and once they have read on", "", "MB", vec![megabytes(server.peak().saturating_sub(before))]);
        tell("  the same updates if nobody watches", "", "MB", vec![megabytes(unwatched)]);
        tell("  CPU for each event of which they read", "", "µs", vec![cpu]);
    }
}

async fn filtered() {
    const WATCHERS: usize = 5000;
    const UPDATES: usize = 1000;
    let server = Server::start(Store::Embedded);
    let admin = Admin::of(&server, Protocol::Http1);
    let mut client = admin.connect().await;
    fill(std::slice::from_mut(&mut client), 0, 100).await;
    let mut costs = Vec::new();
    for watchers in [0, WATCHERS] {
        let from = current_version(&mut client).await;
        let path = |node: usize| {
            let node = objects::node_name(node);
            format!("/api/v1/pods?watch=true&resourceVersion={from}&fieldSelector=spec.nodeName%3D{node}")
        };
        let audience = Audience::gather(&admin, (0..watchers).map(path), 1).await;
        let seen = usize::from(watchers > 0);
        let mut cpu = Vec::new();
        for run in 0..RUNS + 1 {
            let meter = Meter::start(&server);
            for update in 0..UPDATES {
                audience.sees(seen, change(&mut client, update % 100)).await;
            }
            if run > 0 {
                cpu.push(meter.cpu_us(UPDATES));
            }
        }
        costs.push(cpu);
        audience.leave().await;
    }
    let watched = costs.pop().expect("both were measured");
    let unwatched = costs.pop().expect("both were measured");
    let ratios = watched.iter().zip(&unwatched).map(|(watched, unwatched)| watched / unwatched).collect();
    tell("update that nobody watches: CPU", "", "µs", unwatched);
    tell(&format!("update seen by 1 of {WATCHERS} filtered watchers: CPU"), "", "µs", watched);
    tell("  as a multiple of the former", "1.1 x", "x", ratios);
}

/// Three times `count` watchers, and what each of them takes in kilobytes, but for the first: to them belongs what the
/// server needs once.
async fn gather_idle(
    server: &Server,
    protocol: Protocol,
    path: &str,
    count: usize,
) -> (Vec<Audience>, Vec<f64>) {
    let admin = Admin::of(server, protocol);
    let (mut audiences, mut memory) = (Vec::new(), Vec::new());
    for run in 0..3 {
        tokio::time::sleep(SETTLING).await;
        let before = server.resident();
        audiences.push(Audience::gather(&admin, std::iter::repeat_n(path.to_owned(), count), 1).await);
        tokio::time::sleep(SETTLING).await;
        if run > 0 {
            memory.push(server.resident().saturating_sub(before) as f64 / count as f64 / 1e3);
        }
    }
    (audiences, memory)
}

async fn idle() {
    const WATCHERS: usize = 2000;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Server::start(Store::Embedded);
        let bare = server.start_bare();
        let (audiences, bare_memory) = gather_idle(&bare, protocol, PODS_PATH, WATCHERS).await;
        leave_all(audiences).await;
        drop(bare);
        let mut client = Admin::of(&server, protocol).connect().await;
        fill(std::slice::from_mut(&mut client), 0, 100).await;
        let from = current_version(&mut client).await;
        let path = format!("{PODS_PATH}?watch=true&resourceVersion={from}");
        let (audiences, memory) = gather_idle(&server, protocol, &path, WATCHERS).await;
        let name = protocol.name();
        tell(&format!("idle watcher, {name}: memory"), "22 KB", "KB", memory.clone());
        tell_beside_bare("1.16 x", "KB", &memory, bare_memory);
        let before = server.resident();
        for audience in &audiences {
            audience.seen.wanted.fetch_add(WATCHERS, Ordering::AcqRel);
        }
        change(&mut client, 0).await;
        for audience in &audiences {
            audience.sees(0, async {}).await;
        }
        tokio::time::sleep(SETTLING).await;
        let after = server.resident().saturating_sub(before);
        let more = after as f64 / (WATCHERS * audiences.len()) as f64 / 1e3;
        tell("  more of it after an event", "", "KB", vec![more]);
        let cpu = Meter::start(&server);
        tokio::time::sleep(Duration::from_secs(5)).await;
        tell(
            "  CPU of a thousand in a second",
            "",
            "µs",
            vec![cpu.cpu_us(5 * WATCHERS * audiences.len() / 1000)],
        );
        leave_all(audiences).await;
    }
}

async fn resume() {
    const WATCHERS: usize = 200;
    const MISSED: usize = 500;
    let server = Server::start(Store::Embedded);
    let mut client = Admin::of(&server, Protocol::Http1).connect().await;
    fill(std::slice::from_mut(&mut client), 0, 100).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let admin = Admin::of(&server, protocol);
        let mut cpu = Vec::new();
        for _ in 0..RUNS {
            let from = current_version(&mut client).await;
            let path = format!("{PODS_PATH}?watch=true&resourceVersion={from}");
            let mut versions = Vec::new();
            for update in 0..MISSED {
                versions.push(change(&mut client, update % 100).await);
            }
            // Who resumes is connected: a handshake costs as much as many events.
            let clients = admin.connect_many(WATCHERS).await;
            let (versions, path) = (Arc::new(versions), Arc::new(path));
            let meter = Meter::start(&server);
            let readers = clients.into_iter().map(|mut client| {
                let (versions, path) = (Arc::clone(&versions), Arc::clone(&path));
                tokio::spawn(async move { client.watch(&path).await.expect(&versions).await })
            });
            try_join_all(readers.collect::<Vec<_>>()).await.expect("nothing is lost");
            cpu.push(meter.cpu_us(WATCHERS * MISSED));
        }
        let name = protocol.name();
        tell(&format!("resume {WATCHERS} watchers x {MISSED} events, {name}: CPU each"), "9 µs", "µs", cpu);
    }
}
