//! PodTemplate.

use crate::{
    defaults::pod,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column, NAME, row, text,
        words::{containers, labels},
    },
    validation::{
        self, SPEC, Step,
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

    fn validate(&self, object: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        validation::pod::template(&object.at("template"), errors);
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if !same_generation(object, old) {
            warnings::template(&object.at("template"), warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, template: &Value, _: Timestamp) -> Vec<Value> {
        let (names, images) = containers(template, "template.spec.containers");
        row![template.name(), names, images, labels(template.object("template.metadata.labels"))]
    }
}

/// Removes the fields of disabled features from the template of a pod.
pub(crate) fn drop_disabled_template_fields(spec: Option<&mut Value>) {
    if let Some(spec) = spec.and_then(Value::as_object_mut) {
        drop_disabled_pod_fields(spec);
    }
}

/// Removes the fields of disabled features from the spec of a pod.
pub(crate) fn drop_disabled_pod_fields(spec: &mut Map<String, Value>) {
    spec.remove("schedulingGroup");
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for source in volume.list_mut("projected.sources") {
            let source = source.make_object();
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
