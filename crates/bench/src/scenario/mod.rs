//! The kinds of load. Each is described where it is run.

mod definitions;
mod list;
mod mixed;
mod slow;
mod start;
mod sync;
mod watch;
mod write;

use crate::{
    Failure,
    cluster::Connection,
    delivery::Writes,
    drive::{DriveResult, Pace, Request, clients, drive},
    results::{Check, Figure, Row},
    run::Run,
    watchers::Watchers,
};
use std::{fmt, str::FromStr, sync::Arc, time::Duration};
use tokio::time::sleep;

pub use slow::SHORT_HISTORY_FLAG;
pub(crate) use write::fill;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Definitions of custom kinds are created and deleted.
    Definitions,
    /// Servers start.
    Start,
    /// The memory of servers.
    Memory,
    /// Creates all objects.
    Fill,
    /// Lists them in every way.
    List,
    /// Creates, updates, patches and deletes.
    Write,
    /// Many watch everything.
    FanOut,
    /// Many watch one object each.
    Selective,
    /// Some of many read slowly.
    Slow,
    /// Many do not read for a while.
    Stalled,
    /// Many watch, and nothing happens.
    Idle,
    /// Many come back at once.
    Resume,
    /// Connections come and go.
    Churn,
    /// Informers fetch everything.
    Sync,
    /// A day in a cluster's life.
    Mixed,
}

/// The results of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) checks: Vec<Check>,
}

impl Scenario {
    /// All scenarios, in the best order to run them.
    pub const ALL: [Scenario; 15] = [
        Scenario::Fill,
        Scenario::Start,
        Scenario::Memory,
        // Before much was written and freed, when there is no free memory yet to reuse.
        Scenario::Idle,
        Scenario::List,
        Scenario::FanOut,
        Scenario::Selective,
        Scenario::Slow,
        Scenario::Stalled,
        Scenario::Resume,
        Scenario::Write,
        Scenario::Churn,
        Scenario::Sync,
        Scenario::Mixed,
        Scenario::Definitions,
    ];

    /// As it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Definitions => "definitions",
            Scenario::Start => "start",
            Scenario::Memory => "memory",
            Scenario::Fill => "fill",
            Scenario::List => "list",
            Scenario::Write => "write",
            Scenario::FanOut => "fan-out",
            Scenario::Selective => "selective",
            Scenario::Slow => "slow",
            Scenario::Stalled => "stalled",
            Scenario::Idle => "idle",
            Scenario::Resume => "resume",
            Scenario::Churn => "churn",
            Scenario::Sync => "sync",
            Scenario::Mixed => "mixed",
        }
    }

    /// A description for the help and the reports.
    pub fn about(self) -> &'static str {
        match self {
            Scenario::Definitions => {
                "Creates definitions of custom kinds: how long until one is served, and what many cost that nobody uses."
            }
            Scenario::Start => {
                "Starts servers until they are ready: for the first time, again, and with the objects. Without --kubeconfig."
            }
            Scenario::Memory => {
                "What a server that was started for this holds: empty, and with the objects. Without --kubeconfig."
            }
            Scenario::Fill => "Creates the objects that the other scenarios work on.",
            Scenario::List => "Reads all objects, in the ways clients do it.",
            Scenario::Write => "Creates, updates, patches and deletes objects as fast as they are answered.",
            Scenario::FanOut => {
                "All watchers watch all objects while objects change. An event is one change, delivered to one watcher."
            }
            Scenario::Selective => {
                "Every watcher watches one object of its own, so that a change is delivered to one of all watchers."
            }
            Scenario::Slow => {
                "Some watchers read too slowly to keep up, then read on; no watcher should miss an event because of it."
            }
            Scenario::Stalled => {
                "All watchers read nothing while objects change, then read on; the server's memory should not grow with them."
            }
            Scenario::Idle => {
                "All watchers watch, and nothing changes: what a watcher costs that receives nothing."
            }
            Scenario::Resume => {
                "All watchers lose their connections, objects change, and all come back at once for what they missed."
            }
            Scenario::Churn => "Connections are made for a single request each, as by scripts.",
            Scenario::Sync => "Informers start at the same time and fetch everything.",
            Scenario::Mixed => {
                "A day in a cluster's life: leases are renewed, workloads come and go, controllers and nodes watch."
            }
        }
    }

    /// Whether it starts servers itself, which is not possible with a kubeconfig of one that runs.
    pub fn starts_servers(self) -> bool {
        matches!(self, Scenario::Start | Scenario::Memory)
    }

    /// Whether its watchers should fall behind the watch cache of a server that is started for the run: then the server
    /// gets [`SHORT_HISTORY_FLAG`].
    pub fn needs_short_history(self) -> bool {
        matches!(self, Scenario::Slow | Scenario::Stalled | Scenario::Resume)
    }

    pub(crate) async fn run(self, run: &Arc<Run>) -> Result<Outcome, Failure> {
        match self {
            Scenario::Definitions => definitions::definitions(run).await,
            Scenario::Start => start::start(run).await,
            Scenario::Memory => start::memory(run).await,
            Scenario::Fill => write::fill(run).await,
            Scenario::List => list::list(run).await,
            Scenario::Write => write::write(run).await,
            Scenario::FanOut => watch::fan_out(run).await,
            Scenario::Selective => watch::selective(run).await,
            Scenario::Slow => slow::slow(run).await,
            Scenario::Stalled => slow::stalled(run).await,
            Scenario::Idle => watch::idle(run).await,
            Scenario::Resume => watch::resume(run).await,
            Scenario::Churn => write::churn(run).await,
            Scenario::Sync => sync::sync(run).await,
            Scenario::Mixed => mixed::mixed(run).await,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Scenario::ALL.into_iter().find(|scenario| scenario.name() == name).ok_or_else(|| {
            let names: Vec<_> = Scenario::ALL.iter().map(|scenario| scenario.name()).collect();
            format!("there is no scenario {name:?}; there are {}", names.join(", "))
        })
    }
}

/// The claim that is checked in every scenario with watchers.
const COMPLETE: &str = "every watcher saw every event that concerns it, once and in order";
/// The claim that is checked wherever requests are sent.
const ANSWERED: &str = "every request was answered as it should be";

/// Whether requests went well.
fn answered(driven: &[&DriveResult]) -> Check {
    Check {
        claim: ANSWERED.to_owned(),
        checked: driven.iter().map(|driven| driven.count + driven.failed).sum(),
        faults: driven.iter().map(|driven| driven.failed).sum(),
        first_fault: driven.iter().find_map(|driven| driven.first_failure.clone()),
    }
}

fn figure(name: &str, value: f64, unit: &str, less_is_better: Option<bool>) -> Figure {
    Figure { name: name.to_owned(), value, unit: unit.to_owned(), less_is_better }
}

/// Reports the requests that there was no time for, if any: the pace was more than the server or the client can do.
fn report_unsent(row: &mut Row, driven: &DriveResult) {
    if driven.unsent > 0 {
        let name = "not sent, as the pace was too fast";
        row.figures.push(figure(name, driven.unsent as f64, "requests", Some(true)));
    }
}

/// Reports the watches that ended, if any did: a watcher resumes, but that is more work for the server that ended it.
fn report_cuts(row: &mut Row, watchers: &Watchers) {
    if watchers.cuts() > 0 {
        row.figures.push(figure("watches that were cut", watchers.cuts() as f64, "", Some(true)));
    }
}

/// Sends requests by so many clients and measures them as one row.
async fn measured(
    run: &Arc<Run>,
    name: &str,
    unit: &str,
    request: Request,
    concurrency: usize,
    pace: Pace,
    written: &Arc<Writes>,
) -> Result<(Row, DriveResult), Failure> {
    run.progress.set_message(name.to_owned());
    let clients = clients(run, concurrency).await?;
    let meter = run.meter();
    let driven = drive(run, clients, request, pace, written, &meter.latencies).await?;
    Ok((meter.row(name, unit, driven.count, driven.failed), driven))
}

/// The time after which a server has settled after connections were opened or closed.
const SETTLING: Duration = Duration::from_secs(1);

/// Clients for writes, once all is quiet.
async fn writers(run: &Run) -> Result<Vec<Connection>, Failure> {
    let writers = clients(run, run.options.concurrency).await?;
    sleep(SETTLING).await;
    Ok(writers)
}
