//! A storm: a server, a way to it, writes, informers, and what befalls them.
//!
//! Kept true: whatever befell, in the end the server runs and the way to it is free before anybody is compared with
//! anything.

use crate::{
    Fault, Fleet, Load, Owned, Proxy, Report, Setting,
    load::{make_namespaces, mark},
};
use k8s_openapi::api::core::v1::Namespace;
use keepwatch_informer::{ObjectKey, stats::Counts};
use kube::{Api, Client, api::DeleteParams};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};

/// What befalls a server of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Connections break, and nobody answers for a while.
    Cut,
    /// Bytes come late and in small pieces, and stop for a while.
    Slow,
    /// The server's process is killed and started again.
    Killed,
    /// The server is stopped and started again.
    Restarted,
    /// The server keeps hardly any history, and informers are away until what they missed is forgotten.
    Compacted,
    /// The same, and then the server is killed, so that its watch cache forgets too.
    Forgotten,
    /// The server is killed, while connections break and bytes come late.
    Everything,
}

impl Weather {
    /// All there are.
    pub const ALL: [Weather; 7] = [
        Weather::Cut,
        Weather::Slow,
        Weather::Killed,
        Weather::Restarted,
        Weather::Compacted,
        Weather::Forgotten,
        Weather::Everything,
    ];

    fn setting(self) -> Setting {
        use Weather::*;
        Setting {
            as_process: matches!(self, Killed | Forgotten | Everything),
            short_history: matches!(self, Compacted | Forgotten),
            watch_cache: self != Compacted,
        }
    }

    /// Whether every informer has to fetch the whole state again.
    fn makes_all_relist(self) -> bool {
        matches!(self, Weather::Compacted | Weather::Forgotten)
    }
}

/// How a storm is to be.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long it lasts. Whatever has to settle comes on top.
    pub lasts: Duration,
    /// What chance begins with.
    pub seed: u64,
    /// Whether a line is printed every few seconds.
    pub prints: bool,
}

/// How often a line is printed.
const PRINT: Duration = Duration::from_secs(5);
/// How long informers may take to know the first state.
const SYNC_MAX: Duration = Duration::from_secs(30);
/// How often somebody writes and looks for it in the stores.
const OWN_WRITE: Duration = Duration::from_millis(250);

/// What came of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// How many writes were done.
    pub writes: u64,
    /// How many failed, or may have.
    pub failed_writes: u64,
    /// How often something befell the server or the way to it.
    pub blows: u64,
    /// How many connections were cut.
    pub cuts: u64,
    /// What everybody saw.
    pub report: Arc<Report>,
    /// What each informer did, and how many watches it has at a time.
    pub informers: Vec<(String, usize, Counts)>,
}

impl Outcome {
    /// Whether all was as promised.
    pub fn is_well(&self) -> bool {
        self.report.fault_count() == 0
    }

    /// For each informer how often it fetched the whole state again.
    pub fn relists(&self) -> impl Iterator<Item = (&str, u64)> {
        self.informers
            .iter()
            .map(|(name, parts, counts)| (&**name, counts.states.saturating_sub(*parts as u64)))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { writes, failed_writes, blows, cuts, report, informers } = self;
        writeln!(
            f,
            "  {writes} writes, {failed_writes} failed; {blows} blows, {cuts} connections cut; {} events told, \
             {} of several at once; {} guests; {} own writes found",
            report.told(),
            report.skipped(),
            report.visits(),
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

/// A storm on a server of one's own.
pub async fn ride(weather: Weather, options: Options) -> Result<Outcome, Fault> {
    let server = Owned::start(weather.setting()).await?;
    let proxy = Proxy::start(server.address(), options.seed).await?;
    let near = server.client(None).await?;
    let far = server.client(Some(proxy.address())).await?;
    let rng = StdRng::seed_from_u64(options.seed);
    let mut sea = Sea { server, proxy, rng, blows: 0 };
    let namespaces = make_namespaces(&near, "storm").await?;
    let outcome = shake(&near, &far, &namespaces, options, Some((weather, &mut sea))).await?;
    if weather.makes_all_relist() && sea.blows > 0 {
        for (name, relists) in outcome.relists().filter(|(_, relists)| *relists == 0) {
            outcome.report.fault(format!("{name}: {relists} relists, although what it missed was forgotten"));
        }
    }
    sea.server.end().await?;
    Ok(outcome)
}

/// Writes and informers on somebody else's server, where nothing is broken on purpose. Namespaces are made for that, and
/// deleted again.
pub async fn visit(client: &Client, options: Options) -> Result<Outcome, Fault> {
    let prefix = format!("storm-{:08x}", rand::random::<u32>());
    let namespaces = make_namespaces(client, &prefix).await?;
    let outcome = tokio::select! {
        outcome = shake(client, client, &namespaces, options, None) => outcome,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    let all: Api<Namespace> = Api::all(client.clone());
    for namespace in &namespaces {
        all.delete(namespace, &DeleteParams::default()).await?;
    }
    outcome
}

async fn shake(
    near: &Client,
    far: &Client,
    namespaces: &[String],
    options: Options,
    mut weather: Option<(Weather, &mut Sea)>,
) -> Result<Outcome, Fault> {
    let report = Arc::new(Report::default());
    let fleet = Fleet::launch(far, namespaces, &report);
    fleet.synced(SYNC_MAX).await?;
    let load = Load::start(near, namespaces, options.seed);
    let began = Instant::now();
    let end = began + options.lasts;
    tokio::select! {
        biased;
        blown = async {
            match &mut weather {
                Some((weather, sea)) => sea.blow(*weather, end).await,
                None => { sleep_until(end).await; Ok(()) }
            }
        } => blown?,
        () = write_and_find(near, &namespaces[0], &fleet) => {}
        () = print(&load, &fleet, &report, began), if options.prints => {}
    }
    load.stop().await;
    let mut version = None;
    for namespace in namespaces {
        let marked = patiently(|| mark(near, namespace, "last")).await?;
        version.get_or_insert(marked);
    }
    fleet.settle(near, &version.unwrap_or_default()).await?;
    let informers = fleet.counts();
    fleet.stop().await;
    let (writes, failed_writes) = load.counts();
    let (blows, cuts) = weather.map_or((0, 0), |(_, sea)| (sea.blows, sea.proxy.counts().1));
    Ok(Outcome { writes, failed_writes, blows, cuts, report, informers })
}

/// A client keeps connections that a server which is no more has closed.
async fn patiently<T>(mut attempt: impl AsyncFnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    for _ in 0..20 {
        if let Ok(done) = attempt().await {
            return Ok(done);
        }
        sleep(Duration::from_millis(100)).await;
    }
    attempt().await
}

async fn write_and_find(client: &Client, namespace: &str, fleet: &Fleet) {
    let key = ObjectKey::new(namespace, "own");
    loop {
        if let Ok(version) = mark(client, namespace, "own").await {
            fleet.find_own_write(&key, &version).await;
        }
        sleep(OWN_WRITE).await;
    }
}

async fn print(load: &Load, fleet: &Fleet, report: &Report, began: Instant) {
    loop {
        sleep(PRINT).await;
        let (writes, failed) = load.counts();
        let counts = fleet.counts();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(|(_, _, counts)| of(counts)).sum::<u64>();
        println!(
            "  {:>4} s: {writes} writes, {failed} failed; {} events told; {} watches, {} states; {} faults",
            began.elapsed().as_secs(),
            report.told(),
            sum(|counts| counts.watches),
            sum(|counts| counts.states),
            report.fault_count(),
        );
    }
}

/// A server and the way to it.
struct Sea {
    server: Owned,
    proxy: Proxy,
    rng: StdRng,
    blows: u64,
}

impl Sea {
    /// Goes on until that time, and leaves everything whole.
    async fn blow(&mut self, weather: Weather, end: Instant) -> Result<(), Fault> {
        while Instant::now() < end {
            self.blows += 1;
            match weather {
                Weather::Cut => self.cut().await,
                Weather::Slow => self.slow().await,
                Weather::Killed | Weather::Restarted => {
                    self.restart().await?;
                    self.pause(800, 2500).await;
                }
                Weather::Compacted => {
                    self.keep_away();
                    self.pause(500, 1200).await;
                    self.let_in().await;
                }
                Weather::Forgotten => {
                    self.keep_away();
                    self.pause(500, 1200).await;
                    self.restart().await?;
                    self.let_in().await;
                }
                Weather::Everything => match self.rng.random_range(0..6) {
                    0 => self.restart().await?,
                    1 | 2 => self.slow().await,
                    _ => self.cut().await,
                },
            }
        }
        self.proxy.calm();
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

    /// Writes do not go this way, so much is missed.
    fn keep_away(&self) {
        self.proxy.listen(false);
        self.proxy.cut(1.0);
    }

    async fn let_in(&mut self) {
        self.proxy.listen(true);
        self.pause(1000, 2500).await;
    }
}
