//! PodTemplate.

use crate::value::{fields, list_mut};
use crate::{
    defaults::{fields::Object, pod},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column, NAME,
        read::Read,
        row, text,
        words::{containers, labels},
    },
    validation::{
        self, SPEC, Step,
        document::{Faults, Node},
        warnings::{self, Warnings, same_generation},
    },
};
use serde_json::{Map, Value};

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.PodTemplate", "podtemplates")
        .returns_deleted()
        .generation(Generation::Content)
        .strategy(PodTemplateStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Containers", "The names of the containers of a pod"),
    text("Images", "The images of the containers of a pod"),
    text("Pod Labels", "The labels of a pod"),
];

struct PodTemplateStrategy;

impl Strategy for PodTemplateStrategy {
    fn set_defaults(&self, object: &mut Object) {
        pod::template(object)
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, object: &Node, _: Option<&Node>, faults: &mut Faults) {
        validation::pod::template(&object.at("template"), faults);
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if !same_generation(object, old) {
            warnings::template(&object.at("template"), warnings);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, template: &Value, _: Timestamp) -> Vec<Value> {
        let (names, images) = containers(template, "template.spec.containers");
        row![template.name(), names, images, labels(template.map("template.metadata.labels"))]
    }
}

/// Removes from the template of a pod what no server of this version keeps.
pub(crate) fn drop_disabled_template_fields(spec: Option<&mut Value>) {
    if let Some(spec) = spec.and_then(Value::as_object_mut) {
        drop_disabled_pod_fields(spec);
    }
}

/// Removes from the spec of a pod what no server of this version keeps.
pub(crate) fn drop_disabled_pod_fields(spec: &mut Map<String, Value>) {
    spec.remove("schedulingGroup");
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for source in list_mut(volume, "/projected/sources") {
            let source = fields(source, &[]);
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else {
                continue;
            };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
}
