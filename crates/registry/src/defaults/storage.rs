//! Persistent volumes, claims to them, and storage classes.

use crate::{
    defaults::quantities::round_quantities,
    document::{Edit, Object},
};

/// A claim, or the template of one in a stateful set.
pub(crate) fn claim(object: &mut Object) {
    claim_spec(object);
    let status = object.object_or_new("status");
    status.set_if_zero("phase", "Pending");
    round_quantities(status, &["capacity", "allocatedResources"]);
}

/// The spec of a claim.
pub(crate) fn claim_spec(owner: &mut Object) {
    let spec = owner.object_or_new("spec");
    spec.set_default("volumeMode", "Filesystem");
    round_quantities(spec.object_or_new("resources"), &["limits", "requests"]);
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
    use serde_json::json;

    #[test]
    fn a_volume_stays_when_its_claim_goes() {
        check(
            "core.v1.PersistentVolume",
            json!({"spec": {"capacity": {"storage": "1u"}, "hostPath": {"path": "/p"}}}),
            "",
            json!({
                "metadata": {},
                "spec": {
                    "capacity": {"storage": "1m"}, "hostPath": {"path": "/p", "type": ""},
                    "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            }),
        );
    }

    #[test]
    fn the_sources_of_a_volume_are_filled_as_in_pods() {
        for (given, wanted) in [
            (
                json!({"rbd": {"monitors": ["m"], "image": "i"}}),
                json!({"monitors": ["m"], "image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
            ),
            (
                json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 1}}),
                json!({"targetPortal": "t", "iqn": "i", "lun": 1, "iscsiInterface": "default"}),
            ),
            (
                json!({"azureDisk": {"diskName": "d", "diskURI": "u"}}),
                json!({"diskName": "d", "diskURI": "u", "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared"}),
            ),
            (
                json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": null}}),
                json!({"gateway": "g", "system": "s", "secretRef": null, "storageMode": "ThinProvisioned", "fsType": "xfs"}),
            ),
            (json!({"nfs": {"server": "s", "path": "p"}}), json!({"server": "s", "path": "p"})),
        ] {
            let source = given.as_object().unwrap().keys().next().unwrap().clone();
            check("core.v1.PersistentVolume", json!({"spec": given}), &format!("/spec/{source}"), wanted);
        }
    }

    #[test]
    fn a_claim_is_for_a_file_system_and_waits() {
        check(
            "core.v1.PersistentVolumeClaim",
            json!({"spec": {"resources": {"requests": {"storage": "1u"}}}, "status": {"capacity": {"storage": "1n"}}}),
            "",
            json!({
                "metadata": {},
                "spec": {"resources": {"requests": {"storage": "1m"}}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending", "capacity": {"storage": "1m"}},
            }),
        );
        check(
            "core.v1.PersistentVolumeClaim",
            json!({"spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}}),
            "",
            json!({"metadata": {}, "spec": {"resources": {}, "volumeMode": "Block"}, "status": {"phase": "Bound"}}),
        );
    }

    #[test]
    fn a_storage_class_deletes_and_binds_at_once() {
        check(
            "storage.v1.StorageClass",
            json!({"provisioner": "p"}),
            "",
            json!({"metadata": {}, "provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        );
    }

    #[test]
    fn a_csi_driver_requires_attachment_by_default_and_little_else() {
        check(
            "storage.v1.CSIDriver",
            json!({"spec": {"podInfoOnMount": true}}),
            "/spec",
            json!({
                "attachRequired": true, "podInfoOnMount": true, "storageCapacity": false, "requiresRepublish": false,
                "seLinuxMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
            }),
        );
    }
}
