//! Watches: the initial state, then the backend's changes seen through the selectors.
//!
//! Kept true: the state is of one revision, however many pages it has; what it held is not delivered again as a
//! change; a change that takes an object into or out of the selectors' view is delivered as its addition or
//! deletion; after an error nothing follows.

use super::{Store, Yielding, list::PAGE_KEYS_MAX};
use crate::{
    backend::{BackendEvent, KeyValue, RangeRequest},
    error::{ExpiredRead, StorageError},
    interface::{Object, Watch, WatchEvent, WatchRequest},
    key::Scope,
    predicate::Predicate,
};
use futures::{StreamExt, TryStreamExt, future, stream};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{Position, WatchStart},
};

/// The time after which a watch that asked for a future state should be tried again.
const TOO_LARGE_RETRY_SECONDS: u32 = 1;

pub(super) async fn start(store: Store, scope: Scope, request: WatchRequest) -> Result<Watch, StorageError> {
    match request.start {
        WatchStart::InitialEvents { position, end_bookmark } => {
            Ok(state_then_changes(State { store, scope, request, position, end_bookmark }))
        }
        WatchStart::Changes { position: Position::At(revision) } => {
            changes(store, scope, request, revision).await
        }
        // There is no copy here that could be older than the store.
        WatchStart::Changes { position: Position::MostRecent | Position::Any } => {
            let revision = store.backend.current_revision().await?;
            changes(store, scope, request, revision).await
        }
    }
}

/// The changes after `revision`, as far as the predicate lets them be seen.
async fn changes(
    store: Store,
    scope: Scope,
    request: WatchRequest,
    revision: ResourceVersion,
) -> Result<Watch, StorageError> {
    let events = store.backend.watch(scope, revision, request.progress).await?;
    let view = View { store, predicate: request.predicate };
    let visible = events.filter_map(move |event| {
        future::ready(match event {
            Ok(event) => view.see(event).transpose(),
            Err(error) => Some(Err(error)),
        })
    });
    Ok(ending_with_the_first_error(visible))
}

/// The state at the current revision as additions, its end marked if wanted, then the changes after it.
fn state_then_changes(state: State) -> Watch {
    let parts = stream::try_unfold((state, Stage::Begin), |(state, stage)| async move {
        let next = state.part(stage).await?;
        Ok::<_, StorageError>(next.map(|(part, stage)| (part, (state, stage))))
    });
    ending_with_the_first_error(parts.try_flatten())
}

/// A watch that begins with the state.
struct State {
    store: Store,
    scope: Scope,
    request: WatchRequest,
    position: Position,
    end_bookmark: bool,
}

/// The next step of such a watch: a page of the state, or the changes after it, which never end by themselves.
enum Stage {
    Begin,
    Page { from: String, at: ResourceVersion },
    StateDelivered(ResourceVersion),
    Following,
}

impl State {
    async fn part(&self, stage: Stage) -> Result<Option<(Watch, Stage)>, StorageError> {
        let (from, at) = match stage {
            Stage::Begin => (None, None),
            Stage::Page { from, at } => (Some(from), Some(at)),
            Stage::StateDelivered(revision) => {
                let (store, scope, request) = (self.store.clone(), self.scope.clone(), self.request.clone());
                return Ok(Some((changes(store, scope, request, revision).await?, Stage::Following)));
            }
            Stage::Following => return Ok(None),
        };
        let limit = Some(PAGE_KEYS_MAX);
        let page = RangeRequest { scope: self.scope.clone(), from, limit, at, count: false };
        let range = self.store.backend.range(page).await.map_err(expired)?;
        self.must_not_be_older_than_asked(range.current)?;
        let at = at.unwrap_or(range.current);
        let next = match range.items.last() {
            Some(last) if range.more => Stage::Page { from: format!("{}\0", last.key), at },
            _ => Stage::StateDelivered(at),
        };
        let end = (self.end_bookmark && matches!(next, Stage::StateDelivered(_)))
            .then_some(Ok(WatchEvent::Bookmark { revision: at, initial_state_end: true }));
        Ok(Some((self.additions(range.items).chain(stream::iter(end)).boxed(), next)))
    }

    /// The objects of a page that are in view.
    fn additions(&self, items: Vec<KeyValue>) -> Watch {
        let view = View { store: self.store.clone(), predicate: self.request.predicate.clone() };
        let page = (view, items.into_iter(), Yielding::default());
        stream::try_unfold(page, |(view, mut items, mut turns)| async move {
            for item in items.by_ref() {
                turns.decoded().await;
                let object = view.decode(item)?;
                if view.predicate.matches(&object.attributes) {
                    return Ok(Some((WatchEvent::Added(object), (view, items, turns))));
                }
            }
            Ok(None)
        })
        .boxed()
    }

    fn must_not_be_older_than_asked(&self, current: ResourceVersion) -> Result<(), StorageError> {
        match self.position {
            Position::At(requested) if requested > current => Err(StorageError::TooLarge {
                requested,
                current,
                retry_after_seconds: Some(TOO_LARGE_RETRY_SECONDS),
            }),
            _ => Ok(()),
        }
    }
}

/// Compaction overtook the pages of the state. What is already delivered cannot be delivered again at a newer revision.
fn expired(error: StorageError) -> StorageError {
    if error.is_expired() { StorageError::Expired(ExpiredRead::Watch) } else { error }
}

/// The events of one watcher, made from those of the backend.
struct View {
    store: Store,
    predicate: Predicate,
}

impl View {
    fn see(&self, event: BackendEvent) -> Result<Option<WatchEvent>, StorageError> {
        Ok(match event {
            BackendEvent::Progress(revision) => {
                Some(WatchEvent::Bookmark { revision, initial_state_end: false })
            }
            BackendEvent::Put { item, previous: None } if item.created == item.modified => {
                let object = self.decode(item)?;
                self.predicate.matches(&object.attributes).then_some(WatchEvent::Added(object))
            }
            BackendEvent::Put { item, previous } => {
                let revision = item.modified;
                let previous = known(previous)?;
                let object = self.decode(item)?;
                if self.predicate.is_everything() {
                    return Ok(Some(WatchEvent::Modified(object)));
                }
                let previous = self.decode(previous)?;
                let seen = |object: &Object| self.predicate.matches(&object.attributes);
                match (seen(&previous), seen(&object)) {
                    (true, true) => Some(WatchEvent::Modified(object)),
                    (false, true) => Some(WatchEvent::Added(object)),
                    (true, false) => Some(WatchEvent::Deleted(previous.at(revision))),
                    (false, false) => None,
                }
            }
            BackendEvent::Delete { revision, previous, .. } => {
                let previous = self.decode(known(previous)?)?;
                self.predicate
                    .matches(&previous.attributes)
                    .then_some(WatchEvent::Deleted(previous.at(revision)))
            }
        })
    }

    fn decode(&self, item: KeyValue) -> Result<Object, StorageError> {
        Ok(self.store.values.decode(item)?.0)
    }
}

pub(super) fn known(previous: Option<KeyValue>) -> Result<KeyValue, StorageError> {
    previous.ok_or_else(|| StorageError::WatchFailed("etcd event received with PrevKv=nil".to_owned()))
}

fn ending_with_the_first_error(
    events: impl futures::Stream<Item = Result<WatchEvent, StorageError>> + Send + 'static,
) -> Watch {
    stream::unfold(Some(events.boxed()), |events| async move {
        let mut events = events?;
        let item = events.next().await?;
        let rest = item.is_ok().then_some(events);
        Some((item, rest))
    })
    .boxed()
}
