//! APIService.

use crate::{
    defaults::{extension::service_port, fields::Object},
    kind::{Kind, NameRule, Subresource},
    schema::{self, Timestamp},
    strategy::{Creation, Strategy},
    table::{AGE, Column, NAME, read::Read, row, text, words::age_of},
    validation::{
        document::{Faults, Node},
        names,
        warnings::Warnings,
    },
    value::at,
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
    /// A group of resources that another server has.
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

    fn validate(&self, service: &Node, _: Option<&Node>, faults: &mut Faults) {
        let (name, spec) = (service.at("metadata.name"), service.at("spec"));
        let expected = format!("{}.{}", spec.text_of("version"), spec.text_of("group"));
        if name.text() != expected {
            let detail = format!("must be `spec.version+\".\"+spec.group`: \"{expected}\"");
            faults.invalid(&name, name.text(), &detail);
        }
        if spec.text_of("group").is_empty() && spec.text_of("version") != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            faults.required(&spec.at("group"), detail);
        }
        faults.if_given(&spec.at("group"), names::subdomain);
        faults.texts(&spec.at("version"), names::label_1035(spec.text_of("version")));
        for (name, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
            let priority = spec.number_of(name);
            if priority <= 0 || priority > most {
                faults.invalid(&spec.at(name), priority, &format!("must be positive and less than {most}"));
            }
        }
        let (target, unverified) = (spec.at("service"), spec.at("insecureSkipTLSVerify"));
        let certificates = STANDARD.decode(spec.text_of("caBundle")).unwrap_or_default();
        if !target.exists() {
            if !certificates.is_empty() {
                let shown = format!("{} bytes", certificates.len());
                faults.invalid(&spec.at("caBundle"), shown, "local APIServices may not have a caBundle");
            }
            if spec.flag("insecureSkipTLSVerify") {
                faults.invalid(&unverified, true, "local APIServices may not have insecureSkipTLSVerify");
            }
            return;
        }
        faults.given(&target.at("namespace"));
        faults.given(&target.at("name"));
        let port = target.number_of("port");
        if !(1..=65535).contains(&port) {
            let detail = "port is not valid: must be between 1 and 65535, inclusive";
            faults.invalid(&target.at("port"), port, detail);
        }
        if spec.flag("insecureSkipTLSVerify") && !certificates.is_empty() {
            faults.invalid(&unverified, true, "may not be true if caBundle is present");
        }
    }

    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        for condition in new.at("status").items("conditions") {
            faults.must_be_one_of(&condition.at("status"), &["True", "False", "Unknown"]);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, service: &Value, now: Timestamp) -> Vec<Value> {
        let backend = service.set("spec.service").map_or_else(
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

/// What this server answers itself is available at once.
fn local_is_available(service: &mut Value, now: Timestamp) {
    if at(service, &["spec", "service"]).is_none_or(Value::is_null) {
        service["status"] = json!({"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": schema::time(now),
            "reason": "Local", "message": "Local APIServices are always available",
        }]});
    }
}
