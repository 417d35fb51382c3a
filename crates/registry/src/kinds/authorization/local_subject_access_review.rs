//! LocalSubjectAccessReview.

use crate::kind::{CreateOnly, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "authorization.k8s.io",
        "authorization.v1.LocalSubjectAccessReview",
        "localsubjectaccessreviews",
    )
    .create_only(CreateOnly::SubjectAccessReview)
    .takes_any_namespace()
}
