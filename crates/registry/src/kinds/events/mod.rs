//! The kinds of `events.k8s.io`.

mod event;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![event::kind()]
}
