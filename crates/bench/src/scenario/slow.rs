//! Watchers of which some cannot keep up.
//!
//! A slow watcher that misses events has to list again, and never receives the states in between: lost events. Slow
//! watchers must not delay fast ones: late events. More bytes are written than fit into the buffers between server and
//! client, so that the server has to handle watchers that do not read; and more than the watch cache of a server that
//! is started for this holds ([`SHORT_HISTORY_FLAG`]), so that it has to read older events from its store.

use super::{COMPLETE, Outcome, SETTLING, answered, figure, measured, report_unsent, writers};
use crate::{
    Failure,
    delivery::{Digest, Writes},
    drive::{Pace, Request, drive},
    latency::Latencies,
    results::Row,
    run::{Meter, Run},
    watchers::{LATE_AFTER, Reading, WatcherOptions, Watchers},
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The minimum number of watchers, so that some are fast, and the maximum: each receives much.
const WATCHERS: std::ops::RangeInclusive<usize> = 2..=50;
/// The minimum number of bytes for each watcher. Linux buffers up to 4 MiB for a reader that does not read.
const BYTES_EACH: f64 = 12e6;
/// The minimum number of changes: several times as many as the watch cache then holds.
const CHANGES_MIN: f64 = 6000.0;
/// The factor by which writing them may take longer than planned.
const LONGER_MAX: u32 = 10;
/// With this, a server's watch cache holds about 2,000 changes. The slow ones are further behind than that.
pub const SHORT_HISTORY_FLAG: &str = "--watch-cache-history-bytes=1Mi";
/// The metric of such a server that counts the pages that it reads from its store for watchers.
const HISTORY_READS: &str = "keepwatch_watch_cache_history_reads_total";
/// The maximum number of changes per second; rather than exceed it, the scenario takes longer.
const RATE_MAX: f64 = 1000.0;

pub(super) async fn slow(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let options = &run.options;
    let all = options.watchers.clamp(*WATCHERS.start(), *WATCHERS.end());
    let slow_count = ((all as f64 * options.slow_share).round() as usize).clamp(1, all - 1);
    run.progress.set_message("opening watches");
    let from = run.version().await?;
    let reads_before = history_reads(run).await;
    let (fast_late, slow_late) = (Arc::new(Latencies::default()), Arc::new(Latencies::default()));
    let fast = Watchers::open(run, WatcherOptions::all_objects(all - slow_count, from, &fast_late)).await?;
    let slow = WatcherOptions::all_objects(slow_count, from, &slow_late);
    let slow =
        Watchers::open(run, WatcherOptions { reading: Reading::BytesPerSecond(options.slow_bytes), ..slow })
            .await?;
    let (writers, written) = (writers(run).await?, Arc::new(Writes::default()));
    run.progress.set_message("writing");
    let mut meter = run.meter();
    let driven =
        drive(run, writers, Request::Patch(options.objects), pace(run), &written, &meter.latencies).await?;
    let fast_ended = fast.until_delivered(|_| written.digest()).await;
    meter.ends(fast_ended);
    let mut fast_row = row(&meter.with(fast_late), &fast, "fast", &written.digest());
    let late = format!("later than {} s", LATE_AFTER.as_secs());
    fast_row.figures.push(figure(&late, fast.late() as f64, "events", Some(true)));
    report_unsent(&mut fast_row, &driven);
    run.progress.set_message("the slow ones read on");
    slow.catch_up();
    meter.exclude(fast_ended, run.now());
    meter.ends(slow.until_delivered(|_| written.digest()).await);
    // Their lateness is their own doing.
    let mut slow_row = row(&meter.with(Arc::default()), &slow, "slow", &written.digest());
    if let (Some(before), Some(after)) = (reads_before, history_reads(run).await) {
        slow_row.figures.push(figure("read from the store's history", after - before, "pages", None));
    }
    // The server works for all of them at once.
    (fast_row.cpu_micros_each, slow_row.cpu_micros_each) = (None, None);
    let checks = vec![
        fast.check(COMPLETE, |_| written.digest()),
        slow.check("every slow watcher saw every event, once and in order", |_| written.digest()),
        answered(&[&driven]),
    ];
    Ok(Outcome { rows: vec![fast_row, slow_row], checks })
}

/// First without watchers, to measure the memory of the history of as many changes.
pub(super) async fn stalled(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let all = run.options.watchers.min(*WATCHERS.end());
    let (changes, request) = (Pace::exactly(changes_needed(run) as u64), Request::Patch(run.options.objects));
    let (none, clients) = (Arc::default(), run.options.concurrency);
    let name = "update, nobody watches";
    let (mut unwatched_row, unwatched) =
        measured(run, name, "update", request.clone(), clients, changes, &none).await?;
    // So that nothing of it remains for the next measurement.
    sleep(SETTLING).await;
    let history = peak_growth(&mut unwatched_row, run);
    run.progress.set_message("opening watches");
    let from = run.version().await?;
    let reads_before = history_reads(run).await;
    let watcher_options = WatcherOptions::all_objects(all, from, &Arc::default());
    let watchers =
        Watchers::open(run, WatcherOptions { reading: Reading::Stalled, ..watcher_options }).await?;
    let (writers, written) = (writers(run).await?, Arc::new(Writes::default()));
    run.progress.set_message("writing, nobody reads");
    let mut meter = run.meter();
    let driven = drive(run, writers, request, changes, &written, &meter.latencies).await?;
    meter.ends(run.now());
    sleep(SETTLING).await;
    let name = format!("update, {all} watchers do not read");
    let mut stalled_row = meter.row(name, "update", driven.count, driven.failed);
    if let (Some(history), Some(all)) = (history, peak_growth(&mut stalled_row, run)) {
        let more =
            figure("memory beyond that without watchers", (all - history).max(0.0), "bytes", Some(true));
        stalled_row.figures.push(more);
    }
    run.progress.set_message("they read on");
    let mut meter = run.meter();
    watchers.catch_up();
    meter.ends(watchers.until_delivered(|_| written.digest()).await);
    // Their lateness is their own doing.
    let mut read_row = row(&meter.with(Arc::default()), &watchers, "stalled", &written.digest());
    if let (Some(before), Some(after)) = (reads_before, history_reads(run).await) {
        read_row.figures.push(figure("read from the store's history", after - before, "pages", None));
    }
    let complete = "every watcher that had stalled saw every event, once and in order";
    let checks = vec![watchers.check(complete, |_| written.digest()), answered(&[&unwatched, &driven])];
    Ok(Outcome { rows: vec![unwatched_row, stalled_row, read_row], checks })
}

/// The server's maximum memory since a row began, minus that at its beginning; with the time after it in which memory
/// settles.
fn peak_growth(row: &mut Row, run: &Run) -> Option<f64> {
    let memory = row.memory.as_mut()?;
    memory.after_bytes = run.now().usage?.resident_bytes;
    memory.peak_bytes = memory.peak_bytes.max(run.sampler.peak_bytes());
    Some(memory.peak_bytes.saturating_sub(memory.before_bytes) as f64)
}

/// The number of changes after which a watcher that does not read is behind by more than the buffers on the way to it.
fn changes_needed(run: &Run) -> f64 {
    (BYTES_EACH / run.objects.bytes() as f64).max(CHANGES_MIN).ceil()
}

/// The pace of the run, or a faster one if that is too slow for [`changes_needed`].
fn pace(run: &Run) -> Pace {
    let (rate, seconds) = (run.options.rate, run.options.duration.as_secs_f64());
    let changes = changes_needed(run);
    let rate = rate.max((changes / seconds).min(RATE_MAX));
    let planned = Duration::from_secs_f64(seconds.max(changes / rate));
    // Even if the server is slow: with fewer changes no watcher would fall behind far enough.
    let count = Some((rate * planned.as_secs_f64()).ceil() as u64);
    Pace { duration: planned * LONGER_MAX, count, rate: Some(rate) }
}

/// The number of pages that the server has read from its store for watchers, if it counts them.
async fn history_reads(run: &Run) -> Option<f64> {
    let text = run.cluster.connect().await.ok()?.get("/metrics").await.ok()?;
    let text = String::from_utf8_lossy(&text);
    let resource = run.objects.kind().to_string();
    let counts = text.lines().filter(|line| line.starts_with(HISTORY_READS) && line.contains(&resource));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).next()
}

/// The events that slow watchers received.
fn row(meter: &Meter<'_>, watchers: &Watchers, what: &str, written: &Digest) -> Row {
    let received = watchers.received();
    let lost = (written.total() * watchers.len() as u64).saturating_sub(received);
    let mut row =
        meter.row(format!("delivered to {} {what} watchers", watchers.len()), "event", received, lost);
    row.figures = vec![
        figure("lost", lost as f64, "events", Some(true)),
        figure("watches that were cut", watchers.cuts() as f64, "", Some(true)),
        figure("listed again", watchers.relisted() as f64, "objects", Some(true)),
    ];
    row
}
