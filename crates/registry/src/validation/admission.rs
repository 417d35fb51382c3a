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
    if name.text() != expected {
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
    faults.if_given(&spec.at("group"), names::subdomain);
    faults.texts(&spec.at("version"), names::label_1035(spec.text_of("version")));
    for (name, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let priority = spec.number_of(name);
        if priority <= 0 || priority > most {
            faults.invalid(&spec.at(name), priority, &format!("must be positive and less than {most}"));
        }
    }
    let target = spec.at("service");
    if target.exists() {
        faults.given(&target.at("namespace"));
        faults.given(&target.at("name"));
    } else if spec.flag("insecureSkipTLSVerify") {
        let at = spec.at("insecureSkipTLSVerify");
        faults.invalid(&at, true, "local APIServices may not have insecureSkipTLSVerify");
    }
}

/// A configuration of webhooks of either kind.
pub(super) fn webhooks(configuration: &Node, _: Option<&Node>, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for hook in configuration.items("webhooks") {
        let name = hook.at("name");
        qualified_domain(&name, faults);
        versions(&hook, faults);
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
        for condition in hook.items("matchConditions") {
            faults.named(&condition.at("name"), names::qualified);
            faults.given(&condition.at("expression"));
        }
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
    for name in ["operations", "apiGroups", "apiVersions", "resources"] {
        if rule.len_of(name) == 0 {
            faults.required(&rule.at(name), "");
        }
    }
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for operation in rule.items("operations") {
        if !known.contains(&operation.text()) {
            faults.not_supported(&operation, operation.text(), &known);
        }
    }
    for name in ["operations", "apiGroups", "apiVersions"] {
        if rule.len_of(name) > 1 && rule.items(name).any(|item| item.text() == "*") {
            let list = rule.at(name);
            faults.invalid(&list, list.value.clone(), "if '*' is present, must not specify other values");
        }
    }
    for version in rule.items("apiVersions") {
        faults.given(&version);
    }
    faults.if_given_one_of(&rule.at("scope"), &["*", "Cluster", "Namespaced"]);
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
        return;
    }
    for (name, missing) in
        [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if service.text_of(name).is_empty() {
            faults.required(&service.at(name), missing);
        }
    }
    if let Some(port) = service.at("port").number().filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        faults.invalid(&service.at("port"), port, detail);
    }
}

/// A policy of admission, of either kind.
pub(super) fn policy(policy: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = policy.at("spec");
    faults.if_given_one_of(&spec.at("failurePolicy"), &["Fail", "Ignore"]);
    let kind = spec.at("paramKind");
    if kind.exists() {
        faults.given(&kind.at("apiVersion"));
        faults.given(&kind.at("kind"));
    }
    let constraints = spec.at("matchConstraints");
    if constraints.exists() {
        match_resources(&constraints, true, faults);
    } else {
        faults.required(&constraints, "");
    }
    if policy.text_of("kind") == "MutatingAdmissionPolicy" {
        if spec.len_of("mutations") == 0 {
            faults.required(&spec.at("mutations"), "mutations must contain at least one item");
        }
        faults.one_of(&spec.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        return;
    }
    if spec.len_of("validations") == 0 && spec.len_of("auditAnnotations") == 0 {
        let detail = "validations or auditAnnotations must contain at least one item";
        faults.required(&spec.at("validations"), detail);
    }
    for validation in spec.items("validations") {
        if validation.text_of("expression").trim().is_empty() {
            faults.required(&validation.at("expression"), "expression is not specified");
        }
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
            operations_rule(&rule, faults);
        }
    }
    faults.if_given_one_of(&resources.at("matchPolicy"), &["Equivalent", "Exact"]);
}

/// Where a policy of admission holds.
pub(super) fn policy_binding(binding: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = binding.at("spec");
    faults.named(&spec.at("policyName"), names::subdomain);
    let parameter = spec.at("paramRef");
    if parameter.exists() && parameter.has("name") == parameter.has("selector") {
        faults.forbidden(&parameter.at("name"), "name and selector are mutually exclusive");
    }
    match_resources(&spec.at("matchResources"), false, faults);
    if binding.text_of("kind") == "MutatingAdmissionPolicyBinding" {
        return;
    }
    if spec.len_of("validationActions") == 0 {
        faults.required(&spec.at("validationActions"), "");
    }
    let mut seen = BTreeSet::new();
    for action in spec.items("validationActions") {
        faults.one_of(&action, &["Audit", "Deny", "Warn"]);
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
    if text.is_empty() {
        faults.required(&body, "");
    } else if !String::from_utf8_lossy(&text).trim_start().starts_with("-----BEGIN CERTIFICATE REQUEST-----")
    {
        faults.invalid(&body, body.text(), "PEM block type must be CERTIFICATE REQUEST");
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

/// Which requests flow together.
pub(super) fn flow_schema(schema: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = schema.at("spec");
    let precedence = spec.number_of("matchingPrecedence");
    if precedence <= 0 {
        faults.invalid(&spec.at("matchingPrecedence"), precedence, "must be a positive value");
    }
    if precedence > 10000 {
        faults.invalid(&spec.at("matchingPrecedence"), precedence, "must not be greater than 10000");
    }
    if precedence == 1 && schema.at("metadata").text_of("name") != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        faults.invalid(&spec.at("matchingPrecedence"), precedence, detail);
    }
    if spec.has("distinguisherMethod") {
        faults.one_of(&spec.at("distinguisherMethod.type"), &["ByNamespace", "ByUser"]);
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
            faults.one_of(&subject.at("kind"), &["Group", "ServiceAccount", "User"]);
        }
        if rule.len_of("resourceRules") + rule.len_of("nonResourceRules") == 0 {
            let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
            faults.required(&rule, detail);
        }
    }
}

/// How many requests run at once.
pub(super) fn priority_level(level: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = level.at("spec");
    faults.one_of(&spec.at("type"), &["Exempt", "Limited"]);
    let limited = spec.at("limited");
    match spec.text_of("type") {
        "Exempt" if limited.exists() => {
            faults.forbidden(&limited, "must be nil if the type is not Limited");
        }
        "Limited" if spec.has("exempt") => {
            faults.forbidden(&spec.at("exempt"), "must be nil if the type is Limited");
        }
        "Limited" if !limited.exists() => {
            faults.required(&limited, "must not be empty when type is Limited");
        }
        "Limited" => {
            faults.not_negative(&limited.at("nominalConcurrencyShares"));
            let response = limited.at("limitResponse");
            faults.one_of(&response.at("type"), &["Queue", "Reject"]);
            let queuing = response.at("queuing");
            if response.text_of("type") == "Queue" && !queuing.exists() {
                faults.required(&queuing, "must not be empty if limited's type is Queue");
            }
        }
        _ => {}
    }
}

/// A class of devices, a claim to some, or what a node has: names that have to be given.
pub(super) fn device_claim(claim: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = if claim.text_of("kind") == "ResourceClaimTemplate" { "spec.spec" } else { "spec" };
    let spec = claim.at(spec);
    let devices = spec.at("devices");
    let mut taken = BTreeSet::new();
    for request in devices.items("requests") {
        let name = request.at("name");
        faults.named(&name, names::label);
        if !taken.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
        let exactly = request.at("exactly");
        match (exactly.exists(), request.len_of("firstAvailable") > 0) {
            (true, true) => faults.invalid(
                &request,
                request.value.clone(),
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            ),
            (false, false) => {
                faults.required(&request, "exactly one of `exactly` or `firstAvailable` is required")
            }
            (true, false) => faults.named(&exactly.at("deviceClassName"), names::subdomain),
            (false, true) => {
                for choice in request.items("firstAvailable") {
                    faults.named(&choice.at("name"), names::label);
                    faults.named(&choice.at("deviceClassName"), names::subdomain);
                }
            }
        }
    }
}

/// The devices of a node.
pub(super) fn resource_slice(slice: &Node, _: Option<&Node>, faults: &mut Faults) {
    let spec = slice.at("spec");
    super::volumes::driver_name(&spec.at("driver"), faults);
    let pool = spec.at("pool");
    faults.given(&pool.at("name"));
    faults.not_negative(&pool.at("generation"));
    if pool.number_of("resourceSliceCount") <= 0 {
        let count = pool.number_of("resourceSliceCount");
        faults.invalid(&pool.at("resourceSliceCount"), count, "must be greater than zero");
    }
    let places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let chosen = places.iter().filter(|name| spec.has(name)).count();
    if chosen != 1 {
        let detail =
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        faults.invalid(&spec, spec.value.clone(), detail);
    }
    let mut taken = BTreeSet::new();
    for device in spec.items("devices") {
        let name = device.at("name");
        faults.named(&name, names::label);
        if !taken.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
    }
}

/// What may change in a slice of devices.
pub(super) fn resource_slice_change(new: &Node, old: &Node, faults: &mut Faults) {
    for name in ["spec.driver", "spec.pool.name", "spec.nodeName"] {
        faults.unchanged(&new.at(name), &old.at(name));
    }
}
