//! CronJob.

use crate::kind::{Generation, Kind, Subresource};

pub(super) fn kind() -> Kind {
    Kind::of_type("batch", "batch.v1.CronJob", "cronjobs")
        .short_names(&["cj"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .generation(Generation::Spec)
}
