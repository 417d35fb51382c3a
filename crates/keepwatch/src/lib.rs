//! Keepwatch: a Kubernetes-compatible API server built round list and watch.
//!
//! The program is `keepwatch serve`. This library starts the same server inside your own program, which is what a test of
//! a controller wants: a real API server in milliseconds, in memory, gone when it is dropped.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let server = keepwatch::Server::builder().memory().start().await?;
//! assert!(server.kubeconfig().contains(&server.url()));
//! server.stop().await;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod flags;
pub mod pki;
pub mod tokens;
pub mod server;
mod configure;

pub use server::{Builder, Server, StartError};

/// The programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
