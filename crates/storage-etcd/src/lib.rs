//! Keepwatch's storage promises kept by etcd, for when one machine is not enough.
//!
//! [`EtcdBackend`] is a [`Backend`](keepwatch_storage::Backend) over etcd v3. Values are plain bytes and keys
//! are as Kubernetes lays them out, so several servers, and Kubernetes' own tools, may share one cluster.
//! A server holds nothing here that another one needs.
//!
//! The files in reading order: how to reach etcd (`options`), what its errors mean (`error`), its messages and
//! methods (`api`), which member is asked and what happens if it does not answer (`members`), reads and
//! compare-and-swap (`store`), following changes (`watch`), keys that expire (`lease`), writes to an etcd that is
//! full (`full`), forgetting the past (`compact`).
//!
//! Invariants: a write whose outcome is unknown is never sent again; a watch neither repeats nor skips an event,
//! whatever happens to connections and members; nothing is buffered beyond one etcd message and one HTTP/2
//! window per watch.
//!
//! etcd 3.5.13 or newer (3.4.31 on the 3.4 line) answers progress requests correctly; older ones do not.
//! With etcd's access control on, the user needs rights to the objects' prefix and to the key
//! `compact_rev_key`.

mod options;
mod error;
mod api;
mod members;
mod store;
mod watch;
mod lease;
mod full;
mod compact;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::ConnectError;
pub use options::{EtcdOptions, EtcdTls, EtcdUser, LeaseOptions, Pem};
pub use store::EtcdBackend;
