//! Lists: pages of a scope at one revision, with selectors applied while reading.

use super::{Store, Yielding};
use crate::{
    backend::RangeRequest,
    error::{ExpiredRead, StorageError},
    interface::{List, ListRequest, Object},
    key::{InvalidKey, Key, Scope},
};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ContinueToken, ListAt},
};

/// The number of keys that one read of the backend asks for at the most, however many the list may return.
pub(super) const PAGE_KEYS_MAX: usize = 10_000;

/// The number of times that a list of the newest state is begun before its caller learns that compaction overtook it each
/// time. Compaction usually stays minutes behind the newest revision, so once more is enough; a list that
/// takes longer than that is no shorter the next time, and without a limit might never end.
const LIST_BEGINNINGS_MAX: usize = 3;

impl Store {
    pub(super) async fn list(&self, scope: Scope, request: ListRequest) -> Result<List, StorageError> {
        for _ in 1..LIST_BEGINNINGS_MAX {
            match self.read_list(&scope, &request).await {
                Err(StorageError::Expired(_)) if is_of_no_certain_revision(&request.at) => {}
                done => return done,
            }
        }
        self.read_list(&scope, &request).await
    }

    /// Reads a list from its beginning. Its first page decides at which revision, if nothing else does.
    async fn read_list(&self, scope: &Scope, request: &ListRequest) -> Result<List, StorageError> {
        let limit = request.limit.filter(|limit| *limit > 0);
        let (mut from, mut pinned) = begin(scope, &request.at);
        // A page of the limit's size holds all that is wanted unless a selector passes objects over.
        let mut page_keys = limit.unwrap_or(PAGE_KEYS_MAX).min(PAGE_KEYS_MAX);
        let mut count = limit.is_some() && request.predicate.is_everything();
        let mut keys_from_start = None;
        let mut items: Vec<Object> = Vec::new();
        let mut turns = Yielding::default();
        loop {
            let page = RangeRequest { scope: scope.clone(), from, limit: Some(page_keys), at: pinned, count };
            let range = self.backend.range(page).await.map_err(|error| expired(error, &request.at))?;
            if let ListAt::NotOlderThan(requested) = request.at {
                must_have_reached(requested, range.current)?;
            }
            if count {
                (keys_from_start, count) = (range.count, false);
            }
            let revision = *pinned.get_or_insert(range.current);
            let mut last_key = None;
            let mut page = range.items.into_iter();
            while limit != Some(items.len())
                && let Some(item) = page.next()
            {
                last_key = Some(item.key.clone());
                let (object, _) = self.values.decode(item)?;
                if request.predicate.matches(&object.attributes) {
                    items.push(object);
                }
                turns.decoded().await;
            }
            let unread = range.more || page.next().is_some();
            let Some(last_key) = last_key.filter(|_| unread) else {
                let looked_at = turns.count();
                return Ok(List { items, revision, next: None, remaining: None, looked_at });
            };
            if limit == Some(items.len()) {
                let next = Some(token(scope, &last_key, revision)?);
                let remaining = keys_from_start.map(|keys| keys.saturating_sub(items.len()));
                let looked_at = turns.count();
                return Ok(List { items, revision, next, remaining, looked_at });
            }
            from = Some(format!("{last_key}\0"));
            page_keys = (page_keys * 2).min(PAGE_KEYS_MAX);
        }
    }
}

/// Whether a list may begin again at a newer revision than the one its first page happened to have.
fn is_of_no_certain_revision(at: &ListAt) -> bool {
    match at {
        ListAt::MostRecent | ListAt::Any | ListAt::NotOlderThan(_) => true,
        ListAt::Exact(_) | ListAt::Continue(_) => false,
    }
}

/// The key a list begins at (the scope's beginning if absent) and the revision it is pinned to, if it is yet.
fn begin(scope: &Scope, at: &ListAt) -> (Option<String>, Option<ResourceVersion>) {
    match at {
        ListAt::MostRecent | ListAt::Any | ListAt::NotOlderThan(_) => (None, None),
        ListAt::Exact(revision) => (None, Some(*revision)),
        ListAt::Continue(token) => {
            let pinned = match token.at() {
                ContinueAt::Exact(revision) => Some(revision),
                ContinueAt::Newest => None,
            };
            (Some(token.start_key(scope.key())), pinned)
        }
    }
}

fn token(scope: &Scope, last_key: &Key, revision: ResourceVersion) -> Result<ContinueToken, StorageError> {
    ContinueToken::after(last_key, scope.key(), ContinueAt::Exact(revision))
        .ok_or_else(|| InvalidKey::Element(last_key.to_string()).into())
}

/// The revision of a list is gone. A further page can go on in the newest state; a list begins again.
fn expired(error: StorageError, at: &ListAt) -> StorageError {
    match (error, at) {
        (StorageError::Expired(_), ListAt::Continue(token)) => {
            StorageError::Expired(ExpiredRead::Continue(token.clone().at_newest()))
        }
        (error, _) => error,
    }
}

pub(super) fn must_have_reached(
    requested: ResourceVersion,
    current: ResourceVersion,
) -> Result<(), StorageError> {
    if requested > current {
        return Err(StorageError::TooLarge { requested, current, retry_after_seconds: None });
    }
    Ok(())
}
