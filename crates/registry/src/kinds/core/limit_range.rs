//! LimitRange.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.LimitRange", "limitranges").short_names(&["limits"]).creates_on_update()
}
