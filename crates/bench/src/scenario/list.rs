//! Lists, in the ways clients do it. Each list is checked: it has every object, or is no answer.

use super::{Outcome, answered, measured};
use crate::{
    Failure,
    drive::{Pace, Request},
    run::Run,
};
use std::sync::Arc;

/// How large pages are: as clients ask for them by default.
const PAGE: usize = 500;
/// How many list at a time where that is measured.
const AT_ONCE: usize = 8;

pub(super) async fn list(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let objects = run.options.objects;
    let all = format!("/api/v1/configmaps?labelSelector={}", run.objects.label());
    let whole = |path: String| Request::List { path, expected: objects };
    let one = Request::List {
        path: format!("/api/v1/configmaps?labelSelector={}", run.objects.slot(0)),
        expected: objects.min(1),
    };
    let any = format!("{all}&resourceVersion=0");
    let ways = [
        ("consistent (no resourceVersion)", whole(all), 1),
        ("from the cache (resourceVersion=0)", whole(any.clone()), 1),
        ("in pages of 500", Request::Pages { size: PAGE, expected: objects }, 1),
        ("a label selector that finds one", one, 1),
        ("8 at once (resourceVersion=0)", whole(any), AT_ONCE),
    ];
    let each = run.options.duration / ways.len() as u32;
    let mut outcome = Outcome::default();
    let mut all = Vec::new();
    for (name, request, concurrency) in ways {
        let (row, driven) = measured(run, name, "list", request, concurrency, Pace::flat_out(each)).await?;
        outcome.rows.push(row);
        all.push(driven);
    }
    outcome.checks.push(answered(&all.iter().collect::<Vec<_>>()));
    Ok(outcome)
}
