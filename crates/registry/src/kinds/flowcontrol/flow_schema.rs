//! FlowSchema.

use crate::{
    defaults::fields::{Object, child_or_new, set_if_zero},
    kind::{Generation, Kind, Subresource},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{NONE, age_of},
    },
    validation::{
        ITSELF, Step,
        document::{Faults, Node},
        names,
    },
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
    /// Which requests belong together.
    fn set_defaults(&self, object: &mut Object) {
        set_if_zero(child_or_new(object, "spec"), "matchingPrecedence", 1000);
    }

    fn update_order(&self) -> &'static [Step] {
        ITSELF
    }

    /// Which requests flow together.
    fn validate(&self, schema: &Node, _: Option<&Node>, faults: &mut Faults) {
        let spec = schema.at("spec");
        let (at, precedence) = (spec.at("matchingPrecedence"), spec.number_of("matchingPrecedence"));
        if precedence <= 0 {
            faults.invalid(&at, precedence, "must be a positive value");
        }
        if precedence > PRECEDENCE_MAX {
            faults.invalid(&at, precedence, "must not be greater than 10000");
        }
        if precedence == 1 && schema.at("metadata").text_of("name") != "exempt" {
            let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
            faults.invalid(&at, precedence, detail);
        }
        let (method, known) = (spec.at("distinguisherMethod"), ["ByNamespace", "ByUser"]);
        if method.exists() && !known.contains(&method.text_of("type")) {
            // The whole method is shown, with the name that the field has in Go.
            let shown = json!({"Type": method.text_of("type")}).to_string();
            faults.not_supported_shown_of(&method.at("type"), &shown, &known);
        }
        let level = spec.at("priorityLevelConfiguration.name");
        if level.text().is_empty() {
            faults.required(&level, "must reference a priority level");
        } else {
            faults.texts(&level, names::subdomain(level.text()));
        }
        for rule in spec.items("rules") {
            if rule.len_of("subjects") == 0 {
                faults.required(&rule.at("subjects"), "subjects must contain at least one value");
            }
            for subject in rule.items("subjects") {
                who(&subject, faults);
            }
            if rule.len_of("resourceRules") + rule.len_of("nonResourceRules") == 0 {
                let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
                faults.required(&rule, detail);
            }
            for resources in rule.items("resourceRules") {
                resource_rule(&resources, faults);
            }
            for paths in rule.items("nonResourceRules") {
                path_rule(&paths, faults);
            }
        }
        conditions(schema, faults);
    }

    fn validate_status(&self, new: &Node, old: &Node, faults: &mut Faults) {
        status(new, old, faults)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, schema: &Value, now: Timestamp) -> Vec<Value> {
        let method = schema.set("spec.distinguisherMethod").map_or(NONE, |method| method.text("type"));
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

fn who(subject: &Node, faults: &mut Faults) {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.text_of("kind");
    let Some((_, own)) = kinds.iter().find(|(name, _)| *name == kind) else {
        faults.not_supported(&subject.at("kind"), kind, &["Group", "ServiceAccount", "User"]);
        return;
    };
    let named = subject.at(own);
    if named.exists() {
        let name = named.at("name");
        faults.given(&name);
        if kind == "ServiceAccount" {
            if name.text() != "*" {
                faults.if_given(&name, names::subdomain);
            }
            let namespace = named.at("namespace");
            if namespace.text().is_empty() {
                faults.required(&namespace, "must specify namespace for service account");
            } else {
                faults.texts(&namespace, names::label(namespace.text()));
            }
        }
    } else {
        faults.required(&named, &format!("{own} is required when subject kind is '{kind}'"));
    }
    for (other, field) in kinds.iter().filter(|(name, field)| *name != kind && subject.has(field)) {
        let detail = format!("{field} is forbidden when subject kind is not '{other}'");
        faults.forbidden(&subject.at(field), &detail);
    }
}

fn has_wildcard(rule: &Node, name: &str) -> bool {
    rule.items(name).any(|item| item.text() == "*")
}

/// What stands for everything stands alone.
fn wildcard_alone(rule: &Node, name: &str, what: &str, faults: &mut Faults) {
    if rule.len_of(name) > 1 && has_wildcard(rule, name) {
        let list = rule.at(name);
        let detail = format!("if '*' is present, must not specify other {what}");
        faults.invalid(&list, list.value.clone(), &detail);
    }
}

fn verbs(rule: &Node, faults: &mut Faults) {
    let list = rule.at("verbs");
    if rule.len_of("verbs") == 0 {
        faults.required(&list, "verbs must contain at least one value");
    } else if has_wildcard(rule, "verbs") {
        wildcard_alone(rule, "verbs", "verbs", faults);
    } else if rule.items("verbs").any(|verb| !VERBS.contains(&verb.text())) {
        faults.not_supported_shown_of(&list, &list.value.to_string(), &VERBS);
    }
}

fn resource_rule(rule: &Node, faults: &mut Faults) {
    verbs(rule, faults);
    for (name, one, many) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        if rule.len_of(name) == 0 {
            faults.required(&rule.at(name), &format!("resource rules must supply at least one {one}"));
        }
        wildcard_alone(rule, name, many, faults);
    }
    if rule.len_of("namespaces") == 0 && !rule.flag("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        faults.required(&rule.at("namespaces"), detail);
    } else if has_wildcard(rule, "namespaces") {
        wildcard_alone(rule, "namespaces", "namespaces", faults);
    } else {
        for namespace in rule.items("namespaces") {
            for fault in names::label(namespace.text()) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                faults.invalid(&namespace, namespace.text(), &detail);
            }
        }
    }
}

fn path_rule(rule: &Node, faults: &mut Faults) {
    verbs(rule, faults);
    let name = "nonResourceURLs";
    if rule.len_of(name) == 0 {
        faults.required(&rule.at(name), "nonResourceURLs must contain at least one value");
    } else if has_wildcard(rule, name) {
        wildcard_alone(rule, name, "non-resource URLs", faults);
    } else {
        for path in rule.items(name) {
            if let Some(fault) = path_fault(path.text()) {
                faults.invalid(&path, path.text(), fault);
            }
        }
    }
}

fn path_fault(path: &str) -> Option<&'static str> {
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

pub(crate) fn conditions(object: &Node, faults: &mut Faults) {
    let status = object.at("status");
    let mut seen = BTreeSet::new();
    for condition in status.items("conditions") {
        let ty = condition.at("type");
        if !seen.insert(condition.text_of("type")) {
            faults.duplicate(&ty, ty.text());
        }
        faults.given(&ty);
    }
}

/// The status of either kind.
pub(crate) fn status(new: &Node, _: &Node, faults: &mut Faults) {
    conditions(new, faults);
}
