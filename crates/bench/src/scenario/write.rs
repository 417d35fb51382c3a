//! Writes as fast as they are answered, and connections for single requests.

use super::{Outcome, answered, measured};
use crate::{
    Failure, ObjectKind,
    drive::{Pace, Request},
    run::Run,
};
use std::sync::Arc;

pub(crate) async fn fill(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (all, clients) = (run.options.objects, run.options.concurrency);
    let (create, pace) = (Request::Create(0), Pace::exactly(all as u64));
    let (row, driven) = measured(run, "create", "object", create, clients, pace, &Arc::default()).await?;
    if driven.failed > 0 {
        let why = driven.first_failure.unwrap_or_default();
        return Err(Failure::new(format!("{} of {all} objects could not be created: {why}", driven.failed)));
    }
    Ok(Outcome { rows: vec![row], checks: vec![answered(&[&driven])] })
}

pub(super) async fn write(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (objects, clients) = (run.options.objects, run.options.concurrency);
    let (pace, written) = (Pace::unlimited(run.options.duration / 4), Arc::default());
    let measure =
        async |name, request, pace| measured(run, name, "object", request, clients, pace, &written).await;
    let (create, created) = measure("create", Request::Create(objects), pace).await?;
    // Custom objects are replaced only with the version that was read.
    let updated = match run.objects.kind() {
        ObjectKind::Custom => None,
        ObjectKind::ConfigMaps | ObjectKind::Pods => {
            Some(measure("update (PUT)", Request::Update, pace).await?)
        }
    };
    let (patch, patched) = measure("merge patch", Request::Patch(objects), pace).await?;
    // Only the created ones, so that other scenarios find the objects that they expect.
    let all = Pace::exactly(created.count + created.failed);
    let (delete, deleted) = measure("delete", Request::Delete(objects), all).await?;
    let (update, updated) = updated.unzip();
    let driven: Vec<_> =
        [Some(&created), updated.as_ref(), Some(&patched), Some(&deleted)].into_iter().flatten().collect();
    let rows = [Some(create), update, Some(patch), Some(delete)].into_iter().flatten().collect();
    Ok(Outcome { rows, checks: vec![answered(&driven)] })
}

pub(super) async fn churn(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (name, pace) = ("connect, get one object, leave", Pace::unlimited(run.options.duration));
    let clients = run.options.concurrency;
    let (row, driven) =
        measured(run, name, "connection", Request::Connect, clients, pace, &Arc::default()).await?;
    Ok(Outcome { rows: vec![row], checks: vec![answered(&[&driven])] })
}
