//! The built-in kinds: a folder for each group, a file for each kind.
//!
//! A file shows everything that is special about its kind. A new kind is a new file and a line in its folder.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
pub(crate) mod core;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;

pub(crate) use admissionregistration::webhooks;
pub(crate) use core::{Addresses, Reserved};
pub use core::{TokenIssuer, empty_deleted_namespaces};

use crate::kind::Kind;
use std::sync::{Arc, LazyLock};

static BUILT_IN: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| {
    let groups = [
        core::kinds(),
        apiregistration::kinds(),
        apps::kinds(),
        events::kinds(),
        authentication::kinds(),
        authorization::kinds(),
        autoscaling::kinds(),
        batch::kinds(),
        certificates::kinds(),
        networking::kinds(),
        policy::kinds(),
        rbac::kinds(),
        storage::kinds(),
        admissionregistration::kinds(),
        apiextensions::kinds(),
        scheduling::kinds(),
        coordination::kinds(),
        node::kinds(),
        discovery::kinds(),
        resource::kinds(),
        flowcontrol::kinds(),
    ];
    groups.into_iter().flatten().map(Arc::new).collect()
});

/// Every built-in kind; groups and versions in the order of discovery, in each the kinds by plural.
pub fn built_in() -> &'static [Arc<Kind>] {
    &BUILT_IN
}

/// The built-in kind of that plural in a version of a group.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Arc<Kind>> {
    let wanted = |kind: &&Arc<Kind>| kind.plural == plural && kind.group == group && kind.version == version;
    built_in().iter().find(wanted)
}

/// A built-in kind that the server itself uses.
pub fn known(group: &str, plural: &str) -> &'static Arc<Kind> {
    find(group, "v1", plural).expect("the server's own kinds are built in")
}

/// The kind of namespaces, which every write to a namespaced resource reads.
pub(crate) static NAMESPACES: LazyLock<Arc<Kind>> = LazyLock::new(|| Arc::clone(known("", "namespaces")));

/// The node ports of services: records of the server's own, which the API does not serve. They have the type of
/// `IPAddress`, which records the same for IP addresses.
pub(crate) static NODE_PORTS: LazyLock<Arc<Kind>> = LazyLock::new(|| {
    Arc::new(Kind::of_type("", "networking.v1.IPAddress", "servicenodeports").cluster_scoped())
});

/// The servers that run on the store: records of the servers' own, which expire and which the API does not serve. They
/// have the form that Kubernetes uses.
pub(crate) static SERVERS: LazyLock<Arc<Kind>> = LazyLock::new(|| {
    Arc::new(Kind::of_type("", "core.v1.Endpoints", "masterleases").cluster_scoped().uncached())
});
