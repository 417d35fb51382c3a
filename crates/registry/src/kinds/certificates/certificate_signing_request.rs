//! CertificateSigningRequest.

use crate::{
    kind::{Kind, NameRule, SelectableField, Subresource, UnknownField},
    schema::Timestamp,
    strategy::{Creation, Requester, Strategy, date_conditions},
    table::{
        AGE, Column, NAME,
        read::Read,
        row, text,
        words::{NONE, age_of, duration, or},
    },
    validation::{
        LATE, Step,
        document::{Faults, Node},
        names,
        storage::spec_is_fixed,
    },
    value::{self, at, fields, list, set},
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
        set(fields(new, &[]), "spec", old.get("spec").cloned());
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, now: Timestamp) {
        let conditions = at(old, &["status", "conditions"]);
        keep_approval(new, conditions);
        date_conditions(new, conditions, now);
    }

    fn update_order(&self) -> &'static [Step] {
        LATE
    }

    fn validate(&self, request: &Node, old: Option<&Node>, faults: &mut Faults) {
        if old.is_some() {
            return;
        }
        let spec = request.at("spec");
        let body = spec.at("request");
        let text = STANDARD.decode(body.text()).unwrap_or_default();
        if !String::from_utf8_lossy(&text).trim_start().starts_with("-----BEGIN CERTIFICATE REQUEST-----") {
            faults.invalid(&body, body.value.clone(), "PEM block type must be CERTIFICATE REQUEST");
        }
        if spec.len_of("usages") == 0 {
            faults.required(&spec.at("usages"), "");
        }
        let mut seen = BTreeSet::new();
        for usage in spec.items("usages") {
            if !USAGES.contains(&usage.text()) {
                faults.not_supported(&usage, usage.text(), &USAGES);
            }
            if !seen.insert(usage.text()) {
                faults.duplicate(&usage, usage.text());
            }
        }
        let signer = spec.at("signerName");
        if signer.text() == "kubernetes.io/legacy-unknown" {
            let detail = "the legacy signerName is not allowed via this API version";
            faults.invalid(&signer, signer.text(), detail);
        } else {
            signer_name(&signer, faults);
        }
        let seconds = spec.at("expirationSeconds");
        if let Some(number) = seconds.number().filter(|number| *number < CERTIFICATE_SECONDS_MIN) {
            let detail = "may not specify a duration less than 600 seconds (10 minutes)";
            faults.invalid(&seconds, number, detail);
        }
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        spec_is_fixed(new, old, faults)
    }

    /// Whether a certificate may be signed, and was.
    fn validate_status(&self, new: &Node, _: &Node, faults: &mut Faults) {
        let status = new.at("status");
        let mut seen = BTreeSet::new();
        for condition in status.items("conditions") {
            let (ty, state) = (condition.at("type"), condition.at("status"));
            faults.given(&ty);
            // These are not taken back.
            let is_final = matches!(ty.text(), "Approved" | "Denied" | "Failed");
            let states: &[&str] = if is_final { &["True"] } else { &["False", "True", "Unknown"] };
            faults.one_of(&state, states);
            let other = match ty.text() {
                "Approved" => "Denied",
                "Denied" => "Approved",
                _ => "",
            };
            if !other.is_empty() && seen.contains(other) {
                let detail = "Approved and Denied conditions are mutually exclusive";
                faults.invalid(&status.at("conditions"), ty.text(), detail);
            }
            if !seen.insert(condition.text_of("type")) {
                faults.duplicate(&ty, ty.text());
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, request: &Value, now: Timestamp) -> Vec<Value> {
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

fn signer_name(signer: &Node, faults: &mut Faults) {
    let text = signer.text();
    if text.is_empty() {
        faults.required(signer, "");
        return;
    }
    let Some((domain, path)) = text.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        faults.invalid(signer, text, detail);
        return;
    };
    for fault in names::subdomain(domain) {
        faults.invalid(signer, domain, &format!("validating label \"{domain}\": {fault}"));
    }
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        faults.invalid(signer, domain, detail);
    }
    for fault in names::subdomain(path) {
        faults.invalid(signer, path, &fault);
    }
    if text.len() > SIGNER_NAME_BYTES_MAX {
        faults.too_long(signer, SIGNER_NAME_BYTES_MAX);
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
    let spec = fields(document, &["spec"]);
    crate::value::set_text(spec, "username", &who.name);
    crate::value::set_text(spec, "uid", &who.uid);
    set(spec, "groups", (!who.groups.is_empty()).then(|| json!(who.groups)));
    set(spec, "extra", (!who.extra.is_empty()).then(|| json!(who.extra)));
}

/// The status of a certificate request says what was signed; who may be trusted is said elsewhere.
fn keep_approval(new: &mut Value, old: Option<&Value>) {
    let is_approval = |condition: &Value| matches!(value::text(condition, &["type"]), "Approved" | "Denied");
    let kept = old.and_then(Value::as_array).into_iter().flatten().filter(|c| is_approval(c)).cloned();
    let others = list(new, &["status", "conditions"]).iter().filter(|c| !is_approval(c)).cloned();
    let all: Vec<Value> = kept.chain(others).collect();
    set(fields(new, &["status"]), "conditions", (!all.is_empty()).then_some(Value::Array(all)));
}
