//! Every kind as a row: documents and their cells, five minutes after they were created.

mod pods;
mod workloads;
mod cluster;

use super::*;
use crate::{
    kinds,
    schema::{self, Problems},
};
use serde_json::json;

const CREATED: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T00:05:00Z";

/// The row of a document that has all that its type always has, and no field that it has not.
fn row_of(ty: &str, mut document: Value) -> Cells {
    document["metadata"]["name"] = "x".into();
    document["metadata"]["creationTimestamp"] = CREATED.into();
    let mut problems = Problems::default();
    let kind = kind_of(ty);
    let document = schema::normalize(document, kind.ty, &mut problems).unwrap();
    assert_eq!(problems, Problems::default(), "{ty}");
    cells(kind, &document, NOW.parse().unwrap())
}

fn kind_of(ty: &str) -> &'static Kind {
    kinds::built_in().iter().find(|kind| kind.ty.name == ty).unwrap()
}

fn check(ty: &str, document: Value, expected: Value) {
    let row = row_of(ty, document);
    assert_eq!(Value::Array(row.cells), expected, "{ty}");
    assert_eq!(expected.as_array().unwrap().len(), columns(kind_of(ty)).len(), "{ty}");
}

/// A column in short: wide with a plus, integers with #, booleans with ?.
fn in_short(column: &Column) -> String {
    let wide = if column.priority == 1 { "+" } else { "" };
    let kind = match column.kind {
        "integer" => "#",
        "boolean" => "?",
        "date" => "@",
        _ => "",
    };
    format!("{wide}{}{kind}", column.name)
}

#[test]
fn every_kind_has_its_columns() {
    const REPLICATED: &str = "Name, Desired#, Current#, Ready#, Age, +Containers, +Images, +Selector";
    const EVENT: &str =
        "Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count, +Name";
    const BINDING: &str = "Name, Role, Age, +Users, +Groups, +ServiceAccounts";
    const SCALER: &str = "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age";
    const DEFAULT: &str = "Name, Created At@";
    let kinds = [
        ("core.v1.Binding", DEFAULT),
        ("core.v1.ComponentStatus", "Name, Status, Message, Error"),
        ("core.v1.ConfigMap", "Name, Data, Age"),
        ("core.v1.Endpoints", "Name, Endpoints, Age"),
        ("core.v1.Event", EVENT),
        ("core.v1.LimitRange", DEFAULT),
        ("core.v1.Namespace", "Name, Status, Age"),
        (
            "core.v1.Node",
            "Name, Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, \
             +Container-Runtime",
        ),
        (
            "core.v1.PersistentVolumeClaim",
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, +VolumeMode",
        ),
        (
            "core.v1.PersistentVolume",
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, \
             Reason, Age, +VolumeMode",
        ),
        ("core.v1.Pod", "Name, Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates"),
        ("core.v1.PodTemplate", "Name, Containers, Images, Pod Labels"),
        ("core.v1.ReplicationController", REPLICATED),
        ("core.v1.ResourceQuota", "Name, Request, Limit, Age"),
        ("core.v1.Secret", "Name, Type, Data, Age"),
        ("core.v1.ServiceAccount", "Name, Age"),
        ("core.v1.Service", "Name, Type, Cluster-IP, External-IP, Port(s), Age, +Selector"),
        ("apiregistration.v1.APIService", "Name, Service, Available, Age"),
        ("apps.v1.ControllerRevision", "Name, Controller, Revision, Age"),
        (
            "apps.v1.DaemonSet",
            "Name, Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector, Age, +Containers, +Images, \
             +Selector",
        ),
        ("apps.v1.Deployment", "Name, Ready, Up-to-date, Available, Age, +Containers, +Images, +Selector"),
        ("apps.v1.ReplicaSet", REPLICATED),
        ("apps.v1.StatefulSet", "Name, Ready, Age, +Containers, +Images"),
        ("events.v1.Event", EVENT),
        ("authentication.v1.SelfSubjectReview", DEFAULT),
        ("authentication.v1.TokenReview", DEFAULT),
        ("authorization.v1.LocalSubjectAccessReview", DEFAULT),
        ("authorization.v1.SelfSubjectAccessReview", DEFAULT),
        ("authorization.v1.SelfSubjectRulesReview", DEFAULT),
        ("authorization.v1.SubjectAccessReview", DEFAULT),
        ("autoscaling.v2.HorizontalPodAutoscaler", SCALER),
        ("autoscaling.v1.HorizontalPodAutoscaler", SCALER),
        (
            "batch.v1.CronJob",
            "Name, Schedule, Timezone, Suspend?, Active#, Last Schedule, Age, +Containers, +Images, +Selector",
        ),
        ("batch.v1.Job", "Name, Status, Completions, Duration, Age, +Containers, +Images, +Selector"),
        (
            "certificates.v1.CertificateSigningRequest",
            "Name, Age, SignerName, Requestor, RequestedDuration, Condition",
        ),
        ("networking.v1.IngressClass", "Name, Controller, Parameters, Age"),
        ("networking.v1.Ingress", "Name, Class, Hosts, Address, Ports, Age"),
        ("networking.v1.IPAddress", "Name, ParentRef"),
        ("networking.v1.NetworkPolicy", "Name, Pod-Selector, Age"),
        ("networking.v1.ServiceCIDR", "Name, CIDRs, Age"),
        ("policy.v1.PodDisruptionBudget", "Name, Min Available, Max Unavailable, Allowed Disruptions#, Age"),
        ("rbac.v1.ClusterRoleBinding", BINDING),
        ("rbac.v1.ClusterRole", DEFAULT),
        ("rbac.v1.RoleBinding", BINDING),
        ("rbac.v1.Role", DEFAULT),
        (
            "storage.v1.CSIDriver",
            "Name, AttachRequired?, PodInfoOnMount?, StorageCapacity?, TokenRequests, RequiresRepublish?, Modes, Age",
        ),
        ("storage.v1.CSINode", "Name, Drivers#, Age"),
        ("storage.v1.CSIStorageCapacity", DEFAULT),
        (
            "storage.v1.StorageClass",
            "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        ),
        ("storage.v1.VolumeAttachment", "Name, Attacher, PV, Node, Attached?, Age"),
        ("storage.v1.VolumeAttributesClass", "Name, DriverName, Age"),
        ("admissionregistration.v1.MutatingAdmissionPolicy", "Name, Mutations#, ParamKind, Age"),
        ("admissionregistration.v1.MutatingAdmissionPolicyBinding", "Name, PolicyName, ParamRef, Age"),
        ("admissionregistration.v1.MutatingWebhookConfiguration", "Name, Webhooks#, Age"),
        ("admissionregistration.v1.ValidatingAdmissionPolicy", "Name, Validations#, ParamKind, Age"),
        ("admissionregistration.v1.ValidatingAdmissionPolicyBinding", "Name, PolicyName, ParamRef, Age"),
        ("admissionregistration.v1.ValidatingWebhookConfiguration", "Name, Webhooks#, Age"),
        ("apiextensions.v1.CustomResourceDefinition", DEFAULT),
        ("scheduling.v1.PriorityClass", "Name, Value#, Global-Default?, Age, PreemptionPolicy"),
        ("coordination.v1.Lease", "Name, Holder, Age"),
        ("node.v1.RuntimeClass", "Name, Handler, Age"),
        ("discovery.v1.EndpointSlice", "Name, AddressType, Ports, Endpoints, Age"),
        ("resource.v1.DeviceClass", "Name, Age"),
        ("resource.v1.ResourceClaim", "Name, State, Age"),
        ("resource.v1.ResourceClaimTemplate", "Name, Age"),
        ("resource.v1.ResourceSlice", "Name, Node, Driver, Pool, Age"),
        (
            "flowcontrol.v1.FlowSchema",
            "Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL",
        ),
        (
            "flowcontrol.v1.PriorityLevelConfiguration",
            "Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age",
        ),
    ];
    for resource in kinds::built_in() {
        assert!(
            kinds.iter().any(|(ty, _)| *ty == resource.ty.name),
            "{} has no columns in this test",
            resource.ty.name
        );
    }
    for (ty, expected) in kinds {
        let actual: Vec<String> = columns(kind_of(ty)).iter().map(in_short).collect();
        assert_eq!(actual.join(", "), expected, "{ty}");
    }
}

#[test]
fn columns_are_described_and_names_are_marked() {
    for kind in kinds::built_in() {
        for column in columns(kind) {
            assert!(!column.description.is_empty() && !column.name.is_empty(), "{}", kind.name);
            assert!(column.name != "Name" || column.format == "name", "{}", kind.name);
        }
    }
}

#[test]
fn documents_of_any_shape_give_a_row() {
    for kind in kinds::built_in() {
        let nothing = schema::zero(kind.ty);
        let odd = json!({"metadata": [], "spec": {"containers": {}, "ports": [1, null], "rules": [[]], "selector": 1,
            "metrics": [1, {"type": "Resource"}, {"type": "Pods"}], "readinessGates": [null], "claimRef": 5},
            "status": {"containerStatuses": [null, {"state": 1}], "conditions": "no", "initContainerStatuses": [7],
            "hard": [], "loadBalancer": {"ingress": [false]}, "succeeded": 1e300}, "subsets": [{"addresses": [3]}],
            "subjects": [2], "endpoints": [{"addresses": [1]}], "ports": [{"port": []}], "webhooks": 1});
        for document in [nothing, odd, json!(null), json!([1]), json!("text")] {
            let row = cells(kind, &document, NOW.parse().unwrap());
            assert_eq!(row.cells.len(), columns(kind).len(), "{}", kind.name);
        }
    }
}

#[test]
fn a_kind_without_a_form_shows_when_it_was_created() {
    for ty in ["core.v1.LimitRange", "rbac.v1.Role", "apiextensions.v1.CustomResourceDefinition"] {
        check(ty, json!({}), json!(["x", CREATED]));
    }
    let widgets = Kind::of_type("example.com", "core.v1.ConfigMap", "widgets");
    let never = cells(&widgets, &json!({"metadata": {"name": "w"}}), NOW.parse().unwrap());
    assert_eq!(never.cells, [json!("w"), json!("0001-01-01T00:00:00Z")]);
}
