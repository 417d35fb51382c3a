//! The HTTP side of Keepwatch: which path means what, who may ask, and in which form the answer goes out.
//!
//! A request passes through `serve` (the connection), `api` (the one gate: who, how many, whether allowed), `handlers`
//! (what is done) and `render` (how it is shown). What the rules for objects are is the registry's affair.

pub mod request_info;
pub mod negotiation;
pub mod auth;
pub mod origins;
pub mod indent;
mod large;
mod shares;
pub mod body;
mod host;
mod request_line;
mod gather;
mod together;
pub mod render;
pub mod stopping;
pub mod watch;
pub mod discovery;
pub mod openapi;
pub mod metrics;
pub mod health;
pub mod query;
pub mod api;
mod handlers;
pub mod serve;

pub use api::{Api, ApiOptions};
