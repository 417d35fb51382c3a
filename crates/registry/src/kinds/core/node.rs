//! Node.

use crate::kind::{At, Kind, SelectableField, Subresource, UnknownField, path};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Node", "nodes")
        .cluster_scoped()
        .short_names(&["no"])
        .subresources([
            Subresource::new("proxy", &["create", "delete", "get", "patch", "update"]).of(
                "",
                "v1",
                "NodeProxyOptions",
            ),
            Subresource::status(),
        ])
        .stored_at("minions")
        .keeps_status()
        .selectable(
            [SelectableField::new("spec.unschedulable").at(At::Flag(path("spec.unschedulable")))],
            UnknownField::NotSupported,
        )
}
