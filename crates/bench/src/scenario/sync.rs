//! Informers that start at the same time, as when controllers are rolled out. Each has a client of its own, which uses
//! HTTP/1.1 whatever the protocol of the run is.

use super::Outcome;
use crate::{Failure, ObjectKind, custom::RECORDS, results::Check, run::Run};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use keepwatch_informer::{Informer, Lean, informer::Builder};
use kube_client::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// The time that a sync may take.
const SYNC_MAX: Duration = Duration::from_secs(120);

pub(super) async fn sync(run: &Arc<Run>) -> Result<Outcome, Failure> {
    match run.objects.kind() {
        ObjectKind::ConfigMaps => {
            sync_lean(run, |client| Informer::<ConfigMap>::builder(client).lean()).await
        }
        ObjectKind::Custom => {
            let kind = GroupVersionKind::gvk(&run.objects.group(), "v1", "Record");
            let resource = ApiResource::from_gvk_with_plural(&kind, RECORDS);
            sync_lean(run, move |client| Informer::dynamic(client, &resource).lean()).await
        }
        ObjectKind::Pods => sync_lean(run, |client| Informer::<Pod>::builder(client).lean()).await,
    }
}

async fn sync_lean<K: 'static>(
    run: &Arc<Run>,
    lean: impl Fn(Client) -> Builder<Lean<K>>,
) -> Result<Outcome, Failure> {
    run.progress.set_message("informers start");
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let mut informers = Vec::new();
    for _ in 0..run.options.informers {
        // Each is a program of its own.
        let client = keepwatch_informer::client(run.cluster.config()).map_err(Failure::at("no client"))?;
        informers.push(lean(client).labels(run.objects.plain_label()).build());
    }
    let meter = run.meter();
    let latencies = &meter.latencies;
    let started = Instant::now();
    let syncing = informers.iter().enumerate().map(|(number, informer)| {
        informer.start(stop.clone());
        async move {
            let is_synced = matches!(timeout(SYNC_MAX, informer.synced()).await, Ok(Ok(())));
            if is_synced {
                latencies.record(number, started.elapsed().as_micros() as u64);
            }
            is_synced
        }
    });
    let synced = join_all(syncing).await.into_iter().filter(|is_synced| *is_synced).count();
    let failed = informers.len() - synced;
    let name = format!("informers, {} objects each, over HTTP/1.1", run.options.objects);
    let row = meter.row(name, "informer", synced as u64, failed as u64);
    let short: Vec<usize> = informers
        .iter()
        .map(|informer| informer.store().len())
        .filter(|len| *len != run.options.objects)
        .collect();
    let check = Check {
        claim: "every informer holds every object".to_owned(),
        checked: informers.len() as u64,
        faults: short.len() as u64,
        first_fault: short.first().map(|len| format!("one holds {len} of {} objects", run.options.objects)),
    };
    Ok(Outcome { rows: vec![row], checks: vec![check] })
}
