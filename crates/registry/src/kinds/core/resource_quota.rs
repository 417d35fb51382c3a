//! ResourceQuota.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ResourceQuota", "resourcequotas")
        .short_names(&["quota"])
        .subresources([Subresource::status()])
        .returns_deleted()
}
