//! VolumeAttachment.

use crate::{
    defaults::volume,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{AGE, Column, NAME, boolean, row, text, words::age_of},
    validation::{
        ITSELF, Step, names,
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
    text("Attacher", "The driver that attaches the volume").formatted("name"),
    text("PV", "The volume"),
    text("Node", "The node that it is attached to"),
    boolean("Attached", "Whether it is attached"),
    AGE,
];

struct VolumeAttachmentStrategy;

impl Strategy for VolumeAttachmentStrategy {
    /// The attachment of a volume, which may be given inline.
    fn set_defaults(&self, object: &mut Object) {
        let source = object.object_mut("spec").and_then(|spec| spec.object_mut("source"));
        if let Some(spec) = source.and_then(|source| source.object_mut("inlineVolumeSpec")) {
            volume::sources(spec);
        }
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    fn validate(&self, attachment: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = attachment.at("spec");
        volumes::driver_name(&spec.at("attacher"), errors);
        let source = spec.at("source");
        match (source.has("inlineVolumeSpec"), source.has("persistentVolumeName")) {
            (false, false) => errors
                .required(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (true, true) => {
                errors.forbidden(
                    &source,
                    "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                );
            }
            (false, true) => {
                let name = source.at("persistentVolumeName");
                if name.as_text().is_empty() {
                    errors.required(&name, "must specify non empty persistentVolumeName");
                }
                errors.invalid_each(&name, names::subdomain(name.as_text()));
            }
            (true, false) => volume_spec(&source.at("inlineVolumeSpec"), true, errors),
        }
        let node = spec.at("nodeName");
        errors.invalid_each(&node, names::subdomain(node.as_text()));
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        spec_is_fixed(new, old, errors)
    }

    /// Validates the errors of attaching and detaching.
    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let status = new.at("status");
        for name in ["attachError", "detachError"] {
            let error = status.at(name);
            let code = error.at("errorCode");
            if let Some(number) = code.as_number().filter(|number| *number < 0) {
                errors.invalid(&code, number, "must be between 0 and 2147483647, inclusive");
            }
        }
    }

    fn columns(&self) -> &[Column] {
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
