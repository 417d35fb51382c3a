//! What the server fills in where a client said nothing.
//!
//! Kept true by [`apply`]: it needs the document alone, fills only what is not set, and changes nothing the second time.
//! (One default is the time at which it runs: that of a new taint on a device.) Two fields that say the same, an old one
//! and a new one, are made to agree here too, as Kubernetes does when it reads them.
//!
//! A field that is written if it is set counts as set even at zero; one that is written unless it is zero cannot tell
//! zero from absent. So there are two ways of filling: `set_default` and `set_if_zero`.
//!
//! Not here: what needs other objects or a store (addresses, node ports, the default storage class, service accounts),
//! nor what happens once, when an object is created (its uid, the status and finalizers it begins with).

mod fields;
mod pod;
mod image;
mod volume;
mod pod_resources;
pub mod qos;
mod workloads;
mod autoscaling;
mod network;
mod storage;
mod cluster;
mod access;
mod extension;
mod flow;
mod devices;

#[cfg(test)]
mod testing;

use serde_json::Value;

/// Fills in a document of that type, such as `core.v1.Pod`. A type without defaults is left as it is.
pub fn apply(ty: &str, document: &mut Value) {
    let Some(object) = document.as_object_mut() else { return };
    match ty {
        "core.v1.Pod" => pod::pod(object),
        "core.v1.PodTemplate" => pod::template(object),
        "core.v1.ReplicationController" => workloads::replication_controller(object),
        "apps.v1.Deployment" => workloads::deployment(object),
        "apps.v1.ReplicaSet" => workloads::replica_set(object),
        "apps.v1.StatefulSet" => workloads::stateful_set(object),
        "apps.v1.DaemonSet" => workloads::daemon_set(object),
        "batch.v1.Job" => workloads::job(object),
        "batch.v1.CronJob" => workloads::cron_job(object),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaling::v1(object),
        "autoscaling.v2.HorizontalPodAutoscaler" => autoscaling::v2(object),
        "core.v1.Service" => network::service(object),
        "core.v1.Endpoints" => network::endpoints(object),
        "discovery.v1.EndpointSlice" => network::endpoint_slice(object),
        "networking.v1.NetworkPolicy" => network::network_policy(object),
        "networking.v1.IngressClass" => network::ingress_class(object),
        "core.v1.PersistentVolume" => storage::persistent_volume(object),
        "core.v1.PersistentVolumeClaim" => storage::claim(object),
        "storage.v1.StorageClass" => storage::storage_class(object),
        "storage.v1.CSIDriver" => storage::csi_driver(object),
        "storage.v1.VolumeAttachment" => storage::volume_attachment(object),
        "core.v1.Secret" => cluster::secret(object),
        "core.v1.Namespace" => cluster::namespace(object),
        "core.v1.Node" => cluster::node(object),
        "core.v1.LimitRange" => cluster::limit_range(object),
        "core.v1.ResourceQuota" => cluster::resource_quota(object),
        "scheduling.v1.PriorityClass" => cluster::priority_class(object),
        "node.v1.RuntimeClass" => cluster::runtime_class(object),
        "authentication.v1.TokenRequest" => access::token_request(object),
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding" => access::role_binding(object),
        "admissionregistration.v1.ValidatingWebhookConfiguration" => extension::validating_webhooks(object),
        "admissionregistration.v1.MutatingWebhookConfiguration" => extension::mutating_webhooks(object),
        "admissionregistration.v1.ValidatingAdmissionPolicy"
        | "admissionregistration.v1.MutatingAdmissionPolicy" => extension::admission_policy(object),
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding"
        | "admissionregistration.v1.MutatingAdmissionPolicyBinding" => {
            extension::admission_policy_binding(object);
        }
        "apiextensions.v1.CustomResourceDefinition" => extension::custom_resource_definition(object),
        "apiregistration.v1.APIService" => extension::api_service(object),
        "flowcontrol.v1.FlowSchema" => flow::flow_schema(object),
        "flowcontrol.v1.PriorityLevelConfiguration" => flow::priority_level(object),
        "resource.v1.ResourceClaim" => devices::claim(object),
        "resource.v1.ResourceClaimTemplate" => devices::claim_template(object),
        "resource.v1.ResourceSlice" => devices::slice(object),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{apply, testing::check_document};
    use crate::{kinds::built_in, schema};

    #[test]
    fn an_empty_document_of_any_kind_is_filled_with_fields_of_its_type() {
        for kind in built_in() {
            check_document(kind.ty.name, schema::zero(kind.ty));
        }
    }

    #[test]
    fn a_document_with_values_of_other_types_is_no_reason_to_stop() {
        for kind in built_in() {
            for mut odd in [
                serde_json::json!(null),
                serde_json::json!([1]),
                serde_json::json!({}),
                serde_json::json!({"metadata": 1, "spec": "x", "status": [null], "webhooks": [[], null, 3]}),
                serde_json::json!({"spec": {"template": [], "containers": {"a": 1}, "volumes": [1, {"secret": 2}],
                    "resources": {"limits": ["x"]}, "limited": 4, "devices": {"requests": [[]]}}}),
            ] {
                apply(kind.ty.name, &mut odd);
            }
        }
    }
}
