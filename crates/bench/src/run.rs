//! A run: some scenarios, one after another, at one server.
//!
//! Kept true: whatever a run creates, it deletes in the end, also if it fails or is told to stop.

use crate::{
    Failure, Protocol, Scenario, Target,
    cluster::{Cluster, Refused},
    events::{text_after, version_in},
    latency::Latencies,
    objects::Objects,
    progress::Progress,
    results::{self, Check, Load, Memory, Results, Row},
    scenario, target,
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

/// What to measure, and with which load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who.
    pub target: Target,
    /// What stands above the results; the server's name if empty.
    pub title: String,
    /// The command line, which the results show.
    pub command: String,
    /// In this order.
    pub scenarios: Vec<Scenario>,
    /// How many objects there are.
    pub objects: usize,
    /// How large each is.
    pub object_bytes: usize,
    /// Over how many namespaces they are spread.
    pub namespaces: usize,
    /// How many watch.
    pub watchers: usize,
    /// How many informers fetch everything at once.
    pub informers: usize,
    /// How many write or list at a time.
    pub concurrency: usize,
    /// How many writes a second there are where watchers are measured.
    pub rate: f64,
    /// How long a scenario goes on.
    pub duration: Duration,
    /// Which share of slow watchers there is among the others, between 0 and 1.
    pub slow_share: f64,
    /// How many bytes a second a slow watcher reads.
    pub slow_bytes: f64,
    /// What is spoken.
    pub protocol: Protocol,
    /// Whether a bar is shown.
    pub shows_progress: bool,
}

/// What scenarios share.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) cluster: Cluster,
    pub(crate) objects: Objects,
    pub(crate) sampler: Sampler,
    pub(crate) progress: Progress,
    pub(crate) stop: CancellationToken,
    /// How many of the namespaces there may be.
    made: AtomicUsize,
}

/// Measures. If it is told to stop, what was measured until then is returned.
pub async fn run(options: Options, stop: CancellationToken) -> Result<Results, Failure> {
    target::check(&options.target, options.protocol)?;
    let (config, processes, storage, _started) = match options.target.clone() {
        Target::Cluster { config, processes } => (*config, processes, None, None),
        Target::Own(own) => {
            let started = own.start().await?;
            let processes = [vec![started.process], own.beside].concat();
            (started.config.clone(), processes, Some(own.storage), Some(started))
        }
    };
    let cluster = Cluster::new(config, options.protocol).await?;
    let processes = Processes::new(processes)?;
    let began = Instant::now();
    let (since, wall) =
        (jiff::Timestamp::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let objects =
        Objects::new(format!("kwb-{:x}", wall.as_millis()), options.namespaces, options.object_bytes, began);
    let server = results::Server {
        url: cluster.url(),
        version: version(&cluster).await?,
        storage,
        processes: processes.names(),
    };
    let progress = Progress::new(options.scenarios.len(), options.shows_progress);
    let sampler = Sampler::start(processes, began);
    let run = Arc::new(Run { options, cluster, objects, sampler, progress, stop, made: AtomicUsize::new(0) });
    let scenarios = match run.make_namespaces().await {
        Ok(()) => run.scenarios(began).await,
        Err(failure) => Err(failure),
    };
    run.progress.says("cleaning up");
    let cleaned = run.clean().await;
    run.progress.clear();
    let left = run.left_behind(cleaned);
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
    /// Fails only if nothing was measured. What ended a run before it was over is told as a check that failed.
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
                Err(failure) => scenario::Outcome { rows: Vec::new(), checks: vec![broken_off(&failure)] },
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

    async fn make_namespaces(&self) -> Result<(), Failure> {
        let mut connection = self.cluster.connect().await?;
        for name in self.objects.namespaces().take_while(|_| !self.stop.is_cancelled()) {
            self.made.fetch_add(1, Relaxed);
            let json = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
            connection.ask(Method::POST, "/api/v1/namespaces", json).await?;
        }
        Ok(())
    }

    /// Objects first: where no controller empties namespaces, they would stay. Goes on whatever fails, and tells of the first.
    async fn clean(&self) -> Result<(), Failure> {
        let mut connection = self.cluster.connect().await?;
        let label = self.objects.label();
        let mut first = Ok(());
        for name in self.made() {
            for path in [
                format!("/api/v1/namespaces/{name}/configmaps?labelSelector={label}"),
                format!("/apis/coordination.k8s.io/v1/namespaces/{name}/leases?labelSelector={label}"),
                format!("/api/v1/namespaces/{name}"),
            ] {
                match connection.ask(Method::DELETE, &path, Bytes::new()).await {
                    Ok(_) | Err(Refused::Answer(StatusCode::NOT_FOUND | StatusCode::CONFLICT, _)) => {}
                    Err(refused @ Refused::Broken(_)) => return first.and(Err(refused.into())),
                    Err(refused) => first = first.and(Err(refused.into())),
                }
            }
        }
        first
    }

    /// The namespaces that there may be.
    fn made(&self) -> impl Iterator<Item = String> + use<> {
        self.objects.namespaces().take(self.made.load(Relaxed))
    }

    /// Whether everything could be deleted, and where to look if not.
    fn left_behind(&self, cleaned: Result<(), Failure>) -> Check {
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

    /// The version that everything has now.
    pub(crate) async fn version(&self) -> Result<u64, Failure> {
        let list = self.cluster.connect().await?.get("/api/v1/configmaps?limit=1").await?;
        version_in(&list).ok_or_else(|| {
            let kind = text_after(&list, br#""kind":""#).unwrap_or("something else");
            Failure::new(format!("a list has no version: the server sent {kind}"))
        })
    }

    /// Begins to measure something.
    pub(crate) fn meter(&self) -> Meter<'_> {
        self.sampler.forget_peak();
        Meter { run: self, began: self.now(), ended: None, latencies: Arc::default() }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { at: Instant::now(), usage: self.sampler.usage() }
    }
}

/// What is told if a run ended before it was over.
fn broken_off(failure: &Failure) -> Check {
    let claim = "the run went on to its end".to_owned();
    Check { claim, checked: 1, faults: 1, first_fault: Some(failure.to_string()) }
}

/// Objects are created before anything is done with them, and once.
fn in_order(scenarios: &[Scenario]) -> Vec<Scenario> {
    let others = scenarios.iter().copied().filter(|scenario| *scenario != Scenario::Fill);
    let fill = scenarios.contains(&Scenario::Fill).then_some(Scenario::Fill);
    fill.into_iter().chain(others).collect()
}

/// A time, and what the server had taken until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) usage: Option<Usage>,
}

impl Moment {
    pub(crate) fn later(self, other: Moment) -> Moment {
        if self.at < other.at { other } else { self }
    }
}

/// Measures one thing, until now if nobody says until when.
pub(crate) struct Meter<'a> {
    run: &'a Run,
    began: Moment,
    ended: Option<Moment>,
    /// How long each took.
    pub(crate) latencies: Arc<Latencies>,
}

impl<'a> Meter<'a> {
    /// The same, with times that are counted elsewhere.
    pub(crate) fn with(&self, latencies: Arc<Latencies>) -> Meter<'a> {
        Meter { latencies, ..*self }
    }

    /// Measures a part of it, from now on.
    pub(crate) fn within(&self) -> Meter<'a> {
        Meter { run: self.run, began: self.run.now(), ended: None, latencies: Arc::default() }
    }

    /// What lies between these does not count.
    pub(crate) fn leaves_out(&mut self, from: Moment, to: Moment) {
        self.began.at += to.at.saturating_duration_since(from.at);
        if let (Some(began), Some(from), Some(to)) = (&mut self.began.usage, from.usage, to.usage) {
            began.cpu += to.cpu.saturating_sub(from.cpu);
        }
    }

    /// What comes after this does not count.
    pub(crate) fn ends(&mut self, ended: Moment) {
        self.ended = Some(ended);
    }

    /// What it found: so many of this unit went well, and so many did not.
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
