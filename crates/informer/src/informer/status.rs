//! The status of an informer and of its watches.

use crate::error::InformerError;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};

/// The status of an informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Status {
    /// It has not sent a request yet.
    Starting,
    /// It fetches the first list, or lists again.
    Listing,
    /// The list is complete and a watch is open.
    Synced {
        /// The version at which the watch started.
        version: String,
    },
    /// A request failed; it waits and tries again.
    Retrying {
        /// The failure.
        error: Arc<InformerError>,
        /// The time of the next attempt.
        at: Instant,
        /// The number of consecutive failures.
        attempt: u32,
        /// The time of the first of those failures.
        since: Instant,
    },
    /// It has stopped.
    Stopped,
}

impl Status {
    /// The status of an informer is that of its watch with the highest weight.
    fn weight(&self) -> u8 {
        match self {
            Status::Synced { .. } => 0,
            Status::Starting => 1,
            Status::Listing => 2,
            Status::Retrying { .. } => 3,
            Status::Stopped => 4,
        }
    }
}

/// The status of one watch: that of a configured namespace, or the only one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WatchStatus {
    /// The namespace; absent if all are watched together.
    pub namespace: Option<String>,
    /// The status.
    pub status: Status,
    /// The number of complete lists, whether requested or streamed.
    pub states: u64,
    /// The version of the last list; empty before the first.
    pub state_version: String,
    /// The newest version received before the last list; empty if it was the first.
    pub before_state: String,
    /// The number of times that the watch was resumed without a list.
    pub resumes: u64,
    /// Whether the watch that follows a list is not open yet.
    is_list_new: bool,
}

impl WatchStatus {
    fn new(namespace: Option<String>) -> Self {
        WatchStatus {
            namespace,
            status: Status::Starting,
            states: 0,
            state_version: String::new(),
            before_state: String::new(),
            resumes: 0,
            is_list_new: false,
        }
    }
}

/// The status of each scope, and of all.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    scopes: Mutex<Vec<WatchStatus>>,
    all: watch::Sender<Status>,
}

impl StatusBoard {
    pub(crate) fn new(namespaces: impl IntoIterator<Item = Option<String>>) -> Self {
        StatusBoard {
            scopes: Mutex::new(namespaces.into_iter().map(WatchStatus::new).collect()),
            all: watch::Sender::new(Status::Starting),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Status> {
        self.all.subscribe()
    }

    pub(crate) fn scopes(&self) -> Vec<WatchStatus> {
        self.scopes.lock().clone()
    }

    pub(crate) fn of(&self, scope: usize) -> Status {
        self.scopes.lock()[scope].status.clone()
    }

    pub(crate) fn set(&self, scope: usize, status: Status) {
        let mut scopes = self.scopes.lock();
        let own = &mut scopes[scope];
        if matches!(status, Status::Synced { .. }) && !std::mem::take(&mut own.is_list_new) {
            own.resumes += 1;
        }
        own.status = status;
        if let Some(worst) = scopes.iter().map(|scope| &scope.status).max_by_key(|status| status.weight()) {
            self.all.send_replace(worst.clone());
        }
    }

    /// Records a complete list of a scope, and the newest version received before it.
    pub(crate) fn list_complete(&self, scope: usize, version: &str, before: &str) {
        let mut scopes = self.scopes.lock();
        let own = &mut scopes[scope];
        own.states += 1;
        own.is_list_new = true;
        version.clone_into(&mut own.state_version);
        before.clone_into(&mut own.before_state);
        // Subscribers learn of the list before its events.
        self.all.send_modify(|_| {});
    }

    pub(crate) fn stop(&self) {
        self.scopes.lock().iter_mut().for_each(|scope| scope.status = Status::Stopped);
        self.all.send_replace(Status::Stopped);
    }
}
