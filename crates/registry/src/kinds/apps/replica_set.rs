//! ReplicaSet.

use crate::{
    defaults::pod::template,
    document::{Edit, FieldErrors, Node, Object},
    kind::{Generation, Kind, Subresource},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        Column,
        words::selector_or_none,
        workloads::{REPLICATED, replicated},
    },
    validation::{
        SPEC, Step, pod,
        warnings::{self, Warnings, same_generation},
        workloads::{replica_counts, runs_for_ever, selector, selector_change},
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.ReplicaSet", "replicasets")
        .short_names(&["rs"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .generation(Generation::Spec)
        .strategy(ReplicaSetStrategy)
}

struct ReplicaSetStrategy;

impl Strategy for ReplicaSetStrategy {
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_default("replicas", 1);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, set: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = set.at("spec");
        errors.not_negative(&spec.at("replicas"));
        errors.not_negative(&spec.at("minReadySeconds"));
        let empty = "empty selector is invalid for deployment";
        selector(&spec, empty, "invalid label selector", errors);
        pod::template(&spec.at("template"), errors);
        runs_for_ever(&spec, "ReplicaSet", errors);
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        selector_change(new, old, errors)
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let parts = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        replica_counts(new, "readyReplicas", parts, errors)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        if !same_generation(object, old) {
            warnings::template(&object.at("spec.template"), warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        REPLICATED
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Vec<Value> {
        replicated(set, selector_or_none(set, "spec.selector"), now)
    }
}
