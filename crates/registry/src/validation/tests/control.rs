//! RBAC, certificates, policies and extensions of the API.

use super::*;

#[test]
fn roles_have_rules_and_bindings_have_subjects() {
    check(
        "rbac.v1.Role",
        &[
            (
                "rules/0/verbs",
                json!([]),
                &["rules[0].verbs: Required value: verbs must contain at least one value"],
            ),
            (
                "rules/0/resources",
                Value::Null,
                &["rules[0].resources: Required value: resource rules must supply at least one resource"],
            ),
            (
                "rules",
                json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]),
                &[
                    "rules[0].nonResourceURLs: Invalid value: [\"/\"]: namespaced rules cannot apply to non-resource URLs",
                ],
            ),
        ],
    );
    check("rbac.v1.ClusterRole", &[("rules", json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]), &[])]);
    check(
        "rbac.v1.RoleBinding",
        &[
            (
                "roleRef/kind",
                json!("X"),
                &["roleRef.kind: Unsupported value: \"X\": supported values: \"Role\", \"ClusterRole\""],
            ),
            (
                "subjects/0/kind",
                json!("X"),
                &[
                    "subjects[0].kind: Unsupported value: \"X\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                ],
            ),
            ("subjects/0", json!({"kind": "ServiceAccount", "name": "s"}), &[]),
        ],
    );
    check(
        "rbac.v1.ClusterRoleBinding",
        &[(
            "subjects/0",
            json!({"kind": "ServiceAccount", "name": "s"}),
            &["subjects[0].namespace: Required value"],
        )],
    );
    check_update(
        "rbac.v1.RoleBinding",
        &[(
            "roleRef/name",
            json!("s"),
            &[
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"s\"}: cannot change roleRef",
            ],
        )],
    );
}

#[test]
fn policies_and_extensions_are_checked() {
    check(
        "scheduling.v1.PriorityClass",
        &[
            (
                "value",
                json!(1000000001),
                &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            ),
            (
                "metadata/name",
                json!("system-x"),
                &[
                    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
                ],
            ),
        ],
    );
    check_update(
        "scheduling.v1.PriorityClass",
        &[("value", json!(2), &["value: Forbidden: may not be changed in an update."])],
    );
    check(
        "policy.v1.PodDisruptionBudget",
        &[(
            "spec/maxUnavailable",
            json!("101%"),
            &[
                "spec: Invalid value: {\"maxUnavailable\":\"101%\",\"minAvailable\":1,\"selector\":{\"matchLabels\":{\"a\":\"b\"}}}: minAvailable and maxUnavailable cannot be both set",
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        )],
    );
    check(
        "autoscaling.v2.HorizontalPodAutoscaler",
        &[
            (
                "spec/minReplicas",
                json!(3),
                &["spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"],
            ),
            (
                "spec/metrics/0/resource",
                Value::Null,
                &[
                    "spec.metrics[0].resource: Required value: must populate information for the given metric source",
                ],
            ),
        ],
    );
    check_update(
        "node.v1.RuntimeClass",
        &[("handler", json!("i"), &["handler: Invalid value: \"i\": field is immutable"])],
    );
    check(
        "apiextensions.v1.CustomResourceDefinition",
        &[
            (
                "metadata/name",
                json!("wrong.b.io"),
                &["metadata.name: Invalid value: \"wrong.b.io\": must be spec.names.plural+\".\"+spec.group"],
            ),
            (
                "spec/scope",
                json!("Global"),
                &["spec.scope: Unsupported value: \"Global\": supported values: \"Cluster\", \"Namespaced\""],
            ),
        ],
    );
    check(
        "certificates.v1.CertificateSigningRequest",
        &[
            (
                "spec/signerName",
                json!("x"),
                &[
                    "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
                ],
            ),
            (
                "spec/request",
                json!("eA=="),
                &["spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST"],
            ),
        ],
    );
    check(
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        &[
            (
                "webhooks/0/name",
                json!("a"),
                &[
                    "webhooks[0].name: Invalid value: \"a\": should be a domain with at least three segments separated by dots",
                ],
            ),
            (
                "webhooks/0/sideEffects",
                Value::Null,
                &["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
            ),
            (
                "webhooks/0/clientConfig",
                json!({}),
                &["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
            ),
        ],
    );
}
