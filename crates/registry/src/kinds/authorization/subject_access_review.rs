//! SubjectAccessReview.

use crate::kind::{CreateOnly, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("authorization.k8s.io", "authorization.v1.SubjectAccessReview", "subjectaccessreviews")
        .cluster_scoped()
        .create_only(CreateOnly::SubjectAccessReview)
}
