//! Secret.

use crate::kind::{Kind, SelectableField, UnknownField};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Secret", "secrets")
        .selectable([SelectableField::namespace(), SelectableField::new("type")], UnknownField::NotSupported)
}
