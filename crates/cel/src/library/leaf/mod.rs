//! The functions of the libraries, on plain Rust types.
//!
//! Nothing here knows expressions, types or costs. Every error is the text that Kubernetes v1.36 answers with.

pub mod duration;
pub mod format;
pub mod named_format;
pub mod network;
pub mod number;
pub mod openapi_format;
pub mod quantity;
pub mod regex;
pub mod semver;
pub mod strings;
pub mod timestamp;
pub mod url;
