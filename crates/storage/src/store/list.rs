//! Lists: pages of a scope at one revision, with selectors applied while reading.

use super::Store;
use crate::{
    backend::RangeRequest,
    error::{ExpiredRead, StorageError},
    interface::{List, ListOptions, Object, ReadAt},
    key::{InvalidKey, Key, Scope},
};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ContinueToken},
};

/// How many keys one read of the backend asks for at the most, however many the list may return.
pub(super) const PAGE_KEYS_MAX: usize = 10_000;

impl Store {
    pub(super) async fn list(&self, scope: Scope, options: ListOptions) -> Result<List, StorageError> {
        let limit = options.limit.filter(|limit| *limit > 0);
        let (mut from, mut pinned) = begin(&scope, &options.at);
        // A page of the limit's size holds all that is wanted unless a selector passes objects over.
        let mut page_keys = limit.unwrap_or(PAGE_KEYS_MAX).min(PAGE_KEYS_MAX);
        let mut count = limit.is_some() && options.predicate.is_everything();
        let mut keys_from_start = None;
        let mut items: Vec<Object> = Vec::new();
        loop {
            let request =
                RangeRequest { scope: scope.clone(), from, limit: Some(page_keys), at: pinned, count };
            let range = self.backend.range(request).await.map_err(|error| expired(error, &options.at))?;
            if let ReadAt::NotOlderThan(requested) = options.at {
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
                if options.predicate.matches(&object.attributes) {
                    items.push(object);
                }
            }
            let unread = range.more || page.next().is_some();
            let Some(last_key) = last_key.filter(|_| unread) else {
                return Ok(List { items, revision, next: None, remaining: None });
            };
            if limit == Some(items.len()) {
                let next = Some(token(&scope, &last_key, revision)?);
                let remaining = keys_from_start.map(|keys| keys.saturating_sub(items.len()));
                return Ok(List { items, revision, next, remaining });
            }
            from = Some(format!("{last_key}\0"));
            page_keys = (page_keys * 2).min(PAGE_KEYS_MAX);
        }
    }
}

/// The key a list begins at (the scope's beginning if absent) and the revision it is pinned to, if it is yet.
fn begin(scope: &Scope, at: &ReadAt) -> (Option<String>, Option<ResourceVersion>) {
    match at {
        ReadAt::MostRecent | ReadAt::Any | ReadAt::NotOlderThan(_) => (None, None),
        ReadAt::Exact(revision) => (None, Some(*revision)),
        ReadAt::Continue(token) => {
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
fn expired(error: StorageError, at: &ReadAt) -> StorageError {
    match (error, at) {
        (StorageError::Expired(_), ReadAt::Continue(token)) => {
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
