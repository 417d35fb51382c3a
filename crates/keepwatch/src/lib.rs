//! Keepwatch: a Kubernetes-compatible API server built round list and watch.
//!
//! This library starts the server inside your own program, which is what the test of a controller needs: a real API
//! server in milliseconds, in memory, that ends when it is dropped. The program `keepwatch` is in the package
//! `keepwatch-cli`.
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
//! Feature `client` adds `Server::client`, and `examples/test_a_controller.rs` is a complete test with it. Feature `etcd`
//! adds `Builder::etcd`, which keeps objects in etcd.
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

pub mod pki;
mod tokens;
mod history;
mod builder;
mod caches;
mod webhook;
mod server;
mod error;

pub use builder::Builder;
pub use error::StartError;
pub use keepwatch_endpoints::{auth, origins::AllowedOrigins, serve::Limits};
pub use keepwatch_storage_embedded::Retention;
#[cfg(feature = "etcd")]
pub use keepwatch_storage_etcd::{EtcdOptions, EtcdTls, Pem};
pub use server::Server;

/// The programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
