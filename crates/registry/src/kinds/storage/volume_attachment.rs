//! VolumeAttachment.

use crate::{
    defaults::{
        fields::{Object, child},
        volume,
    },
    kind::{Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, boolean, read::Read, row, text, words::age_of},
    validation::{
        ITSELF, Step,
        document::{Faults, Node},
        names,
        storage::{spec_is_fixed, volume_spec},
        volumes,
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("storage.k8s.io", "storage.v1.VolumeAttachment", "volumeattachments")
        .cluster_scoped()
        .subresources([Subresource::status()])
        .requires_version()
        .returns_deleted()
        .status_keeps_metadata()
        .strategy(VolumeAttachmentStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    Column { format: "name", ..text("Attacher", "The driver that attaches the volume") },
    text("PV", "The volume"),
    text("Node", "The node that it is attached to"),
    boolean("Attached", "Whether it is attached"),
    AGE,
];

struct VolumeAttachmentStrategy;

impl Strategy for VolumeAttachmentStrategy {
    /// The attachment of a volume, which may be given inline.
    fn set_defaults(&self, object: &mut Object) {
        let source = child(object, "spec").and_then(|spec| child(spec, "source"));
        if let Some(spec) = source.and_then(|source| child(source, "inlineVolumeSpec")) {
            volume::sources(spec);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, attachment: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = attachment.at("spec");
        volumes::driver_name(&spec.at("attacher"), faults);
        let source = spec.at("source");
        match (source.has("inlineVolumeSpec"), source.has("persistentVolumeName")) {
            (false, false) => faults
                .required(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (true, true) => {
                faults.forbidden(
                    &source,
                    "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                );
            }
            (false, true) => {
                let name = source.at("persistentVolumeName");
                if name.text().is_empty() {
                    faults.required(&name, "must specify non empty persistentVolumeName");
                }
                faults.texts(&name, names::subdomain(name.text()));
            }
            (true, false) => volume_spec(&source.at("inlineVolumeSpec"), true, faults),
        }
        let node = spec.at("nodeName");
        faults.texts(&node, names::subdomain(node.text()));
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        spec_is_fixed(new, old, faults)
    }

    /// What became of attaching a volume.
    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let status = new.at("status");
        for name in ["attachError", "detachError"] {
            let error = status.at(name);
            let code = error.at("errorCode");
            if let Some(number) = code.number().filter(|number| *number < 0) {
                faults.invalid(&code, number, "must be between 0 and 2147483647, inclusive");
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, attachment: &Value, now: Timestamp) -> Vec<Value> {
        row![
            attachment.name(),
            attachment.text("spec.attacher"),
            attachment.text("spec.source.persistentVolumeName"),
            attachment.text("spec.nodeName"),
            attachment.flag("status.attached"),
            age_of(attachment, now),
        ]
    }
}
