//! Deployment.

use crate::{
    defaults::{
        fields::{Object, child_or_new, set_default, set_if_zero, text},
        pod::template,
        workloads::REVISIONS_KEPT,
    },
    kind::{Generation, Kind, Subresource},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        self, AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR,
        read::Read,
        row,
        words::{self, age_of, containers},
        workloads::{POD_CONTAINERS, ready},
    },
    validation::{
        SPEC, Step,
        document::{Faults, Node},
        pod,
        warnings::{self, Warnings, same_generation},
        workloads::{
            at_most_all, is_zero, number_or_percent, replica_counts, runs_for_ever, selector,
            selector_change, shown_strategy,
        },
    },
    value::{at, fields, set},
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.Deployment", "deployments")
        .short_names(&["deploy"])
        .categories(&["all"])
        .subresources([Subresource::scale(), Subresource::status()])
        .generation(Generation::SpecOrAnnotations)
        .strategy(DeploymentStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    table::text("Ready", "How many pods are ready, of those wanted"),
    table::text("Up-to-date", "How many pods are of the newest template"),
    table::text("Available", "How many pods have been ready for long enough"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

struct DeploymentStrategy;

impl Strategy for DeploymentStrategy {
    fn set_defaults(&self, object: &mut Object) {
        let spec = child_or_new(object, "spec");
        set_default(spec, "replicas", 1);
        let strategy = child_or_new(spec, "strategy");
        set_if_zero(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = child_or_new(strategy, "rollingUpdate");
            set_default(rolling, "maxUnavailable", "25%");
            set_default(rolling, "maxSurge", "25%");
        }
        set_default(spec, "revisionHistoryLimit", REVISIONS_KEPT);
        set_default(spec, "progressDeadlineSeconds", 600);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, _: Timestamp) {
        set(fields(new, &["metadata"]), "labels", at(old, &["metadata", "labels"]).cloned());
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, deployment: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = deployment.at("spec");
        faults.not_negative(&spec.at("replicas"));
        let empty = "empty selector is invalid for deployment";
        selector(&spec, empty, "invalid label selector", faults);
        pod::template(&spec.at("template"), faults);
        runs_for_ever(&spec, "ReplicaSet", faults);
        deployment_strategy(&spec.at("strategy"), faults);
        faults.not_negative(&spec.at("minReadySeconds"));
        faults.not_negative(&spec.at("revisionHistoryLimit"));
        let deadline = spec.at("progressDeadlineSeconds");
        faults.not_negative(&deadline);
        if let Some(seconds) =
            deadline.number().filter(|seconds| *seconds <= spec.number_of("minReadySeconds"))
        {
            faults.invalid(&deadline, seconds, "must be greater than minReadySeconds");
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        selector_change(new, old, faults)
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let parts = &["updatedReplicas", "readyReplicas", "availableReplicas"];
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
        COLUMNS
    }

    fn cells(&self, deployment: &Value, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(deployment, POD_CONTAINERS);
        row![
            deployment.name(),
            ready(deployment),
            deployment.number("status.updatedReplicas"),
            deployment.number("status.availableReplicas"),
            age_of(deployment, now),
            names,
            images,
            words::selector(deployment, "spec.selector"),
        ]
    }
}

fn deployment_strategy(strategy: &Node, faults: &mut Faults) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text_of("type") {
        "Recreate" if rolling.exists() => {
            faults.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.exists() => {
            faults.required(&rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            number_or_percent(&unavailable, faults);
            number_or_percent(&surge, faults);
            if is_zero(&unavailable) && is_zero(&surge) {
                faults.invalid(&unavailable, unavailable.value.clone(), "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(&unavailable, faults);
        }
        _ => {
            faults.not_supported_shown_of(strategy, &shown_strategy(strategy), &["Recreate", "RollingUpdate"])
        }
    }
}
