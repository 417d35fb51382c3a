//! The kinds of `flowcontrol.apiserver.k8s.io`.

mod flow_schema;
mod priority_level_configuration;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![flow_schema::kind(), priority_level_configuration::kind()]
}
