//! Webhook configurations: rules that the validating and the mutating kinds share.

use crate::{
    defaults::extension::service_port,
    document::{Edit, FieldErrors, Fields, Node, Object},
    kinds::admissionregistration::match_rules::{conditions, fill_match, operations_rule},
    schema::Timestamp,
    table::{AGE, Column, NAME, integer, row, words::age_of},
    validation::{names, selectors},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// A configuration of webhooks of either kind.
pub(crate) fn webhooks(configuration: &Node, _: Option<&Node>, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for hook in configuration.items("webhooks") {
        let name = hook.at("name");
        qualified_domain(&name, errors);
        for rule in hook.items("rules") {
            operations_rule(&rule, errors);
        }
        errors.one_of_if_set(&hook.at("failurePolicy"), &["Fail", "Ignore"]);
        errors.one_of_if_set(&hook.at("matchPolicy"), &["Equivalent", "Exact"]);
        let effects = hook.at("sideEffects");
        if effects.exists() {
            errors.one_of_if_set(&effects, &["None", "NoneOnDryRun"]);
        } else {
            errors.required(&effects, "must specify one of None, NoneOnDryRun");
        }
        let timeout = hook.at("timeoutSeconds");
        if let Some(seconds) = timeout.as_number().filter(|seconds| !(1..=30).contains(seconds)) {
            errors.invalid(&timeout, seconds, "the timeout value must be between 1 and 30 seconds");
        }
        selectors::label_selector(&hook.at("namespaceSelector"), errors);
        selectors::label_selector(&hook.at("objectSelector"), errors);
        errors.one_of_if_set(&hook.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
        client_config(&hook.at("clientConfig"), errors);
        conditions(&hook, errors);
        versions(&hook, errors);
        if !taken.insert(name.as_text()) {
            errors.duplicate(&name, name.as_text());
        }
    }
}

fn qualified_domain(name: &Node, errors: &mut FieldErrors) {
    let wrong = names::subdomain(name.as_text());
    if name.as_text().is_empty() {
        errors.required(name, "");
    } else if !wrong.is_empty() {
        errors.invalid(name, name.as_text(), &wrong.join(","));
    } else if name.as_text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.invalid(name, name.as_text(), detail);
    }
}

fn versions(hook: &Node, errors: &mut FieldErrors) {
    let versions = hook.at("admissionReviewVersions");
    if hook.length("admissionReviewVersions") == 0 {
        errors.required(&versions, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for version in hook.items("admissionReviewVersions") {
        errors.invalid_each(&version, names::label_1035(version.as_text()));
        if !seen.insert(version.as_text()) {
            errors.invalid(&version, version.as_text(), "duplicate version");
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.invalid(&versions, versions.value.clone(), detail);
    }
}

fn client_config(config: &Node, errors: &mut FieldErrors) {
    let (url, service) = (config.at("url"), config.at("service"));
    if url.exists() == service.exists() {
        errors.required(config, "exactly one of url or service is required");
        return;
    }
    if url.exists() {
        return webhook_url(&url, errors);
    }
    webhook_service(&service, errors);
}

/// The address of a webhook.
pub(crate) fn webhook_url(url: &Node, errors: &mut FieldErrors) {
    if !url.as_text().starts_with("https://") {
        let scheme = url.as_text().split_once("://").map_or("", |(scheme, _)| scheme);
        let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        errors.invalid(url, scheme, detail);
    }
    let rest = url.as_text().split_once("://").map_or("", |(_, rest)| rest);
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        errors.invalid(url, "", "host must be specified; desired format: https://host[/path]");
    }
    if let Some(user) = user {
        errors.invalid(url, user, "user information is not permitted in the URL");
    }
    for (part, what) in [(fragment, "fragments"), (query, "query parameters")] {
        if !part.is_empty() {
            errors.invalid(url, part, &format!("{what} are not permitted in the URL"));
        }
    }
}

/// The service of a webhook.
pub(crate) fn webhook_service(service: &Node, errors: &mut FieldErrors) {
    // Kubernetes confuses the two.
    for (name, reported_at) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(name).is_empty() {
            errors.required(&service.at(reported_at), "");
        }
    }
    if let Some(port) = service.at("port").as_number().filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&service.at("port"), port, detail);
    }
    service_path(&service.at("path"), errors);
}

const WEBHOOK_SECONDS: i64 = 10;

pub(crate) fn fill_webhook(webhook: &mut Object) {
    webhook.set_default("failurePolicy", "Fail");
    webhook.set_default("timeoutSeconds", WEBHOOK_SECONDS);
    fill_match(webhook, &["rules"]);
    service_port(webhook, "clientConfig");
}

pub(crate) const WEBHOOK_CONFIGURATION: &[Column] =
    &[NAME, integer("Webhooks", "How many webhooks it has"), AGE];

pub(crate) fn webhook_configuration(configuration: &Value, now: Timestamp) -> Vec<Value> {
    row![configuration.name(), configuration.length("webhooks"), age_of(configuration, now)]
}

fn service_path(path: &Node, errors: &mut FieldErrors) {
    let text = path.as_text();
    match text {
        "" | "/" => return,
        "//" => return errors.invalid(path, text, "segment[0] may not be empty"),
        _ if !text.starts_with('/') => errors.invalid(path, text, "must start with a '/'"),
        _ => {}
    }
    // The first character is assumed to be the slash.
    let rest = text.char_indices().nth(1).map_or("", |(start, _)| &text[start..]);
    for (at, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path, text, &format!("segment[{at}] may not be empty"));
            continue;
        }
        for error in names::subdomain(step) {
            errors.invalid(path, text, &format!("segment[{at}]: {error}"));
        }
    }
}
