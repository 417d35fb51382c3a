//! The source of objects: the list and watch requests of an informer. An API server
//! ([`ApiSource`](crate::source::ApiSource)) answers them, or a script in a test.

mod api;
mod failure;
mod lines;
mod wire;
mod inline_connection;
pub(crate) mod pager;
mod retry_watch;

pub use api::{ApiSource, client};
pub use pager::{ListResult, Pager};
pub use retry_watch::{InvalidStart, RetryWatcher};

use crate::{error::ApiError, object::ObjectKey};
use futures::{future::BoxFuture, stream::BoxStream};
use std::{sync::Arc, time::Duration};

/// A source of objects.
pub trait ListWatch<O>: Send + Sync + 'static {
    /// Fetches one page of a list.
    fn list(&self, page: ListPage) -> impl Future<Output = Result<Page<O>, ApiError>> + Send;

    /// Opens a watch.
    fn watch(&self, from: WatchFrom) -> impl Future<Output = Result<WatchStream<O>, ApiError>> + Send;

    /// Whether the source supports watches that start with the existing objects (`sendInitialEvents`).
    fn watch_list(&self) -> bool {
        true
    }
}

/// The events of one watch, until it ends. Nothing is read after an error.
pub type WatchStream<O> = BoxStream<'static, Result<WatchEvent<O>, ApiError>>;

/// The parameters of a list request.
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
    /// The objects.
    pub objects: Vec<Arc<O>>,
    /// Objects that could not be decoded.
    pub unreadable: Vec<Unreadable>,
    /// The resource version of the list.
    pub version: String,
    /// The continue token of the next page, if there is one.
    pub next: Option<String>,
}

/// The parameters of a watch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFrom {
    /// `resourceVersion`; not sent if empty.
    pub version: String,
    /// `sendInitialEvents`: whether the watch starts with the existing objects, at a state not older than the
    /// version.
    pub initial: bool,
    /// `timeoutSeconds`: when the server should end the watch.
    pub timeout: Duration,
}

/// A watch event.
#[derive(Debug)]
pub enum WatchEvent<O> {
    /// An object was created, or is one of the initial events.
    Added(Arc<O>),
    /// An object was changed.
    Modified(Arc<O>),
    /// An object was deleted; this is its last state.
    Deleted(Arc<O>),
    /// A bookmark.
    Bookmark {
        /// The version.
        version: String,
        /// Whether the bookmark ends the initial events.
        ends_initial: bool,
    },
    /// The object is of another kind than requested; the text says of which.
    UnexpectedKind(String),
    /// The object could not be decoded.
    Unreadable(Unreadable),
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created, or is one of the initial events.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// The known properties of an object that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The type of the event; absent for an object of a list.
    pub change: Option<Change>,
    /// The key of the object.
    pub key: Option<ObjectKey>,
    /// The version of the object; empty if it could not be read either.
    pub version: String,
    /// The error message.
    pub message: String,
}

/// An object-safe [`ListWatch`].
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
