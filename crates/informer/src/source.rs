//! The two requests that an informer lives on, wherever they go: to an API server ([`ApiSource`](crate::ApiSource)), or to
//! a script in a test.

use crate::{ApiError, ObjectKey};
use futures::{future::BoxFuture, stream::BoxStream};
use std::{sync::Arc, time::Duration};

/// Where objects come from.
pub trait ListWatch<O>: Send + Sync + 'static {
    /// One page of a list.
    fn list(&self, page: ListPage) -> impl Future<Output = Result<Page<O>, ApiError>> + Send;

    /// What happens from some point on.
    fn watch(&self, from: WatchFrom) -> impl Future<Output = Result<WatchStream<O>, ApiError>> + Send;

    /// Whether a watch can begin with the state there is, so that nothing has to be listed.
    fn watch_list(&self) -> bool {
        true
    }
}

/// The events of one watch, until it ends. Whatever comes after an error is not looked at.
pub type WatchStream<O> = BoxStream<'static, Result<WatchEvent<O>, ApiError>>;

/// Which page of a list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// `resourceVersion`; not sent if absent.
    pub version: Option<String>,
    /// `resourceVersionMatch`; informers never send it.
    pub version_match: Option<&'static str>,
    /// `limit`; none is sent if this is 0.
    pub limit: u32,
    /// `continue`, from the page before.
    pub token: Option<String>,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page<O> {
    /// Its objects.
    pub objects: Vec<Arc<O>>,
    /// What is in the list but cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// The version of the list.
    pub version: String,
    /// What asks for the next page, if there is one.
    pub next: Option<String>,
}

/// From where on events are asked for, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFrom {
    /// `resourceVersion`; not sent if empty.
    pub version: String,
    /// Whether the state there is comes first (`sendInitialEvents`), not older than the version.
    pub initial: bool,
    /// `timeoutSeconds`: when the server shall end the watch.
    pub timeout: Duration,
}

/// What a watch says.
#[derive(Debug)]
pub enum WatchEvent<O> {
    /// An object was created, or belongs to the state there is.
    Added(Arc<O>),
    /// An object was changed.
    Modified(Arc<O>),
    /// An object was deleted; this is its last state.
    Deleted(Arc<O>),
    /// Nothing else happened up to this version.
    Bookmark {
        /// The version.
        version: String,
        /// Whether the state there is, which was asked for, is complete.
        ends_initial: bool,
    },
    /// Something of another kind.
    Foreign(String),
    /// An object that cannot be read.
    Unreadable(Unreadable),
}

/// What can happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created, or belongs to the state there is.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// An object that cannot be read. As much as is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What happened to it; absent if it was in a list.
    pub change: Option<Change>,
    /// Which object.
    pub key: Option<ObjectKey>,
    /// Its version; empty if that could not be read either.
    pub version: String,
    /// What is wrong.
    pub message: String,
}

/// The same as [`ListWatch`], without its type.
pub(crate) trait Source<O>: Send + Sync {
    fn list(&self, page: ListPage) -> BoxFuture<'_, Result<Page<O>, ApiError>>;
    fn watch(&self, from: WatchFrom) -> BoxFuture<'_, Result<WatchStream<O>, ApiError>>;
    fn watch_list(&self) -> bool;
}

impl<O: 'static, S: ListWatch<O>> Source<O> for S {
    fn list(&self, page: ListPage) -> BoxFuture<'_, Result<Page<O>, ApiError>> {
        Box::pin(ListWatch::list(self, page))
    }

    fn watch(&self, from: WatchFrom) -> BoxFuture<'_, Result<WatchStream<O>, ApiError>> {
        Box::pin(ListWatch::watch(self, from))
    }

    fn watch_list(&self) -> bool {
        ListWatch::watch_list(self)
    }
}
