//! TokenReview.

use crate::kind::{CreateOnly, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("authentication.k8s.io", "authentication.v1.TokenReview", "tokenreviews")
        .cluster_scoped()
        .create_only(CreateOnly::TokenReview)
}
