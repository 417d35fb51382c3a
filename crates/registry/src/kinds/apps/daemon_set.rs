//! DaemonSet.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.DaemonSet", "daemonsets")
        .short_names(&["ds"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .generation(Generation::Spec)
}
