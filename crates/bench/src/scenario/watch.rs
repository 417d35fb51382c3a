//! Watchers that are as fast as they can be.

use super::{COMPLETE, Outcome, SETTLING, answered, figure, tell_cuts, tell_unsent, writers};
use crate::{
    Failure,
    drive::{Pace, Request, drive},
    latency::Latencies,
    results::Check,
    run::Run,
    tally::Ledger,
    watching::{Audience, Watchers},
};
use std::sync::Arc;
use tokio::time::sleep;

/// How many changes are missed by those who come back.
const MISSED: u64 = 500;
/// The same for those who were away for long, and how many watchers there are at the most: each receives much.
const MISSED_BY_LONG_AWAY: u64 = 5000;
const LONG_AWAY_MAX: usize = 50;

pub(super) async fn fan_out(run: &Arc<Run>) -> Result<Outcome, Failure> {
    run.progress.says("opening watches");
    let from = run.version().await?;
    let (late, ledger) = (Arc::new(Latencies::default()), Arc::new(Ledger::default()));
    let watchers = Watchers::open(run, Audience::of_everything(run.options.watchers, from, &late)).await?;
    let writers = writers(run).await?;
    run.progress.says("writing");
    let mut meter = run.meter();
    let driven = drive(run, writers, every(run), pace(run), &ledger, &meter.latencies).await?;
    let mut writes = meter.row("writes meanwhile", "write", driven.count, driven.failed);
    // What the server does is counted with the events.
    (writes.cpu_micros_each, writes.memory) = (None, None);
    tell_unsent(&mut writes, &driven);
    meter.ends(watchers.settle(|_| ledger.tally()).await);
    let name = format!("told to each of {} watchers, the write included", watchers.len());
    let mut told = meter.with(late).row(name, "event", watchers.heard(), 0);
    tell_cuts(&mut told, &watchers);
    let checks = vec![watchers.check(COMPLETE, |_| ledger.tally()), answered(&[&driven])];
    Ok(Outcome { rows: vec![told, writes], checks })
}

/// Changes all objects.
fn every(run: &Run) -> Request {
    Request::Patch(run.options.objects)
}

/// The pace of the run.
fn pace(run: &Run) -> Pace {
    Pace::at_rate(run.options.duration, run.options.rate)
}

/// First without anybody, so that one sees what watchers add. Only objects change that somebody watches, and there are no
/// more watchers than objects.
pub(super) async fn selective(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let watched = run.options.objects.min(run.options.watchers).max(1);
    run.progress.says("writing, nobody watches");
    let (clients, meter) = (writers(run).await?, run.meter());
    let nobodys = Arc::new(Ledger::default());
    let alone = drive(run, clients, Request::Patch(watched), pace(run), &nobodys, &meter.latencies).await?;
    let mut nobody = meter.row("update, nobody watches", "update", alone.count, alone.failed);
    tell_unsent(&mut nobody, &alone);
    run.progress.says("opening watches");
    let from = run.version().await?;
    let (late, ledger) = (Arc::new(Latencies::default()), Arc::new(Ledger::of_each(watched)));
    let mut audience = Audience::of_everything(watched, from, &late);
    audience.selectors = (0..watched).map(|number| run.objects.slot(number)).collect();
    let watchers = Watchers::open(run, audience).await?;
    let clients = writers(run).await?;
    run.progress.says("writing");
    let mut meter = run.meter();
    let driven = drive(run, clients, Request::Patch(watched), pace(run), &ledger, &meter.latencies).await?;
    let of = |number: usize| ledger.of(number);
    meter.ends(watchers.settle(of).await);
    let name = format!("update that one of {} watchers is told of", watchers.len());
    let mut with = meter.row(name, "update", driven.count, driven.failed);
    tell_unsent(&mut with, &driven);
    if let (Some(nobody), Some(with_all)) =
        (nobody.cpu_micros_each.filter(|cpu| *cpu > 0.0), with.cpu_micros_each)
    {
        with.figures.push(figure("CPU compared with nobody watching", with_all / nobody, "x", Some(true)));
    }
    let mut told = meter.with(late).row("told to the one whom it concerns", "event", watchers.heard(), 0);
    (told.cpu_micros_each, told.memory) = (None, None);
    tell_cuts(&mut told, &watchers);
    let checks = vec![watchers.check(COMPLETE, of), answered(&[&alone, &driven])];
    Ok(Outcome { rows: vec![nobody, with, told], checks })
}

/// In two halves: what the second adds is what a watcher takes. With the first a server also uses what it has left over.
pub(super) async fn idle(run: &Arc<Run>) -> Result<Outcome, Failure> {
    run.progress.says("opening watches");
    let from = run.version().await?;
    let late = Arc::new(Latencies::default());
    let half = run.options.watchers / 2;
    let first = Watchers::open(run, Audience::of_everything(half, from, &late)).await?;
    sleep(SETTLING).await;
    let meter = run.meter();
    let second = Audience::of_everything(run.options.watchers - half, from, &late);
    let second = Watchers::open(run, second).await?;
    let opened = Arc::clone(&second.opened);
    let mut row = meter.with(opened).row("opened beside as many others", "watcher", second.len() as u64, 0);
    run.progress.says("waiting");
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

/// Once for a short time, and once for so long that the watch cache of a server that is started for this does not hold what
/// they missed.
pub(super) async fn resume(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let mut outcome = come_back(run, run.options.watchers, MISSED).await?;
    let long_away = come_back(run, run.options.watchers.min(LONG_AWAY_MAX), MISSED_BY_LONG_AWAY).await?;
    outcome.rows.extend(long_away.rows);
    outcome.checks.extend(long_away.checks);
    Ok(outcome)
}

async fn come_back(run: &Arc<Run>, all: usize, missed: u64) -> Result<Outcome, Failure> {
    run.progress.says("opening watches");
    let from = run.version().await?;
    let late = Arc::new(Latencies::default());
    let audience = Audience::of_everything(all, from, &late);
    drop(Watchers::open(run, audience.clone()).await?);
    run.cluster.part().await;
    run.progress.says("writing, nobody watches");
    let (writers, ledger) = (writers(run).await?, Arc::new(Ledger::default()));
    let driven = drive(run, writers, every(run), Pace::exactly(missed), &ledger, &late).await?;
    sleep(SETTLING).await;
    run.progress.says("all come back");
    let mut meter = run.meter();
    let until_back = Arc::new(Latencies::default());
    let (at_once, missed_events) = (all, Some(ledger.tally().total()));
    let audience =
        Audience { at_once, missed: missed_events, latencies: Arc::clone(&until_back), ..audience };
    let watchers = Watchers::open(run, audience).await?;
    meter.ends(watchers.settle(|_| ledger.tally()).await);
    let name = format!("{all} watchers, {missed} missed events each");
    let mut told = meter.row(name, "event", watchers.heard(), 0);
    tell_cuts(&mut told, &watchers);
    let name = "connected, and told everything it missed";
    let (all, came_back) = (all as u64, until_back.count());
    let mut back = meter.with(until_back).row(name, "watcher", came_back, all.saturating_sub(came_back));
    // What the server does is counted with the events.
    (back.cpu_micros_each, back.memory) = (None, None);
    let checks = vec![watchers.check(COMPLETE, |_| ledger.tally()), answered(&[&driven])];
    Ok(Outcome { rows: vec![told, back], checks })
}
