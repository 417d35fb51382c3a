//! Descriptions of types and fields for the OpenAPI documents, from `k8s-openapi`.
//!
//! The library leaves them to the program, because `k8s-openapi` has types of one version of Kubernetes in a build, and the
//! version is the choice of the library's users. Only kinds are named here; the types of their fields come with them.

use k8s_openapi::{
    api,
    apiextensions_apiserver::pkg::apis::apiextensions,
    apimachinery::{self, pkg::apis::meta},
    kube_aggregator::pkg::apis::apiregistration,
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The schemas of some types, and of all that they consist of, by names such as `io.k8s.api.core.v1.Pod`. A type that
/// `k8s-openapi` does not have is left out.
pub(crate) fn schemas(types: &[&str]) -> Map<String, Value> {
    let mut generator = SchemaSettings::default().into_generator();
    for name in types {
        add(name, &mut generator);
    }
    generator.take_definitions(false)
}

macro_rules! known {
    ($($package:literal: $module:path { $($kind:ident)* })*) => {
        /// Adds the type with this published name.
        fn add(name: &str, generator: &mut SchemaGenerator) {
            match name {
                $($(concat!($package, ".", stringify!($kind)) => {
                    use $module as package;
                    generator.subschema_for::<package::$kind>();
                })*)*
                _ => {}
            }
        }
    };
}

known! {
    "io.k8s.api.admissionregistration.v1": api::admissionregistration::v1 {
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    }
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": apiextensions::v1 { CustomResourceDefinition }
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": apiregistration::v1 { APIService }
    "io.k8s.api.apps.v1": api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    "io.k8s.api.authentication.v1": api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview }
    "io.k8s.api.authorization.v1": api::authorization::v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    "io.k8s.api.autoscaling.v1": api::autoscaling::v1 { HorizontalPodAutoscaler Scale }
    "io.k8s.api.autoscaling.v2": api::autoscaling::v2 { HorizontalPodAutoscaler }
    "io.k8s.api.batch.v1": api::batch::v1 { CronJob Job }
    "io.k8s.api.certificates.v1": api::certificates::v1 { CertificateSigningRequest }
    "io.k8s.api.coordination.v1": api::coordination::v1 { Lease }
    "io.k8s.api.core.v1": api::core::v1 {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    "io.k8s.api.discovery.v1": api::discovery::v1 { EndpointSlice }
    "io.k8s.api.events.v1": api::events::v1 { Event }
    "io.k8s.api.flowcontrol.v1": api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
    "io.k8s.apimachinery.pkg.apis.meta.v1": meta::v1 { APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta Status }
    "io.k8s.api.networking.v1": api::networking::v1 { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR }
    "io.k8s.api.node.v1": api::node::v1 { RuntimeClass }
    "io.k8s.api.policy.v1": api::policy::v1 { Eviction PodDisruptionBudget }
    "io.k8s.api.rbac.v1": api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
    "io.k8s.api.resource.v1": api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
    "io.k8s.api.scheduling.v1": api::scheduling::v1 { PriorityClass }
    "io.k8s.api.storage.v1": api::storage::v1 {
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
    }
    "io.k8s.apimachinery.pkg.version": apimachinery::pkg::version { Info }
}

#[cfg(test)]
mod tests {
    use keepwatch_endpoints::openapi::OpenApi;
    use keepwatch_registry::{catalog::Catalog, kinds::built_in};
    use std::{collections::BTreeSet, sync::Arc};

    use super::*;

    /// The schemas of the document at `/openapi/v2`, which has every type.
    fn documented() -> Map<String, Value> {
        let catalog = Catalog::new(built_in().iter().cloned()).snapshot();
        let document = OpenApi::new(catalog, Arc::new(schemas)).v2().bytes();
        let document: Value = serde_json::from_slice(&document).expect("it is JSON");
        document["definitions"].as_object().expect("it has schemas").clone()
    }

    /// Both come from the same release; if they differ, one of them was generated wrongly.
    #[test]
    fn the_types_of_the_server_and_the_descriptions_have_the_same_fields() {
        let documented = documented();
        let names: Vec<&str> = documented.keys().map(String::as_str).collect();
        let described = schemas(&names);
        let fields = |schema: &Value| -> BTreeSet<String> {
            schema["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect()
        };
        let required = |schema: &Value| -> BTreeSet<String> {
            let names = schema["required"].as_array().into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut compared = 0;
        for (name, schema) in &documented {
            let Some(theirs) = described.get(name) else { continue };
            assert_eq!(fields(schema), fields(theirs), "{name}");
            assert!(schema["description"].is_string(), "{name} has no description");
            // `k8s-openapi` requires metadata of every object and names that may be empty; it does not require the time
            // of an event.
            let (ours, theirs) = (required(schema), required(theirs));
            let known = ["eventTime", "metadata", "name"];
            let unknown = ours.symmetric_difference(&theirs).find(|field| !known.contains(&field.as_str()));
            assert_eq!(unknown, None, "{name}");
            compared += 1;
        }
        assert!(compared > 500, "{compared}");
    }

    #[test]
    fn every_kind_is_described() {
        for (name, schema) in documented() {
            let is_kind = schema["x-kubernetes-group-version-kind"].is_array();
            assert!(!is_kind || schema["description"].is_string(), "{name} has no description");
        }
    }
}
