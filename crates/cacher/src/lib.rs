//! The watch cache: it follows storage once for each resource, and serves every list and watch of it from memory.
//!
//! A [`Cacher`] is a [`keepwatch_storage::Storage`] in front of another one. Writes pass through to that one. Reads are
//! served from the cached copy, which is as fresh as the caller asks for: a list of the most recent state waits until the
//! copy holds everything that was committed before. Every object is in memory once, shared by the lists, events and
//! watchers that return it.
//!
//! A [`keepwatch_storage::Store`] without a cache gives the same answers, but reads storage for each of them.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! use futures::StreamExt;
//! use keepwatch_apimachinery::{list_options::WatchStart, meta::Qualified};
//! use keepwatch_cacher::{CacheMetrics, Cacher, CacherOptions};
//! use keepwatch_storage::{Storage, Store, StoreOptions, WatchEvent, WatchRequest};
//! use keepwatch_storage::testing::{PodInspector, pod, pods_prefix};
//! use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
//! use std::sync::Arc;
//!
//! let backend = Arc::new(Embedded::memory(EmbeddedOptions::default()));
//! let store = Store::new(backend, StoreOptions::new(pods_prefix(), Arc::new(PodInspector)));
//! let metrics = CacheMetrics::register(&prometheus::Registry::new())?;
//! let options = CacherOptions::default();
//! let pods = Cacher::new(Arc::new(store), pods_prefix(), Qualified::core("pods"), options, &metrics);
//! pods.until_ready().await;
//!
//! let mut watch = pods.watch("/pods", WatchRequest::from(WatchStart::state())).await?;
//! let created = pods.create("/pods/ns/a", pod("a").value(), None).await?;
//! assert_eq!(watch.next().await.expect("the watch goes on")?, WatchEvent::Added(created));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The state is plain data behind one lock: objects (`store`), recent events (`history`), earlier states (`snapshots`),
//! watchers (`watcher_index`, `watcher`, `predicates`) and the times of their bookmarks (`bookmark`). `feed` changes it, lists and
//! watches read it, and no task waits while it holds the lock.

mod sync;
mod bloom;
mod counts;
mod store;
mod delta;
mod history;
mod history_pages;
mod snapshots;
mod predicates;
mod watcher_index;
mod watcher;
mod bookmark;
mod ready;
mod state;
mod options;
mod metrics;
mod shared;
mod feed;
mod consistency;
mod list;
mod list_source;
mod watch_stream;
mod watch_start;
mod cacher;
#[cfg(all(test, feature = "loom"))]
mod loom_tests;

pub use cacher::Cacher;
pub use history_pages::HistoryReadLimits;
pub use metrics::CacheMetrics;
pub use options::CacherOptions;
