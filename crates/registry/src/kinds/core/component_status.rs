//! ComponentStatus.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ComponentStatus", "componentstatuses")
        .cluster_scoped()
        .short_names(&["cs"])
        .not_stored()
        .verbs(&["get", "list"])
}
