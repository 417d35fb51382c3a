//! Storage for a Kubernetes-compatible API server: one interface, any engine, one suite that proves it.
//!
//! There are two sides. An engine implements [`Backend`]: a revisioned key-value store with compare-and-swap,
//! reads at a revision and watches from a revision. Everything Kubernetes expects beyond that (guaranteed
//! update, preconditions, cached hints, selectors, pages and continue tokens, the enter/leave rule of watch
//! events, values transformed at rest) is written once, in [`Store`], which turns a backend into the
//! [`Storage`] of one resource. A watch cache is a `Storage` too, so callers do not know which they hold; what it needs
//! of the store behind it is the [`CacheSource`].
//!
//! Deliberately absent: HTTP, kinds, and any knowledge of what a value means. What must be known of a value
//! (labels, fields, uid) comes from the [`Inspector`] its owner hands in.
//!
//! Which revision a read means and where a watch begins is said in the words of
//! [`keepwatch_apimachinery::list_options`], from the request down to here.
//!
//! With feature `testing`, `testing` holds the conformance suite that every implementation runs.

mod key;
mod error;
mod predicate;
mod transform;
mod interface;
mod history;
mod backend;
mod cache_source;
mod store;
pub mod metrics;
#[cfg(feature = "testing")]
pub mod testing;

pub use backend::{
    Backend, BackendEvent, BackendWatch, Frontier, KeyValue, Range, RangeRequest, Swap, Unchanged, Value,
};
pub use cache_source::CacheSource;
pub use error::{ExpiredRead, Rejection, StorageError};
pub use history::{HistoryExtent, HistoryReader, HistoryReaders, OldObject, PastChange, PastChanges};
pub use interface::{
    DeleteOptions, Existing, List, ListRequest, Object, Preconditions, Storage, TryUpdate, Update,
    UpdateOptions, Validate, Version, Watch, WatchEvent, WatchRequest, WatchTurn, WatchTurns, WeakObject,
};
pub use key::{InvalidKey, Key, ResourcePrefix, Scope};
pub use predicate::{Attributes, Inspector, Marks, Pairs, Predicate, StoreId, Undecodable};
pub use store::{Store, StoreOptions};
pub use transform::{Identity, Plain, Transformer};
