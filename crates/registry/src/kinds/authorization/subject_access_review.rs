//! SubjectAccessReview.

use crate::kind::{Kind, Question};

pub(super) fn kind() -> Kind {
    Kind::of_type("authorization.k8s.io", "authorization.v1.SubjectAccessReview", "subjectaccessreviews")
        .cluster_scoped()
        .question(Question::Access)
}
