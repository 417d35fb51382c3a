//! EndpointSlice.

use crate::kind::{Generation, Kind};

pub(super) fn kind() -> Kind {
    Kind::of_type("discovery.k8s.io", "discovery.v1.EndpointSlice", "endpointslices")
        .generation(Generation::ContentOrLabels)
}
