//! Tests of a storage: one suite of named cases, five guarantees, a model and injected faults.
//!
//! - [`conformance`]: every rule of the storage contract as a case over a [`Fixture`]; the macro of the same
//!   name makes one test of each.
//! - [`guarantees`]: what a watch promises, as functions over a recorded stream.
//! - [`model`]: random operations against a list of all changes, with shrinking.
//! - [`faulty`]: a backend that fails by a plan.
//! - [`reference`](mod@reference): the smallest backend there can be, slow and plainly right.
//!
//! Kept true: a case waits for a state, never for a time to pass, except to show that nothing comes.

#![allow(clippy::unwrap_used, reason = "this is test code: a panic is how it says that something is wrong")]

pub mod conformance;
pub mod faulty;
mod fixture;
pub mod guarantees;
pub mod model;
mod pods;
pub mod reference;
mod watching;

pub use crate::conformance_cases as conformance;
pub use fixture::{Built, Capabilities, Fixture, RequestProgress};
pub use pods::{Pod, PodInspector, fields, labels, names, pod, pods_prefix};
pub use watching::{LONG_ENOUGH, QUIET, Watching, meanwhile};
