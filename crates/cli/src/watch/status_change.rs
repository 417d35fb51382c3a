//! What there is to say about the watch itself: that it is up to date, has broken, goes on, or had to begin anew.

use super::text::one_line;
use keepwatch_informer::{
    InformerError, Status, error::Class, informer::WatchStatus, object::oldest_version,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Something about the watch. A namespace is named where several are watched.
#[derive(Clone, Debug)]
pub(super) enum StatusChange {
    /// What there was at the start is known.
    Synced { count: usize, version: String },
    /// Something went wrong; it is tried again after a while.
    Retrying { namespace: Option<String>, error: Arc<InformerError>, is_synced: bool },
    /// It goes on from where it was.
    Resumed { namespace: Option<String>, version: String },
    /// Everything was fetched again, because it could not go on from where it was.
    ListedAgain { namespace: Option<String>, version: String, before: String },
    /// An object cannot be read.
    Unreadable { error: InformerError },
}

impl StatusChange {
    /// Whether trying again cannot help, as nothing went well so far and the server does not want to.
    pub(super) fn is_hopeless(&self) -> bool {
        let StatusChange::Retrying { error, is_synced: false, .. } = self else { return false };
        matches!(
            error.error.class,
            Class::Forbidden | Class::Unauthorized | Class::NotFound | Class::Rejected
        )
    }

    /// Whether it comes before the events that are still pending.
    pub(super) fn comes_first(&self) -> bool {
        matches!(self, StatusChange::Resumed { .. } | StatusChange::ListedAgain { .. })
    }
}

/// The changes between two statuses. A state that came and went in between is not seen.
pub(super) fn between(before: &[WatchStatus], now: &[WatchStatus]) -> Vec<StatusChange> {
    let name = |watched: &WatchStatus| watched.namespace.clone().filter(|_| now.len() > 1);
    let mut change = Vec::new();
    for (before, now) in before.iter().zip(now) {
        let namespace = name(now);
        if now.states > before.states.max(1) {
            let (version, before) = (now.state_version.clone(), now.before_state.clone());
            change.push(StatusChange::ListedAgain { namespace: namespace.clone(), version, before });
        }
        if now.resumes > before.resumes
            && let Some(version) = resumed_from(now)
        {
            change.push(StatusChange::Resumed { namespace: namespace.clone(), version });
        }
        if let Some(error) = new_failure(before, now) {
            change.push(StatusChange::Retrying { namespace, error, is_synced: now.states > 0 });
        }
    }
    change
}

/// What it went on from is known only as long as it does.
fn resumed_from(now: &WatchStatus) -> Option<String> {
    match &now.status {
        Status::Synced { version } => Some(version.clone()),
        _ => None,
    }
}

fn new_failure(before: &WatchStatus, now: &WatchStatus) -> Option<Arc<InformerError>> {
    let failure = |watched: &WatchStatus| match &watched.status {
        Status::Retrying { error, .. } => Some(Arc::clone(error)),
        _ => None,
    };
    let now = failure(now)?;
    let is_known = failure(before).is_some_and(|before| Arc::ptr_eq(&before, &now));
    (!is_known).then_some(now)
}

/// In a few words how the watch fares, and whether all is well. What is worst speaks for all.
pub(super) fn state(watched: &[WatchStatus], now: Instant) -> (String, bool) {
    let failing = watched.iter().find_map(|watched| match &watched.status {
        Status::Retrying { error, at, attempt, .. } => Some((error, *at, *attempt)),
        _ => None,
    });
    if let Some((error, at, attempt)) = failing {
        let when = match at.saturating_duration_since(now) {
            Duration::ZERO => "now".to_owned(),
            wait => format!("in {} s", wait.as_secs_f64().ceil()),
        };
        return (format!("reconnecting {when}: {} (attempt {attempt})", one_line(&error.error)), false);
    }
    let versions = watched.iter().map(|watched| match &watched.status {
        Status::Synced { version } => Some(version.as_str()),
        _ => None,
    });
    match versions.collect::<Option<Vec<_>>>() {
        Some(versions) => (format!("watching from {}", oldest_version(versions)), true),
        None => ("listing".to_owned(), true),
    }
}
