//! LocalSubjectAccessReview.

use crate::kind::{Kind, Question};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "authorization.k8s.io",
        "authorization.v1.LocalSubjectAccessReview",
        "localsubjectaccessreviews",
    )
    .question(Question::Access)
    .takes_any_namespace()
}
