//! TokenReview.

use crate::kind::{Kind, Question};

pub(super) fn kind() -> Kind {
    Kind::of_type("authentication.k8s.io", "authentication.v1.TokenReview", "tokenreviews")
        .cluster_scoped()
        .question(Question::TokenReview)
}
