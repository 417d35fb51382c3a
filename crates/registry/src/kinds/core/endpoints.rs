//! Endpoints.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Endpoints", "endpoints")
        .short_names(&["ep"])
        .stored_at("services/endpoints")
        .creates_on_update()
}
