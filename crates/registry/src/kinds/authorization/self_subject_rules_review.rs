//! SelfSubjectRulesReview.

use crate::kind::{Kind, Question};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "authorization.k8s.io",
        "authorization.v1.SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
    )
    .cluster_scoped()
    .question(Question::SelfRules)
}
