//! Defaults of the kinds that extend the API: webhooks, admission policies, and CustomResourceDefinitions.

use crate::document::{Edit, Object};

const HTTPS_PORT: i64 = 443;

/// The port of a service in a field of its owner.
pub(crate) fn service_port(owner: &mut Object, field: &str) {
    if let Some(service) = owner.object_mut(field).and_then(|config| config.object_mut("service")) {
        service.set_default("port", HTTPS_PORT);
    }
}

#[cfg(test)]
mod tests {
    use crate::defaults::tests::check;
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
