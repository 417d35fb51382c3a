//! Namespace.

use crate::kind::{Kind, NameRule, SelectableField, Subresource, UnknownField};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Namespace", "namespaces")
        .cluster_scoped()
        .short_names(&["ns"])
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .subresources([Subresource::new("finalize", &["update"]), Subresource::status()])
        .names(NameRule::Label)
        .returns_deleted()
        .selectable([SelectableField::new("status.phase")], UnknownField::NotSupported)
}
