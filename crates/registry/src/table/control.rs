//! The rows of what governs requests: who may do what, what is admitted and in which order, and who answers.

use super::{
    AGE, Column, Form, NAME, integer,
    read::Read,
    row, text,
    words::{NONE, UNSET, age_of, duration, or, selector_or_none},
};
use crate::schema::Timestamp;
use serde_json::Value;

pub(super) const FORMS: &[Form] = &[
    Form { ty: "rbac.v1.RoleBinding", columns: ROLE_BINDING, cells: role_binding },
    Form { ty: "rbac.v1.ClusterRoleBinding", columns: ROLE_BINDING, cells: role_binding },
    Form {
        ty: "certificates.v1.CertificateSigningRequest",
        columns: &[
            NAME,
            AGE,
            text("SignerName", "Who should sign it"),
            text("Requestor", "Who asks for it"),
            text("RequestedDuration", "How long the certificate should be good"),
            text("Condition", "What was decided, and whether it is issued"),
        ],
        cells: signing_request,
    },
    Form {
        ty: "admissionregistration.v1.MutatingWebhookConfiguration",
        columns: WEBHOOK_CONFIGURATION,
        cells: webhook_configuration,
    },
    Form {
        ty: "admissionregistration.v1.ValidatingWebhookConfiguration",
        columns: WEBHOOK_CONFIGURATION,
        cells: webhook_configuration,
    },
    Form {
        ty: "admissionregistration.v1.MutatingAdmissionPolicy",
        columns: &[NAME, integer("Mutations", "How many changes it makes"), PARAM_KIND, AGE],
        cells: |policy, now| admission_policy(policy, "spec.mutations", now),
    },
    Form {
        ty: "admissionregistration.v1.ValidatingAdmissionPolicy",
        columns: &[NAME, integer("Validations", "How many rules it checks"), PARAM_KIND, AGE],
        cells: |policy, now| admission_policy(policy, "spec.validations", now),
    },
    Form {
        ty: "admissionregistration.v1.MutatingAdmissionPolicyBinding",
        columns: POLICY_BINDING,
        cells: policy_binding,
    },
    Form {
        ty: "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        columns: POLICY_BINDING,
        cells: policy_binding,
    },
    Form {
        ty: "flowcontrol.v1.FlowSchema",
        columns: &[
            NAME,
            text("PriorityLevel", "The priority level of its requests"),
            text("MatchingPrecedence", "Its rank: the lowest that matches a request decides"),
            text("DistinguisherMethod", "What tells its flows apart"),
            AGE,
            text("MissingPL", "Whether there is no such priority level"),
        ],
        cells: flow_schema,
    },
    Form {
        ty: "flowcontrol.v1.PriorityLevelConfiguration",
        columns: &[
            NAME,
            text("Type", "Whether its requests are limited"),
            text("NominalConcurrencyShares", "Its share of the requests that are served at once"),
            text("Queues", "How many queues it has"),
            text("HandSize", "How many queues a flow is dealt"),
            text("QueueLengthLimit", "How many requests may wait in a queue"),
            AGE,
        ],
        cells: priority_level,
    },
    Form {
        ty: "apiregistration.v1.APIService",
        columns: &[
            NAME,
            text("Service", "The service that answers its requests"),
            text("Available", "Whether it answers"),
            AGE,
        ],
        cells: api_service,
    },
];

const ROLE_BINDING: &[Column] = &[
    NAME,
    text("Role", "The role that is granted"),
    AGE,
    text("Users", "The users who have the role").wide(),
    text("Groups", "The groups that have the role").wide(),
    text("ServiceAccounts", "The service accounts that have the role").wide(),
];
const WEBHOOK_CONFIGURATION: &[Column] = &[NAME, integer("Webhooks", "How many webhooks it has"), AGE];
const PARAM_KIND: Column = text("ParamKind", "The kind of the objects with its settings");
const POLICY_BINDING: &[Column] = &[
    NAME,
    text("PolicyName", "The policy that it puts to work"),
    text("ParamRef", "The object with the settings"),
    AGE,
];

fn role_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str, spell: fn(&Value) -> String| {
        let subjects = binding.list("subjects").iter().filter(|subject| subject.text("kind") == kind);
        subjects.map(spell).collect::<Vec<_>>().join(", ")
    };
    let name = |subject: &Value| subject.text("name").to_owned();
    row![
        binding.name(),
        format!("{}/{}", binding.text("roleRef.kind"), binding.text("roleRef.name")),
        age_of(binding, now),
        subjects("User", name),
        subjects("Group", name),
        subjects("ServiceAccount", |account| format!(
            "{}/{}",
            account.text("namespace"),
            account.text("name")
        )),
    ]
}

fn signing_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let wanted = request.set("spec.expirationSeconds").and_then(Value::as_i64);
    row![
        request.name(),
        age_of(request, now),
        or(request.text("spec.signerName"), NONE),
        request.text("spec.username"),
        wanted.map_or_else(|| NONE.to_owned(), duration),
        signing_status(request),
    ]
}

fn signing_status(request: &Value) -> String {
    let has = |condition| request.condition(condition).is_some();
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if request.text("status.certificate").is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}

fn webhook_configuration(configuration: &Value, now: Timestamp) -> Vec<Value> {
    row![configuration.name(), configuration.length("webhooks"), age_of(configuration, now)]
}

fn admission_policy(policy: &Value, rules: &str, now: Timestamp) -> Vec<Value> {
    let params = policy.set("spec.paramKind").map_or_else(
        || UNSET.to_owned(),
        |kind| format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    );
    row![policy.name(), policy.length(rules), params, age_of(policy, now)]
}

fn policy_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let params = match (binding.text("spec.paramRef.name"), binding.text("spec.paramRef.namespace")) {
        ("", _) if binding.set("spec.paramRef.selector").is_some() => {
            selector_or_none(binding, "spec.paramRef.selector")
        }
        ("", _) => UNSET.to_owned(),
        // Whether the object is in a namespace at all cannot be told from here.
        (name, namespace) => format!("{}/{name}", or(namespace, "*")),
    };
    row![binding.name(), binding.text("spec.policyName"), params, age_of(binding, now)]
}

fn flow_schema(schema: &Value, now: Timestamp) -> Vec<Value> {
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

fn priority_level(level: &Value, now: Timestamp) -> Vec<Value> {
    let number =
        |given: Option<&Value>, field| given.map_or(Value::from(NONE), |given| given.number(field).into());
    let limited = level.set("spec.limited");
    let queuing = level.set("spec.limited.limitResponse.queuing");
    row![
        level.name(),
        level.text("spec.type"),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age_of(level, now),
    ]
}

fn api_service(service: &Value, now: Timestamp) -> Vec<Value> {
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
