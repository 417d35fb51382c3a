//! PodTemplate.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.PodTemplate", "podtemplates").returns_deleted().generation(Generation::Content)
}
