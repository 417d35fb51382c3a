//! SelfSubjectAccessReview.

use crate::kind::{CreateOnly, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "authorization.k8s.io",
        "authorization.v1.SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
    )
    .cluster_scoped()
    .create_only(CreateOnly::SelfSubjectAccessReview)
}
