//! Informers: a copy of what an API server has, kept up to date, and whoever wants to know of changes told.
//!
//! This crate is being built from the inside out. There are the queues between what is heard from a server and what is
//! done about it: [`DeltaFifo`] and [`OrderedQueue`] for objects on their way into a cache, [`workqueue`] for the work
//! that follows.

mod key;
mod version;
mod delta;
mod delta_fifo;
mod ordered_queue;
pub mod workqueue;
#[cfg(test)]
mod testing;

pub use delta::{Delta, Gone, Known, Nothing};
pub use delta_fifo::{DeltaFifo, Popped};
pub use key::{InvalidKey, ObjectKey};
pub use ordered_queue::{BATCH_MAX, Batch, Entry, OrderedQueue};
pub use version::compare_versions;
