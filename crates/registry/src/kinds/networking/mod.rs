//! The kinds of `networking.k8s.io`.

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        ingress_class::kind(),
        ingress::kind(),
        ip_address::kind(),
        network_policy::kind(),
        service_cidr::kind(),
    ]
}
