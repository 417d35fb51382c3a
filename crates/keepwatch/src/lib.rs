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
//!
//! With feature `client` the server gives you a client of itself, and a controller's test is a few lines more;
//! `examples/test_a_controller.rs` has a whole one.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! use futures::TryStreamExt;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, ResourceExt, api::PostParams, runtime::{WatchStreamExt, watcher}};
//!
//! let server = keepwatch::Server::builder().memory().start().await?;
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await?);
//! let mut changes = Box::pin(watcher(maps.clone(), watcher::Config::default()).applied_objects());
//!
//! let settings = serde_json::from_str(r#"{"metadata": {"name": "settings"}, "data": {"colour": "blue"}}"#)?;
//! maps.create(&PostParams::default(), &settings).await?;
//! assert_eq!(changes.try_next().await?.map(|map| map.name_any()).as_deref(), Some("settings"));
//! # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! # }).map_err(|error| error.to_string())?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod flags;
pub mod pki;
pub mod tokens;
pub mod server;
mod history;
mod configure;

pub use server::{Builder, Server, StartError};

/// The programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
