//! ControllerRevision.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.ControllerRevision", "controllerrevisions")
}
