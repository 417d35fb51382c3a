//! ConfigMap.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ConfigMap", "configmaps").short_names(&["cm"])
}
