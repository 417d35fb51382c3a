//! How many pods there are, how important they are, and how they run.

use super::{
    document::{Faults, Node},
    names,
    pod::preemption_policy,
    resources::{self, Asker},
    selectors,
    workloads::{at_most_all, number_or_percent},
};

const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// A PodDisruptionBudget.
pub(super) fn disruption_budget(budget: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = budget.at("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        faults.invalid(&spec, spec.value.clone(), "minAvailable and maxUnavailable cannot be both set");
    }
    for name in ["minAvailable", "maxUnavailable"] {
        let limit = spec.at(name);
        number_or_percent(&limit, faults);
        at_most_all(&limit, faults);
    }
    selectors::label_selector(&spec.at("selector"), faults);
    faults.if_given_one_of(&spec.at("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
}

/// What a budget still allows.
pub(super) fn disruption_status(new: &Node, _: &Node, faults: &mut Faults) {
    super::metadata::conditions(&new.at("status"), faults);
    let status = new.at("status");
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        faults.not_negative(&status.at(name));
    }
}

/// A HorizontalPodAutoscaler, in either version.
pub(super) fn autoscaler(autoscaler: &Node, old: Option<&Node>, faults: &mut Faults) {
    let spec = autoscaler.at("spec");
    // What was stored before versions were looked at may stay.
    let looks_at_version = |at: &str| old.is_none_or(|old| names_group(old.at(at).text_of("apiVersion")));
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let most = spec.number_of("maxReplicas");
    if let Some(least) = min.number().filter(|least| *least < 1) {
        faults.invalid(&min, least, "must be greater than or equal to 1");
    }
    if most == 0 {
        faults.required(&max, "must be set and greater than 0");
    } else if most < 0 {
        faults.invalid(&max, most, "must be greater than or equal to 1");
    }
    if min.number().is_some_and(|least| most < least) {
        faults.invalid(&max, most, "must be greater than or equal to `minReplicas`");
    }
    object_reference(&spec.at("scaleTargetRef"), looks_at_version("spec.scaleTargetRef"), faults);
    // The older version is judged in the form of the newer one.
    let share = "metrics[0].resource.target.averageUtilization";
    faults.positive(&spec.at_as("targetCPUUtilizationPercentage", share));
    for metric in spec.items("metrics") {
        metric_source(&metric, faults);
    }
    let counts_elsewhere = |metric: Node| matches!(metric.text_of("type"), "Object" | "External");
    if min.number() == Some(0) && !spec.items("metrics").any(counts_elsewhere) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        faults.forbidden(&spec.at("metrics"), detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior");
        let rules = rules.at(direction);
        if rules.exists() {
            scaling_rules(&rules, faults);
        }
    }
}

fn names_group(api_version: &str) -> bool {
    matches!(api_version.split_once('/'), Some((group, _)) if !group.is_empty())
}

fn object_reference(reference: &Node, needs_group: bool, faults: &mut Faults) {
    faults.named(&reference.at("kind"), names::path_segment);
    faults.named(&reference.at("name"), names::path_segment);
    let version = reference.at("apiVersion");
    if version.text().matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {}", version.text());
        faults.invalid(&version, version.text(), &detail);
    } else if needs_group && !names_group(version.text()) {
        faults.invalid(&version, version.text(), "apiVersion must specify API group");
    }
}

const METRICS: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

fn metric_source(metric: &Node, faults: &mut Faults) {
    let kind = metric.at("type");
    if kind.text().is_empty() {
        faults.required(&kind, "must specify a metric source type");
    }
    let known = METRICS.map(|(name, _)| name);
    faults.must_be_one_of(&kind, &known);
    let expected = METRICS.iter().find(|(name, _)| *name == kind.text()).map(|(_, field)| *field);
    // Only the first that is given is looked at.
    let given = ["object", "external", "pods", "resource", "containerResource"];
    if let Some(name) = given.into_iter().find(|name| metric.has(name)) {
        metric_fields(name, &metric.at(name), faults);
    }
    // What is not known is told before and after.
    faults.must_be_one_of(&kind, &known);
    if let Some(expected) = expected.filter(|expected| !metric.has(expected)) {
        faults.required(&metric.at(expected), "must populate information for the given metric source");
    }
    let mut others: Vec<&str> =
        given.into_iter().filter(|name| Some(*name) != expected && metric.has(name)).collect();
    others.sort_unstable();
    // One that nobody asked for is refused only beside another.
    if others.len() > usize::from(expected.is_none()) || expected.is_some() {
        for other in others {
            faults.forbidden(&metric.at(other), "must populate the given metric source only");
        }
    }
}

fn metric_fields(name: &str, source: &Node, faults: &mut Faults) {
    let target = source.at("target");
    match name {
        "object" => object_reference(&source.at("describedObject"), false, faults),
        "resource" | "containerResource" if source.text_of("name").is_empty() => {
            faults.required(&source.at("name"), "must specify a resource name");
        }
        "containerResource" => {
            resources::container_resource_name(source.text_of("name"), &source.at("name"), faults);
        }
        _ => {}
    }
    let container = source.at("container");
    if name == "containerResource" {
        match container.text() {
            "" => faults.required(&container, "must specify a container"),
            text => faults.texts(&container, names::label(text)),
        }
    }
    if matches!(name, "object" | "pods" | "external") && source.at("metric").text_of("name").is_empty() {
        faults.required(&source.at("metric.name"), "must specify a metric name");
    }
    metric_target(&target, faults);
    let (value, average, share) =
        (target.has("value"), target.has("averageValue"), target.has("averageUtilization"));
    match name {
        "object" if !value && !average => {
            faults.required(&target.at("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !value && !average => faults.required(
            &target.at("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => faults.forbidden(
            &target.at("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            faults.required(&target.at("averageValue"), "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !share && !average => faults.required(
            &target.at("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if share && average => faults.forbidden(
            &target.at("averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn metric_target(target: &Node, faults: &mut Faults) {
    let kind = target.at("type");
    if kind.text().is_empty() {
        faults.required(&kind, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        faults.invalid(&kind, kind.text(), "must be either Utilization, Value, or AverageValue");
    }
    for name in ["value", "averageValue"] {
        let amount = target.at(name);
        if resources::quantity(&amount).is_some_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
            faults.invalid(&amount, amount.text(), "must be positive");
        }
    }
    faults.positive(&target.at("averageUtilization"));
}

fn scaling_rules(rules: &Node, faults: &mut Faults) {
    let window = rules.at("stabilizationWindowSeconds");
    if let Some(seconds) = window.number() {
        if seconds < 0 {
            faults.invalid(&window, seconds, "must be greater than or equal to zero");
        } else if seconds > 3600 {
            faults.invalid(&window, seconds, "must be less than or equal to 3600");
        }
    }
    faults.if_given_one_of(&rules.at("selectPolicy"), &["Disabled", "Max", "Min"]);
    if rules.len_of("policies") == 0 {
        faults.required(&rules.at("policies"), "must specify at least one Policy");
    }
    for policy in rules.items("policies") {
        let kind = policy.at("type");
        if !matches!(kind.text(), "Percent" | "Pods") {
            faults.not_supported(&kind, kind.text(), &["Percent", "Pods"]);
        }
        let (value, period) = (policy.number_of("value"), policy.number_of("periodSeconds"));
        if value <= 0 {
            faults.invalid(&policy.at("value"), value, "must be greater than zero");
        }
        if period <= 0 {
            faults.invalid(&policy.at("periodSeconds"), period, "must be greater than zero");
        } else if period > 1800 {
            faults.invalid(&policy.at("periodSeconds"), period, "must be less than or equal to 1800");
        }
    }
    let tolerance = rules.at("tolerance");
    if resources::quantity(&tolerance).is_some_and(|quantity| quantity.is_negative()) {
        faults.invalid(&tolerance, tolerance.text(), "must be greater than or equal to 0");
    }
}

/// How many pods an autoscaler wants.
pub(super) fn autoscaler_status(new: &Node, _: &Node, faults: &mut Faults) {
    let status = new.at("status");
    faults.not_negative(&status.at("currentReplicas"));
    faults.not_negative(&status.at("desiredReplicas"));
}

/// A PriorityClass.
pub(super) fn priority_class(class: &Node, _: Option<&Node>, faults: &mut Faults) {
    let (name, value) = (class.at("metadata.name"), class.number_of("value"));
    if name.text().starts_with("system-") {
        if let Some(wrong) = not_of_the_system(name.text(), value, class.flag("globalDefault")) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
            );
            faults.forbidden(&name, &detail);
        }
    } else if value > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        faults.forbidden(&class.at("value"), &detail);
    }
    preemption_policy(&class.at("preemptionPolicy"), faults);
}

fn not_of_the_system(name: &str, value: i64, default: bool) -> Option<String> {
    match SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, expected)) if *expected != value => {
            Some(format!("value of {name} PriorityClass must be {expected}"))
        }
        Some(_) if default => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
    }
}

/// What may change in a PriorityClass.
pub(super) fn priority_class_change(new: &Node, old: &Node, faults: &mut Faults) {
    if new.number_of("value") != old.number_of("value") {
        faults.forbidden(&new.at("value"), "may not be changed in an update.");
    }
    faults.unchanged(&new.at("preemptionPolicy"), &old.at("preemptionPolicy"));
}

/// A RuntimeClass.
pub(super) fn runtime_class(class: &Node, _: Option<&Node>, faults: &mut Faults) {
    faults.named(&class.at("handler"), names::label);
    resources::amounts_as(&class.at("overhead"), "podFixed", "limits", Asker::Container, faults);
    super::metadata::labels(&class.at("scheduling.nodeSelector"), faults);
    super::pod::tolerations(&class.at("scheduling"), faults);
}

/// A class keeps its handler.
pub(super) fn runtime_class_change(new: &Node, old: &Node, faults: &mut Faults) {
    faults.unchanged(&new.at("handler"), &old.at("handler"));
}
