//! Pod.

use crate::kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Pod", "pods")
        .short_names(&["po"])
        .categories(&["all"])
        .subresources([
            Subresource::new("attach", &["create", "get"]).of("", "v1", "PodAttachOptions"),
            Subresource::new("binding", &["create"]).of("", "v1", "Binding"),
            Subresource::new("ephemeralcontainers", &["get", "patch", "update"]),
            Subresource::new("eviction", &["create"]).of("policy", "v1", "Eviction"),
            Subresource::new("exec", &["create", "get"]).of("", "v1", "PodExecOptions"),
            Subresource::new("log", &["get"]),
            Subresource::new("portforward", &["create", "get"]).of("", "v1", "PodPortForwardOptions"),
            Subresource::new("proxy", &["create", "delete", "get", "patch", "update"]).of(
                "",
                "v1",
                "PodProxyOptions",
            ),
            Subresource::new("resize", &["get", "patch", "update"]),
            Subresource::status(),
        ])
        .returns_deleted()
        .generation(Generation::Spec)
        .selectable(fields(), UnknownField::NotSupported)
        .indexed_by(&["spec.nodeName"])
}

fn fields() -> Vec<SelectableField> {
    vec![
        SelectableField::namespace(),
        SelectableField::new("spec.nodeName"),
        SelectableField::new("spec.host").indexed_as("spec.nodeName").at(At::Path(path("spec.nodeName"))),
        SelectableField::new("spec.restartPolicy"),
        SelectableField::new("spec.schedulerName"),
        SelectableField::new("spec.serviceAccountName"),
        SelectableField::new("spec.hostNetwork").at(At::Flag(path("spec.hostNetwork"))),
        SelectableField::new("status.phase"),
        SelectableField::new("status.podIP"),
        SelectableField::new("status.podIPs").at(At::Nowhere),
        SelectableField::new("status.nominatedNodeName"),
    ]
}
