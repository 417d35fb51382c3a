//! Servers that are started for this scenario alone: the time until they are ready, and their memory.
//!
//! They are started with the same options and storage as the server of the other scenarios, in directories of their own
//! that are removed afterwards. A server that was already running cannot be started here, so neither scenario is for
//! one.

use super::{Outcome, SETTLING, figure, fill};
use crate::{
    Failure,
    latency::Latencies,
    results::{Check, Memory, Row},
    run::Run,
    target::{OwnServer, Started, Target},
    usage::{Processes, Usage},
};
use std::{path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::time::sleep;

/// The number of starts of each kind: a few say little, since each takes milliseconds.
const STARTS: usize = 10;
/// The number of servers without objects that are measured. They differ by what the allocator holds.
const EMPTY_SERVERS: usize = 3;
/// The storage that is in the directory, so that a second start there reads the objects.
const EMBEDDED: &str = "embedded";
/// The storage that other servers share: it has the objects of the server of the other scenarios.
const ETCD: &str = "etcd";

pub(super) async fn start(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let own = own(run)?;
    let (mut first, mut again) = (Starts::default(), Starts::default());
    for _ in 0..STARTS {
        let directory = directory(&own)?;
        first.add(start_in(&own, directory.path()).await?).await?;
        again.add(start_in(&own, directory.path()).await?).await?;
    }
    let mut rows =
        vec![first.row("first start, which issues certificates"), again.row("start in the same directory")];
    if is_embedded(&own) {
        let directory = directory(&own)?;
        filled(run, &own, directory.path()).await?.stop().await?;
        let mut with_objects = Starts::default();
        for _ in 0..STARTS {
            with_objects.add(start_in(&own, directory.path()).await?).await?;
        }
        rows.push(with_objects.row(&format!("start with {} objects", run.options.objects)));
    }
    let count = rows.iter().map(|row| row.count).sum();
    Ok(Outcome { rows, checks: vec![started(count)] })
}

pub(super) async fn memory(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let own = own(run)?;
    let objects = run.options.objects;
    let mut rows = Vec::new();
    if own.storage == ETCD {
        let directory = directory(&own)?;
        let server = start_in(&own, directory.path()).await?;
        rows.push(memory_row(run, &format!("{objects} objects, read from etcd"), &server).await?);
        server.stop().await?;
        return Ok(Outcome { rows, checks: vec![started(1)] });
    }
    let mut empty = Vec::new();
    for _ in 0..EMPTY_SERVERS {
        let directory = directory(&own)?;
        let server = start_in(&own, directory.path()).await?;
        empty.push(memory_row(run, "no objects", &server).await?);
        server.stop().await?;
    }
    empty.sort_by_key(resident);
    rows.push(empty.swap_remove(EMPTY_SERVERS / 2));
    let directory = directory(&own)?;
    let server = filled(run, &own, directory.path()).await?;
    rows.push(memory_row(run, &format!("{objects} objects, just created"), &server).await?);
    server.stop().await?;
    if is_embedded(&own) {
        let server = start_in(&own, directory.path()).await?;
        rows.push(memory_row(run, &format!("{objects} objects, read at the start"), &server).await?);
        server.stop().await?;
    }
    let none = resident(&rows[0]);
    for row in rows.iter_mut().skip(1).filter(|_| objects > 0) {
        let each = resident(row).saturating_sub(none) as f64 / objects as f64;
        row.figures.push(figure("memory for each object", each, "bytes", Some(true)));
    }
    let servers = EMPTY_SERVERS as u64 + rows.len() as u64 - 1;
    Ok(Outcome { rows, checks: vec![started(servers)] })
}

/// Whether a second start in a directory reads what the first server kept there.
pub(super) fn is_embedded(own: &OwnServer) -> bool {
    own.storage == EMBEDDED
}

/// The options for starting such servers.
fn own(run: &Run) -> Result<OwnServer, Failure> {
    match &run.options.target {
        Target::Own(own) => Ok(own.clone()),
        Target::Cluster { .. } => Err(Failure::new(
            "a server that runs already is not started: this is measured without --kubeconfig",
        )),
    }
}

/// In the data directory of the server of the other scenarios, if one was chosen: there the disk is the same.
pub(super) fn directory(own: &OwnServer) -> Result<TempDir, Failure> {
    let made = match &own.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    made.map_err(Failure::at("no directory can be made"))
}

/// With the default limits, even if other scenarios need other ones.
pub(super) async fn start_in(own: &OwnServer, directory: &Path) -> Result<Started, Failure> {
    let flags = own.flags.iter().filter(|flag| *flag != super::SHORT_HISTORY_FLAG).cloned().collect();
    OwnServer { directory: Some(directory.to_owned()), flags, ..own.clone() }.start().await
}

/// A server with the objects of the run.
async fn filled(run: &Run, own: &OwnServer, directory: &Path) -> Result<Started, Failure> {
    run.progress.set_message("filling a server");
    let server = start_in(own, directory).await?;
    let load = run.on(&server).await?;
    load.prepare().await?;
    fill(&load).await?;
    Ok(server)
}

/// Some starts of the same kind.
#[derive(Default)]
pub(super) struct Starts {
    count: u64,
    latencies: Latencies,
    total: Duration,
    cpu: Option<Duration>,
}

impl Starts {
    /// Counts a start and ends the server.
    pub(super) async fn add(&mut self, server: Started) -> Result<(), Failure> {
        self.count += 1;
        self.total += server.until_ready;
        self.latencies.record(0, server.until_ready.as_micros() as u64);
        if let Some(usage) = usage(&server)? {
            self.cpu = Some(self.cpu.unwrap_or_default() + usage.cpu);
        }
        server.stop().await
    }

    pub(super) fn row(&self, name: &str) -> Row {
        Row {
            name: name.to_owned(),
            unit: "start".to_owned(),
            count: self.count,
            seconds: self.total.as_secs_f64(),
            latency: self.latencies.summary(),
            cpu_micros_each: self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.count as f64),
            ..Row::default()
        }
    }
}

/// The memory of a server that has settled.
async fn memory_row(run: &Run, name: &str, server: &Started) -> Result<Row, Failure> {
    run.progress.set_message(name.to_owned());
    run.on(server).await?.version().await?;
    sleep(SETTLING).await;
    let mut row = Row { name: name.to_owned(), unit: "server".to_owned(), count: 1, ..Row::default() };
    if let Some(Usage { resident_bytes, anonymous_bytes, .. }) = usage(server)? {
        let (before_bytes, after_bytes, peak_bytes) = (resident_bytes, resident_bytes, resident_bytes);
        row.memory = Some(Memory { before_bytes, after_bytes, peak_bytes });
        let allocated = "allocated by the process, not mapped from a file";
        row.figures = vec![figure(allocated, anonymous_bytes as f64, "bytes", Some(true))];
    }
    Ok(row)
}

fn usage(server: &Started) -> Result<Option<Usage>, Failure> {
    Ok(Processes::new(vec![server.process])?.usage())
}

fn resident(row: &Row) -> u64 {
    row.memory.map_or(0, |memory| memory.after_bytes)
}

/// The starts that failed have ended the scenario.
fn started(count: u64) -> Check {
    let claim = "every server was ready, and ended when it was asked to".to_owned();
    Check { claim, checked: count, faults: 0, first_fault: None }
}
