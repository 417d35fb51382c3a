//! What extends the API: webhooks and policies on the way in, and kinds defined by users.

use super::fields::{Object, child, child_or_new, children, has_any, set_default, set_if_zero, text};
use serde_json::{Map, Value, json};

const WEBHOOK_SECONDS: i64 = 10;
const HTTPS_PORT: i64 = 443;

/// Webhooks that check.
pub(super) fn validating_webhooks(object: &mut Object) {
    children(object, "webhooks").for_each(fill_webhook);
}

/// Webhooks that change.
pub(super) fn mutating_webhooks(object: &mut Object) {
    for webhook in children(object, "webhooks") {
        fill_webhook(webhook);
        set_default(webhook, "reinvocationPolicy", "Never");
    }
}

fn fill_webhook(webhook: &mut Object) {
    set_default(webhook, "failurePolicy", "Fail");
    set_default(webhook, "timeoutSeconds", WEBHOOK_SECONDS);
    fill_match(webhook, &["rules"]);
    service_port(webhook, "clientConfig");
}

/// What is matched: all namespaces and objects, in whatever version they come, and in these lists of rules any scope.
fn fill_match(matching: &mut Object, rules: &[&str]) {
    set_default(matching, "matchPolicy", "Equivalent");
    set_default(matching, "namespaceSelector", Map::new());
    set_default(matching, "objectSelector", Map::new());
    for list in rules {
        for rule in children(matching, list) {
            set_default(rule, "scope", "*");
        }
    }
}

/// The port of a service in a field of its owner.
fn service_port(owner: &mut Object, field: &str) {
    if let Some(service) = child(owner, field).and_then(|config| child(config, "service")) {
        set_default(service, "port", HTTPS_PORT);
    }
}

const POLICY_RULES: &[&str] = &["resourceRules", "excludeResourceRules"];

/// A policy that checks or changes.
pub(super) fn admission_policy(object: &mut Object) {
    let spec = child_or_new(object, "spec");
    set_default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = child(spec, "matchConstraints") {
        fill_match(constraints, POLICY_RULES);
    }
}

/// Where a policy holds.
pub(super) fn admission_policy_binding(object: &mut Object) {
    if let Some(resources) = child(object, "spec").and_then(|spec| child(spec, "matchResources")) {
        fill_match(resources, POLICY_RULES);
    }
}

/// A kind defined by users.
pub(super) fn custom_resource_definition(object: &mut Object) {
    let spec = child_or_new(object, "spec");
    let names = child_or_new(spec, "names");
    let kind = text(names, "kind").to_owned();
    if !kind.is_empty() {
        set_if_zero(names, "singular", kind.to_lowercase());
        set_if_zero(names, "listKind", format!("{kind}List"));
    }
    set_default(spec, "conversion", json!({"strategy": "None"}));
    if let Some(webhook) = child(spec, "conversion").and_then(|conversion| child(conversion, "webhook")) {
        service_port(webhook, "clientConfig");
    }
    let stored = stored_version(spec);
    let status = child_or_new(object, "status");
    if let Some(version) = stored
        && !has_any(status, "storedVersions")
    {
        status.insert("storedVersions".to_owned(), json!([version]));
    }
}

fn stored_version(spec: &Object) -> Option<String> {
    let versions = spec.get("versions")?.as_array()?;
    let stored = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)))?;
    Some(stored.get("name")?.as_str()?.to_owned())
}

/// A group of resources that another server has.
pub(super) fn api_service(object: &mut Object) {
    service_port(object, "spec");
}

#[cfg(test)]
mod tests {
    use crate::defaults::testing::check;
    use serde_json::{Value, json};

    #[test]
    fn webhooks_match_all_and_must_answer() {
        let given = json!({"webhooks": [{
            "name": "w", "rules": [{"operations": ["*"], "resources": ["pods"]}, {"scope": "Cluster"}],
            "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        }]});
        let wanted = json!({
            "name": "w", "admissionReviewVersions": null, "sideEffects": null,
            "rules": [{"operations": ["*"], "resources": ["pods"], "scope": "*"}, {"scope": "Cluster"}],
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "timeoutSeconds": 10,
        });
        let mut changing = wanted.clone();
        changing["reinvocationPolicy"] = json!("Never");
        for (kind, wanted) in [("Validating", wanted), ("Mutating", changing)] {
            let ty = format!("admissionregistration.v1.{kind}WebhookConfiguration");
            check(&ty, given.clone(), "/webhooks/0", wanted);
        }
    }

    #[test]
    fn policies_match_as_webhooks_do() {
        let given = json!({"resourceRules": [{"resources": ["pods"]}], "excludeResourceRules": [{"scope": "Cluster"}]});
        let wanted = json!({
            "resourceRules": [{"resources": ["pods"], "scope": "*"}], "excludeResourceRules": [{"scope": "Cluster"}],
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        });
        for kind in ["Validating", "Mutating"] {
            let policy = format!("admissionregistration.v1.{kind}AdmissionPolicy");
            let object = json!({"spec": {"matchConstraints": given}});
            check(&policy, object.clone(), "/spec/matchConstraints", wanted.clone());
            check(&policy, object, "/spec/failurePolicy", json!("Fail"));
            let object = json!({"spec": {"policyName": "p", "matchResources": given}});
            check(&format!("{policy}Binding"), object, "/spec/matchResources", wanted.clone());
            let object = json!({"spec": {"policyName": "p"}});
            check(&format!("{policy}Binding"), object, "/spec/matchResources", Value::Null);
        }
    }

    #[test]
    fn a_definition_has_names_a_conversion_and_a_stored_version() {
        let versions = json!([
            {"name": "v1", "served": true, "storage": false}, {"name": "v2", "served": true, "storage": true},
        ]);
        let given = json!({"spec": {
            "group": "g", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions,
        }});
        check(
            "apiextensions.v1.CustomResourceDefinition",
            given.clone(),
            "/spec",
            json!({
                "group": "g", "scope": "Namespaced", "versions": versions, "conversion": {"strategy": "None"},
                "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
            }),
        );
        check("apiextensions.v1.CustomResourceDefinition", given, "/status/storedVersions", json!(["v2"]));
        check(
            "apiextensions.v1.CustomResourceDefinition",
            json!({"spec": {"versions": versions}, "status": {"storedVersions": ["v1"]}}),
            "/status/storedVersions",
            json!(["v1"]),
        );
        check(
            "apiextensions.v1.CustomResourceDefinition",
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "conversionReviewVersions": ["v1"],
            }}}}),
            "/spec/conversion/webhook/clientConfig/service/port",
            json!(443),
        );
    }

    #[test]
    fn another_server_is_reached_by_https() {
        for (given, wanted) in [
            (json!({"service": {"name": "s"}}), json!({"name": "s", "port": 443})),
            (json!({"service": {"port": 8443}}), json!({"port": 8443})),
            (json!({}), Value::Null),
        ] {
            check("apiregistration.v1.APIService", json!({"spec": given}), "/spec/service", wanted);
        }
    }
}
