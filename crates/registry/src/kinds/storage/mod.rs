//! The kinds of `storage.k8s.io`.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

use crate::kind::Kind;

/// In the order of discovery.
pub(super) fn kinds() -> Vec<Kind> {
    vec![
        csi_driver::kind(),
        csi_node::kind(),
        csi_storage_capacity::kind(),
        storage_class::kind(),
        volume_attachment::kind(),
        volume_attributes_class::kind(),
    ]
}
