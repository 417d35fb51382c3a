//! Watchers that are as fast as they can be.

use super::{COMPLETE, Outcome, SETTLING, answered, figure, report_cuts, report_unsent, writers};
use crate::{
    Failure,
    delivery::Writes,
    drive::{Pace, Request, drive},
    latency::Latencies,
    results::Check,
    run::Run,
    watchers::{WatcherOptions, Watchers},
};
use std::sync::Arc;
use tokio::time::sleep;

/// The number of changes that the watchers miss while they are disconnected.
const MISSED: u64 = 500;
/// The same for watchers that were away for long, and their maximum number: each receives much.
const MISSED_BY_LONG_AWAY: u64 = 5000;
const LONG_AWAY_MAX: usize = 50;

pub(super) async fn fan_out(run: &Arc<Run>) -> Result<Outcome, Failure> {
    run.progress.set_message("opening watches");
    let from = run.version().await?;
    let (late, written) = (Arc::new(Latencies::default()), Arc::new(Writes::default()));
    let watchers =
        Watchers::open(run, WatcherOptions::all_objects(run.options.watchers, from, &late)).await?;
    let writers = writers(run).await?;
    run.progress.set_message("writing");
    let mut meter = run.meter();
    let driven = drive(run, writers, every(run), pace(run), &written, &meter.latencies).await?;
    let mut writes = meter.row("writes meanwhile", "write", driven.count, driven.failed);
    // The server's work is counted with the events.
    (writes.cpu_micros_each, writes.memory) = (None, None);
    report_unsent(&mut writes, &driven);
    meter.ends(watchers.until_delivered(|_| written.digest()).await);
    let name = format!("delivered to each of {} watchers, the write included", watchers.len());
    let mut events = meter.with(late).row(name, "event", watchers.received(), 0);
    report_cuts(&mut events, &watchers);
    let checks = vec![watchers.check(COMPLETE, |_| written.digest()), answered(&[&driven])];
    Ok(Outcome { rows: vec![events, writes], checks })
}

/// Changes all objects.
fn every(run: &Run) -> Request {
    Request::Patch(run.options.objects)
}

/// The pace of the run.
fn pace(run: &Run) -> Pace {
    Pace::at_rate(run.options.duration, run.options.rate)
}

/// First without watchers, to measure what they add. Only watched objects change, and there are no more watchers than
/// objects.
pub(super) async fn selective(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let watched = run.options.objects.min(run.options.watchers).max(1);
    run.progress.set_message("writing, nobody watches");
    let (clients, meter) = (writers(run).await?, run.meter());
    let unwatched = Arc::new(Writes::default());
    let alone = drive(run, clients, Request::Patch(watched), pace(run), &unwatched, &meter.latencies).await?;
    let mut nobody = meter.row("update, nobody watches", "update", alone.count, alone.failed);
    report_unsent(&mut nobody, &alone);
    run.progress.set_message("opening watches");
    let from = run.version().await?;
    let (late, written) = (Arc::new(Latencies::default()), Arc::new(Writes::of_each(watched)));
    let mut watcher_options = WatcherOptions::all_objects(watched, from, &late);
    watcher_options.selectors = (0..watched).map(|number| run.objects.slot(number)).collect();
    let watchers = Watchers::open(run, watcher_options).await?;
    let clients = writers(run).await?;
    run.progress.set_message("writing");
    let mut meter = run.meter();
    let driven = drive(run, clients, Request::Patch(watched), pace(run), &written, &meter.latencies).await?;
    let of = |number: usize| written.of(number);
    meter.ends(watchers.until_delivered(of).await);
    let name = format!("update that one of {} watchers receives", watchers.len());
    let mut with = meter.row(name, "update", driven.count, driven.failed);
    report_unsent(&mut with, &driven);
    if let (Some(nobody), Some(with_all)) =
        (nobody.cpu_micros_each.filter(|cpu| *cpu > 0.0), with.cpu_micros_each)
    {
        with.figures.push(figure("CPU compared with nobody watching", with_all / nobody, "x", Some(true)));
    }
    let mut events =
        meter.with(late).row("delivered to the watcher of the object", "event", watchers.received(), 0);
    (events.cpu_micros_each, events.memory) = (None, None);
    report_cuts(&mut events, &watchers);
    let checks = vec![watchers.check(COMPLETE, of), answered(&[&alone, &driven])];
    Ok(Outcome { rows: vec![nobody, with, events], checks })
}

/// In two halves: the memory that the second adds is that of its watchers. For the first a server also reuses free
/// memory.
pub(super) async fn idle(run: &Arc<Run>) -> Result<Outcome, Failure> {
    run.progress.set_message("opening watches");
    let from = run.version().await?;
    let late = Arc::new(Latencies::default());
    let half = run.options.watchers / 2;
    let first = Watchers::open(run, WatcherOptions::all_objects(half, from, &late)).await?;
    sleep(SETTLING).await;
    let meter = run.meter();
    let second = WatcherOptions::all_objects(run.options.watchers - half, from, &late);
    let second = Watchers::open(run, second).await?;
    let opened = Arc::clone(&second.opened);
    let mut row = meter.with(opened).row("opened beside as many others", "watcher", second.len() as u64, 0);
    run.progress.set_message("waiting");
    sleep(SETTLING).await;
    let quiet = run.now();
    sleep(run.options.duration).await;
    let over = run.now();
    if let (Some(memory), Some(before), Some(now)) = (&mut row.memory, quiet.usage, over.usage) {
        memory.after_bytes = now.resident_bytes;
        memory.peak_bytes = memory.peak_bytes.max(run.sampler.peak_bytes());
        let more = now.resident_bytes as f64 - memory.before_bytes as f64;
        if more > 0.0 {
            row.figures.push(figure("memory for each", more / second.len() as f64, "bytes", Some(true)));
        }
        let seconds = over.at.saturating_duration_since(quiet.at).as_secs_f64();
        let cores = now.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds;
        row.figures.push(figure("CPU of all in a second", cores * 1e6, "µs", Some(true)));
    }
    let cuts = first.cuts() + second.cuts();
    let check = Check {
        claim: "no watch was ended".to_owned(),
        checked: run.options.watchers as u64,
        faults: cuts,
        first_fault: (cuts > 0).then(|| format!("{cuts} ended")),
    };
    Ok(Outcome { rows: vec![row], checks: vec![check] })
}

/// Once for a short time, and once for so long that the watch cache of a server that is started for this no longer
/// holds the missed events.
pub(super) async fn resume(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let mut outcome = resume_after(run, run.options.watchers, MISSED).await?;
    let long_away = resume_after(run, run.options.watchers.min(LONG_AWAY_MAX), MISSED_BY_LONG_AWAY).await?;
    outcome.rows.extend(long_away.rows);
    outcome.checks.extend(long_away.checks);
    Ok(outcome)
}

async fn resume_after(run: &Arc<Run>, all: usize, missed: u64) -> Result<Outcome, Failure> {
    run.progress.set_message("opening watches");
    let from = run.version().await?;
    let late = Arc::new(Latencies::default());
    let watcher_options = WatcherOptions::all_objects(all, from, &late);
    drop(Watchers::open(run, watcher_options.clone()).await?);
    run.cluster.stop_sharing().await;
    run.progress.set_message("writing, nobody watches");
    let (writers, written) = (writers(run).await?, Arc::new(Writes::default()));
    let driven = drive(run, writers, every(run), Pace::exactly(missed), &written, &late).await?;
    sleep(SETTLING).await;
    run.progress.set_message("all come back");
    let mut meter = run.meter();
    let until_back = Arc::new(Latencies::default());
    let (at_once, missed_events) = (all, Some(written.digest().total()));
    let watcher_options = WatcherOptions {
        at_once,
        missed: missed_events,
        latencies: Arc::clone(&until_back),
        ..watcher_options
    };
    let watchers = Watchers::open(run, watcher_options).await?;
    meter.ends(watchers.until_delivered(|_| written.digest()).await);
    let name = format!("{all} watchers, {missed} missed events each");
    let mut events = meter.row(name, "event", watchers.received(), 0);
    report_cuts(&mut events, &watchers);
    let name = "connected, and received every missed event";
    let (all, came_back) = (all as u64, until_back.count());
    let mut back = meter.with(until_back).row(name, "watcher", came_back, all.saturating_sub(came_back));
    // The server's work is counted with the events.
    (back.cpu_micros_each, back.memory) = (None, None);
    let checks = vec![watchers.check(COMPLETE, |_| written.digest()), answered(&[&driven])];
    Ok(Outcome { rows: vec![events, back], checks })
}
