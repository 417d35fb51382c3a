//! The kinds of Keepwatch and the rules for changing their objects. It does not depend on HTTP.
//!
//! Start with `kinds` for the list of them, `schema` for their types, `rest` for the operations on them.

pub mod error;
mod document;
pub mod schema;
pub mod kind;
pub mod catalog;
pub mod kinds;
pub mod convert;
pub mod inspect;
pub mod codec;
pub mod defaults;
pub mod validation;
pub mod custom;
pub mod patch;
pub mod protobuf;
pub mod table;
pub mod options;
mod selector;
pub mod strategy;
mod admission;
mod deletion;
pub mod rest;
pub mod scale;
mod bootstrap;
mod endpoint_reconciler;

pub use error::Error;
pub use rest::{ObjectView, Registry, RegistryOptions};
pub use strategy::new_uid;
