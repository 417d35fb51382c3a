//! HorizontalPodAutoscaler.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("autoscaling", "autoscaling.v2.HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short_names(&["hpa"])
        .categories(&["all"])
        .subresources([Subresource::status()])
}
