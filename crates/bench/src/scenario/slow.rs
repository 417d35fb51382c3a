//! Watchers of which some cannot keep up.
//!
//! What a slow watcher is not told it has to list again, and never learns what happened in between: lost events. Those who
//! read fast must not be held up by those who do not: late events. More is written than lies on the way between server and
//! client, so that the server has to do something about those who do not read.

use super::{COMPLETE, Outcome, answered, figure, writers};
use crate::{
    Failure,
    drive::{Pace, Request, drive},
    latency::Latencies,
    results::Row,
    run::{Meter, Run},
    tally::{Ledger, Tally},
    watching::{Audience, LATE, Watchers},
};
use std::sync::Arc;

/// How many watch at the most: what each is told is much.
const WATCHERS_MAX: usize = 50;
/// How much that is at least. Linux keeps up to 4 MiB for a reader that does not come.
const BYTES_EACH: f64 = 12e6;

pub(super) async fn slow(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let options = &run.options;
    let all = options.watchers.clamp(1, WATCHERS_MAX);
    let slow_count = ((all as f64 * options.slow_share).round() as usize).clamp(1, all);
    run.progress.says("opening watches");
    let from = run.version().await?;
    let late = [Arc::new(Latencies::default()), Arc::new(Latencies::default())];
    let fast = Watchers::open(run, Audience::of_everything(all - slow_count, from, &late[0])).await?;
    let slow = Audience::of_everything(slow_count, from, &late[1]);
    let slow = Watchers::open(run, Audience { bytes_per_second: Some(options.slow_bytes), ..slow }).await?;
    let (writers, ledger) = (writers(run).await?, Arc::new(Ledger::default()));
    run.progress.says("writing");
    let meter = run.meter();
    let enough = BYTES_EACH / options.object_bytes as f64 / options.duration.as_secs_f64();
    let pace = Pace::at_rate(options.duration, options.rate.max(enough));
    let driven =
        drive(run, writers, Request::Patch(options.objects), pace, &ledger, &meter.latencies).await?;
    fast.settle(|_| ledger.tally()).await;
    let [fast_late, slow_late] = late;
    let fast_row = row(&meter.with(fast_late), &fast, "fast", &ledger.tally());
    run.progress.says("the slow ones read on");
    slow.hurry();
    slow.settle(|_| ledger.tally()).await;
    let slow_row = row(&meter.with(slow_late), &slow, "slow", &ledger.tally());
    let checks = vec![
        fast.check(COMPLETE, |_| ledger.tally()),
        slow.check("every slow watcher saw every event, once and in order", |_| ledger.tally()),
        answered(&[&driven]),
    ];
    Ok(Outcome { rows: vec![fast_row, slow_row], checks })
}

fn row(meter: &Meter<'_>, watchers: &Watchers, what: &str, written: &Tally) -> Row {
    let heard = watchers.heard();
    let lost = (written.total() * watchers.len() as u64).saturating_sub(heard);
    let mut row = meter.row(format!("told to {} {what} watchers", watchers.len()), "event", heard, lost);
    // The server works for all of them at once.
    row.cpu_micros_each = None;
    row.figures = vec![
        figure("lost", lost as f64, "events", Some(true)),
        figure(&format!("later than {} s", LATE.as_secs()), watchers.late() as f64, "events", None),
        figure("watches that were cut", watchers.cuts() as f64, "", Some(true)),
        figure("listed again", watchers.relisted() as f64, "objects", Some(true)),
    ];
    row
}
