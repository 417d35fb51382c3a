//! Measures Kubernetes API servers: puts load on one, watches what it costs, and checks every event on the way.
//!
//! [`run`] executes [`Options`] and returns [`results::Results`], from which [`report`] makes reports.

mod cluster;
mod custom;
mod drive;
mod events;
mod failure;
mod latency;
mod objects;
mod progress;
pub mod report;
pub mod results;
mod run;
mod scenario;
mod delivery;
mod target;
mod usage;
mod watchers;

pub use cluster::Protocol;
pub use failure::Failure;
pub use objects::ObjectKind;
pub use run::{Options, run};
pub use scenario::{SHORT_HISTORY_FLAG, Scenario};
pub use target::{OwnServer, Target};
