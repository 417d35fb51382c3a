//! What `k8s-openapi` says about types: descriptions, and which fields are required.
//!
//! It knows types by the names that Kubernetes publishes, such as `io.k8s.api.core.v1.Pod`. Only kinds are named here: what
//! their fields consist of comes along.

use k8s_openapi::{
    api,
    apiextensions_apiserver::pkg::apis::apiextensions,
    apimachinery::{self, pkg::apis::meta},
    kube_aggregator::pkg::apis::apiregistration,
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The schemas of some types of the table, and of all that they consist of, by their published names. A type that
/// `k8s-openapi` does not have is left out.
pub(super) fn schemas<'a>(types: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    let mut generator = SchemaSettings::default().into_generator();
    for name in types {
        add(name, &mut generator);
    }
    generator.take_definitions(false)
}

macro_rules! known {
    ($($package:literal: $module:path { $($kind:ident)* })*) => {
        /// Adds a type that is known by its name in the table.
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
    "admissionregistration.v1": api::admissionregistration::v1 {
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    }
    "apiextensions.v1": apiextensions::v1 { CustomResourceDefinition }
    "apiregistration.v1": apiregistration::v1 { APIService }
    "apps.v1": api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    "authentication.v1": api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview }
    "authorization.v1": api::authorization::v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    "autoscaling.v1": api::autoscaling::v1 { HorizontalPodAutoscaler Scale }
    "autoscaling.v2": api::autoscaling::v2 { HorizontalPodAutoscaler }
    "batch.v1": api::batch::v1 { CronJob Job }
    "certificates.v1": api::certificates::v1 { CertificateSigningRequest }
    "coordination.v1": api::coordination::v1 { Lease }
    "core.v1": api::core::v1 {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    "discovery.v1": api::discovery::v1 { EndpointSlice }
    "events.v1": api::events::v1 { Event }
    "flowcontrol.v1": api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
    "meta.v1": meta::v1 { APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta Status }
    "networking.v1": api::networking::v1 { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR }
    "node.v1": api::node::v1 { RuntimeClass }
    "policy.v1": api::policy::v1 { Eviction PodDisruptionBudget }
    "rbac.v1": api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
    "resource.v1": api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
    "scheduling.v1": api::scheduling::v1 { PriorityClass }
    "storage.v1": api::storage::v1 {
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
    }
    "version": apimachinery::pkg::version { Info }
}
