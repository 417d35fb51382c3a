//! The same objects in the messages that prost made from Kubernetes' own declarations.

use super::*;
use ::k8s_pb::{api, apiextensions_apiserver, apimachinery, kube_aggregator};
use apimachinery::pkg::{apis::meta::v1 as meta, runtime};
use prost::Message;

/// Decodes bytes as a message of prost and encodes it again.
type Through = fn(&[u8]) -> Vec<u8>;

fn through<M: Message + Default>(message: &[u8]) -> Vec<u8> {
    M::decode(message).unwrap().encode_to_vec()
}

macro_rules! messages {
    ($($group:literal $module:path: $($kind:ident)+;)+) => {
        [$({
            use $module as module;
            vec![$((concat!($group, ".", stringify!($kind)), through::<module::$kind> as Through)),+]
        }),+].concat()
    };
}

fn messages() -> Vec<(&'static str, Through)> {
    messages! {
        "admissionregistration.v1" api::admissionregistration::v1:
            MutatingWebhookConfiguration ValidatingAdmissionPolicy
            ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration;
        "apiextensions.v1" apiextensions_apiserver::pkg::apis::apiextensions::v1:
            ConversionReview CustomResourceDefinition;
        "apps.v1" api::apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        "authentication.v1" api::authentication::v1: SelfSubjectReview TokenRequest TokenReview;
        "authorization.v1" api::authorization::v1:
            LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
            SubjectAccessReview;
        "autoscaling.v1" api::autoscaling::v1: HorizontalPodAutoscaler Scale;
        "autoscaling.v2" api::autoscaling::v2: HorizontalPodAutoscaler;
        "batch.v1" api::batch::v1: CronJob Job;
        "certificates.v1" api::certificates::v1: CertificateSigningRequest;
        "coordination.v1" api::coordination::v1: Lease;
        "core.v1" api::core::v1:
            Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node
            NodeProxyOptions PersistentVolume PersistentVolumeClaim Pod PodAttachOptions
            PodExecOptions PodLogOptions PodPortForwardOptions PodProxyOptions PodStatusResult
            PodTemplate RangeAllocation ReplicationController ResourceQuota Secret
            SerializedReference Service ServiceAccount ServiceProxyOptions;
        "discovery.v1" api::discovery::v1: EndpointSlice;
        "events.v1" api::events::v1: Event;
        "flowcontrol.v1" api::flowcontrol::v1: FlowSchema PriorityLevelConfiguration;
        "meta.v1" apimachinery::pkg::apis::meta::v1:
            APIGroup APIVersions ApplyOptions CreateOptions DeleteOptions GetOptions ListOptions
            PartialObjectMetadata PatchOptions Status TableOptions UpdateOptions;
        "networking.v1" api::networking::v1: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR;
        "node.v1" api::node::v1: RuntimeClass;
        "policy.v1" api::policy::v1: Eviction PodDisruptionBudget;
        "rbac.v1" api::rbac::v1: ClusterRole ClusterRoleBinding Role RoleBinding;
        "resource.v1" api::resource::v1: DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice;
        "scheduling.v1" api::scheduling::v1: PriorityClass;
        "storage.v1" api::storage::v1:
            CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment
            VolumeAttributesClass;
        "apiregistration.v1" kube_aggregator::pkg::apis::apiregistration::v1: APIService;
    }
}

/// Fields that are newer than the declarations, which are those of v1.35.
const NEWER: &[(&str, &str)] = &[
    ("core.v1.PodSpec", "schedulingGroup"),
    ("core.v1.PodStatus", "nodeAllocatableResourceClaimStatuses"),
    ("core.v1.ResourceHealth", "message"),
    ("core.v1.VolumeMountStatus", "volumeStatus"),
    ("meta.v1.ListMeta", "shardInfo"),
    ("meta.v1.ListOptions", "shardSelector"),
    ("resource.v1.Device", "nodeAllocatableResourceMappings"),
    ("resource.v1.DeviceAttribute", "bools"),
    ("resource.v1.DeviceAttribute", "ints"),
    ("resource.v1.DeviceAttribute", "strings"),
    ("resource.v1.DeviceAttribute", "versions"),
    ("storage.v1.CSIDriverSpec", "preventPodSchedulingIfMissing"),
];

fn is_known(ty: TypeRef, field: &Field) -> bool {
    !NEWER.contains(&(ty.get().name, field.name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn prost_understands_every_field_and_is_understood(seed: u64) {
        for (name, through) in messages() {
            let document = sample(ty(name), seed, &is_known);
            let message = through(&encoded(&document, ty(name)));
            prop_assert_eq!(decode(&message, ty(name)), Ok(document), "{}", name);
        }
    }
}

#[test]
fn an_envelope_is_what_kubernetes_calls_unknown() {
    let mut out = Vec::new();
    wrap(&mut out, "apps/v1", "Deployment", |out| out.extend_from_slice(&[7; 300]));
    let unknown = runtime::Unknown::decode(&out[MAGIC.len()..]).unwrap();
    let kind = unknown.type_meta.clone().unwrap();
    assert_eq!((kind.api_version(), kind.kind(), unknown.raw()), ("apps/v1", "Deployment", &[7; 300][..]));

    let written = [&MAGIC[..], &unknown.encode_to_vec()].concat();
    assert_eq!(open(&written), open(&out));
}

#[test]
fn a_list_can_be_sent_item_by_item() {
    for names in [vec![], vec!["a"], vec!["a", "b", "c"]] {
        let mut items = Vec::new();
        for name in &names {
            let item = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(200)}});
            list_item(&mut items, &item, ty("core.v1.ConfigMap"));
        }
        let meta = ListMeta {
            resource_version: "42".to_owned(),
            continue_token: "next".to_owned(),
            remaining_item_count: Some(3),
        };
        let mut out = Vec::new();
        list_header(&mut out, "v1", "ConfigMapList", &meta, items.len());
        out.extend_from_slice(&items);

        let envelope = open(&out).unwrap();
        assert_eq!(envelope.kind, "ConfigMapList");
        let list = api::core::v1::ConfigMapList::decode(envelope.raw).unwrap();
        let meta = list.metadata.unwrap();
        assert_eq!(
            (meta.resource_version(), meta.r#continue(), meta.remaining_item_count()),
            ("42", "next", 3)
        );
        let found: Vec<_> = list.items.iter().map(|item| item.metadata.as_ref().unwrap().name()).collect();
        assert_eq!(found, names);
    }
}

#[test]
fn an_event_has_its_length_in_front_where_the_stream_needs_it() {
    for length in [0, 100, 300, 20_000] {
        let object = vec![7; length];
        let (mut framed, mut bare) = (Vec::new(), Vec::new());
        watch_frame(&mut framed, EventType::Added, &object, true);
        watch_frame(&mut bare, EventType::Added, &object, false);
        assert_eq!(framed[4..], bare);
        assert_eq!(framed[..4], (bare.len() as u32).to_be_bytes());
        let event = meta::WatchEvent::decode(&*bare).unwrap();
        assert_eq!((event.r#type(), event.object.as_ref().unwrap().raw()), ("ADDED", &object[..]));
    }
}
