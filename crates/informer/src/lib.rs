#![doc = include_str!("../README.md")]

mod key;
mod version;
mod moment;
mod object;
mod lean;
mod scan;
mod sized;
mod error;
mod source;
mod wire;
mod alongside;
mod api_source;
mod pager;
mod backoff;
mod reflector;
mod delta;
mod delta_fifo;
mod ordered_queue;
mod select;
mod store;
mod event;
mod backlog;
mod listener;
mod processor;
mod measure;
mod stats;
mod informer;
mod factory;
mod retry_watch;
mod until;
mod controller;
#[cfg(feature = "runtime")]
mod bridge;
pub mod workqueue;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(test)]
mod testing;

pub use api_source::{ApiSource, client};
pub use backlog::{Overflow, VERBATIM_MAX};
pub use backoff::{Backoff, BackoffPolicy, KeyedBackoff, Random};
pub use controller::{Action, Controller};
pub use delta::{Delta, Gone, Known, Nothing};
pub use delta_fifo::{DeltaFifo, Popped};
pub use error::{ApiError, Class, InformerError, Phase};
pub use event::{Cause, Event};
pub use factory::{FactoryBuilder, FactorySync, InformerFactory, Managed, NotSynced, UnknownResource};
pub use informer::{
    Builder, Events, Filtering, Handler, HandlerOptions, Informer, Registration, Status, UnchangedOnRelist,
    Watched,
};
pub use key::{InvalidKey, ObjectKey};
pub use lean::Lean;
pub use measure::Histogram;
pub use object::{Fetch, Object};
pub use ordered_queue::{BATCH_MAX, Batch, Entry, OrderedQueue};
pub use pager::{Listed, Pager};
pub use processor::Stopped;
pub use reflector::{Failure, Heard, Input, PAGE_SIZE, Reflector, ReflectorOptions, Step, Todo, Use};
pub use retry_watch::{InvalidStart, RetryWatcher};
pub use select::Select;
pub use source::{Change, ListPage, ListWatch, Page, Unreadable, WatchEvent, WatchFrom, WatchStream};
pub use stats::Counts;
pub use store::{Index, NamespacedStore, NotFound, NotReached, Store};
pub use until::until;
pub use version::{compare_versions, oldest_version};
