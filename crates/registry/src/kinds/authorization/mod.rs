//! The kinds of `authorization.k8s.io`.

mod local_subject_access_review;
mod self_subject_access_review;
mod self_subject_rules_review;
mod subject_access_review;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        local_subject_access_review::kind(),
        self_subject_access_review::kind(),
        self_subject_rules_review::kind(),
        subject_access_review::kind(),
    ]
}
