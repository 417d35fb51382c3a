//! Binding.

use crate::kind::{CreateOnly, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Binding", "bindings").create_only(CreateOnly::Binding)
}
