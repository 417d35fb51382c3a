//! Whether an object may be stored as it is, and whether it may become what it is to be.
//!
//! [`create`] and [`update`] tell every fault of a document, in the order in which Kubernetes asks its rules and in its
//! words; no fault means that the document keeps all of them. Rules only look: documents come normalised and with their
//! defaults, and nothing here needs the store, so references are not followed and nothing is allocated.
//!
//! Each kind has a row in `rules`: its own rules, what may change, and in which order an update asks them. Faults of
//! metadata come more than once on updates, because Kubernetes checks it for every kind and again for most.
//!
//! Not here: selectors of requests, quotas, whether others exist, and the schemas of custom resources.

mod document;
mod names;
mod metadata;
mod selectors;
mod resources;
mod volumes;
mod containers;
mod pod;
mod pod_change;
mod cron;
mod workloads;
mod service;
mod config;
mod storage;
mod networking;
mod rbac;
mod events;
mod policy;
mod admission;
mod flow;
mod devices;
mod warnings;
mod windows;

#[cfg(test)]
mod tests;

use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

use self::{
    document::{Faults, Node},
    metadata::Form,
};
use crate::defaults::qos::qos_class;
use crate::kind::{Kind, NameRule};

/// What is wrong with a new object.
pub fn create(kind: &Kind, document: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let object = Node::root(document);
    if kind.ty.name == "core.v1.Service" && service::addresses_asked_first(&object, None, &mut faults) {
        return faults.0;
    }
    metadata::check(&object.at("metadata"), form(kind), &mut faults);
    (rules(kind.ty.name).own)(&object, None, &mut faults);
    faults.0
}

/// What is wrong with an object that is to take the place of another.
pub fn update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let (new, old) = (Node::root(new), Node::root(old));
    if kind.ty.name == "core.v1.Service" && service::addresses_asked_first(&new, Some(&old), &mut faults) {
        return faults.0;
    }
    common_change(kind, &new, &old, &mut faults);
    let (rules, form) = (rules(kind.ty.name), form(kind));
    for step in rules.update {
        match step {
            Step::MetaChange => metadata::check_change(
                &new.at("metadata"),
                &old.at("metadata"),
                form.known_finalizers,
                &mut faults,
            ),
            Step::Meta => metadata::check(&new.at("metadata"), form, &mut faults),
            Step::Own => (rules.own)(&new, Some(&old), &mut faults),
            Step::Change => (rules.change)(&new, &old, &mut faults),
        }
    }
    faults.0
}

/// What is wrong with an object whose status is to change.
pub fn update_status(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let (new, old) = (Node::root(new), Node::root(old));
    common_change(kind, &new, &old, &mut faults);
    let known = form(kind).known_finalizers;
    metadata::check_change(&new.at("metadata"), &old.at("metadata"), known, &mut faults);
    (rules(kind.ty.name).status)(&new, &old, &mut faults);
    faults.0
}

/// What is wrong with a pod whose containers are resized; what a plain update may change does not count.
pub fn resize_containers(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let (new, old) = (Node::root(new), Node::root(old));
    common_change(kind, &new, &old, &mut faults);
    (rules(kind.ty.name).own)(&new, Some(&old), &mut faults);
    let class = |pod: &Node| qos_class(pod.at("spec").value);
    if class(&new) != class(&old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        faults.invalid(&new.at("spec"), class(&new), detail);
    }
    faults.0
}

/// What is wrong with a pod to which containers are added while it runs.
pub fn add_containers(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    if pod_change::is_mirror(&Node::root(old)) {
        return vec![Cause::forbidden("", "static pods do not support ephemeral containers")];
    }
    let mut faults = Faults(resize_containers(kind, new, old));
    pod_change::ephemeral_change(&Node::root(new), &Node::root(old), &mut faults);
    faults.0
}

/// What is fine, but better avoided.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    warnings::of(kind.ty.name, new, old)
}

/// What every update is asked, whatever the kind.
fn common_change(kind: &Kind, new: &Node, old: &Node, faults: &mut Faults) {
    let (meta, before) = (new.at("metadata"), old.at("metadata"));
    let form = Form { names: NameRule::PathSegment, namespaced: kind.namespaced, known_finalizers: false };
    metadata::check(&meta, form, faults);
    metadata::check_change(&meta, &before, false, faults);
}

fn form(kind: &Kind) -> Form {
    let names = match kind.ty.name {
        // Only what can stand in a path was ever asked of their names.
        "core.v1.Event" | "policy.v1.PodDisruptionBudget" => NameRule::PathSegment,
        _ => kind.names,
    };
    let known_finalizers = !matches!(
        kind.group.as_str(),
        "coordination.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "node.k8s.io"
    );
    Form { names, namespaced: kind.namespaced, known_finalizers }
}

/// A kind's own rules, for a new object or for one that replaces another.
type Own = fn(&Node, Option<&Node>, &mut Faults);
/// What of an object may change.
type Change = fn(&Node, &Node, &mut Faults);

/// One thing that an update asks.
#[derive(Clone, Copy)]
enum Step {
    MetaChange,
    Meta,
    Own,
    Change,
}

/// The rules of a kind.
struct Rules {
    own: Own,
    change: Change,
    update: &'static [Step],
    status: Change,
}

/// What is new is looked at as if it were created, then beside what was.
const WHOLE: &[Step] = &[Step::MetaChange, Step::Meta, Step::Own, Step::Change];
/// The same, but what may change comes first.
const CHANGE_FIRST: &[Step] = &[Step::MetaChange, Step::Change, Step::Meta, Step::Own];
/// What may change comes first, and names are not looked at again.
const CHANGE_THEN_OWN: &[Step] = &[Step::MetaChange, Step::Change, Step::Own];
/// Names are not looked at again.
const SPEC: &[Step] = &[Step::MetaChange, Step::Own, Step::Change];
/// Only what may change is looked at.
const CHANGE: &[Step] = &[Step::MetaChange, Step::Change];
/// The change of metadata comes late.
const LATE: &[Step] = &[Step::Meta, Step::Own, Step::MetaChange, Step::Change];
/// The change of metadata is left to what every kind is asked.
const ITSELF: &[Step] = &[Step::Meta, Step::Own, Step::Change];
/// The same, and all but the change is asked twice.
const TWICE: &[Step] = &[Step::Meta, Step::Own, Step::Meta, Step::Own, Step::Change];
/// Only the kind's own rules are asked.
const OWN: &[Step] = &[Step::Own];

fn none(_: &Node, _: Option<&Node>, _: &mut Faults) {}
fn any(_: &Node, _: &Node, _: &mut Faults) {}

const fn row(own: Own, change: Change, update: &'static [Step]) -> Rules {
    Rules { own, change, update, status: any }
}

impl Rules {
    const fn status(mut self, status: Change) -> Rules {
        self.status = status;
        self
    }
}

/// The rules of the kind whose objects have that type; nothing but metadata is asked of other kinds.
fn rules(ty: &str) -> Rules {
    match ty {
        "core.v1.Pod" => row(pod::pod, pod_change::pod_change, WHOLE).status(pod_change::pod_status),
        "core.v1.ConfigMap" => row(config::config_map, config::config_map_change, CHANGE_FIRST),
        "core.v1.Secret" => row(config::secret, config::secret_change, CHANGE_FIRST),
        "core.v1.Service" => {
            row(service::service, service::service_change, CHANGE_THEN_OWN).status(service::balancer_status)
        }
        "core.v1.Endpoints" => row(service::endpoints, any, WHOLE),
        "core.v1.Event" => row(events::event, any, OWN),
        "core.v1.LimitRange" => row(config::limit_range, any, ITSELF),
        "core.v1.Namespace" => row(config::namespace, any, LATE).status(config::namespace_status),
        "core.v1.Node" => row(config::node, config::node_change, LATE).status(config::node_change),
        "core.v1.PersistentVolume" => row(storage::volume, storage::volume_change, TWICE),
        "core.v1.PersistentVolumeClaim" => {
            row(storage::claim, storage::claim_change, WHOLE).status(storage::claim_status)
        }
        "core.v1.PodTemplate" => row(workloads::pod_template, any, SPEC),
        "core.v1.ReplicationController" => {
            row(workloads::replication_controller, any, SPEC).status(workloads::replica_counts)
        }
        "core.v1.ResourceQuota" => row(config::resource_quota, config::resource_quota_change, SPEC)
            .status(config::resource_quota_status),
        "apps.v1.ControllerRevision" => {
            row(workloads::controller_revision, workloads::controller_revision_change, WHOLE)
        }
        "apps.v1.DaemonSet" => row(workloads::daemon_set, workloads::selector_change, CHANGE_THEN_OWN)
            .status(workloads::daemon_counts),
        "apps.v1.Deployment" => {
            row(workloads::deployment, workloads::selector_change, SPEC).status(workloads::replica_counts)
        }
        "apps.v1.ReplicaSet" => {
            row(workloads::replica_set, workloads::selector_change, SPEC).status(workloads::replica_counts)
        }
        "apps.v1.StatefulSet" => row(workloads::stateful_set, workloads::stateful_set_change, SPEC)
            .status(workloads::replica_counts),
        "batch.v1.Job" => row(workloads::job, workloads::job_change, LATE).status(workloads::job_counts),
        "batch.v1.CronJob" => row(workloads::cron_job, any, SPEC),
        "autoscaling.v1.HorizontalPodAutoscaler" | "autoscaling.v2.HorizontalPodAutoscaler" => {
            row(policy::autoscaler, any, SPEC).status(policy::autoscaler_status)
        }
        "policy.v1.PodDisruptionBudget" => {
            row(policy::disruption_budget, any, OWN).status(policy::disruption_status)
        }
        "scheduling.v1.PriorityClass" => row(policy::priority_class, policy::priority_class_change, CHANGE),
        "node.v1.RuntimeClass" => row(policy::runtime_class, policy::runtime_class_change, LATE),
        "coordination.v1.Lease" => row(events::lease, any, SPEC),
        "events.v1.Event" => {
            row(events::new_event, events::new_event_change, &[Step::Own, Step::MetaChange, Step::Change])
        }
        "discovery.v1.EndpointSlice" => row(service::endpoint_slice, service::endpoint_slice_change, ITSELF),
        "networking.v1.Ingress" => row(networking::ingress, any, WHOLE).status(service::balancer_status),
        "networking.v1.IngressClass" => {
            row(networking::ingress_class, networking::ingress_class_change, CHANGE_FIRST)
        }
        "networking.v1.NetworkPolicy" => row(networking::network_policy, any, SPEC),
        "networking.v1.IPAddress" => row(networking::ip_address, networking::ip_address_change, WHOLE),
        "networking.v1.ServiceCIDR" => row(networking::service_cidr, networking::service_cidr_change, CHANGE),
        "rbac.v1.Role" => row(rbac::role, any, LATE),
        "rbac.v1.ClusterRole" => row(rbac::cluster_role, any, LATE),
        "rbac.v1.RoleBinding" => row(rbac::role_binding, rbac::binding_change, LATE),
        "rbac.v1.ClusterRoleBinding" => row(rbac::cluster_role_binding, rbac::binding_change, LATE),
        "storage.v1.StorageClass" => row(storage::storage_class, storage::storage_class_change, LATE),
        "storage.v1.CSIDriver" => row(storage::csi_driver, storage::csi_driver_change, SPEC),
        "storage.v1.CSINode" => row(storage::csi_node, storage::csi_node_change, ITSELF),
        "storage.v1.CSIStorageCapacity" => {
            row(storage::storage_capacity, storage::storage_capacity_change, LATE)
        }
        "storage.v1.VolumeAttachment" => {
            row(storage::volume_attachment, storage::spec_is_fixed, ITSELF).status(storage::attachment_status)
        }
        "storage.v1.VolumeAttributesClass" => {
            row(storage::attributes_class, storage::attributes_class_change, CHANGE_FIRST)
        }
        "admissionregistration.v1.MutatingWebhookConfiguration"
        | "admissionregistration.v1.ValidatingWebhookConfiguration" => row(admission::webhooks, any, ITSELF),
        "admissionregistration.v1.ValidatingAdmissionPolicy"
        | "admissionregistration.v1.MutatingAdmissionPolicy" => {
            row(admission::policy, any, ITSELF).status(metadata::conditions_of_status)
        }
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding"
        | "admissionregistration.v1.MutatingAdmissionPolicyBinding" => {
            row(admission::policy_binding, any, ITSELF)
        }
        "apiextensions.v1.CustomResourceDefinition" => row(admission::definition, any, SPEC),
        "apiregistration.v1.APIService" => {
            row(admission::api_service, any, WHOLE).status(admission::api_service_status)
        }
        "certificates.v1.CertificateSigningRequest" => {
            row(admission::certificate_request, storage::spec_is_fixed, LATE)
                .status(admission::certificate_status)
        }
        "flowcontrol.v1.FlowSchema" => row(flow::flow_schema, any, ITSELF).status(flow::status),
        "flowcontrol.v1.PriorityLevelConfiguration" => {
            row(flow::priority_level, any, ITSELF).status(flow::status)
        }
        "resource.v1.DeviceClass" => row(devices::class, any, &[Step::Meta, Step::MetaChange, Step::Own]),
        "resource.v1.ResourceClaim" => {
            row(devices::claim, storage::spec_is_fixed, &[Step::Meta, Step::MetaChange, Step::Change])
                .status(devices::claim_status)
        }
        "resource.v1.ResourceClaimTemplate" => row(devices::claim_template, storage::spec_is_fixed, LATE),
        "resource.v1.ResourceSlice" => row(devices::resource_slice, any, SPEC),
        _ => row(none, any, WHOLE),
    }
}
