//! Real etcd servers for tests: started on free ports, killed, paused, restarted and cut off at will, and gone
//! with the value that holds them, or with the test's process.
//!
//! The program is `ETCD_BIN`, or `etcd` on `PATH`.

mod client;
mod process;
mod proxy;

pub use client::EtcdClient;
pub use process::{EtcdCluster, EtcdMember, EtcdServer, ServerOptions, ServerTls};
pub use proxy::Network;
