//! Changes of the watch's own state: it is synced, has failed, was resumed, or began with a new list.

use super::text::one_line;
use keepwatch_informer::{
    InformerError, Status, error::Class, informer::WatchStatus, object::oldest_version,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A change of the status of a watch. Its namespace is named if several are watched.
#[derive(Clone, Debug)]
pub(super) enum StatusChange {
    /// The initial state is complete.
    Synced { count: usize, version: String },
    /// A request failed and will be retried.
    Retrying { namespace: Option<String>, error: Arc<InformerError>, is_synced: bool },
    /// The watch was resumed.
    Resumed { namespace: Option<String>, version: String },
    /// Everything was listed again, because the watch could not be resumed.
    ListedAgain { namespace: Option<String>, version: String, before: String },
    /// An object could not be decoded.
    Unreadable { error: InformerError },
}

impl StatusChange {
    /// Whether a retry cannot help: the server denies access, and no request has succeeded so far.
    pub(super) fn is_hopeless(&self) -> bool {
        let StatusChange::Retrying { error, is_synced: false, .. } = self else { return false };
        matches!(
            error.error.class,
            Class::Forbidden | Class::Unauthorized | Class::NotFound | Class::Rejected
        )
    }

    /// Whether it is reported before the events that are still pending.
    pub(super) fn precedes_events(&self) -> bool {
        matches!(self, StatusChange::Resumed { .. } | StatusChange::ListedAgain { .. })
    }
}

/// The changes between two statuses. A state between the two is not reported.
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

/// The version that a watch was resumed from, as long as the watch is open.
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

/// The state of the watch in a few words, and whether all is well. The worst state of all watches decides.
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
