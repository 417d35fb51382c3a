//! Ingress.

use crate::{
    error::Error,
    kind::{Generation, Kind, Subresource},
    kinds::known,
    rest::{Registry, Target},
    schema::Timestamp,
    strategy::Strategy,
    table::{
        AGE, Column, NAME,
        network::{SHOWN_MAX, load_balancer},
        read::Read,
        row, text,
        words::{NONE, age_of, joined, or},
    },
    validation::{
        document::{Faults, Node},
        names,
        service::balancer_status,
        warnings::Warnings,
    },
    value::{at, fields},
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
        let given = at(ingress, &["spec", "ingressClassName"]).is_some()
            || at(ingress, &["metadata", "annotations", "kubernetes.io/ingress.class"]).is_some();
        if !given {
            let classes = known("networking.k8s.io", "ingressclasses");
            let annotation = "ingressclass.kubernetes.io/is-default-class";
            if let Some(class) = registry.default_of(classes, annotation).await? {
                fields(ingress, &["spec"]).insert("ingressClassName".to_owned(), class.into());
            }
        }
        Ok(None)
    }

    fn validate(&self, ingress: &Node, old: Option<&Node>, faults: &mut Faults) {
        let spec = ingress.at("spec");
        let default = spec.at("defaultBackend");
        if spec.len_of("rules") == 0 && !default.exists() {
            faults.invalid(&spec, Value::Null, "either `defaultBackend` or `rules` must be specified");
        }
        if default.exists() {
            backend(&default, faults);
        }
        for rule in spec.items("rules") {
            rule_host(&rule, faults);
            let http = rule.at("http");
            if http.exists() && http.len_of("paths") == 0 {
                faults.required(&http.at("paths"), "");
            }
            for path in http.items("paths") {
                ingress_path(&path, faults);
            }
        }
        for tls in spec.items("tls") {
            for host in tls.items("hosts") {
                faults.texts(&host, names::host(host.text()));
            }
            faults.if_given(&tls.at("secretName"), names::subdomain);
        }
        let class = spec.at("ingressClassName");
        if class.exists() {
            faults.texts(&class, names::subdomain(class.text()));
        }
        let annotation =
            ingress.at("metadata.annotations").value.get(CLASS_ANNOTATION).and_then(Value::as_str);
        if let Some(given) =
            annotation.filter(|given| old.is_none() && class.exists() && *given != class.text())
        {
            let at = format!("annotations.{CLASS_ANNOTATION}");
            faults.invalid(
                &ingress.at_as("metadata", &at),
                given,
                "must match `ingressClassName` when both are specified",
            );
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        balancer_status(new, faults)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        if old.is_none() && object.at("metadata.annotations").has("kubernetes.io/ingress.class") {
            warnings.push("annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead");
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, ingress: &Value, now: Timestamp) -> Vec<Value> {
        row![
            ingress.name(),
            ingress.set("spec.ingressClassName").and_then(Value::as_str).unwrap_or(NONE),
            hosts(ingress),
            load_balancer(ingress),
            if ingress.list("spec.tls").is_empty() { "80" } else { "80, 443" },
            age_of(ingress, now),
        ]
    }
}

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

fn rule_host(rule: &Node, faults: &mut Faults) {
    let host = rule.at("host");
    if host.text().is_empty() {
        return;
    }
    if names::parse_ip(host.text()).is_some() {
        faults.invalid(&host, host.text(), "must be a DNS name, not an IP address");
    }
    faults.texts(&host, names::host(host.text()));
}

fn ingress_path(path: &Node, faults: &mut Faults) {
    let (kind, at) = (path.at("pathType"), path.at("path"));
    if !kind.exists() {
        faults.required(&kind, "pathType must be specified");
        return;
    }
    let text = at.text();
    match kind.text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                faults.invalid(&at, text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| text.contains(part)) {
                faults.invalid(&at, text, &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| text.ends_with(end)) {
                faults.invalid(&at, text, &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                faults.invalid(&at, text, "must be an absolute path");
            }
        }
        other => faults.not_supported(&kind, other, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&path.at("backend"), faults);
}

fn backend(backend: &Node, faults: &mut Faults) {
    let service = backend.at("service");
    match (backend.has("resource"), service.exists()) {
        (true, true) => faults.invalid(backend, "", "cannot set both resource and service backends"),
        (true, false) => reference(&backend.at("resource"), faults),
        (false, false) => faults.invalid(backend, "", "resource or service backend is required"),
        (false, true) => {
            faults.named(&service.at("name"), names::label);
            let port = service.at("port");
            match (port.text_of("name"), port.number_of("number")) {
                ("", 0) => faults.required(backend, "port name or number is required"),
                ("", _) => faults.in_range(&port.at("number"), 1, 65535),
                (name, 0) => faults.texts(&port.at("name"), names::port_name(name)),
                _ => faults.invalid(backend, "", "cannot set both port name & port number"),
            }
        }
    }
}

/// An object by its group, kind and name.
pub(crate) fn reference(reference: &Node, faults: &mut Faults) {
    if reference.has("apiGroup") {
        let group = reference.at("apiGroup");
        faults.texts(&group, names::subdomain(group.text()));
    }
    faults.named(&reference.at("kind"), names::path_segment);
    faults.named(&reference.at("name"), names::path_segment);
}

/// The first hosts. What is said to be more are rules: those without a host count too.
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
