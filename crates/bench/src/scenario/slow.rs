//! Watchers of which some cannot keep up.
//!
//! What a slow watcher is not told it has to list again, and never learns what happened in between: lost events. Those who
//! read fast must not be held up by those who do not: late events. More is written than lies on the way between server and
//! client, so that the server has to do something about those who do not read; and more than the watch cache holds of a
//! server that is started for this ([`WINDOW_FLAG`]), so that it has to read what they missed from its store.

use super::{COMPLETE, Outcome, answered, figure, tell_unsent, writers};
use crate::{
    Failure,
    drive::{Pace, Request, drive},
    latency::Latencies,
    results::Row,
    run::{Meter, Run},
    tally::{Ledger, Tally},
    watching::{Audience, LATE, Watchers},
};
use std::{sync::Arc, time::Duration};

/// How many watch at the least, so that some are fast, and at the most: what each is told is much.
const WATCHERS: std::ops::RangeInclusive<usize> = 2..=50;
/// How much that is at least. Linux keeps up to 4 MiB for a reader that does not come.
const BYTES_EACH: f64 = 12e6;
/// How many changes there are at the least: several times what the watch cache holds then.
const CHANGES_MIN: f64 = 6000.0;
/// How many times longer than planned writing them may take.
const LONGER_MAX: u32 = 10;
/// With this, a server's watch cache holds about 2,000 changes. The slow ones are further behind than that.
pub const WINDOW_FLAG: &str = "--watch-cache-history-bytes=1Mi";
/// What such a server calls the pages that it reads from its store for watchers.
const HISTORY_READS: &str = "keepwatch_watch_cache_history_reads_total";
/// How many changes there are in a second at the most to come to that; rather it takes longer.
const RATE_MAX: f64 = 1000.0;

pub(super) async fn slow(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let options = &run.options;
    let all = options.watchers.clamp(*WATCHERS.start(), *WATCHERS.end());
    let slow_count = ((all as f64 * options.slow_share).round() as usize).clamp(1, all - 1);
    run.progress.says("opening watches");
    let from = run.version().await?;
    let reads_before = history_reads(run).await;
    let (fast_late, slow_late) = (Arc::new(Latencies::default()), Arc::new(Latencies::default()));
    let fast = Watchers::open(run, Audience::of_everything(all - slow_count, from, &fast_late)).await?;
    let slow = Audience::of_everything(slow_count, from, &slow_late);
    let slow = Watchers::open(run, Audience { bytes_per_second: Some(options.slow_bytes), ..slow }).await?;
    let (writers, ledger) = (writers(run).await?, Arc::new(Ledger::default()));
    run.progress.says("writing");
    let mut meter = run.meter();
    let driven =
        drive(run, writers, Request::Patch(options.objects), pace(run), &ledger, &meter.latencies).await?;
    let fast_ended = fast.settle(|_| ledger.tally()).await;
    meter.ends(fast_ended);
    let mut fast_row = row(&meter.with(fast_late), &fast, "fast", &ledger.tally());
    let late = format!("later than {} s", LATE.as_secs());
    fast_row.figures.push(figure(&late, fast.late() as f64, "events", Some(true)));
    tell_unsent(&mut fast_row, &driven);
    run.progress.says("the slow ones read on");
    slow.hurry();
    meter.leaves_out(fast_ended, run.now());
    meter.ends(slow.settle(|_| ledger.tally()).await);
    // How late they are is their own doing.
    let mut slow_row = row(&meter.with(Arc::default()), &slow, "slow", &ledger.tally());
    if let (Some(before), Some(after)) = (reads_before, history_reads(run).await) {
        slow_row.figures.push(figure("read from the store's history", after - before, "pages", None));
    }
    let checks = vec![
        fast.check(COMPLETE, |_| ledger.tally()),
        slow.check("every slow watcher saw every event, once and in order", |_| ledger.tally()),
        answered(&[&driven]),
    ];
    Ok(Outcome { rows: vec![fast_row, slow_row], checks })
}

/// At the pace of the run, or faster if that is not enough.
fn pace(run: &Run) -> Pace {
    let (rate, seconds) = (run.options.rate, run.options.duration.as_secs_f64());
    let enough = (BYTES_EACH / run.objects.bytes() as f64).max(CHANGES_MIN);
    let rate = rate.max((enough / seconds).min(RATE_MAX));
    let planned = Duration::from_secs_f64(seconds.max(enough / rate));
    // However slow the server is: with fewer changes nobody would be far behind.
    let count = Some((rate * planned.as_secs_f64()).ceil() as u64);
    Pace { duration: planned * LONGER_MAX, count, rate: Some(rate) }
}

/// How many pages the server has read from its store for watchers, if it counts them.
async fn history_reads(run: &Run) -> Option<f64> {
    let text = run.cluster.connect().await.ok()?.get("/metrics").await.ok()?;
    let text = String::from_utf8_lossy(&text);
    let counts = text.lines().filter(|line| line.starts_with(HISTORY_READS) && line.contains("configmaps"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).next()
}

fn row(meter: &Meter<'_>, watchers: &Watchers, what: &str, written: &Tally) -> Row {
    let heard = watchers.heard();
    let lost = (written.total() * watchers.len() as u64).saturating_sub(heard);
    let mut row = meter.row(format!("told to {} {what} watchers", watchers.len()), "event", heard, lost);
    // The server works for all of them at once.
    row.cpu_micros_each = None;
    row.figures = vec![
        figure("lost", lost as f64, "events", Some(true)),
        figure("watches that were cut", watchers.cuts() as f64, "", Some(true)),
        figure("listed again", watchers.relisted() as f64, "objects", Some(true)),
    ];
    row
}
