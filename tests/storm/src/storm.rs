//! A storm: a server, a proxy in front of it, writes, informers, and disruptions.
//!
//! Kept true: before any states are compared, the server runs and the proxy forwards everything.

use crate::{
    Fault, InformerSet, Load, Proxy, Report, ServerOptions, TestServer,
    load::{make_namespaces, mark},
};
use k8s_openapi::api::core::v1::Namespace;
use keepwatch_informer::{ObjectKey, stats::Counts};
use kube::{Api, Client, api::DeleteParams};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};

/// A disruption of a server that the storm has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// Connections break, and new ones are refused for a while.
    Cut,
    /// Bytes are delayed and cut into small pieces, and stop for a while.
    Slow,
    /// The server's process is killed and started again.
    Killed,
    /// The server is stopped and started again.
    Restarted,
    /// The server keeps hardly any history, and informers are away until the events that they missed are compacted.
    Compacted,
    /// The same, and then the server is killed, so that its watch cache is empty too.
    CompactedAndKilled,
    /// The server is killed, while connections break and bytes are delayed.
    Everything,
}

impl Disruption {
    /// All disruptions.
    pub const ALL: [Disruption; 7] = [
        Disruption::Cut,
        Disruption::Slow,
        Disruption::Killed,
        Disruption::Restarted,
        Disruption::Compacted,
        Disruption::CompactedAndKilled,
        Disruption::Everything,
    ];

    fn options(self) -> ServerOptions {
        use Disruption::*;
        ServerOptions {
            as_process: matches!(self, Killed | CompactedAndKilled | Everything),
            short_history: matches!(self, Compacted | CompactedAndKilled),
            watch_cache: self != Compacted,
        }
    }

    /// Whether every informer has to relist.
    fn compacts_history(self) -> bool {
        matches!(self, Disruption::Compacted | Disruption::CompactedAndKilled)
    }
}

/// The parameters of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The duration. The time until all states are equal comes on top.
    pub lasts: Duration,
    /// The seed of its random numbers.
    pub seed: u64,
    /// Whether a line is printed every few seconds.
    pub prints: bool,
}

/// The interval at which a line is printed.
const PRINT: Duration = Duration::from_secs(5);
/// The time that informers may take to sync.
const SYNC_MAX: Duration = Duration::from_secs(30);
/// The interval at which a client writes and looks for its object in the stores.
const OWN_WRITE: Duration = Duration::from_millis(250);

/// The results of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// The number of writes that succeeded.
    pub writes: u64,
    /// The number of writes that failed, or may have.
    pub failed_writes: u64,
    /// The number of disruptions of the server or the proxy.
    pub disruptions: u64,
    /// The number of connections that were cut.
    pub cuts: u64,
    /// The results of the event checkers.
    pub report: Arc<Report>,
    /// The counters of each informer, and the number of its concurrent watches.
    pub informers: Vec<(String, usize, Counts)>,
}

impl Outcome {
    /// Whether there were no faults.
    pub fn has_passed(&self) -> bool {
        self.report.fault_count() == 0
    }

    /// The number of relists of each informer.
    pub fn relists(&self) -> impl Iterator<Item = (&str, u64)> {
        self.informers
            .iter()
            .map(|(name, parts, counts)| (&**name, counts.states.saturating_sub(*parts as u64)))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { writes, failed_writes, disruptions, cuts, report, informers } = self;
        writeln!(
            f,
            "  {writes} writes, {failed_writes} failed; {disruptions} disruptions, {cuts} connections cut; {} events delivered, \
             {} of several at once; {} late subscribers; {} own writes found",
            report.delivered(),
            report.skipped(),
            report.late_subscribers(),
            report.own_writes(),
        )?;
        for (name, _, counts) in informers {
            let Counts { lists, states, watches, events, errors, .. } = counts;
            write!(
                f,
                "  {name}: {states} states, {lists} of them lists, {watches} watches, {events} events"
            )?;
            for ((phase, class), count) in errors {
                write!(f, ", {count} x {phase} {class}")?;
            }
            writeln!(f)?;
        }
        for fault in report.faults() {
            writeln!(f, "  FAULT {fault}")?;
        }
        match report.fault_count() {
            0 => write!(f, "  all is well"),
            count => write!(f, "  {count} FAULTS"),
        }
    }
}

/// A storm on a server that is started for it.
pub async fn run_storm(disruption: Disruption, options: Options) -> Result<Outcome, Fault> {
    let server = TestServer::start(disruption.options()).await?;
    let proxy = Proxy::start(server.address(), options.seed).await?;
    let direct = server.client(None).await?;
    let proxied = server.client(Some(proxy.address())).await?;
    let rng = StdRng::seed_from_u64(options.seed);
    let mut bed = TestBed { server, proxy, rng, disruptions: 0 };
    let namespaces = make_namespaces(&direct, "storm").await?;
    let outcome = run(&direct, &proxied, &namespaces, options, Some((disruption, &mut bed))).await?;
    if disruption.compacts_history() && bed.disruptions > 0 {
        for (name, relists) in outcome.relists().filter(|(_, relists)| *relists == 0) {
            outcome.report.fault(format!(
                "{name}: {relists} relists, although the events that it missed were compacted"
            ));
        }
    }
    bed.server.end().await?;
    Ok(outcome)
}

/// Writes and informers on a server that runs already, without disruptions. Namespaces are created for that, and deleted
/// again.
pub async fn run_on(client: &Client, options: Options) -> Result<Outcome, Fault> {
    let prefix = format!("storm-{:08x}", rand::random::<u32>());
    let namespaces = make_namespaces(client, &prefix).await?;
    let outcome = tokio::select! {
        outcome = run(client, client, &namespaces, options, None) => outcome,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    let all: Api<Namespace> = Api::all(client.clone());
    for namespace in &namespaces {
        all.delete(namespace, &DeleteParams::default()).await?;
    }
    outcome
}

async fn run(
    direct: &Client,
    proxied: &Client,
    namespaces: &[String],
    options: Options,
    mut disruption: Option<(Disruption, &mut TestBed)>,
) -> Result<Outcome, Fault> {
    let report = Arc::new(Report::default());
    let set = InformerSet::start(proxied, namespaces, &report);
    set.synced(SYNC_MAX).await?;
    let load = Load::start(direct, namespaces, options.seed);
    let began = Instant::now();
    let end = began + options.lasts;
    tokio::select! {
        biased;
        disrupted = async {
            match &mut disruption {
                Some((disruption, bed)) => bed.disrupt(*disruption, end).await,
                None => { sleep_until(end).await; Ok(()) }
            }
        } => disrupted?,
        () = write_and_find(direct, &namespaces[0], &set) => {}
        () = print(&load, &set, &report, began), if options.prints => {}
    }
    load.stop().await;
    let mut version = None;
    for namespace in namespaces {
        let marked = with_retries(|| mark(direct, namespace, "last")).await?;
        version.get_or_insert(marked);
    }
    set.settle(direct, &version.unwrap_or_default()).await?;
    let informers = set.counts();
    set.stop().await;
    let (writes, failed_writes) = load.counts();
    let (disruptions, cuts) = disruption.map_or((0, 0), |(_, bed)| (bed.disruptions, bed.proxy.counts().1));
    Ok(Outcome { writes, failed_writes, disruptions, cuts, report, informers })
}

/// Tries again, because a client may use connections that an earlier server has closed.
async fn with_retries<T>(mut attempt: impl AsyncFnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    for _ in 0..20 {
        if let Ok(done) = attempt().await {
            return Ok(done);
        }
        sleep(Duration::from_millis(100)).await;
    }
    attempt().await
}

async fn write_and_find(client: &Client, namespace: &str, set: &InformerSet) {
    let key = ObjectKey::new(namespace, "own");
    loop {
        if let Ok(version) = mark(client, namespace, "own").await {
            set.find_own_write(&key, &version).await;
        }
        sleep(OWN_WRITE).await;
    }
}

async fn print(load: &Load, set: &InformerSet, report: &Report, began: Instant) {
    loop {
        sleep(PRINT).await;
        let (writes, failed) = load.counts();
        let counts = set.counts();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(|(_, _, counts)| of(counts)).sum::<u64>();
        println!(
            "  {:>4} s: {writes} writes, {failed} failed; {} events delivered; {} watches, {} states; {} faults",
            began.elapsed().as_secs(),
            report.delivered(),
            sum(|counts| counts.watches),
            sum(|counts| counts.states),
            report.fault_count(),
        );
    }
}

/// A server and the proxy in front of it.
struct TestBed {
    server: TestServer,
    proxy: Proxy,
    rng: StdRng,
    disruptions: u64,
}

impl TestBed {
    /// Disrupts until that time, and ends all disruptions then.
    async fn disrupt(&mut self, disruption: Disruption, end: Instant) -> Result<(), Fault> {
        while Instant::now() < end {
            self.disruptions += 1;
            match disruption {
                Disruption::Cut => self.cut().await,
                Disruption::Slow => self.slow().await,
                Disruption::Killed | Disruption::Restarted => {
                    self.restart().await?;
                    self.pause(800, 2500).await;
                }
                Disruption::Compacted => {
                    self.block_clients();
                    self.pause(500, 1200).await;
                    self.unblock_clients().await;
                }
                Disruption::CompactedAndKilled => {
                    self.block_clients();
                    self.pause(500, 1200).await;
                    self.restart().await?;
                    self.unblock_clients().await;
                }
                Disruption::Everything => match self.rng.random_range(0..6) {
                    0 => self.restart().await?,
                    1 | 2 => self.slow().await,
                    _ => self.cut().await,
                },
            }
        }
        self.proxy.restore();
        self.server.resume().await
    }

    async fn pause(&mut self, shortest_ms: u64, longest_ms: u64) {
        sleep(Duration::from_millis(self.rng.random_range(shortest_ms..=longest_ms))).await;
    }

    async fn cut(&mut self) {
        self.pause(50, 500).await;
        if self.rng.random_bool(0.15) {
            self.proxy.listen(false);
            self.proxy.cut(1.0);
            self.pause(100, 1200).await;
            self.proxy.listen(true);
        } else {
            self.proxy.cut(0.3);
        }
    }

    async fn slow(&mut self) {
        self.proxy.delay(Duration::from_millis(self.rng.random_range(1..=8)));
        self.pause(300, 1500).await;
        self.proxy.flow(false);
        self.pause(50, 1500).await;
        self.proxy.flow(true);
        if self.rng.random_bool(0.3) {
            self.proxy.cut(0.2);
        }
        if self.rng.random_bool(0.3) {
            self.proxy.delay(Duration::ZERO);
            self.pause(100, 500).await;
        }
    }

    async fn restart(&mut self) -> Result<(), Fault> {
        self.server.end().await?;
        self.pause(0, 400).await;
        self.server.resume().await
    }

    /// Writes do not use the proxy, so informers miss many events.
    fn block_clients(&self) {
        self.proxy.listen(false);
        self.proxy.cut(1.0);
    }

    async fn unblock_clients(&mut self) {
        self.proxy.listen(true);
        self.pause(1000, 2500).await;
    }
}
