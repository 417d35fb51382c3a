//! The rows of volumes, and of what provides and attaches them.

use super::{
    AGE, Column, Form, NAME, boolean, integer,
    read::{Read, entry},
    row, text,
    words::{NONE, UNSET, age_of, joined, or},
};
use crate::schema::Timestamp;
use serde_json::Value;

pub(super) const FORMS: &[Form] = &[
    Form {
        ty: "core.v1.PersistentVolume",
        columns: &[
            NAME,
            text("Capacity", "How much fits in it"),
            text("Access Modes", "How it can be mounted"),
            text("Reclaim Policy", "What becomes of it when it is released"),
            text("Status", "Whether it is bound"),
            text("Claim", "The claim that it is bound to"),
            text("StorageClass", "The storage class that it is of"),
            text("VolumeAttributesClass", "The class that says how it performs"),
            text("Reason", "Why it failed, in one word"),
            AGE,
            VOLUME_MODE,
        ],
        cells: volume,
    },
    Form {
        ty: "core.v1.PersistentVolumeClaim",
        columns: &[
            NAME,
            text("Status", "Whether it is bound"),
            text("Volume", "The volume that it is bound to"),
            text("Capacity", "How much fits in the volume"),
            text("Access Modes", "How the volume can be mounted"),
            text("StorageClass", "The storage class that it asks for"),
            text("VolumeAttributesClass", "The class that says how the volume should perform"),
            AGE,
            VOLUME_MODE,
        ],
        cells: claim,
    },
    Form {
        ty: "storage.v1.StorageClass",
        columns: &[
            NAME,
            text("Provisioner", "Who makes its volumes"),
            text("ReclaimPolicy", "What becomes of its volumes when they are released"),
            text("VolumeBindingMode", "When its volumes are made and bound"),
            text("AllowVolumeExpansion", "Whether its volumes can grow"),
            AGE,
        ],
        cells: storage_class,
    },
    Form {
        ty: "storage.v1.VolumeAttributesClass",
        columns: &[NAME, text("DriverName", "The driver that its settings are for"), AGE],
        cells: |class, now| row![class.name(), class.text("driverName"), age_of(class, now)],
    },
    Form {
        ty: "storage.v1.VolumeAttachment",
        columns: &[
            NAME,
            Column { format: "name", ..text("Attacher", "The driver that attaches the volume") },
            text("PV", "The volume"),
            text("Node", "The node that it is attached to"),
            boolean("Attached", "Whether it is attached"),
            AGE,
        ],
        cells: volume_attachment,
    },
    Form {
        ty: "storage.v1.CSIDriver",
        columns: &[
            NAME,
            boolean("AttachRequired", "Whether volumes are attached before they are mounted"),
            boolean("PodInfoOnMount", "Whether it is told of the pod that mounts a volume"),
            boolean("StorageCapacity", "Whether pods are placed by the capacity that it reports"),
            text("TokenRequests", "Who the tokens are for that it gets"),
            boolean("RequiresRepublish", "Whether it is asked to mount again from time to time"),
            text("Modes", "The lifecycles of volumes that it supports"),
            AGE,
        ],
        cells: driver,
    },
    Form {
        ty: "storage.v1.CSINode",
        columns: &[NAME, integer("Drivers", "How many drivers the node has"), AGE],
        cells: |node, now| row![node.name(), node.length("spec.drivers"), age_of(node, now)],
    },
];

const VOLUME_MODE: Column = text("VolumeMode", "Whether it has a file system").wide();

fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = volume
        .set("spec.claimRef")
        .map_or_else(String::new, |claim| format!("{}/{}", claim.text("namespace"), claim.text("name")));
    row![
        volume.name(),
        storage(volume, "spec.capacity"),
        access_modes(volume, "spec.accessModes"),
        volume.text("spec.persistentVolumeReclaimPolicy"),
        phase(volume),
        claim,
        class(volume),
        setting(volume, "spec.volumeAttributesClassName"),
        volume.text("status.reason"),
        age_of(volume, now),
        setting(volume, "spec.volumeMode"),
    ]
}

fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let name = claim.text("spec.volumeName");
    let (capacity, modes) = match name {
        "" => Default::default(),
        _ => (storage(claim, "status.capacity"), access_modes(claim, "status.accessModes")),
    };
    row![
        claim.name(),
        phase(claim),
        name,
        capacity,
        modes,
        class(claim),
        setting(claim, "spec.volumeAttributesClassName"),
        age_of(claim, now),
        setting(claim, "spec.volumeMode"),
    ]
}

fn storage<'a>(document: &'a Value, path: &str) -> &'a str {
    or(entry(document.map(path), "storage"), "0")
}

fn access_modes(document: &Value, path: &str) -> String {
    let modes = document.list(path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = short.iter().filter(|(mode, _)| modes.iter().any(|given| given == mode));
    joined(given.map(|(_, short)| *short), ",")
}

fn phase(document: &Value) -> &str {
    if document.deleting() { "Terminating" } else { document.text("status.phase") }
}

/// The storage class of a volume or a claim. There was an annotation for it before the field, and it comes first.
fn class(document: &Value) -> &str {
    or(document.annotation("volume.beta.kubernetes.io/storage-class"), document.text("spec.storageClassName"))
}

fn setting<'a>(document: &'a Value, path: &str) -> &'a str {
    document.set(path).and_then(Value::as_str).unwrap_or(UNSET)
}

fn storage_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let default =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .into_iter()
            .any(|annotation| class.annotation(annotation) == "true");
    row![
        format!("{}{}", class.name(), if default { " (default)" } else { "" }),
        class.text("provisioner"),
        or(class.text("reclaimPolicy"), "Delete"),
        or(class.text("volumeBindingMode"), "Immediate"),
        class.flag("allowVolumeExpansion"),
        age_of(class, now),
    ]
}

fn volume_attachment(attachment: &Value, now: Timestamp) -> Vec<Value> {
    row![
        attachment.name(),
        attachment.text("spec.attacher"),
        attachment.text("spec.source.persistentVolumeName"),
        attachment.text("spec.nodeName"),
        attachment.flag("status.attached"),
        age_of(attachment, now),
    ]
}

fn driver(driver: &Value, now: Timestamp) -> Vec<Value> {
    let tokens = match driver.list("spec.tokenRequests") {
        [] => UNSET.to_owned(),
        requests => joined(requests.iter().map(|request| request.text("audience")), ","),
    };
    row![
        driver.name(),
        driver.set("spec.attachRequired").and_then(Value::as_bool).unwrap_or(true),
        driver.flag("spec.podInfoOnMount"),
        driver.flag("spec.storageCapacity"),
        tokens,
        driver.flag("spec.requiresRepublish"),
        or(&joined(driver.texts("spec.volumeLifecycleModes"), ","), NONE),
        age_of(driver, now),
    ]
}
