//! LocalSubjectAccessReview.

use crate::kind::Kind;

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "authorization.k8s.io",
        "authorization.v1.LocalSubjectAccessReview",
        "localsubjectaccessreviews",
    )
    .not_stored()
}
