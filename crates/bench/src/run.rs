//! A run: some scenarios, one after another, at one server.
//!
//! Kept true: a run deletes everything that it has created, also if it fails or is stopped.

use crate::{
    Failure, ObjectKind, Protocol, Scenario, Target,
    cluster::{Cluster, RequestError},
    custom,
    events::{text_after, version_in},
    latency::Latencies,
    objects::Objects,
    progress::Progress,
    results::{self, Check, Load, Memory, Results, Row},
    scenario,
    target::{self, Started},
    usage::{self, Processes, Sampler, Usage},
};
use bytes::Bytes;
use http::{Method, StatusCode};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::CancellationToken;

/// The server to measure, and the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub target: Target,
    /// The title of the results; the server's name if empty.
    pub title: String,
    /// The command line, which the results show.
    pub command: String,
    /// The scenarios, in this order.
    pub scenarios: Vec<Scenario>,
    /// The kind of the objects.
    pub kind: ObjectKind,
    /// The number of objects.
    pub objects: usize,
    /// The size of each.
    pub object_bytes: usize,
    /// The number of definitions of custom kinds where they are measured.
    pub definitions: usize,
    /// The number of namespaces that the objects are spread over.
    pub namespaces: usize,
    /// The number of watchers.
    pub watchers: usize,
    /// The number of informers that sync at once.
    pub informers: usize,
    /// The number of clients that write or list at a time.
    pub concurrency: usize,
    /// The number of writes per second where watchers are measured.
    pub rate: f64,
    /// The duration of a scenario.
    pub duration: Duration,
    /// The share of slow watchers among the others, between 0 and 1.
    pub slow_share: f64,
    /// The number of bytes per second that a slow watcher reads.
    pub slow_bytes: f64,
    /// The protocol.
    pub protocol: Protocol,
    /// Whether a progress bar is displayed.
    pub shows_progress: bool,
}

impl Options {
    fn defines_kinds(&self) -> bool {
        self.kind == ObjectKind::Custom || self.scenarios.contains(&Scenario::Definitions)
    }
}

/// The time that the definition of the objects' kind may take until it is served.
const DEFINED_MAX: Duration = Duration::from_secs(30);
/// The pause between two checks whether it is served.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The state that scenarios share.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) cluster: Cluster,
    pub(crate) objects: Objects,
    pub(crate) sampler: Sampler,
    pub(crate) progress: Progress,
    pub(crate) stop: CancellationToken,
    /// The number of namespaces that may have been created.
    made: AtomicUsize,
}

/// Runs the scenarios. If it is stopped, it returns the results so far.
pub async fn run(options: Options, stop: CancellationToken) -> Result<Results, Failure> {
    target::check(&options.target, options.protocol)?;
    let (config, processes, storage, _started) = match options.target.clone() {
        Target::Cluster { config, processes } => (*config, processes, None, None),
        Target::Own(own) => {
            let started = own.start().await?;
            let processes = [vec![started.process], own.other_processes].concat();
            (started.config.clone(), processes, Some(own.storage), Some(started))
        }
    };
    let cluster = Cluster::new(config, options.protocol).await?;
    let processes = Processes::new(processes)?;
    let began = Instant::now();
    let (since, wall) =
        (jiff::Timestamp::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let name = format!("kwb-{:x}", wall.as_millis());
    let objects = Objects::new(options.kind, name, options.namespaces, options.object_bytes, began);
    let server = results::Server {
        url: cluster.url(),
        version: version(&cluster).await?,
        storage,
        processes: processes.names(),
    };
    let progress = Progress::new(options.scenarios.len(), options.shows_progress);
    let sampler = Sampler::start(processes, began);
    let run = Arc::new(Run { options, cluster, objects, sampler, progress, stop, made: AtomicUsize::new(0) });
    let scenarios = match run.prepare().await {
        Ok(()) => run.scenarios(began).await,
        Err(failure) => Err(failure),
    };
    run.progress.set_message("cleaning up");
    let cleaned = run.clean().await;
    run.progress.clear();
    let left = run.cleanup_check(cleaned);
    let mut scenarios = scenarios.map_err(|failure| match &left.first_fault {
        Some(left) => Failure::new(format!("{failure}; what was created may be there still: {left}")),
        None => failure,
    })?;
    if let Some(last) = scenarios.last_mut() {
        last.checks.push(left);
    }
    Ok(Results {
        format: results::FORMAT,
        title: run.title(&server),
        command: run.options.command.clone(),
        measured_by: env!("CARGO_PKG_VERSION").to_owned(),
        began: since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        machine: usage::machine(),
        load: run.load(),
        scenarios,
        timeline: run.sampler.timeline(),
        server,
    })
}

async fn version(cluster: &Cluster) -> Result<String, Failure> {
    let answer = cluster.connect().await?.get("/version").await?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).map_err(Failure::at("/version"))?;
    Ok(answer["gitVersion"].as_str().unwrap_or("unknown").to_owned())
}

impl Run {
    /// Fails only if nothing was measured. A failure that ends a run early becomes a failed check.
    async fn scenarios(self: &Arc<Self>, began: Instant) -> Result<Vec<results::Scenario>, Failure> {
        let since = |began: Instant| began.elapsed().as_millis() as u64;
        let mut all = Vec::new();
        if !self.options.scenarios.contains(&Scenario::Fill) {
            self.progress.begins("fill");
            scenario::fill(self).await?;
        }
        for scenario in in_order(&self.options.scenarios) {
            self.progress.begins(scenario.name());
            let began_ms = since(began);
            let ended = tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(Failure::new("it was interrupted")),
                ended = scenario.run(self) => ended,
            };
            let is_over = ended.is_err();
            let scenario::Outcome { rows, checks } = match ended {
                Ok(outcome) => outcome,
                Err(failure) if all.is_empty() && !self.stop.is_cancelled() => return Err(failure),
                Err(failure) => scenario::Outcome { rows: Vec::new(), checks: vec![aborted(&failure)] },
            };
            let (name, about) = (scenario.name().to_owned(), scenario.about().to_owned());
            all.push(results::Scenario { name, about, began_ms, ended_ms: since(began), rows, checks });
            self.progress.ends();
            if is_over {
                break;
            }
        }
        Ok(all)
    }

    fn title(&self, server: &results::Server) -> String {
        match (self.options.title.as_str(), &server.storage) {
            ("", Some(storage)) => format!("keepwatch, {storage}"),
            ("", None) => server.version.clone(),
            (title, _) => title.to_owned(),
        }
    }

    fn load(&self) -> Load {
        let options = &self.options;
        Load {
            kind: Some(options.kind.to_string()),
            objects: options.objects,
            object_bytes: self.objects.bytes(),
            namespaces: options.namespaces,
            watchers: options.watchers,
            informers: Some(options.informers),
            slow_share: Some(options.slow_share),
            slow_bytes: Some(options.slow_bytes),
            concurrency: options.concurrency,
            rate: Some(options.rate),
            seconds: options.duration.as_secs_f64(),
            protocol: options.protocol.to_string(),
            is_tls: self.cluster.is_tls(),
        }
    }

    /// The same load, for another server that was started for it. Nothing has been created there yet.
    pub(crate) async fn on(&self, server: &Started) -> Result<Arc<Run>, Failure> {
        let processes = Processes::new(vec![server.process])?;
        Ok(Arc::new(Run {
            options: self.options.clone(),
            cluster: Cluster::new(server.config.clone(), self.options.protocol).await?,
            objects: self.objects.clone(),
            sampler: Sampler::start(processes, Instant::now()),
            progress: Progress::hidden(),
            stop: self.stop.clone(),
            made: AtomicUsize::new(0),
        }))
    }

    /// Creates what objects need.
    pub(crate) async fn prepare(&self) -> Result<(), Failure> {
        if self.options.kind == ObjectKind::Custom {
            self.define().await?;
        }
        self.make_namespaces().await
    }

    /// Defines the kind of the objects, and waits until it is served.
    async fn define(&self) -> Result<(), Failure> {
        let json = custom::definition_of_records(self.objects.run(), &self.objects.labels());
        let mut connection = self.cluster.connect().await?;
        connection.ask(Method::POST, custom::DEFINITIONS, json).await?;
        let (path, began) = (self.objects.all(), Instant::now());
        loop {
            match connection.get(&path).await {
                Ok(_) => return Ok(()),
                Err(_) if began.elapsed() < DEFINED_MAX => tokio::time::sleep(POLL_INTERVAL).await,
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    async fn make_namespaces(&self) -> Result<(), Failure> {
        let mut connection = self.cluster.connect().await?;
        for name in self.objects.namespaces().take_while(|_| !self.stop.is_cancelled()) {
            self.made.fetch_add(1, Relaxed);
            let json = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
            connection.ask(Method::POST, "/api/v1/namespaces", json).await?;
            if self.options.kind == ObjectKind::Pods {
                // Some servers require it for pods, and there may be no controller that creates it.
                let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
                let json = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
                match connection.ask(Method::POST, &path, json).await {
                    Ok(_) | Err(RequestError::Answer(StatusCode::CONFLICT, _)) => {}
                    Err(refused) => return Err(refused.into()),
                }
            }
        }
        Ok(())
    }

    /// Deletes the objects first: where no controller empties namespaces, they would stay. Continues after a failure,
    /// and returns the first.
    async fn clean(&self) -> Result<(), Failure> {
        let mut connection = self.cluster.connect().await?;
        let label = self.objects.label();
        let mut first = Ok(());
        for name in self.made() {
            for path in [
                format!("{}?labelSelector={label}", self.objects.collection_in(&name)),
                format!("/apis/coordination.k8s.io/v1/namespaces/{name}/leases?labelSelector={label}"),
                format!("/api/v1/namespaces/{name}"),
            ] {
                match connection.ask(Method::DELETE, &path, Bytes::new()).await {
                    Ok(_) | Err(RequestError::Answer(StatusCode::NOT_FOUND | StatusCode::CONFLICT, _)) => {}
                    Err(refused @ RequestError::Broken(_)) => return first.and(Err(refused.into())),
                    Err(refused) => first = first.and(Err(refused.into())),
                }
            }
        }
        // Deleting none succeeds too, but not for every user who may run this.
        if self.options.defines_kinds() {
            let path = format!("{}?labelSelector={label}", custom::DEFINITIONS);
            first = first.and(
                connection.ask(Method::DELETE, &path, Bytes::new()).await.map(drop).map_err(Failure::from),
            );
        }
        first
    }

    /// The namespaces that may exist.
    fn made(&self) -> impl Iterator<Item = String> + use<> {
        self.objects.namespaces().take(self.made.load(Relaxed))
    }

    /// The check that everything was deleted; a fault names the namespaces.
    fn cleanup_check(&self, cleaned: Result<(), Failure>) -> Check {
        let names: Vec<_> = self.made().collect();
        let which = match &*names {
            [] => String::new(),
            [only] => format!("namespace {only}"),
            [first, .., last] => format!("namespaces {first} to {last}"),
        };
        Check {
            claim: "what was created was deleted".to_owned(),
            checked: names.len() as u64,
            faults: u64::from(cleaned.is_err()),
            first_fault: cleaned.err().map(|failure| format!("look for {which}: {failure}")),
        }
    }

    /// The current resource version.
    pub(crate) async fn version(&self) -> Result<u64, Failure> {
        let path = format!("{}?limit=1", self.objects.all());
        let list = self.cluster.connect().await?.get(&path).await?;
        version_in(&list).ok_or_else(|| {
            let kind = text_after(&list, br#""kind":""#).unwrap_or("something else");
            Failure::new(format!("a list has no version: the server sent {kind}"))
        })
    }

    /// Begins a measurement.
    pub(crate) fn meter(&self) -> Meter<'_> {
        self.sampler.reset_peak();
        Meter { run: self, began: self.now(), ended: None, latencies: Arc::default() }
    }

    pub(crate) fn now(&self) -> UsageSnapshot {
        UsageSnapshot { at: Instant::now(), usage: self.sampler.usage() }
    }
}

/// The check of a run that ended early.
fn aborted(failure: &Failure) -> Check {
    let claim = "the run went on to its end".to_owned();
    Check { claim, checked: 1, faults: 1, first_fault: Some(failure.to_string()) }
}

/// Creates the objects once, before they are used.
fn in_order(scenarios: &[Scenario]) -> Vec<Scenario> {
    let others = scenarios.iter().copied().filter(|scenario| *scenario != Scenario::Fill);
    let fill = scenarios.contains(&Scenario::Fill).then_some(Scenario::Fill);
    fill.into_iter().chain(others).collect()
}

/// A point in time, and the server's usage up to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsageSnapshot {
    pub(crate) at: Instant,
    pub(crate) usage: Option<Usage>,
}

impl UsageSnapshot {
    pub(crate) fn later(self, other: UsageSnapshot) -> UsageSnapshot {
        if self.at < other.at { other } else { self }
    }
}

/// One measurement, until [`Meter::ends`] or until now.
pub(crate) struct Meter<'a> {
    run: &'a Run,
    began: UsageSnapshot,
    ended: Option<UsageSnapshot>,
    /// The latency of each request.
    pub(crate) latencies: Arc<Latencies>,
}

impl<'a> Meter<'a> {
    /// The same, with latencies that are counted elsewhere.
    pub(crate) fn with(&self, latencies: Arc<Latencies>) -> Meter<'a> {
        Meter { latencies, ..*self }
    }

    /// Measures a part of it, from now on.
    pub(crate) fn within(&self) -> Meter<'a> {
        Meter { run: self.run, began: self.run.now(), ended: None, latencies: Arc::default() }
    }

    /// Excludes the time and CPU between these.
    pub(crate) fn exclude(&mut self, from: UsageSnapshot, to: UsageSnapshot) {
        self.began.at += to.at.saturating_duration_since(from.at);
        if let (Some(began), Some(from), Some(to)) = (&mut self.began.usage, from.usage, to.usage) {
            began.cpu += to.cpu.saturating_sub(from.cpu);
        }
    }

    /// Excludes everything after this.
    pub(crate) fn ends(&mut self, ended: UsageSnapshot) {
        self.ended = Some(ended);
    }

    /// The results as a row: so many of this unit succeeded, and so many failed.
    pub(crate) fn row(&self, name: impl Into<String>, unit: &str, count: u64, failed: u64) -> Row {
        let ended = self.ended.unwrap_or_else(|| self.run.now());
        let seconds = ended.at.saturating_duration_since(self.began.at).as_secs_f64();
        let used = self.began.usage.zip(ended.usage);
        let cpu = used.map(|(before, after)| after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6);
        let memory = used.map(|(before, after)| Memory {
            before_bytes: before.resident_bytes,
            after_bytes: after.resident_bytes,
            peak_bytes: self.run.sampler.peak_bytes().max(before.resident_bytes).max(after.resident_bytes),
        });
        Row {
            name: name.into(),
            unit: unit.to_owned(),
            count,
            failed,
            seconds,
            latency: self.latencies.summary(),
            cpu_micros_each: cpu.filter(|_| count > 0).map(|cpu| cpu / count as f64),
            memory,
            figures: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_created_first_and_once() {
        use Scenario::{Fill, Idle, List};
        assert_eq!(in_order(&[List, Fill, Idle, Fill, List]), [Fill, List, Idle, List]);
        assert_eq!(in_order(&[Idle]), [Idle]);
    }
}
