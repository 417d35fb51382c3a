//! Writes as fast as they are answered, and connections for single requests.

use super::{Outcome, answered, measured};
use crate::{
    Failure,
    drive::{Pace, Request},
    run::Run,
};
use std::sync::Arc;

pub(crate) async fn fill(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (all, clients) = (run.options.objects, run.options.concurrency);
    let (row, driven) =
        measured(run, "create", "object", Request::Create(0), clients, Pace::exactly(all as u64)).await?;
    if driven.failed > 0 {
        let why = driven.first_failure.unwrap_or_default();
        return Err(Failure::new(format!("{} of {all} objects could not be created: {why}", driven.failed)));
    }
    Ok(Outcome { rows: vec![row], checks: vec![answered(&[&driven])] })
}

pub(super) async fn write(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (objects, clients) = (run.options.objects, run.options.concurrency);
    let pace = Pace::flat_out(run.options.duration / 4);
    let create = Request::Create(objects);
    let (create, created) = measured(run, "create", "object", create, clients, pace).await?;
    let (update, updated) = measured(run, "update (PUT)", "object", Request::Update, clients, pace).await?;
    let patch = Request::Patch(objects);
    let (patch, patched) = measured(run, "merge patch", "object", patch, clients, pace).await?;
    // Those that were created, so that the others find what they expect.
    let all = Pace::exactly(created.count + created.failed);
    let (delete, deleted) = measured(run, "delete", "object", Request::Delete(objects), clients, all).await?;
    let check = answered(&[&created, &updated, &patched, &deleted]);
    Ok(Outcome { rows: vec![create, update, patch, delete], checks: vec![check] })
}

pub(super) async fn churn(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (name, pace) = ("connect, get one object, leave", Pace::flat_out(run.options.duration));
    let (row, driven) =
        measured(run, name, "connection", Request::Connect, run.options.concurrency, pace).await?;
    Ok(Outcome { rows: vec![row], checks: vec![answered(&[&driven])] })
}
