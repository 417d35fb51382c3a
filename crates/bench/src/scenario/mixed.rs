//! A day in a cluster's life, in fast motion: nodes renew their leases, workloads come, change and go, a few controllers
//! watch everything, and every node watches what is its own.
//!
//! Workloads are ConfigMaps like all objects here: some come, some change, and those that came go again. Everything has its
//! own pace, so nobody works flat out and latencies are those of a server that is not saturated.

use super::{COMPLETE, Outcome, answered, tell_cuts, tell_unsent, writers};
use crate::{
    Failure,
    drive::{Pace, Request, drive},
    latency::Latencies,
    run::Run,
    tally::Ledger,
    watching::{Audience, Watchers},
};
use std::sync::Arc;

/// How many controllers watch everything.
const CONTROLLERS: usize = 10;
/// Of all writes at the pace of the run: which share renews leases, brings workloads, and changes them.
const LEASES: f64 = 0.4;
const COMINGS: f64 = 0.1;
const CHANGES: f64 = 0.4;
/// How much faster workloads go than they came.
const GOING: f64 = 4.0;
/// The number of the first workload that comes, beyond those that are there.
const FIRST: usize = 1_000_000;

pub(super) async fn mixed(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let options = &run.options;
    let (first, nodes) = (options.objects + FIRST, options.watchers.max(1));
    // Nodes watch these, several the same one if there are few, and these change.
    let watched = options.objects.clamp(1, nodes);
    run.progress.says("nodes and controllers join");
    let (ledger, none) = (Arc::new(Ledger::of_each(watched)), Arc::new(Ledger::default()));
    let unmeasured = Arc::new(Latencies::default());
    let joining = Pace::exactly(nodes as u64);
    let leases = drive(run, writers(run).await?, Request::Join(nodes), joining, &none, &unmeasured).await?;
    let from = run.version().await?;
    let late = [Arc::new(Latencies::default()), Arc::new(Latencies::default())];
    let controllers = Watchers::open(run, Audience::of_everything(CONTROLLERS, from, &late[0])).await?;
    let mut own = Audience::of_everything(nodes, from, &late[1]);
    own.selectors = (0..nodes).map(|number| run.objects.slot(number % watched)).collect();
    let kubelets = Watchers::open(run, own).await?;
    let [renewers, changers, comers, goers] =
        [writers(run).await?, writers(run).await?, writers(run).await?, writers(run).await?];
    run.progress.says("a day goes by");
    let rate = |share: f64| (options.rate * share).max(0.1);
    let pace = |share: f64| Pace::at_rate(options.duration, rate(share));
    let mut whole = run.meter();
    let rows = |name: String, request, clients, pace: Pace, ledger| {
        let meter = whole.within();
        async move {
            let driven = drive(run, clients, request, pace, ledger, &meter.latencies).await?;
            let mut row = meter.row(name, "write", driven.count, driven.failed);
            tell_unsent(&mut row, &driven);
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
        rows("workloads changed".to_owned(), Request::Patch(watched), changers, pace(CHANGES), &ledger);
    let living = async {
        let created = "workloads created".to_owned();
        let came = rows(created, Request::Create(first), comers, pace(COMINGS), &ledger).await?;
        let all = Pace { rate: Some(rate(COMINGS) * GOING), ..Pace::exactly(came.1.count + came.1.failed) };
        let went = rows("workloads deleted".to_owned(), Request::Delete(first), goers, all, &ledger).await?;
        Ok((came, went))
    };
    let ((renewed_row, renewed), (changed_row, changed), workloads) =
        futures::try_join!(renewing, changing, living)?;
    let ((came_row, came), (went_row, went)) = workloads;
    let of = |number: usize| ledger.of(number % watched);
    let (told_all, told_own) = tokio::join!(controllers.settle(|_| ledger.tally()), kubelets.settle(of));
    whole.ends(told_all.later(told_own));
    let [controllers_late, kubelets_late] = late;
    let told = whole.with(controllers_late);
    let mut told = told.row(format!("told to {CONTROLLERS} controllers"), "event", controllers.heard(), 0);
    tell_cuts(&mut told, &controllers);
    let told_own = whole.with(kubelets_late);
    let mut told_own = told_own.row(format!("told to {nodes} nodes"), "event", kubelets.heard(), 0);
    tell_cuts(&mut told_own, &kubelets);
    let mut rows = vec![renewed_row, came_row, changed_row, went_row, told, told_own];
    // All of it happens at once: what it costs can only be told of the whole.
    rows.iter_mut().for_each(|row| (row.cpu_micros_each, row.memory) = (None, None));
    let writes = renewed.count + came.count + changed.count + went.count;
    rows.push(whole.row("all of it", "write", writes, 0));
    let checks = vec![
        controllers.check(COMPLETE, |_| ledger.tally()),
        kubelets.check("every node saw every change of what is its own, once and in order", of),
        answered(&[&leases, &renewed, &came, &changed, &went]),
    ];
    Ok(Outcome { rows, checks })
}
