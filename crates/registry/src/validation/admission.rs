//! What extends or guards the API itself: definitions, webhooks, policies, certificates, flows.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    document::{Faults, Node},
    names, selectors,
};

const CERTIFICATE_SECONDS_MIN: i64 = 600;
const SIGNER_NAME_BYTES_MAX: usize = 571;

/// A CustomResourceDefinition: its name and scope. Its schemas are looked at where they are used.
pub(super) fn definition(definition: &Node, _: Option<&Node>, faults: &mut Faults) {
    let (name, spec) = (definition.at("metadata.name"), definition.at("spec"));
    let expected = format!("{}.{}", spec.at("names").text_of("plural"), spec.text_of("group"));
    if !name.text().is_empty() && name.text() != expected {
        faults.invalid(&name, name.text(), "must be spec.names.plural+\".\"+spec.group");
    }
    faults.one_of(&spec.at("scope"), &["Cluster", "Namespaced"]);
}

/// An APIService.
pub(super) fn api_service(service: &Node, _: Option<&Node>, faults: &mut Faults) {
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

/// The status of an API service.
pub(super) fn api_service_status(new: &Node, _: &Node, faults: &mut Faults) {
    for condition in new.at("status").items("conditions") {
        faults.must_be_one_of(&condition.at("status"), &["True", "False", "Unknown"]);
    }
}

/// A configuration of webhooks of either kind.
pub(super) fn webhooks(configuration: &Node, _: Option<&Node>, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for hook in configuration.items("webhooks") {
        let name = hook.at("name");
        qualified_domain(&name, faults);
        for rule in hook.items("rules") {
            operations_rule(&rule, faults);
        }
        faults.if_given_one_of(&hook.at("failurePolicy"), &["Fail", "Ignore"]);
        faults.if_given_one_of(&hook.at("matchPolicy"), &["Equivalent", "Exact"]);
        let effects = hook.at("sideEffects");
        if effects.exists() {
            faults.if_given_one_of(&effects, &["None", "NoneOnDryRun"]);
        } else {
            faults.required(&effects, "must specify one of None, NoneOnDryRun");
        }
        let timeout = hook.at("timeoutSeconds");
        if let Some(seconds) = timeout.number().filter(|seconds| !(1..=30).contains(seconds)) {
            faults.invalid(&timeout, seconds, "the timeout value must be between 1 and 30 seconds");
        }
        selectors::label_selector(&hook.at("namespaceSelector"), faults);
        selectors::label_selector(&hook.at("objectSelector"), faults);
        faults.if_given_one_of(&hook.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        client_config(&hook.at("clientConfig"), faults);
        conditions(&hook, faults);
        versions(&hook, faults);
        if !taken.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
    }
}

fn qualified_domain(name: &Node, faults: &mut Faults) {
    let wrong = names::subdomain(name.text());
    if name.text().is_empty() {
        faults.required(name, "");
    } else if !wrong.is_empty() {
        faults.invalid(name, name.text(), &wrong.join(","));
    } else if name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        faults.invalid(name, name.text(), detail);
    }
}

fn versions(hook: &Node, faults: &mut Faults) {
    let versions = hook.at("admissionReviewVersions");
    if hook.len_of("admissionReviewVersions") == 0 {
        faults.required(&versions, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for version in hook.items("admissionReviewVersions") {
        faults.texts(&version, names::label_1035(version.text()));
        if !seen.insert(version.text()) {
            faults.invalid(&version, version.text(), "duplicate version");
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        faults.invalid(&versions, versions.value.clone(), detail);
    }
}

fn operations_rule(rule: &Node, faults: &mut Faults) {
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    if rule.len_of("operations") == 0 {
        faults.required(&rule.at("operations"), "");
    }
    wildcard_alone(rule, "operations", "operations", faults);
    for operation in rule.items("operations") {
        faults.must_be_one_of(&operation, &known);
    }
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if rule.len_of(name) == 0 {
            faults.required(&rule.at(name), "");
        }
        wildcard_alone(rule, name, what, faults);
    }
    for version in rule.items("apiVersions") {
        faults.given(&version);
    }
    rule_resources(rule, faults);
    faults.if_given_one_of(&rule.at("scope"), &["*", "Cluster", "Namespaced"]);
}

/// What stands for everything stands alone.
fn wildcard_alone(rule: &Node, name: &str, what: &str, faults: &mut Faults) {
    if rule.len_of(name) > 1 && rule.items(name).any(|item| item.text() == "*") {
        let list = rule.at(name);
        let detail = format!("if '*' is present, must not specify other {what}");
        faults.invalid(&list, list.value.clone(), &detail);
    }
}

/// Resources, and subresources after a slash; what stands for several makes naming one of them pointless.
fn rule_resources(rule: &Node, faults: &mut Faults) {
    let list = rule.at("resources");
    if rule.len_of("resources") == 0 {
        faults.required(&list, "");
    }
    let (mut all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    let (mut everything, mut all, mut plain) = (false, false, false);
    for item in rule.items("resources") {
        let text = item.text();
        if text.is_empty() {
            faults.required(&item, "");
            continue;
        }
        everything |= text == "*/*";
        all |= text == "*";
        let Some((resource, below)) = text.split_once('/') else {
            // The last one counts, as in the original.
            plain = text != "*";
            continue;
        };
        for (given, name) in [
            (all_below.contains(resource), format!("{resource}/*")),
            (below_all.contains(below), format!("*/{below}")),
        ] {
            if given {
                faults.invalid(&item, text, &format!("if '{name}' is present, must not specify {text}"));
            }
        }
        if below == "*" {
            all_below.insert(resource);
        }
        if resource == "*" {
            below_all.insert(below);
        }
    }
    if everything && rule.len_of("resources") > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        faults.invalid(&list, list.value.clone(), detail);
    }
    if all && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        faults.invalid(&list, list.value.clone(), detail);
    }
}

fn client_config(config: &Node, faults: &mut Faults) {
    let (url, service) = (config.at("url"), config.at("service"));
    if url.exists() == service.exists() {
        faults.required(config, "exactly one of url or service is required");
        return;
    }
    if url.exists() {
        if !url.text().starts_with("https://") {
            let scheme = url.text().split_once("://").map_or("", |(scheme, _)| scheme);
            let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            faults.invalid(&url, scheme, detail);
        }
        let rest = url.text().split_once("://").map_or("", |(_, rest)| rest);
        if rest.split(['/', '?', '#']).next().is_none_or(str::is_empty) {
            faults.invalid(&url, "", "host must be specified; desired format: https://host[/path]");
        }
        return;
    }
    // The original mixes up the two.
    for (name, blamed) in [("namespace", "name"), ("name", "namespace")] {
        if service.text_of(name).is_empty() {
            faults.required(&service.at(blamed), "");
        }
    }
    if let Some(port) = service.at("port").number().filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        faults.invalid(&service.at("port"), port, detail);
    }
    service_path(&service.at("path"), faults);
}

fn service_path(path: &Node, faults: &mut Faults) {
    let text = path.text();
    match text {
        "" | "/" => return,
        "//" => return faults.invalid(path, text, "segment[0] may not be empty"),
        _ if !text.starts_with('/') => faults.invalid(path, text, "must start with a '/'"),
        _ => {}
    }
    // The first character is taken for the slash, whatever it is.
    let rest = text.char_indices().nth(1).map_or("", |(start, _)| &text[start..]);
    for (at, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            faults.invalid(path, text, &format!("segment[{at}] may not be empty"));
            continue;
        }
        for fault in names::subdomain(step) {
            faults.invalid(path, text, &format!("segment[{at}]: {fault}"));
        }
    }
}

/// A policy of admission, of either kind.
pub(super) fn policy(policy: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = policy.at("spec");
    faults.if_given_one_of(&spec.at("failurePolicy"), &["Fail", "Ignore"]);
    let kind = spec.at("paramKind");
    if kind.exists() {
        param_kind(&kind, faults);
    }
    let constraints = spec.at("matchConstraints");
    if constraints.exists() {
        match_resources(&constraints, true, faults);
    } else {
        faults.required(&constraints, "");
    }
    conditions(&spec, faults);
    for variable in spec.items("variables") {
        variable_of(&variable, faults);
    }
    if policy.text_of("kind") == "MutatingAdmissionPolicy" {
        mutating_operations(&constraints, faults);
        if spec.len_of("mutations") == 0 {
            faults.required(&spec.at("mutations"), "mutations must contain at least one item");
        }
        for mutation in spec.items("mutations") {
            mutation_of(&mutation, faults);
        }
        faults.one_of(&spec.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        return;
    }
    if spec.len_of("validations") == 0 && spec.len_of("auditAnnotations") == 0 {
        let detail = "validations or auditAnnotations must contain at least one item";
        faults.required(&spec.at("validations"), detail);
        faults.required(&spec.at("auditAnnotations"), detail);
    }
    for validation in spec.items("validations") {
        if validation.text_of("expression").trim().is_empty() {
            faults.required(&validation.at("expression"), "expression is not specified");
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        faults.if_given_one_of(&validation.at("reason"), &reasons);
    }
    for annotation in spec.items("auditAnnotations") {
        let key = annotation.at("key");
        let qualified = format!("{}/{}", policy.at("metadata").text_of("name"), key.text());
        for fault in names::qualified(&qualified) {
            faults.invalid(&key, qualified.as_str(), &fault);
        }
        let expression = annotation.at("valueExpression");
        if expression.text().trim().is_empty() {
            faults.required(&expression, "valueExpression is not specified");
        }
    }
}

/// When a hook or a policy is asked at all.
fn conditions(of: &Node, faults: &mut Faults) {
    for condition in of.items("matchConditions") {
        faults.given(&condition.at("expression"));
        faults.named(&condition.at("name"), names::qualified);
    }
}

/// An expression with a name, for others to use.
fn variable_of(variable: &Node, faults: &mut Faults) {
    for name in ["name", "expression"] {
        if variable.text_of(name).trim().is_empty() {
            faults.required(&variable.at(name), &format!("{name} is not specified"));
        }
    }
}

/// How an object is changed: in the one way that the type says.
fn mutation_of(mutation: &Node, faults: &mut Faults) {
    let kind = mutation.at("patchType");
    let (wanted, other) = match kind.text() {
        "" => return faults.required(&kind, ""),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => return faults.must_be_one_of(&kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    let way = mutation.at(wanted);
    if !way.exists() {
        faults.required(&way, &format!("must be specified when patchType is {}", kind.text()));
    } else if way.text_of("expression").trim().is_empty() {
        faults.required(&way.at("expression"), "");
    }
    if mutation.has(other) {
        let detail = format!("must not be specified when patchType is {}", kind.text());
        faults.invalid(&mutation.at(other), format!("{{{other}}}"), &detail);
    }
}

/// The kind of a policy's parameters.
fn param_kind(kind: &Node, faults: &mut Faults) {
    let version = kind.at("apiVersion");
    match version.text().split('/').collect::<Vec<_>>().as_slice() {
        [""] => faults.required(&version, ""),
        [.., ""] => faults.invalid(&version, version.text(), "version must be specified"),
        [parts @ .., bare] if parts.len() < 2 => {
            let group = parts.first().copied().unwrap_or_default();
            let wrong = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
            for (part, wrong) in [(group, wrong), (bare, names::label_1035(bare))] {
                if !wrong.is_empty() {
                    faults.invalid(&version, part, &wrong.join(","));
                }
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {}", version.text());
            faults.invalid(&version, version.text(), &detail);
        }
    }
    let name = kind.at("kind");
    let wrong = names::label_1035(&name.text().to_ascii_lowercase());
    if name.text().is_empty() {
        faults.required(&name, "");
    } else if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        faults.invalid(&name, name.text(), &detail);
    }
}

fn match_resources(resources: &Node, need_rules: bool, faults: &mut Faults) {
    selectors::label_selector(&resources.at("namespaceSelector"), faults);
    selectors::label_selector(&resources.at("objectSelector"), faults);
    if need_rules && resources.len_of("resourceRules") == 0 {
        faults.required(&resources.at("resourceRules"), "");
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.items(name) {
            let mut seen = BTreeSet::new();
            for object in rule.items("resourceNames") {
                faults.texts(&object, names::path_segment(object.text()));
                if !seen.insert(object.text()) {
                    faults.duplicate(&object, object.text());
                }
            }
            operations_rule(&rule, faults);
        }
    }
    faults.if_given_one_of(&resources.at("matchPolicy"), &["Equivalent", "Exact"]);
}

/// Only what creates or changes objects can be changed on its way. The rules are blamed together.
fn mutating_operations(resources: &Node, faults: &mut Faults) {
    let (rules, known) = (resources.at("resourceRules"), ["*", "CONNECT", "CREATE", "UPDATE"]);
    for rule in resources.items("resourceRules") {
        for operation in rule.items("operations").filter(|operation| !known.contains(&operation.text())) {
            faults.not_supported(&rules.at("operations"), operation.text(), &known);
        }
    }
}

/// Where a policy of admission holds.
pub(super) fn policy_binding(binding: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = binding.at("spec");
    faults.named(&spec.at("policyName"), names::subdomain);
    let parameters = spec.at("paramRef");
    if parameters.exists() {
        param_ref(&parameters, faults);
    }
    match_resources(&spec.at("matchResources"), false, faults);
    if binding.text_of("kind") == "MutatingAdmissionPolicyBinding" {
        mutating_operations(&spec.at("matchResources"), faults);
        return;
    }
    let mut seen = BTreeSet::new();
    for action in spec.items("validationActions") {
        faults.must_be_one_of(&action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.text()) {
            faults.duplicate(&action, action.text());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let actions = spec.at("validationActions");
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
             API response and headers serves no purpose)";
        faults.invalid(&actions, actions.value.clone(), detail);
    }
    if seen.is_empty() {
        faults.required(&spec.at("validationActions"), "at least one validation action is required");
    }
}

/// Which objects a policy gets as its parameters.
fn param_ref(parameters: &Node, faults: &mut Faults) {
    let (name, selector) = (parameters.at("name"), parameters.at("selector"));
    let named = !name.text().is_empty();
    let detail = "name and selector are mutually exclusive";
    if named {
        faults.texts(&name, names::path_segment(name.text()));
        if selector.exists() {
            faults.forbidden(&name, detail);
        }
    }
    if selector.exists() {
        selectors::label_selector(&selector, faults);
        if named {
            faults.forbidden(&selector, detail);
        }
    }
    if !named && !selector.exists() {
        faults.required(parameters, "one of name or selector must be specified");
    }
    faults.one_of(&parameters.at("parameterNotFoundAction"), &["Deny", "Allow"]);
}

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

/// A request for a certificate.
pub(super) fn certificate_request(request: &Node, old: Option<&Node>, faults: &mut Faults) {
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

/// Whether a certificate may be signed, and was.
pub(super) fn certificate_status(new: &Node, _: &Node, faults: &mut Faults) {
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
