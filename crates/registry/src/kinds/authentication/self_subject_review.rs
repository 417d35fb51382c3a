//! SelfSubjectReview.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type("authentication.k8s.io", "authentication.v1.SelfSubjectReview", "selfsubjectreviews")
        .cluster_scoped()
        .not_stored()
}
