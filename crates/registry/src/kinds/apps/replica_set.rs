//! ReplicaSet.

use crate::{
    defaults::{
        fields::{Object, child_or_new, set_default},
        pod::template,
    },
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
        SPEC, Step,
        document::{Faults, Node},
        pod,
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
        let spec = child_or_new(object, "spec");
        set_default(spec, "replicas", 1);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, set: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = set.at("spec");
        faults.not_negative(&spec.at("replicas"));
        faults.not_negative(&spec.at("minReadySeconds"));
        let empty = "empty selector is invalid for deployment";
        selector(&spec, empty, "invalid label selector", faults);
        pod::template(&spec.at("template"), faults);
        runs_for_ever(&spec, "ReplicaSet", faults);
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        selector_change(new, old, faults)
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let parts = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        replica_counts(new, "readyReplicas", parts, faults)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() {
            warnings::hostname(object, "Pod names and hostnames", warnings);
        }
        if !same_generation(object, old) {
            warnings::template(&object.at("spec.template"), warnings);
        }
    }

    fn columns(&self) -> &'static [Column] {
        REPLICATED
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Vec<Value> {
        replicated(set, selector_or_none(set, "spec.selector"), now)
    }
}
