//! ReplicationController.

use crate::{
    defaults::{
        fields::{Object, child_or_new, has_any, set_default},
        pod::{template, template_labels},
        workloads::labels_of_template,
    },
    kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column,
        read::Read,
        words::labels,
        workloads::{REPLICATED, replicated},
    },
    validation::{
        SPEC, Step,
        document::{Faults, Node},
        pod,
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
    /// A replication controller, which selects by the labels of its template if nobody says otherwise.
    fn set_defaults(&self, object: &mut Object) {
        labels_of_template(object);
        let spec = child_or_new(object, "spec");
        if !has_any(spec, "selector")
            && let Some(labels) = template_labels(spec).cloned()
        {
            spec.insert("selector".to_owned(), labels.into());
        }
        set_default(spec, "replicas", 1);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    /// A ReplicationController, whose selector is a mere set of labels.
    fn validate(&self, controller: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = controller.at("spec");
        faults.not_negative(&spec.at("minReadySeconds"));
        if spec.len_of("selector") == 0 {
            faults.required(&spec.at("selector"), "");
        }
        faults.not_negative(&spec.at("replicas"));
        let template = spec.at("template");
        if !template.exists() {
            faults.required(&template, "");
            return;
        }
        let labels = template.at("metadata.labels");
        if !spec.entries("selector").all(|(key, value)| labels.value.get(key) == Some(value.value)) {
            faults.invalid(&labels, labels.value.clone(), MISMATCH);
        }
        pod::template(&template, faults);
        runs_for_ever(&spec, "ReplicationController", faults);
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let parts = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        replica_counts(new, "readyReplicas", parts, faults)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        // An update goes without, as in the original.
        if old.is_none() {
            warnings::template(&object.at("spec.template"), warnings);
        }
    }

    fn columns(&self) -> &'static [Column] {
        REPLICATED
    }

    fn cells(&self, controller: &Value, now: Timestamp) -> Vec<Value> {
        replicated(controller, labels(controller.map("spec.selector")), now)
    }
}
