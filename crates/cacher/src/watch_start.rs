//! Where a watch starts, and the waiting that this may take.
//!
//! Kept true: a watch that starts with the state, or at a revision, is added to the watchers under the same lock as the
//! state is read, so that it misses no later event.

use crate::{
    cacher::Cacher,
    history::TooOld,
    state::State,
    watch_stream::WatchStream,
    watcher::{WatchPosition, Watcher},
};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{Position, WatchStart},
};
use keepwatch_storage::{ExpiredRead, Scope, StorageError, WatchRequest};
use tokio::time::Instant;

impl Cacher {
    /// Starts a watch. Returns nothing while the cache relists, and the watch ends at once.
    pub(crate) async fn start_watch(
        &self,
        scope: Scope,
        request: WatchRequest,
    ) -> Result<Option<WatchStream>, StorageError> {
        let shared = &self.shared;
        let started = Instant::now();
        // A timeout that is too long to be represented means that there is no deadline.
        let deadline = request.timeout.and_then(|timeout| started.checked_add(timeout));
        let after = match request.start {
            WatchStart::InitialEvents { end_bookmark: true, .. } if !shared.storage.reports_progress() => {
                return Err(StorageError::backend(
                    "finding the end of the initial state",
                    "storage does not answer requests for progress",
                ));
            }
            WatchStart::InitialEvents { position, .. } => {
                match position {
                    Position::Any => {}
                    Position::MostRecent => drop(shared.until_consistent().await?),
                    Position::At(revision) => shared.until_fresh(revision).await?,
                }
                None
            }
            WatchStart::Changes { position: Position::At(revision) } => Some(revision),
            WatchStart::Changes { position: Position::MostRecent } => {
                Some(shared.storage.current_revision().await?)
            }
            WatchStart::Changes { position: Position::Any } => None,
        };
        // Not while the state is locked: a selector may be long.
        let predicate = shared.predicates.share(request.predicate);
        let reader = shared.change(|state| {
            if !state.ready.is_ready() {
                return Ok::<_, StorageError>(None);
            }
            let start = match (after, request.start) {
                (Some(revision), _) => WatchPosition::After(revision),
                (None, WatchStart::InitialEvents { end_bookmark, .. }) => {
                    WatchPosition::State { revision: state.revision, end_bookmark }
                }
                (None, WatchStart::Changes { .. }) => WatchPosition::After(state.revision),
            };
            if let WatchPosition::After(requested) = start {
                self.check_not_expired(state, requested)?;
            }
            let (watcher, mut reader) =
                Watcher::add(state, scope, predicate, start, deadline, request.progress);
            if request.turns.is_some() {
                reader.take_turns();
            }
            if request.progress {
                state.bookmarks.schedule(&watcher, started);
            }
            Ok(Some(reader))
        })?;
        let Some(reader) = reader else { return Ok(None) };
        if request.progress {
            shared.bookmarks_changed.notify_one();
        }
        Ok(Some(WatchStream::new(shared.clone(), reader, deadline, request.turns)))
    }

    /// Fails if neither the cache nor storage holds the events after a revision.
    fn check_not_expired(&self, state: &State, requested: ResourceVersion) -> Result<(), StorageError> {
        let Err(TooOld(begins_after)) = state.history.check_reaches(requested) else { return Ok(()) };
        let storage = &self.shared.storage;
        // Without progress notifications a watch cannot know when it has read all of storage's history.
        let oldest =
            if storage.reports_progress() { storage.compacted_revision() } else { Some(begins_after) };
        match oldest.filter(|oldest| requested < *oldest) {
            Some(oldest) => Err(StorageError::Expired(ExpiredRead::WatchAfter { requested, oldest })),
            None => Ok(()),
        }
    }
}
