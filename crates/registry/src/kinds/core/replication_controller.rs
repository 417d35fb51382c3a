//! ReplicationController.

use crate::{
    defaults::{
        pod::{template, template_labels},
        workloads::labels_of_template,
    },
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column,
        words::labels,
        workloads::{REPLICATED, replicated},
    },
    validation::{
        SPEC, Step, pod,
        warnings::{self, Warnings},
        workloads::{MISMATCH, replica_counts, runs_for_ever},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.ReplicationController", "replicationcontrollers")
        .short_names(&["rc"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .stored_at("controllers")
        .orphans_dependents()
        .generation(Generation::Spec)
        .selectable(
            [
                SelectableField::namespace(),
                SelectableField::new("status.replicas").at(At::Number(path("status.replicas"))),
            ],
            UnknownField::NotSupported,
        )
        .strategy(ReplicationControllerStrategy)
}

struct ReplicationControllerStrategy;

impl Strategy for ReplicationControllerStrategy {
    /// Sets the default selector, the labels of the template, and the other defaults.
    fn set_defaults(&self, object: &mut Object) {
        labels_of_template(object);
        let spec = object.object_or_new("spec");
        if !spec.is_filled("selector")
            && let Some(labels) = template_labels(spec).cloned()
        {
            spec.insert("selector".to_owned(), labels.into());
        }
        spec.set_default("replicas", 1);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    /// Validates a ReplicationController, whose selector is a map of labels.
    fn validate(&self, controller: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = controller.at("spec");
        errors.not_negative(&spec.at("minReadySeconds"));
        if spec.length("selector") == 0 {
            errors.required(&spec.at("selector"), "");
        }
        errors.not_negative(&spec.at("replicas"));
        let template = spec.at("template");
        if !template.exists() {
            errors.required(&template, "");
            return;
        }
        let labels = template.at("metadata.labels");
        if !spec.entries("selector").all(|(key, value)| labels.value.get(key) == Some(value.value)) {
            errors.invalid(&labels, labels.value.clone(), MISMATCH);
        }
        pod::template(&template, errors);
        runs_for_ever(&spec, "ReplicationController", errors);
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let parts = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        replica_counts(new, "readyReplicas", parts, errors)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        // An update is not warned of, as in Kubernetes.
        if old.is_none() {
            warnings::template(&object.at("spec.template"), warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        REPLICATED
    }

    fn cells(&self, controller: &Value, now: Timestamp) -> Vec<Value> {
        replicated(controller, labels(controller.object("spec.selector")), now)
    }
}
