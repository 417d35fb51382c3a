//! Watches: the initial state, then the backend's changes seen through the selectors.
//!
//! Kept true: what the state held is not told again as a change; a change that takes an object into or out
//! of the selectors' view is told as its addition or deletion; after an error nothing follows.

use super::{Store, list::PAGE_KEYS_MAX};
use crate::{
    backend::{BackendEvent, KeyValue, RangeRequest},
    error::StorageError,
    interface::{Object, Watch, WatchEvent, WatchOptions, WatchStart},
    key::Scope,
    predicate::Predicate,
};
use futures::{StreamExt, TryStreamExt, future, stream};
use keepwatch_apimachinery::ResourceVersion;

/// When a watch that asked for a future state should be tried again.
const TOO_LARGE_RETRY_SECONDS: u32 = 1;

pub(super) async fn start(store: Store, scope: Scope, options: WatchOptions) -> Result<Watch, StorageError> {
    match options.start {
        WatchStart::After(revision) => changes(store, scope, options, revision).await,
        WatchStart::Now => {
            let revision = store.backend.current_revision().await?;
            changes(store, scope, options, revision).await
        }
        WatchStart::State { not_older_than } => Ok(state_then_changes(store, scope, options, not_older_than)),
    }
}

/// The changes after `revision`, as far as the predicate lets them be seen.
async fn changes(
    store: Store,
    scope: Scope,
    options: WatchOptions,
    revision: ResourceVersion,
) -> Result<Watch, StorageError> {
    let events = store.backend.watch(scope, revision, options.progress).await?;
    let view = View { store, predicate: options.predicate };
    let told = events.filter_map(move |event| {
        future::ready(match event {
            Ok(event) => view.see(event).transpose(),
            Err(error) => Some(Err(error)),
        })
    });
    Ok(ending_with_the_first_error(told))
}

/// The state at the current revision as additions, its end marked if wanted, then the changes after it.
fn state_then_changes(
    store: Store,
    scope: Scope,
    options: WatchOptions,
    not_older_than: Option<ResourceVersion>,
) -> Watch {
    let pages = stream::try_unfold(
        Pages { store, scope, options, not_older_than, position: Position::Start },
        |mut pages| async move { Ok::<_, StorageError>(pages.next().await?.map(|part| (part, pages))) },
    );
    ending_with_the_first_error(pages.try_flatten())
}

/// The stages of a watch that begins with the state; each yields a stream, and the last never ends by itself.
struct Pages {
    store: Store,
    scope: Scope,
    options: WatchOptions,
    not_older_than: Option<ResourceVersion>,
    position: Position,
}

enum Position {
    Start,
    Page { from: String, at: ResourceVersion },
    StateTold(ResourceVersion),
    Following,
}

impl Pages {
    async fn next(&mut self) -> Result<Option<Watch>, StorageError> {
        let (from, at) = match std::mem::replace(&mut self.position, Position::Following) {
            Position::Start => (None, None),
            Position::Page { from, at } => (Some(from), Some(at)),
            Position::StateTold(revision) => {
                let options = self.options.clone();
                return changes(self.store.clone(), self.scope.clone(), options, revision).await.map(Some);
            }
            Position::Following => return Ok(None),
        };
        let limit = Some(PAGE_KEYS_MAX);
        let range = self
            .store
            .backend
            .range(RangeRequest { scope: self.scope.clone(), from, limit, at, count: false })
            .await?;
        self.must_not_be_older_than_asked(range.current)?;
        let at = at.unwrap_or(range.current);
        self.position = match range.items.last() {
            Some(last) if range.more => Position::Page { from: format!("{}\0", last.key), at },
            _ => Position::StateTold(at),
        };
        let (store, predicate) = (self.store.clone(), self.options.predicate.clone());
        let additions = range.items.into_iter().filter_map(move |item| {
            let object = match store.values.decode(item) {
                Ok((object, _)) => object,
                Err(error) => return Some(Err(error)),
            };
            predicate.matches(&object.attributes).then_some(Ok(WatchEvent::Added(object)))
        });
        let end = (self.options.bookmark_initial_state && matches!(self.position, Position::StateTold(_)))
            .then_some(Ok(WatchEvent::Bookmark { revision: at, initial_state_end: true }));
        Ok(Some(stream::iter(additions.chain(end)).boxed()))
    }

    fn must_not_be_older_than_asked(&self, current: ResourceVersion) -> Result<(), StorageError> {
        match self.not_older_than {
            Some(requested) if requested > current => Err(StorageError::TooLarge {
                requested,
                current,
                retry_after_seconds: Some(TOO_LARGE_RETRY_SECONDS),
            }),
            _ => Ok(()),
        }
    }
}

/// What one watcher sees of the backend's events.
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
                    (true, false) => Some(WatchEvent::Deleted(Object { revision, ..previous })),
                    (false, false) => None,
                }
            }
            BackendEvent::Delete { revision, previous, .. } => {
                let previous = self.decode(known(previous)?)?;
                self.predicate
                    .matches(&previous.attributes)
                    .then_some(WatchEvent::Deleted(Object { revision, ..previous }))
            }
        })
    }

    fn decode(&self, item: KeyValue) -> Result<Object, StorageError> {
        Ok(self.store.values.decode(item)?.0)
    }
}

fn known(previous: Option<KeyValue>) -> Result<KeyValue, StorageError> {
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
