//! How an informer fares.

use crate::InformerError;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};

/// How an informer fares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Status {
    /// It was not started, or has not asked for anything yet.
    Starting,
    /// It fetches the state there is.
    Listing,
    /// It knows the state, and watches what happens from this version on.
    Synced {
        /// From where on.
        version: String,
    },
    /// Something went wrong; it waits and tries again.
    Retrying {
        /// What went wrong.
        error: Arc<InformerError>,
        /// When it tries again.
        at: Instant,
        /// How many failures there were in a row.
        attempt: u32,
        /// Since when it fails.
        since: Instant,
    },
    /// It has stopped.
    Stopped,
}

impl Status {
    /// What of several parts speaks for all: the worst.
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

/// How one of the watches of an informer fares: that of a namespace, or the only one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watched {
    /// The namespace, if several are watched, each on its own, or only one is.
    pub namespace: Option<String>,
    /// How it fares.
    pub status: Status,
    /// How many whole states there were, listed or sent by a watch.
    pub states: u64,
    /// The version of the last of them; empty before there is one.
    pub state_version: String,
    /// The newest version heard of before that; empty if it was the first.
    pub before_state: String,
    /// How often it went on from where it was, without a new state.
    pub resumes: u64,
    /// Whether the watch that follows a state is still to come.
    is_state_new: bool,
}

impl Watched {
    fn new(namespace: Option<String>) -> Self {
        Watched {
            namespace,
            status: Status::Starting,
            states: 0,
            state_version: String::new(),
            before_state: String::new(),
            resumes: 0,
            is_state_new: false,
        }
    }
}

/// The status of each part, and of all.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    parts: Mutex<Vec<Watched>>,
    all: watch::Sender<Status>,
}

impl StatusBoard {
    pub(crate) fn new(namespaces: impl IntoIterator<Item = Option<String>>) -> Self {
        StatusBoard {
            parts: Mutex::new(namespaces.into_iter().map(Watched::new).collect()),
            all: watch::Sender::new(Status::Starting),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Status> {
        self.all.subscribe()
    }

    pub(crate) fn parts(&self) -> Vec<Watched> {
        self.parts.lock().clone()
    }

    pub(crate) fn of(&self, part: usize) -> Status {
        self.parts.lock()[part].status.clone()
    }

    pub(crate) fn set(&self, part: usize, status: Status) {
        let mut parts = self.parts.lock();
        let own = &mut parts[part];
        if matches!(status, Status::Synced { .. }) && !std::mem::take(&mut own.is_state_new) {
            own.resumes += 1;
        }
        own.status = status;
        if let Some(worst) = parts.iter().map(|part| &part.status).max_by_key(|status| status.weight()) {
            self.all.send_replace(worst.clone());
        }
    }

    /// There is a whole state of a part; before it, everything up to another version was known.
    pub(crate) fn state_known(&self, part: usize, version: &str, before: &str) {
        let mut parts = self.parts.lock();
        let own = &mut parts[part];
        own.states += 1;
        own.is_state_new = true;
        version.clone_into(&mut own.state_version);
        before.clone_into(&mut own.before_state);
        // Whoever waits for news hears of the state before its events.
        self.all.send_modify(|_| {});
    }

    pub(crate) fn stop(&self) {
        self.parts.lock().iter_mut().for_each(|part| part.status = Status::Stopped);
        self.all.send_replace(Status::Stopped);
    }
}
