//! The kinds of Keepwatch and the rules for changing their objects. Knows no HTTP.
//!
//! Read `kinds` for what there is, `schema` for what it looks like, `rest` for what can be done with it.

pub mod error;
pub mod schema;
pub mod kind;
pub mod catalog;
pub mod kinds;
pub mod convert;
pub mod inspect;
pub mod codec;
pub mod defaults;
pub mod validation;
pub mod patch;
pub mod protobuf;
pub mod table;
pub mod options;
mod selector;
mod value;
pub mod strategy;
mod admission;
mod target;
mod deletion;
pub mod rest;
pub mod scale;
pub mod namespaces;
mod bootstrap;
mod own_endpoints;

pub use error::Error;
pub use rest::{Registry, RegistryOptions, Shown};
pub use strategy::new_uid;
