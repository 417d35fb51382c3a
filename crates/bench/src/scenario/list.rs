//! Lists, in the ways of clients. Each list is checked: it must have every object of the run. Objects that existed
//! before are listed with them.

use super::{Outcome, answered, measured};
use crate::{
    Failure,
    drive::{Pace, Request},
    run::Run,
};
use std::sync::Arc;

/// The number of objects in a page: the default of clients.
const PAGE: usize = 500;

pub(super) async fn list(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let (objects, clients) = (run.options.objects, run.options.concurrency);
    let path = run.objects.all();
    let whole = |query: &str| Request::List { path: format!("{path}{query}"), expected: objects };
    let one = Request::List {
        path: format!("{path}?labelSelector={}", run.objects.slot(0)),
        expected: objects.min(1),
    };
    let many = format!("{clients} at once (resourceVersion=0)");
    let ways = [
        ("consistent (no resourceVersion)", whole(""), 1),
        ("from the cache (resourceVersion=0)", whole("?resourceVersion=0"), 1),
        ("in pages of 500", Request::Pages { size: PAGE, expected: objects }, 1),
        ("a label selector that finds one", one, 1),
        (&many, whole("?resourceVersion=0"), clients),
    ];
    let each = run.options.duration / ways.len() as u32;
    let mut outcome = Outcome::default();
    let (mut all, none) = (Vec::new(), Arc::default());
    for (name, request, concurrency) in ways {
        let pace = Pace::unlimited(each);
        let (row, driven) = measured(run, name, "list", request, concurrency, pace, &none).await?;
        outcome.rows.push(row);
        all.push(driven);
    }
    outcome.checks.push(answered(&all.iter().collect::<Vec<_>>()));
    Ok(outcome)
}
