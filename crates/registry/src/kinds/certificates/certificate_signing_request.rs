//! CertificateSigningRequest.

use crate::{
    document::{Edit, FieldErrors, Fields, Node},
    kind::{Kind, NameRule, SelectableField, Subresource, UnknownField},
    schema::Timestamp,
    strategy::{Creation, Part, Requester, Strategy, date_conditions},
    table::{
        AGE, Column, NAME, row, text,
        words::{NONE, age_of, duration, or},
    },
    validation::{self, LATE, Step, names, storage::spec_is_fixed},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn kind() -> Kind {
    Kind::of_type(
        "certificates.k8s.io",
        "certificates.v1.CertificateSigningRequest",
        "certificatesigningrequests",
    )
    .cluster_scoped()
    .short_names(&["csr"])
    .subresources([Subresource::new("approval", &["get", "patch", "update"]), Subresource::status()])
    .names(NameRule::PathSegment)
    .selectable([SelectableField::new("spec.signerName")], UnknownField::NotSupported)
    .strategy(CertificateSigningRequestStrategy)
}

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    text("SignerName", "Who should sign it"),
    text("Requestor", "Who asks for it"),
    text("RequestedDuration", "How long the certificate should be good"),
    text("Condition", "What was decided, and whether it is issued"),
];

struct CertificateSigningRequestStrategy;

impl Strategy for CertificateSigningRequestStrategy {
    fn prepare_create(&self, document: &mut Value, creation: &Creation<'_>) {
        sign_by(document, creation.requester);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        new.set("spec", old.get("spec").cloned());
    }

    /// An approval writes conditions, and nothing else of the status.
    fn prepare_part_update(&self, part: Part, new: &mut Value, old: &Value, now: Timestamp) {
        if part == Part::Approval {
            let (metadata, conditions) = (new["metadata"].take(), new.field("status.conditions").cloned());
            *new = old.clone();
            new["metadata"] = metadata;
            new.object_or_new("status").set("conditions", conditions);
            date_conditions(new, old.field("status.conditions"), now);
        }
    }

    fn validate_part(&self, kind: &Kind, _: Part, new: &Node, old: &Node, errors: &mut FieldErrors) {
        validation::status_change(kind, new, old, errors);
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, now: Timestamp) {
        let conditions = old.field("status.conditions");
        keep_approval(new, conditions);
        date_conditions(new, conditions, now);
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, request: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        if old.is_some() {
            return;
        }
        let spec = request.at("spec");
        let body = spec.at("request");
        let text = STANDARD.decode(body.as_text()).unwrap_or_default();
        if !String::from_utf8_lossy(&text).trim_start().starts_with("-----BEGIN CERTIFICATE REQUEST-----") {
            errors.invalid(&body, body.value.clone(), "PEM block type must be CERTIFICATE REQUEST");
        }
        if spec.length("usages") == 0 {
            errors.required(&spec.at("usages"), "");
        }
        let mut seen = BTreeSet::new();
        for usage in spec.items("usages") {
            if !USAGES.contains(&usage.as_text()) {
                errors.not_supported(&usage, usage.as_text(), &USAGES);
            }
            if !seen.insert(usage.as_text()) {
                errors.duplicate(&usage, usage.as_text());
            }
        }
        let signer = spec.at("signerName");
        if signer.as_text() == "kubernetes.io/legacy-unknown" {
            let detail = "the legacy signerName is not allowed via this API version";
            errors.invalid(&signer, signer.as_text(), detail);
        } else {
            signer_name(&signer, errors);
        }
        let seconds = spec.at("expirationSeconds");
        if let Some(number) = seconds.as_number().filter(|number| *number < CERTIFICATE_SECONDS_MIN) {
            let detail = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.invalid(&seconds, number, detail);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        spec_is_fixed(new, old, errors)
    }

    /// Validates the conditions and the certificate.
    fn validate_status(&self, new: &Node, _: &Node, errors: &mut FieldErrors) {
        let status = new.at("status");
        let mut seen = BTreeSet::new();
        for condition in status.items("conditions") {
            let (ty, state) = (condition.at("type"), condition.at("status"));
            errors.not_empty(&ty);
            // These conditions have no other status.
            let is_final = matches!(ty.as_text(), "Approved" | "Denied" | "Failed");
            let states: &[&str] = if is_final { &["True"] } else { &["False", "True", "Unknown"] };
            errors.one_of(&state, states);
            let other = match ty.as_text() {
                "Approved" => "Denied",
                "Denied" => "Approved",
                _ => "",
            };
            if !other.is_empty() && seen.contains(other) {
                let detail = "Approved and Denied conditions are mutually exclusive";
                errors.invalid(&status.at("conditions"), ty.as_text(), detail);
            }
            if !seen.insert(condition.text("type")) {
                errors.duplicate(&ty, ty.as_text());
            }
        }
    }

    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, request: &Value, now: Timestamp) -> Vec<Value> {
        let wanted = request.field("spec.expirationSeconds").and_then(Value::as_i64);
        row![
            request.name(),
            age_of(request, now),
            or(request.text("spec.signerName"), NONE),
            request.text("spec.username"),
            wanted.map_or_else(|| NONE.to_owned(), duration),
            signing_status(request),
        ]
    }
}

const CERTIFICATE_SECONDS_MIN: i64 = 600;

const SIGNER_NAME_BYTES_MAX: usize = 571;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn signer_name(signer: &Node, errors: &mut FieldErrors) {
    let text = signer.as_text();
    if text.is_empty() {
        errors.required(signer, "");
        return;
    }
    let Some((domain, path)) = text.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(signer, text, detail);
        return;
    };
    for error in names::subdomain(domain) {
        errors.invalid(signer, domain, &format!("validating label \"{domain}\": {error}"));
    }
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid(signer, domain, detail);
    }
    for error in names::subdomain(path) {
        errors.invalid(signer, path, &error);
    }
    if text.len() > SIGNER_NAME_BYTES_MAX {
        errors.too_long(signer, SIGNER_NAME_BYTES_MAX);
    }
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

fn sign_by(document: &mut Value, who: &Requester) {
    let spec = document.object_or_new("spec");
    spec.set_text("username", &who.name);
    spec.set_text("uid", &who.uid);
    spec.set("groups", (!who.groups.is_empty()).then(|| json!(who.groups)));
    spec.set("extra", (!who.extra.is_empty()).then(|| json!(who.extra)));
}

/// Signing writes the certificate in the status; the approval is a subresource of its own.
fn keep_approval(new: &mut Value, old: Option<&Value>) {
    let is_approval = |condition: &Value| matches!(condition.text("type"), "Approved" | "Denied");
    let kept = old.and_then(Value::as_array).into_iter().flatten().filter(|c| is_approval(c)).cloned();
    let others = new.list("status.conditions").iter().filter(|c| !is_approval(c)).cloned();
    let all: Vec<Value> = kept.chain(others).collect();
    new.object_or_new("status").set("conditions", (!all.is_empty()).then_some(Value::Array(all)));
}
