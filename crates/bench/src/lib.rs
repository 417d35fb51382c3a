//! Measures Kubernetes API servers: puts load on one, watches what it costs, and checks every event on the way.
//!
//! [`run`] does what [`Options`] say and returns [`results::Results`], which [`report`] shows.

mod cluster;
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
mod tally;
mod target;
mod usage;
mod watching;

pub use cluster::Protocol;
pub use failure::Failure;
pub use run::{Options, run};
pub use scenario::{Scenario, WINDOW_FLAG};
pub use target::{Own, Target};
