//! APIService.

use crate::{
    defaults::extension::service_port,
    document::{FieldErrors, Fields, Node, Object},
    kind::{Kind, NameRule, Subresource},
    schema::{self, Timestamp},
    strategy::{Creation, Strategy},
    table::{AGE, Column, NAME, row, text, words::age_of},
    validation::{names, warnings::Warnings},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

pub(super) fn kind() -> Kind {
    Kind::of_type("apiregistration.k8s.io", "apiregistration.v1.APIService", "apiservices")
        .cluster_scoped()
        .categories(&["api-extensions"])
        .subresources([Subresource::status()])
        .stored_at("apiregistration.k8s.io/apiservices")
        .names(NameRule::PathSegment)
        .requires_version()
        .status_keeps_metadata()
        .takes_any_finalizer()
        .strategy(APIServiceStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    text("Service", "The service that answers its requests"),
    text("Available", "Whether it answers"),
    AGE,
];

struct APIServiceStrategy;

impl Strategy for APIServiceStrategy {
    /// A group and version that another server serves.
    fn set_defaults(&self, object: &mut Object) {
        service_port(object, "spec");
    }

    fn warn(&self, service: &Node, _: Option<&Node>, warnings: &mut Warnings) {
        if service.at("spec.service").exists() {
            warnings.push("requests are not passed on to other API servers yet");
        }
    }

    fn prepare_create(&self, document: &mut Value, creation: &Creation<'_>) {
        local_is_available(document, creation.now);
    }

    fn validate(&self, service: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
        let (name, spec) = (service.at("metadata.name"), service.at("spec"));
        let expected = format!("{}.{}", spec.text("version"), spec.text("group"));
        if name.as_text() != expected {
            let detail = format!("must be `spec.version+\".\"+spec.group`: \"{expected}\"");
            errors.invalid(&name, name.as_text(), &detail);
        }
        if spec.text("group").is_empty() && spec.text("version") != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.required(&spec.at("group"), detail);
        }
        errors.valid_if_set(&spec.at("group"), names::subdomain);
        errors.invalid_each(&spec.at("version"), names::label_1035(spec.text("version")));
        for (name, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
            let priority = spec.number(name);
            if priority <= 0 || priority > most {
                errors.invalid(&spec.at(name), priority, &format!("must be positive and less than {most}"));
            }
        }
        let (target, unverified) = (spec.at("service"), spec.at("insecureSkipTLSVerify"));
        let certificates = STANDARD.decode(spec.text("caBundle")).unwrap_or_default();
        if !target.exists() {
            if !certificates.is_empty() {
                let shown = format!("{} bytes", certificates.len());
                errors.invalid(&spec.at("caBundle"), shown, "local APIServices may not have a caBundle");
            }
            if spec.flag("insecureSkipTLSVerify") {
                errors.invalid(&unverified, true, "local APIServices may not have insecureSkipTLSVerify");
            }
            return;
        }
        errors.not_empty(&target.at("namespace"));
        errors.not_empty(&target.at("name"));
        let port = target.number("port");
        if !(1..=65535).contains(&port) {
            let detail = "port is not valid: must be between 1 and 65535, inclusive";
            errors.invalid(&target.at("port"), port, detail);
        }
        if spec.flag("insecureSkipTLSVerify") && !certificates.is_empty() {
            errors.invalid(&unverified, true, "may not be true if caBundle is present");
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        for condition in new.at("status").items("conditions") {
            errors.must_be_one_of(&condition.at("status"), &["True", "False", "Unknown"]);
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, service: &Value, now: Timestamp) -> Vec<Value> {
        let backend = service.field("spec.service").map_or_else(
            || "Local".to_owned(),
            |service| format!("{}/{}", service.text("namespace"), service.text("name")),
        );
        let available = match service.condition("Available") {
            None => "Unknown".to_owned(),
            Some(condition) if condition.text("status") == "True" => "True".to_owned(),
            Some(condition) => format!("{} ({})", condition.text("status"), condition.text("reason")),
        };
        row![service.name(), backend, available, age_of(service, now)]
    }
}

/// Marks an APIService without a service as available: this server serves it.
fn local_is_available(service: &mut Value, now: Timestamp) {
    if service.field("spec.service").is_none_or(Value::is_null) {
        service["status"] = json!({"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": schema::time(now),
            "reason": "Local", "message": "Local APIServices are always available",
        }]});
    }
}
