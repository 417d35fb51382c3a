//! Deployment.

use crate::{
    defaults::{pod::template, workloads::REVISIONS_KEPT},
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, Subresource},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::Strategy,
    table::{
        self, AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, row,
        words::{self, age_of, containers},
        workloads::{POD_CONTAINERS, ready},
    },
    validation::{
        SPEC, Step, pod,
        warnings::{self, Warnings, same_generation},
        workloads::{
            at_most_all, is_zero, number_or_percent, replica_counts, runs_for_ever, selector,
            selector_change, shown_strategy,
        },
    },
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
        let spec = object.object_or_new("spec");
        spec.set_default("replicas", 1);
        let strategy = spec.object_or_new("strategy");
        strategy.set_if_zero("type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate" {
            let rolling = strategy.object_or_new("rollingUpdate");
            rolling.set_default("maxUnavailable", "25%");
            rolling.set_default("maxSurge", "25%");
        }
        spec.set_default("revisionHistoryLimit", REVISIONS_KEPT);
        spec.set_default("progressDeadlineSeconds", 600);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, _: Timestamp) {
        new.object_or_new("metadata").set("labels", old.field("metadata.labels").cloned());
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, deployment: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = deployment.at("spec");
        errors.not_negative(&spec.at("replicas"));
        let empty = "empty selector is invalid for deployment";
        selector(&spec, empty, "invalid label selector", errors);
        pod::template(&spec.at("template"), errors);
        runs_for_ever(&spec, "ReplicaSet", errors);
        deployment_strategy(&spec.at("strategy"), errors);
        errors.not_negative(&spec.at("minReadySeconds"));
        errors.not_negative(&spec.at("revisionHistoryLimit"));
        let deadline = spec.at("progressDeadlineSeconds");
        errors.not_negative(&deadline);
        if let Some(seconds) =
            deadline.as_number().filter(|seconds| *seconds <= spec.number("minReadySeconds"))
        {
            errors.invalid(&deadline, seconds, "must be greater than minReadySeconds");
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        selector_change(new, old, errors)
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let parts = &["updatedReplicas", "readyReplicas", "availableReplicas"];
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

fn deployment_strategy(strategy: &Node, errors: &mut FieldErrors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if rolling.exists() => {
            errors.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.exists() => {
            errors.required(&rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            number_or_percent(&unavailable, errors);
            number_or_percent(&surge, errors);
            if is_zero(&unavailable) && is_zero(&surge) {
                errors.invalid(&unavailable, unavailable.value.clone(), "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(&unavailable, errors);
        }
        _ => errors.not_supported_formatted_one_of(
            strategy,
            &shown_strategy(strategy),
            &["Recreate", "RollingUpdate"],
        ),
    }
}
