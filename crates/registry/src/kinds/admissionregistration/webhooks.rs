//! Configurations of webhooks: what the kinds for validation and for mutation share.

use crate::{
    defaults::{
        extension::service_port,
        fields::{Object, set_default},
    },
    kinds::admissionregistration::match_rules::{conditions, fill_match, operations_rule},
    schema::Timestamp,
    table::{AGE, Column, NAME, integer, read::Read, row, words::age_of},
    validation::{
        document::{Faults, Node},
        names, selectors,
    },
};
use serde_json::Value;
use std::collections::BTreeSet;

/// A configuration of webhooks of either kind.
pub(crate) fn webhooks(configuration: &Node, _: Option<&Node>, faults: &mut Faults) {
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

const WEBHOOK_SECONDS: i64 = 10;

pub(crate) fn fill_webhook(webhook: &mut Object) {
    set_default(webhook, "failurePolicy", "Fail");
    set_default(webhook, "timeoutSeconds", WEBHOOK_SECONDS);
    fill_match(webhook, &["rules"]);
    service_port(webhook, "clientConfig");
}

pub(crate) const WEBHOOK_CONFIGURATION: &[Column] =
    &[NAME, integer("Webhooks", "How many webhooks it has"), AGE];

pub(crate) fn webhook_configuration(configuration: &Value, now: Timestamp) -> Vec<Value> {
    row![configuration.name(), configuration.length("webhooks"), age_of(configuration, now)]
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
