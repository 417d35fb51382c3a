//! The load of a cluster in fast motion: nodes renew their leases, workloads are created, changed and deleted, a few
//! controllers watch everything, and every node watches its own objects.
//!
//! Workloads are objects like all others here: some are created, some change, and the created ones are deleted again. Every
//! kind of request has a rate of its own, so latencies are those of a server that is not saturated.

use super::{COMPLETE, Outcome, answered, report_cuts, report_unsent, writers};
use crate::{
    Failure,
    delivery::Writes,
    drive::{Pace, Request, drive},
    latency::Latencies,
    run::Run,
    watchers::{WatcherOptions, Watchers},
};
use std::sync::Arc;

/// The number of controllers that watch everything.
const CONTROLLERS: usize = 10;
/// The shares of all writes, at the pace of the run, that renew leases, create workloads and change them.
const LEASES: f64 = 0.4;
const CREATIONS: f64 = 0.1;
const CHANGES: f64 = 0.4;
/// The ratio between the paces at which workloads are deleted and created.
const DELETION_SPEEDUP: f64 = 4.0;
/// The number of the first workload that is created, beyond those of the existing objects.
const FIRST: usize = 1_000_000;

pub(super) async fn mixed(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let options = &run.options;
    let (first, nodes) = (options.objects + FIRST, options.watchers.max(1));
    // Nodes watch these, several the same one if there are few, and these change.
    let watched = options.objects.clamp(1, nodes);
    run.progress.set_message("nodes and controllers join");
    let (written, none) = (Arc::new(Writes::of_each(watched)), Arc::new(Writes::default()));
    let unmeasured = Arc::new(Latencies::default());
    let joining = Pace::exactly(nodes as u64);
    let leases = drive(run, writers(run).await?, Request::Join(nodes), joining, &none, &unmeasured).await?;
    let from = run.version().await?;
    let late = [Arc::new(Latencies::default()), Arc::new(Latencies::default())];
    let controllers = Watchers::open(run, WatcherOptions::all_objects(CONTROLLERS, from, &late[0])).await?;
    let mut own = WatcherOptions::all_objects(nodes, from, &late[1]);
    own.selectors = (0..nodes).map(|number| run.objects.slot(number % watched)).collect();
    let kubelets = Watchers::open(run, own).await?;
    let [renewers, changers, creators, deleters] =
        [writers(run).await?, writers(run).await?, writers(run).await?, writers(run).await?];
    run.progress.set_message("a day goes by");
    let rate = |share: f64| (options.rate * share).max(0.1);
    let pace = |share: f64| Pace::at_rate(options.duration, rate(share));
    let mut whole = run.meter();
    let rows = |name: String, request, clients, pace: Pace, written| {
        let meter = whole.within();
        async move {
            let driven = drive(run, clients, request, pace, written, &meter.latencies).await?;
            let mut row = meter.row(name, "write", driven.count, driven.failed);
            report_unsent(&mut row, &driven);
            Ok::<_, Failure>((row, driven))
        }
    };
    let renewing = rows(
        format!("leases of {nodes} nodes renewed"),
        Request::Renew(nodes),
        renewers,
        pace(LEASES),
        &none,
    );
    let changing =
        rows("workloads changed".to_owned(), Request::Patch(watched), changers, pace(CHANGES), &written);
    let living = async {
        let created = "workloads created".to_owned();
        let came = rows(created, Request::Create(first), creators, pace(CREATIONS), &written).await?;
        let all = Pace {
            rate: Some(rate(CREATIONS) * DELETION_SPEEDUP),
            ..Pace::exactly(came.1.count + came.1.failed)
        };
        let went =
            rows("workloads deleted".to_owned(), Request::Delete(first), deleters, all, &written).await?;
        Ok((came, went))
    };
    let ((renewed_row, renewed), (changed_row, changed), workloads) =
        futures::try_join!(renewing, changing, living)?;
    let ((came_row, came), (went_row, went)) = workloads;
    let of = |number: usize| written.of(number % watched);
    let (all_delivered, delivered_own) =
        tokio::join!(controllers.until_delivered(|_| written.digest()), kubelets.until_delivered(of));
    whole.ends(all_delivered.later(delivered_own));
    let [controllers_late, kubelets_late] = late;
    let delivered = whole.with(controllers_late);
    let mut delivered =
        delivered.row(format!("delivered to {CONTROLLERS} controllers"), "event", controllers.received(), 0);
    report_cuts(&mut delivered, &controllers);
    let delivered_own = whole.with(kubelets_late);
    let mut delivered_own =
        delivered_own.row(format!("delivered to {nodes} nodes"), "event", kubelets.received(), 0);
    report_cuts(&mut delivered_own, &kubelets);
    let mut rows = vec![renewed_row, came_row, changed_row, went_row, delivered, delivered_own];
    // All of it happens at the same time, so only the CPU of the whole can be measured.
    rows.iter_mut().for_each(|row| (row.cpu_micros_each, row.memory) = (None, None));
    let writes = renewed.count + came.count + changed.count + went.count;
    rows.push(whole.row("all of it", "write", writes, 0));
    let checks = vec![
        controllers.check(COMPLETE, |_| written.digest()),
        kubelets.check("every node saw every change of what is its own, once and in order", of),
        answered(&[&leases, &renewed, &came, &changed, &went]),
    ];
    Ok(Outcome { rows, checks })
}
