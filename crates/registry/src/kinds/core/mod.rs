//! The kinds of the core group, which has no name.

mod binding;
mod component_status;
mod config_map;
mod endpoints;
pub(crate) mod event;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
pub(crate) mod pod;
pub(crate) mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;

pub use namespace::empty_deleted_namespaces;
pub(crate) use service::{Addresses, Reserved};
pub use service_account::TokenIssuer;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        binding::kind(),
        component_status::kind(),
        config_map::kind(),
        endpoints::kind(),
        event::kind(),
        limit_range::kind(),
        namespace::kind(),
        node::kind(),
        persistent_volume_claim::kind(),
        persistent_volume::kind(),
        pod::kind(),
        pod_template::kind(),
        replication_controller::kind(),
        resource_quota::kind(),
        secret::kind(),
        service_account::kind(),
        service::kind(),
    ]
}
