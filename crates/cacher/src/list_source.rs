//! Whether a list is read from the cache or from storage.
//!
//! Kept true: a list that is read from the cache is as fresh as its request asks for. The cache waits until it is, and
//! storage answers when that takes too long, or when the cache does not hold the requested revision.

use crate::{cacher::Cacher, shared::Inconsistent, store::Store};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ContinueAt, ListAt},
};
use keepwatch_storage::{List, ListRequest, Scope, StorageError};
use std::sync::atomic::Ordering;
use tokio::time::Instant;

pub(crate) enum ListSource {
    Storage,
    Cache {
        store: Store,
        revision: ResourceVersion,
        /// The key at which the list starts; the first of the scope if absent.
        from: Option<String>,
        limit: Option<usize>,
    },
}

impl Cacher {
    /// Decides where a list is read from, and waits until the cache is fresh enough for it.
    pub(crate) async fn list_source(
        &self,
        scope: &Scope,
        request: &ListRequest,
    ) -> Result<ListSource, StorageError> {
        let is_cheap_for_storage =
            request.limit.is_some_and(|limit| limit > 0) && request.predicate.is_everything();
        if !self.is_ready() && is_cheap_for_storage {
            return Ok(ListSource::Storage);
        }
        match &request.at {
            ListAt::Any => {
                let (store, revision) = self.current_state()?;
                Ok(ListSource::Cache { store, revision, from: None, limit: None })
            }
            ListAt::NotOlderThan(wanted) => {
                self.current_state()?;
                self.shared.until_fresh(*wanted).await?;
                self.cached_source(request, None)
            }
            ListAt::MostRecent => self.consistent_source(request, None).await,
            ListAt::Continue(token) => {
                let from = Some(token.start_key(scope.key()));
                match token.at() {
                    ContinueAt::Newest => self.consistent_source(request, from).await,
                    ContinueAt::Exact(revision) => self.exact_source(scope, request, revision, from).await,
                }
            }
            ListAt::Exact(revision) => self.exact_source(scope, request, *revision, None).await,
        }
    }

    fn cached_source(&self, request: &ListRequest, from: Option<String>) -> Result<ListSource, StorageError> {
        let (store, revision) = self.current_state()?;
        Ok(ListSource::Cache { store, revision, from, limit: request.limit })
    }

    /// A consistent read: the list has everything that was committed before the request. The cache answers once it holds
    /// that, and storage answers if the cache does not get there in time.
    async fn consistent_source(
        &self,
        request: &ListRequest,
        from: Option<String>,
    ) -> Result<ListSource, StorageError> {
        self.current_state()?;
        if !self.shared.storage.reports_progress() {
            return Ok(ListSource::Storage);
        }
        match self.shared.until_consistent().await {
            Ok(_) => {
                self.shared.metrics.consistent_reads.inc();
                self.cached_source(request, from)
            }
            Err(Inconsistent::Stale(_)) => Ok(ListSource::Storage),
            Err(Inconsistent::Unknown(error)) => Err(error),
        }
    }

    async fn exact_source(
        &self,
        scope: &Scope,
        request: &ListRequest,
        revision: ResourceVersion,
        from: Option<String>,
    ) -> Result<ListSource, StorageError> {
        if matches!(scope, Scope::Object(_)) || !self.is_ready() {
            return Ok(ListSource::Storage);
        }
        self.shared.until_fresh(revision).await?;
        Ok(match self.past_state(revision) {
            Some(store) => ListSource::Cache { store, revision, from, limit: request.limit },
            None => ListSource::Storage,
        })
    }

    /// Reads a list from storage, and counts it if it was a consistent read.
    pub(crate) async fn list_from_storage(
        &self,
        key: &str,
        request: ListRequest,
    ) -> Result<List, StorageError> {
        let is_consistent_read = match &request.at {
            ListAt::MostRecent => true,
            ListAt::Continue(token) => token.at() == ContinueAt::Newest,
            _ => false,
        };
        let list = self.shared.storage.get_list(key, request).await;
        if is_consistent_read && self.is_ready() {
            let metrics = &self.shared.metrics;
            let count = match list {
                Ok(_) => &metrics.consistent_reads_from_storage,
                Err(_) => &metrics.consistent_reads_failed,
            };
            count.inc();
        }
        list
    }

    /// The current objects and their revision.
    fn current_state(&self) -> Result<(Store, ResourceVersion), StorageError> {
        let state = self.shared.state.read();
        state.ready.check(Instant::now())?;
        Ok((state.store.clone(), state.revision))
    }

    /// The objects at an earlier revision, if the cache can still restore them.
    fn past_state(&self, revision: ResourceVersion) -> Option<Store> {
        let compacted = self.shared.storage.compacted_revision();
        if compacted.is_some_and(|compacted| revision < compacted)
            || !self.shared.snapshots_trusted.load(Ordering::Acquire)
        {
            return None;
        }
        let past = {
            let state = self.shared.state.read();
            state.ready.is_ready().then(|| state.past(revision).ok()).flatten()?
        };
        Some(past.restore())
    }
}
