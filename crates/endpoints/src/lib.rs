//! The HTTP side of Keepwatch: paths, authentication, authorization, limits, and the forms of answers.
//!
//! A request passes through `serve` (the connection), `api` (the gate: authentication, authorization, limits), `handlers`
//! (the operation) and `render` (the form of the answer). The registry has the rules for objects.
//!
//! Tests of a module are in the module; `tests/encode.rs` checks that an event is encoded once for all who receive it. Tests over
//! real connections need a whole server: they are in `crates/keepwatch/tests`, and `tests/golden` and `tests/compat` of this
//! repository.

pub mod serve;
mod connection_state;
mod unauthenticated;
mod h2_task;
mod write_coalescer;
mod request_line;
mod host;
pub mod api;
pub mod auth;
pub mod origins;
mod fair_semaphore;
mod watch_limits;
mod turns;
mod watch_turns;
mod large_documents;
mod request_body;
mod request_context;
pub mod request_info;
pub mod query;
pub mod negotiation;
mod failure;
mod handlers;
pub mod watch;
pub mod render;
pub mod indent;
pub mod body;
mod respond;
mod description;
pub mod discovery;
pub mod openapi;
pub mod health;
pub mod metrics;
pub mod shutdown;
pub mod shutdown_signal;

pub use api::{Api, ApiOptions};
pub use failure::to_status;
