//! The kinds of `authentication.k8s.io`.

mod self_subject_review;
mod token_review;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![self_subject_review::kind(), token_review::kind()]
}
