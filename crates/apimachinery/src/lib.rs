//! The common parts of all Kubernetes-style requests and objects, as plain data.
//!
//! Nothing here does I/O, waits, or knows a kind: bytes and query parameters come in, typed values and
//! exact wire texts go out. Error texts are part of the contract, because clients and tests compare them.

pub mod meta;
pub mod resource_version;
pub mod selector;

pub mod list_options;
pub mod status;
pub mod watch;

pub mod go;

pub use go::Quoted;
pub use resource_version::{InvalidResourceVersion, ResourceVersion};
