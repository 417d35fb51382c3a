//! ServiceAccount.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ServiceAccount", "serviceaccounts")
        .short_names(&["sa"])
        .subresources([Subresource::new("token", &["create"]).of(
            "authentication.k8s.io",
            "v1",
            "TokenRequest",
        )])
        .returns_deleted()
}
