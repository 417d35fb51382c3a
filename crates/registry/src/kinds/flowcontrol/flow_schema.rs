//! FlowSchema.

use crate::{
    document::{Edit, FieldErrors, Fields, Node, Object},
    kind::{Generation, Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, age_of},
    },
    validation::{ITSELF, Step, names},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type("flowcontrol.apiserver.k8s.io", "flowcontrol.v1.FlowSchema", "flowschemas")
        .cluster_scoped()
        .subresources([Subresource::status()])
        .generation(Generation::Spec)
        .status_keeps_metadata()
        .strategy(FlowSchemaStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("PriorityLevel", "The priority level of its requests"),
    text("MatchingPrecedence", "Its rank: the lowest that matches a request decides"),
    text("DistinguisherMethod", "What tells its flows apart"),
    AGE,
    text("MissingPL", "Whether there is no such priority level"),
];

struct FlowSchemaStrategy;

impl Strategy for FlowSchemaStrategy {
    /// Sets the default matching precedence.
    fn set_defaults(&self, object: &mut Object) {
        object.object_or_new("spec").set_if_zero("matchingPrecedence", 1000);
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    /// Validates the precedence, the distinguisher, the priority level and the rules.
    fn validate(&self, schema: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let spec = schema.at("spec");
        let (at, precedence) = (spec.at("matchingPrecedence"), spec.number("matchingPrecedence"));
        if precedence <= 0 {
            errors.invalid(&at, precedence, "must be a positive value");
        }
        if precedence > PRECEDENCE_MAX {
            errors.invalid(&at, precedence, "must not be greater than 10000");
        }
        if precedence == 1 && schema.at("metadata").text("name") != "exempt" {
            let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
            errors.invalid(&at, precedence, detail);
        }
        let (method, known) = (spec.at("distinguisherMethod"), ["ByNamespace", "ByUser"]);
        if method.exists() && !known.contains(&method.text("type")) {
            // The error contains the whole method, with the name that the field has in Go.
            let shown = json!({"Type": method.text("type")}).to_string();
            errors.not_supported_formatted_one_of(&method.at("type"), &shown, &known);
        }
        let level = spec.at("priorityLevelConfiguration.name");
        if level.as_text().is_empty() {
            errors.required(&level, "must reference a priority level");
        } else {
            errors.invalid_each(&level, names::subdomain(level.as_text()));
        }
        for rule in spec.items("rules") {
            if rule.length("subjects") == 0 {
                errors.required(&rule.at("subjects"), "subjects must contain at least one value");
            }
            for subject in rule.items("subjects") {
                subject_fields(&subject, errors);
            }
            if rule.length("resourceRules") + rule.length("nonResourceRules") == 0 {
                let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
                errors.required(&rule, detail);
            }
            for resources in rule.items("resourceRules") {
                resource_rule(&resources, errors);
            }
            for paths in rule.items("nonResourceRules") {
                path_rule(&paths, errors);
            }
        }
        conditions(schema, errors);
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        status(new, old, errors)
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, schema: &Value, now: Timestamp) -> Vec<Value> {
        let method = schema.field("spec.distinguisherMethod").map_or(NONE, |method| method.text("type"));
        row![
            schema.name(),
            schema.text("spec.priorityLevelConfiguration.name"),
            schema.number("spec.matchingPrecedence"),
            method,
            age_of(schema, now),
            schema.condition("Dangling").map_or("?", |dangling| dangling.text("status")),
        ]
    }
}

const PRECEDENCE_MAX: i64 = 10000;

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn subject_fields(subject: &Node, errors: &mut FieldErrors) {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.text("kind");
    let Some((_, own)) = kinds.iter().find(|(name, _)| *name == kind) else {
        errors.not_supported(&subject.at("kind"), kind, &["Group", "ServiceAccount", "User"]);
        return;
    };
    let named = subject.at(own);
    if named.exists() {
        let name = named.at("name");
        errors.not_empty(&name);
        if kind == "ServiceAccount" {
            if name.as_text() != "*" {
                errors.valid_if_set(&name, names::subdomain);
            }
            let namespace = named.at("namespace");
            if namespace.as_text().is_empty() {
                errors.required(&namespace, "must specify namespace for service account");
            } else {
                errors.invalid_each(&namespace, names::label(namespace.as_text()));
            }
        }
    } else {
        errors.required(&named, &format!("{own} is required when subject kind is '{kind}'"));
    }
    for (other, field) in kinds.iter().filter(|(name, field)| *name != kind && subject.has(field)) {
        let detail = format!("{field} is forbidden when subject kind is not '{other}'");
        errors.forbidden(&subject.at(field), &detail);
    }
}

fn has_wildcard(rule: &Node, name: &str) -> bool {
    rule.items(name).any(|item| item.as_text() == "*")
}

/// Rejects a list that contains `*` and something else.
fn wildcard_is_exclusive(rule: &Node, name: &str, what: &str, errors: &mut FieldErrors) {
    if rule.length(name) > 1 && has_wildcard(rule, name) {
        let list = rule.at(name);
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(&list, list.value.clone(), &detail);
    }
}

fn verbs(rule: &Node, errors: &mut FieldErrors) {
    let list = rule.at("verbs");
    if rule.length("verbs") == 0 {
        errors.required(&list, "verbs must contain at least one value");
    } else if has_wildcard(rule, "verbs") {
        wildcard_is_exclusive(rule, "verbs", "verbs", errors);
    } else if rule.items("verbs").any(|verb| !VERBS.contains(&verb.as_text())) {
        errors.not_supported_formatted_one_of(&list, &list.value.to_string(), &VERBS);
    }
}

fn resource_rule(rule: &Node, errors: &mut FieldErrors) {
    verbs(rule, errors);
    for (name, one, many) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        if rule.length(name) == 0 {
            errors.required(&rule.at(name), &format!("resource rules must supply at least one {one}"));
        }
        wildcard_is_exclusive(rule, name, many, errors);
    }
    if rule.length("namespaces") == 0 && !rule.flag("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(&rule.at("namespaces"), detail);
    } else if has_wildcard(rule, "namespaces") {
        wildcard_is_exclusive(rule, "namespaces", "namespaces", errors);
    } else {
        for namespace in rule.items("namespaces") {
            for error in names::label(namespace.as_text()) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {error}");
                errors.invalid(&namespace, namespace.as_text(), &detail);
            }
        }
    }
}

fn path_rule(rule: &Node, errors: &mut FieldErrors) {
    verbs(rule, errors);
    let name = "nonResourceURLs";
    if rule.length(name) == 0 {
        errors.required(&rule.at(name), "nonResourceURLs must contain at least one value");
    } else if has_wildcard(rule, name) {
        wildcard_is_exclusive(rule, name, "non-resource URLs", errors);
    } else {
        for path in rule.items(name) {
            if let Some(error) = path_error(path.as_text()) {
                errors.invalid(&path, path.as_text(), error);
            }
        }
    }
}

fn path_error(path: &str) -> Option<&'static str> {
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if path.contains('*') && (path.matches('*').count() > 1 || !path.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

pub(crate) fn conditions(object: &Node, errors: &mut FieldErrors) {
    let status = object.at("status");
    let mut seen = BTreeSet::new();
    for condition in status.items("conditions") {
        let ty = condition.at("type");
        if !seen.insert(condition.text("type")) {
            errors.duplicate(&ty, ty.as_text());
        }
        errors.not_empty(&ty);
    }
}

/// The status of either kind.
pub(crate) fn status(new: &Node, _: &Node, errors: &mut FieldErrors) {
    conditions(new, errors);
}
