//! ValidatingWebhookConfiguration.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "admissionregistration.k8s.io",
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
    .cluster_scoped()
    .categories(&["api-extensions"])
    .requires_version()
    .generation(Generation::Content)
}
