//! HorizontalPodAutoscaler.

use crate::kind::{Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("autoscaling", "autoscaling.v1.HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short_names(&["hpa"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .stored_as("autoscaling", "v2", "autoscaling.v2.HorizontalPodAutoscaler")
}
