//! Service.

use crate::kind::{Kind, NameRule, SelectableField, Subresource, UnknownField};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Service", "services")
        .short_names(&["svc"])
        .categories(&["all"])
        .subresources([
            Subresource::new("proxy", &["create", "delete", "get", "patch", "update"]).of(
                "",
                "v1",
                "ServiceProxyOptions",
            ),
            Subresource::status(),
        ])
        .stored_at("services/specs")
        .names(NameRule::Label)
        .creates_on_update()
        .returns_deleted()
        .selectable(
            [
                SelectableField::namespace(),
                SelectableField::new("spec.clusterIP"),
                SelectableField::new("spec.type"),
            ],
            UnknownField::NotSupported,
        )
}
