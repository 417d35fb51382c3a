//! HorizontalPodAutoscaler.

use crate::{
    defaults::autoscaling::by,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, UNKNOWN, UNSET, age_of, few},
    },
    validation::{SPEC, Step, names, resources},
};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("autoscaling", "autoscaling.v2.HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short_names(&["hpa"])
        .categories(&["all"])
        .subresources([Subresource::status()])
        .strategy(HorizontalPodAutoscalerStrategy)
}

pub(super) struct HorizontalPodAutoscalerStrategy;

impl Strategy for HorizontalPodAutoscalerStrategy {
    /// Sets the defaults of an autoscaler. Those of its behavior are set only if it has one; otherwise its controller
    /// decides.
    fn set_defaults(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_default("minReplicas", 1);
        spec.set_if_zero("metrics", json!([{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": CPU_PERCENT}},
            }]));
        if let Some(behavior) = spec.object_mut("behavior") {
            let up = behavior.object_or_new("scaleUp");
            up.set_default("stabilizationWindowSeconds", 0);
            default_scaling_rules(up, json!([by("Pods", 4), by("Percent", 100)]));
            // The stabilization window for scaling down is an option of the controller.
            default_scaling_rules(behavior.object_or_new("scaleDown"), json!([by("Percent", 100)]));
        }
    }

    fn update_order(&self) -> &'static [Step] {
        SPEC
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        autoscaler(new, old, errors)
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        autoscaler_status(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, autoscaler: &Value, now: Timestamp) -> Vec<Value> {
        let targets = targets(autoscaler.list("spec.metrics"), autoscaler.list("status.currentMetrics"));
        scaler(autoscaler, targets, now)
    }
}

/// A HorizontalPodAutoscaler, in either version.
pub(crate) fn autoscaler(autoscaler: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
    let spec = autoscaler.at("spec");
    // Objects that were stored before this check existed may keep their references.
    let looks_at_version = |at: &str| old.is_none_or(|old| names_group(old.at(at).text("apiVersion")));
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let most = spec.number("maxReplicas");
    if let Some(least) = min.as_number().filter(|least| *least < 1) {
        errors.invalid(&min, least, "must be greater than or equal to 1");
    }
    if most == 0 {
        errors.required(&max, "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(&max, most, "must be greater than or equal to 1");
    }
    if min.as_number().is_some_and(|least| most < least) {
        errors.invalid(&max, most, "must be greater than or equal to `minReplicas`");
    }
    object_reference(&spec.at("scaleTargetRef"), looks_at_version("spec.scaleTargetRef"), errors);
    // Version 1 is validated in the form of version 2.
    let share = "metrics[0].resource.target.averageUtilization";
    errors.positive(&spec.at_as("targetCPUUtilizationPercentage", share));
    for metric in spec.items("metrics") {
        metric_source(&metric, errors);
    }
    let counts_elsewhere = |metric: Node| matches!(metric.text("type"), "Object" | "External");
    if min.as_number() == Some(0) && !spec.items("metrics").any(counts_elsewhere) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&spec.at("metrics"), detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior");
        let rules = rules.at(direction);
        if rules.exists() {
            scaling_rules(&rules, errors);
        }
    }
}

fn names_group(api_version: &str) -> bool {
    matches!(api_version.split_once('/'), Some((group, _)) if !group.is_empty())
}

fn object_reference(reference: &Node, needs_group: bool, errors: &mut FieldErrors) {
    errors.valid_name(&reference.at("kind"), names::path_segment);
    errors.valid_name(&reference.at("name"), names::path_segment);
    let version = reference.at("apiVersion");
    if version.as_text().matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {}", version.as_text());
        errors.invalid(&version, version.as_text(), &detail);
    } else if needs_group && !names_group(version.as_text()) {
        errors.invalid(&version, version.as_text(), "apiVersion must specify API group");
    }
}

const METRICS: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

fn metric_source(metric: &Node, errors: &mut FieldErrors) {
    let kind = metric.at("type");
    if kind.as_text().is_empty() {
        errors.required(&kind, "must specify a metric source type");
    }
    let known = METRICS.map(|(name, _)| name);
    errors.must_be_one_of(&kind, &known);
    let expected = METRICS.iter().find(|(name, _)| *name == kind.as_text()).map(|(_, field)| *field);
    // Only the first that is set is validated.
    let given = ["object", "external", "pods", "resource", "containerResource"];
    if let Some(name) = given.into_iter().find(|name| metric.has(name)) {
        metric_fields(name, &metric.at(name), errors);
    }
    // An unknown type is reported twice.
    errors.must_be_one_of(&kind, &known);
    if let Some(expected) = expected.filter(|expected| !metric.has(expected)) {
        errors.required(&metric.at(expected), "must populate information for the given metric source");
    }
    let mut others: Vec<&str> =
        given.into_iter().filter(|name| Some(*name) != expected && metric.has(name)).collect();
    others.sort_unstable();
    // A source that does not belong to the type is an error only beside another.
    if others.len() > usize::from(expected.is_none()) || expected.is_some() {
        for other in others {
            errors.forbidden(&metric.at(other), "must populate the given metric source only");
        }
    }
}

fn metric_fields(name: &str, source: &Node, errors: &mut FieldErrors) {
    let target = source.at("target");
    match name {
        "object" => object_reference(&source.at("describedObject"), false, errors),
        "resource" | "containerResource" if source.text("name").is_empty() => {
            errors.required(&source.at("name"), "must specify a resource name");
        }
        "containerResource" => {
            resources::container_resource_name(source.text("name"), &source.at("name"), errors);
        }
        _ => {}
    }
    let container = source.at("container");
    if name == "containerResource" {
        match container.as_text() {
            "" => errors.required(&container, "must specify a container"),
            text => errors.invalid_each(&container, names::label(text)),
        }
    }
    if matches!(name, "object" | "pods" | "external") && source.at("metric").text("name").is_empty() {
        errors.required(&source.at("metric.name"), "must specify a metric name");
    }
    metric_target(&target, errors);
    let (value, average, share) =
        (target.has("value"), target.has("averageValue"), target.has("averageUtilization"));
    match name {
        "object" if !value && !average => {
            errors.required(&target.at("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !value && !average => errors.required(
            &target.at("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => errors.forbidden(
            &target.at("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            errors.required(&target.at("averageValue"), "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !share && !average => errors.required(
            &target.at("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if share && average => errors.forbidden(
            &target.at("averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn metric_target(target: &Node, errors: &mut FieldErrors) {
    let kind = target.at("type");
    if kind.as_text().is_empty() {
        errors.required(&kind, "must specify a metric target type");
    }
    if !matches!(kind.as_text(), "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&kind, kind.as_text(), "must be either Utilization, Value, or AverageValue");
    }
    for name in ["value", "averageValue"] {
        let amount = target.at(name);
        if resources::quantity(&amount).is_some_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
            errors.invalid(&amount, amount.as_text(), "must be positive");
        }
    }
    errors.positive(&target.at("averageUtilization"));
}

fn scaling_rules(rules: &Node, errors: &mut FieldErrors) {
    let window = rules.at("stabilizationWindowSeconds");
    if let Some(seconds) = window.as_number() {
        if seconds < 0 {
            errors.invalid(&window, seconds, "must be greater than or equal to zero");
        } else if seconds > 3600 {
            errors.invalid(&window, seconds, "must be less than or equal to 3600");
        }
    }
    errors.one_of_if_set(&rules.at("selectPolicy"), &["Disabled", "Max", "Min"]);
    if rules.length("policies") == 0 {
        errors.required(&rules.at("policies"), "must specify at least one Policy");
    }
    for policy in rules.items("policies") {
        let kind = policy.at("type");
        if !matches!(kind.as_text(), "Percent" | "Pods") {
            errors.not_supported(&kind, kind.as_text(), &["Percent", "Pods"]);
        }
        let (value, period) = (policy.number("value"), policy.number("periodSeconds"));
        if value <= 0 {
            errors.invalid(&policy.at("value"), value, "must be greater than zero");
        }
        if period <= 0 {
            errors.invalid(&policy.at("periodSeconds"), period, "must be greater than zero");
        } else if period > 1800 {
            errors.invalid(&policy.at("periodSeconds"), period, "must be less than or equal to 1800");
        }
    }
    let tolerance = rules.at("tolerance");
    if resources::quantity(&tolerance).is_some_and(|quantity| quantity.is_negative()) {
        errors.invalid(&tolerance, tolerance.as_text(), "must be greater than or equal to 0");
    }
}

/// Validates the numbers of replicas in the status.
pub(crate) fn autoscaler_status(new: &Node, _: &Node, errors: &mut FieldErrors) {
    let status = new.at("status");
    errors.not_negative(&status.at("currentReplicas"));
    errors.not_negative(&status.at("desiredReplicas"));
}

/// The default target for the average CPU utilization, in percent of the requests.
const CPU_PERCENT: i64 = 80;

fn default_scaling_rules(rules: &mut Object, policies: Value) {
    rules.set_default("selectPolicy", "Max");
    rules.set_if_zero("policies", policies);
}

pub(crate) const COLUMNS: &[Column] = &[
    NAME,
    text("Reference", "What it scales"),
    text("Targets", "What is measured, and what it should be"),
    text("MinPods", "The fewest pods that it goes down to"),
    text("MaxPods", "The most pods that it goes up to"),
    text("Replicas", "How many pods there are"),
    AGE,
];

pub(crate) fn scaler(autoscaler: &Value, targets: String, now: Timestamp) -> Vec<Value> {
    let min = autoscaler.field("spec.minReplicas").and_then(Value::as_i64);
    row![
        autoscaler.name(),
        format!(
            "{}/{}",
            autoscaler.text("spec.scaleTargetRef.kind"),
            autoscaler.text("spec.scaleTargetRef.name")
        ),
        targets,
        min.map_or_else(|| UNSET.to_owned(), |min| min.to_string()),
        autoscaler.number("spec.maxReplicas"),
        autoscaler.number("status.currentReplicas"),
        age_of(autoscaler, now),
    ]
}

const METRICS_SHOWN_MAX: usize = 2;

pub(crate) fn targets(metrics: &[Value], statuses: &[Value]) -> String {
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let measured = metrics.iter().enumerate().map(|(at, metric)| (metric, statuses.get(at)));
    few(measured, METRICS_SHOWN_MAX, ", ", |(metric, status)| target(metric, status))
}

/// The paths of a number: in v2, in v1, and in v1 for metrics of an object.
type Paths = &'static [&'static str];

const VALUE: Paths = &["target.value", "targetValue"];

const AVERAGE: Paths = &["target.averageValue", "targetAverageValue", "averageValue"];

const UTILIZATION: Paths = &["target.averageUtilization", "targetAverageUtilization"];

const CURRENT_VALUE: Paths = &["current.value", "currentValue"];

const CURRENT_AVERAGE: Paths = &["current.averageValue", "currentAverageValue", "averageValue"];

const CURRENT_UTILIZATION: Paths = &["current.averageUtilization", "currentAverageUtilization"];

fn find(metric: &Value, paths: Paths) -> Option<&Value> {
    paths.iter().find_map(|path| metric.field(path))
}

/// A number that the form should have.
fn quantity(metric: &Value, paths: Paths) -> &str {
    find(metric, paths).and_then(Value::as_str).unwrap_or("<nil>")
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let (field, named) = match metric.text("type") {
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let metric = metric.get(field).unwrap_or(&Value::Null);
    let status = status.and_then(|status| status.field(field));
    let numbers = match field {
        "pods" => amounts(metric, AVERAGE, status, CURRENT_AVERAGE),
        _ if find(metric, AVERAGE).is_none() && named => utilization(metric, status),
        _ if find(metric, AVERAGE).is_none() => amounts(metric, VALUE, status, CURRENT_VALUE),
        _ if named => amounts(metric, AVERAGE, status, CURRENT_AVERAGE),
        _ => {
            let current = status.filter(|status| find(status, CURRENT_AVERAGE).is_some());
            amounts(metric, AVERAGE, current, CURRENT_AVERAGE) + " (avg)"
        }
    };
    if named { format!("{}: {numbers}", metric.text("name")) } else { numbers }
}

fn amounts(metric: &Value, wanted: Paths, status: Option<&Value>, current: Paths) -> String {
    let current = status.map_or(UNKNOWN, |status| quantity(status, current));
    format!("{current}/{}", quantity(metric, wanted))
}

fn utilization(metric: &Value, status: Option<&Value>) -> String {
    let percentage = |number: Option<&Value>, otherwise: &str| {
        number.and_then(Value::as_i64).map_or_else(|| otherwise.to_owned(), |number| format!("{number}%"))
    };
    let current = status.and_then(|status| find(status, CURRENT_UTILIZATION));
    format!("{}/{}", percentage(current, UNKNOWN), percentage(find(metric, UTILIZATION), "<auto>"))
}
