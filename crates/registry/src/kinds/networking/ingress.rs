//! Ingress.

use crate::{
    document::{Edit, FieldErrors, Fields, Node},
    error::Error,
    kind::{Generation, Kind, Subresource},
    kinds::known,
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        network::{SHOWN_MAX, load_balancer},
        row, text,
        words::{NONE, age_of, joined, or},
    },
    validation::{names, service::balancer_status, warnings::Warnings},
};
use async_trait::async_trait;
use serde_json::Value;

pub(super) fn kind() -> Kind {
    Kind::of_type("networking.k8s.io", "networking.v1.Ingress", "ingresses")
        .short_names(&["ing"])
        .subresources([Subresource::status()])
        .stored_at("ingress")
        .generation(Generation::Spec)
        .strategy(IngressStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Class", "The class that says who implements it"),
    text("Hosts", "The hosts that it has rules for"),
    text("Address", "Where it is reached"),
    text("Ports", "The ports where it is reached"),
    AGE,
];

struct IngressStrategy;

#[async_trait]
impl Strategy for IngressStrategy {
    async fn admit(
        &self,
        registry: &Registry,
        _: Target<'_>,
        ingress: &mut Value,
    ) -> Result<Option<Error>, Error> {
        let given = ingress.has("spec.ingressClassName")
            || ingress
                .object("metadata.annotations")
                .is_some_and(|all| all.contains_key("kubernetes.io/ingress.class"));
        if !given {
            let classes = known("networking.k8s.io", "ingressclasses");
            let annotation = "ingressclass.kubernetes.io/is-default-class";
            if let Some(class) = registry.default_of(classes, annotation).await? {
                ingress.object_or_new("spec").insert("ingressClassName".to_owned(), class.into());
            }
        }
        Ok(None)
    }

    fn validate(&self, ingress: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        let spec = ingress.at("spec");
        let default = spec.at("defaultBackend");
        if spec.length("rules") == 0 && !default.exists() {
            errors.invalid(&spec, Value::Null, "either `defaultBackend` or `rules` must be specified");
        }
        if default.exists() {
            backend(&default, errors);
        }
        for rule in spec.items("rules") {
            rule_host(&rule, errors);
            let http = rule.at("http");
            if http.exists() && http.length("paths") == 0 {
                errors.required(&http.at("paths"), "");
            }
            for path in http.items("paths") {
                ingress_path(&path, errors);
            }
        }
        for tls in spec.items("tls") {
            for host in tls.items("hosts") {
                errors.invalid_each(&host, names::host(host.as_text()));
            }
            errors.valid_if_set(&tls.at("secretName"), names::subdomain);
        }
        let class = spec.at("ingressClassName");
        if class.exists() {
            errors.invalid_each(&class, names::subdomain(class.as_text()));
        }
        let annotation =
            ingress.at("metadata.annotations").value.get(CLASS_ANNOTATION).and_then(Value::as_str);
        if let Some(given) =
            annotation.filter(|given| old.is_none() && class.exists() && *given != class.as_text())
        {
            let at = format!("annotations.{CLASS_ANNOTATION}");
            errors.invalid(
                &ingress.at_as("metadata", &at),
                given,
                "must match `ingressClassName` when both are specified",
            );
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        balancer_status(new, errors)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() && object.entry("metadata.annotations", "kubernetes.io/ingress.class").exists() {
            warnings.push("annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead");
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, ingress: &Value, now: Timestamp) -> Vec<Value> {
        row![
            ingress.name(),
            ingress.field("spec.ingressClassName").and_then(Value::as_str).unwrap_or(NONE),
            hosts(ingress),
            load_balancer(ingress),
            if ingress.list("spec.tls").is_empty() { "80" } else { "80, 443" },
            age_of(ingress, now),
        ]
    }
}

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

fn rule_host(rule: &Node, errors: &mut FieldErrors) {
    let host = rule.at("host");
    if host.as_text().is_empty() {
        return;
    }
    if names::parse_ip(host.as_text()).is_some() {
        errors.invalid(&host, host.as_text(), "must be a DNS name, not an IP address");
    }
    errors.invalid_each(&host, names::host(host.as_text()));
}

fn ingress_path(path: &Node, errors: &mut FieldErrors) {
    let (kind, at) = (path.at("pathType"), path.at("path"));
    if !kind.exists() {
        errors.required(&kind, "pathType must be specified");
        return;
    }
    let text = at.as_text();
    match kind.as_text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.invalid(&at, text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| text.contains(part)) {
                errors.invalid(&at, text, &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| text.ends_with(end)) {
                errors.invalid(&at, text, &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                errors.invalid(&at, text, "must be an absolute path");
            }
        }
        other => errors.not_supported(&kind, other, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&path.at("backend"), errors);
}

fn backend(backend: &Node, errors: &mut FieldErrors) {
    let service = backend.at("service");
    match (backend.has("resource"), service.exists()) {
        (true, true) => errors.invalid(backend, "", "cannot set both resource and service backends"),
        (true, false) => reference(&backend.at("resource"), errors),
        (false, false) => errors.invalid(backend, "", "resource or service backend is required"),
        (false, true) => {
            errors.valid_name(&service.at("name"), names::label);
            let port = service.at("port");
            match (port.text("name"), port.number("number")) {
                ("", 0) => errors.required(backend, "port name or number is required"),
                ("", _) => errors.in_range(&port.at("number"), 1, 65535),
                (name, 0) => errors.invalid_each(&port.at("name"), names::port_name(name)),
                _ => errors.invalid(backend, "", "cannot set both port name & port number"),
            }
        }
    }
}

/// An object by its group, kind and name.
pub(crate) fn reference(reference: &Node, errors: &mut FieldErrors) {
    if reference.has("apiGroup") {
        let group = reference.at("apiGroup");
        errors.invalid_each(&group, names::subdomain(group.as_text()));
    }
    errors.valid_name(&reference.at("kind"), names::path_segment);
    errors.valid_name(&reference.at("name"), names::path_segment);
}

/// The first hosts. The number of further ones counts rules, also those without a host.
fn hosts(ingress: &Value) -> String {
    let rules = ingress.list("spec.rules");
    let mut rest = rules.iter();
    let hosts = rest.by_ref().map(|rule| rule.text("host")).filter(|host| !host.is_empty());
    let hosts = joined(hosts.take(SHOWN_MAX), ",");
    match rest.len() {
        0 => or(&hosts, "*").to_owned(),
        _ => format!("{hosts} + {} more...", rules.len() - SHOWN_MAX),
    }
}
