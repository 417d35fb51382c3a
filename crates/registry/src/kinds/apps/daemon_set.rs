//! DaemonSet.

use crate::{
    defaults::{pod::template, workloads::REVISIONS_KEPT},
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, Subresource},
    kinds::core::pod_template::drop_disabled_template_fields,
    schema::Timestamp,
    strategy::{Creation, Strategy},
    table::{
        self, AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, integer, row,
        words::{age_of, containers, labels, selector_or_none},
        workloads::POD_CONTAINERS,
    },
    validation::{
        CHANGE_THEN_OWN, Step, names, pod, selectors,
        warnings::{self, Warnings, same_generation},
        workloads::{
            at_most_all, is_zero, must_match_template, number_or_percent, runs_for_ever, selector_change,
            shown_strategy,
        },
    },
};
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("apps", "apps.v1.DaemonSet", "daemonsets")
        .short_names(&["ds"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .generation(Generation::Spec)
        .strategy(DaemonSetStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "How many nodes should run a pod of it"),
    integer("Current", "How many of those nodes have one"),
    integer("Ready", "How many of those nodes have one that is ready"),
    integer("Up-to-date", "How many of those nodes have one of the newest template"),
    integer("Available", "How many of those nodes have one that has been ready for long enough"),
    table::text("Node Selector", "The labels of the nodes that should run a pod of it"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

struct DaemonSetStrategy;

impl Strategy for DaemonSetStrategy {
    /// Sets the defaults of a DaemonSet. The generation of its template is an annotation, which updates of the template
    /// increment.
    fn set_defaults(&self, object: &mut Object) {
        let generation = object.annotation(TEMPLATE_GENERATION).parse::<i64>();
        let annotations = object.object_or_new("metadata.annotations");
        if !generation.is_ok_and(|generation| generation > 0) {
            annotations.insert(TEMPLATE_GENERATION.to_owned(), "1".into());
        }
        let spec = object.object_or_new("spec");
        let strategy = spec.object_or_new("updateStrategy");
        strategy.set_if_zero("type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate" {
            let rolling = strategy.object_or_new("rollingUpdate");
            rolling.set_default("maxUnavailable", 1);
            rolling.set_default("maxSurge", 0);
        }
        spec.set_default("revisionHistoryLimit", REVISIONS_KEPT);
        template(spec);
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
    }

    fn prepare_create(&self, document: &mut Value, _: &Creation<'_>) {
        set_template_generation(document, 1);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        let generation = old.annotation(TEMPLATE_GENERATION).parse().unwrap_or(0);
        let changed = new.field("spec.template") != old.field("spec.template");
        set_template_generation(new, if changed { generation + 1 } else { generation });
    }

    fn update_order(&self) -> &'static [Step] {
        CHANGE_THEN_OWN
    }

    fn validate(&self, set: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = set.at("spec");
        let selector = spec.at("selector");
        selectors::label_selector(&selector, errors);
        if selectors::can_be_evaluated(&selector) {
            must_match_template(&spec, &selector, errors);
        }
        if selector.exists() && selectors::selects_all(&selector) {
            errors.invalid(&selector, selector.value.clone(), "empty selector is invalid for daemonset");
        }
        pod::template(&spec.at("template"), errors);
        runs_for_ever(&spec, "DaemonSet", errors);
        errors.not_negative(&spec.at("minReadySeconds"));
        daemon_strategy(&spec.at("updateStrategy"), errors);
        errors.not_negative(&spec.at("revisionHistoryLimit"));
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        selector_change(new, old, errors)
    }

    /// Validates the numbers of pods.
    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let status = new.at("status");
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        for name in counts {
            errors.not_negative(&status.at(name));
        }
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if !same_generation(object, old) {
            warnings::template(&object.at("spec.template"), warnings);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(set, POD_CONTAINERS);
        row![
            set.name(),
            set.number("status.desiredNumberScheduled"),
            set.number("status.currentNumberScheduled"),
            set.number("status.numberReady"),
            set.number("status.updatedNumberScheduled"),
            set.number("status.numberAvailable"),
            labels(set.object("spec.template.spec.nodeSelector")),
            age_of(set, now),
            names,
            images,
            selector_or_none(set, "spec.selector"),
        ]
    }
}

fn daemon_strategy(strategy: &Node, errors: &mut FieldErrors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.exists() => errors.required(&rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            for limit in [&unavailable, &surge] {
                number_or_percent(limit, errors);
                at_most_all(limit, errors);
            }
            // A text that is no percentage counts as none.
            let is_none = |limit: &Node| {
                is_zero(limit) || limit.value.as_str().is_some_and(|text| !names::percent(text).is_empty())
            };
            match (is_none(&unavailable), is_none(&surge)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&surge, surge.value.clone(), detail);
                }
                (true, true) => errors.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => errors.not_supported_formatted_one_of(
            strategy,
            &shown_strategy(strategy),
            &["RollingUpdate", "OnDelete"],
        ),
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(document: &mut Value, generation: i64) {
    document
        .object_or_new("metadata.annotations")
        .insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}
