//! Storms: informers of every form follow a server that is killed, cut off, slow and compacted, while objects are created,
//! changed and deleted.
//!
//! Tested: after the storm the store of every informer equals a fresh list, and so does the state that each listener's events
//! add up to; and no listener ever receives the states of one object out of order.
//!
//! An event travels from `load` through `server` and `proxy` to `informers`, where an `event_checker` checks it; `storm`
//! combines them. A seed decides the writes and the disruptions; but their times depend on the machine, so a storm with the
//! same seed is similar, not the same.

mod report;
mod load;
mod server;
mod proxy;
mod event_checker;
mod informers;
mod storm;

pub use event_checker::{EventChecker, State};
pub use informers::{InformerSet, Scope};
pub use load::{LABEL, Load, NAMESPACES, Writer};
pub use proxy::Proxy;
pub use report::Report;
pub use server::{ServerOptions, TestServer, client_of, program};
pub use storm::{Disruption, Options, Outcome, run_on, run_storm};

/// An error of the test itself.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
