//! Binding.

use crate::kind::{Kind, Question};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Binding", "bindings").question(Question::Binding)
}
