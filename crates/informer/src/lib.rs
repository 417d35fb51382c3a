#![doc = include_str!("../README.md")]

pub mod object;
pub mod error;
pub mod source;
pub mod backoff;
pub mod reflector;
pub mod store;
pub mod informer;
pub mod factory;
pub mod controller;
pub mod workqueue;
pub mod stats;
#[cfg(feature = "metrics")]
pub mod metrics;
mod deadline;
#[cfg(test)]
mod testing;

pub use controller::{Action, Controller};
pub use error::InformerError;
pub use factory::InformerFactory;
pub use informer::{
    Cause, Event, Events, Handler, HandlerOptions, Informer, Registration, Status, Stopped, until,
};
pub use object::{Lean, Object, ObjectKey};
pub use source::client;
pub use store::{Index, Select, Store};
