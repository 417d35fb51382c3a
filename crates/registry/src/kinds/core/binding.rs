//! Binding.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Binding", "bindings").not_stored()
}
