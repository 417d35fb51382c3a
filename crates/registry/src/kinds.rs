//! The built-in kinds: one row each, in the order in which discovery shows them.
//!
//! A row says all that is special about a kind and can be said in a word. What cannot (defaults, validation, columns) is
//! in the module of that name, found by the kind's type. A new kind is a new row.

use crate::schema::{self, TypeRef};
use std::{collections::HashMap, sync::LazyLock};

/// A resource in one version of its group.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The name in paths: `pods`.
    pub plural: &'static str,
    /// The kind: `Pod`.
    pub kind: &'static str,
    /// The type of its objects in this version: `core.v1.Pod`.
    pub ty: &'static str,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Short names for people.
    pub short_names: &'static [&'static str],
    /// Groups of resources that people can ask for at once.
    pub categories: &'static [&'static str],
    /// What can be done with it, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// What else there is under the name of an object, in alphabetical order.
    pub subresources: &'static [Subresource],
    /// Where objects are kept, below the store's own prefix; absent if none are.
    pub storage: Option<&'static str>,
    /// The version in which they are kept, with the group: `autoscaling/v2`; absent if it is this one.
    pub stored_as: Option<StoredAs>,
    /// The fields that selectors may name besides `metadata.name`.
    pub fields: &'static [SelectableField],
    /// Those of them by whose value lists find objects without looking at the others. Each costs memory for every object,
    /// so they are few: fields that are asked for all the time, with few objects for each value.
    pub indexed_fields: &'static [&'static str],
    /// How an unknown field in a selector is refused.
    pub unknown_field: UnknownField,
    /// When the generation of an object goes up.
    pub generation: Generation,
    /// Which names its objects may have.
    pub names: NameRule,
    /// Whether an update may leave out the version that it is based on.
    pub unconditional_update: bool,
    /// Whether an update of an object that is not there creates it.
    pub create_on_update: bool,
    /// Whether a deletion is answered with the object, rather than with a Status.
    pub returns_deleted: bool,
    /// Whether objects that belong to a deleted one stay if nobody says otherwise.
    pub orphans_by_default: bool,
    /// Whether a new object keeps the status that it comes with.
    pub keeps_status: bool,
}

/// Where a resource is kept whose objects have another form in storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAs {
    /// The group of the stored version.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The type.
    pub ty: &'static str,
}

/// Something under the name of an object.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// Its name: `status`.
    pub name: &'static str,
    /// What can be done with it, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// What is sent and received, if it is not an object of the resource: group, version and kind.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
}

/// A field that selectors may name.
#[derive(Clone, Copy, Debug)]
pub struct SelectableField {
    /// Its name in selectors.
    pub name: &'static str,
    /// What it is called in the index, which all versions of a resource share.
    pub indexed: &'static str,
    /// Where its value is.
    pub at: At,
}

/// Where the value of a selectable field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The metadata's, which every object has.
    Metadata,
    /// A text or a number at this path; empty if it is not there.
    Path(&'static [&'static str]),
    /// A yes or no at this path; no if it is not there.
    Flag(&'static [&'static str]),
    /// A number at this path; zero if it is not there.
    Number(&'static [&'static str]),
    /// The first of the paths that leads to something.
    Either(&'static [&'static [&'static str]]),
    /// Always empty.
    Nowhere,
}

/// How an unknown field in a selector is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownField {
    /// Naming the two that there are.
    OnlyMetadata,
    /// Naming the field.
    NotSupported,
    /// Naming the field and the kind.
    NotSupportedFor(&'static str),
    /// Naming the full kind, then the field.
    NotSupportedForKind,
}

/// When the generation of an object goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The server leaves it alone.
    Unmanaged,
    /// It is 1 for ever.
    Once,
    /// When the spec changes.
    Spec,
    /// When the spec changes; what a new object says is kept.
    SpecOnceCreated,
    /// When the spec or an annotation changes.
    SpecOrAnnotations,
    /// When anything but metadata and status changes.
    Content,
    /// When anything but metadata changes, or the labels do.
    ContentOrLabels,
}

/// Which names objects may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A lower-case DNS name.
    Subdomain,
    /// One part of a DNS name.
    Label,
    /// Whatever can stand in a path.
    PathSegment,
    /// An IP address in its usual form.
    Ip,
}

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const GPU: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "delete", "get", "patch", "update"];

const fn sub(name: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, verbs, kind: None }
}

const fn sub_of(
    name: &'static str,
    verbs: &'static [&'static str],
    group: &'static str,
    version: &'static str,
    kind: &'static str,
) -> Subresource {
    Subresource { name, verbs, kind: Some((group, version, kind)) }
}

const STATUS: &[Subresource] = &[sub("status", GPU)];
const SCALE_STATUS: &[Subresource] =
    &[sub_of("scale", GPU, "autoscaling", "v1", "Scale"), sub("status", GPU)];

const fn field(name: &'static str, at: At) -> SelectableField {
    SelectableField { name, indexed: name, at }
}

const fn renamed(name: &'static str, indexed: &'static str, at: At) -> SelectableField {
    SelectableField { name, indexed, at }
}

const NAMESPACE: SelectableField = field("metadata.namespace", At::Metadata);

const POD_FIELDS: &[SelectableField] = &[
    NAMESPACE,
    field("spec.nodeName", At::Path(&["spec", "nodeName"])),
    renamed("spec.host", "spec.nodeName", At::Path(&["spec", "nodeName"])),
    field("spec.restartPolicy", At::Path(&["spec", "restartPolicy"])),
    field("spec.schedulerName", At::Path(&["spec", "schedulerName"])),
    field("spec.serviceAccountName", At::Path(&["spec", "serviceAccountName"])),
    field("spec.hostNetwork", At::Flag(&["spec", "hostNetwork"])),
    field("status.phase", At::Path(&["status", "phase"])),
    field("status.podIP", At::Path(&["status", "podIP"])),
    field("status.podIPs", At::Nowhere),
    field("status.nominatedNodeName", At::Path(&["status", "nominatedNodeName"])),
];

const EVENT_FIELDS: &[SelectableField] = &[
    NAMESPACE,
    field("involvedObject.kind", At::Path(&["involvedObject", "kind"])),
    field("involvedObject.namespace", At::Path(&["involvedObject", "namespace"])),
    field("involvedObject.name", At::Path(&["involvedObject", "name"])),
    field("involvedObject.uid", At::Path(&["involvedObject", "uid"])),
    field("involvedObject.apiVersion", At::Path(&["involvedObject", "apiVersion"])),
    field("involvedObject.resourceVersion", At::Path(&["involvedObject", "resourceVersion"])),
    field("involvedObject.fieldPath", At::Path(&["involvedObject", "fieldPath"])),
    field("reason", At::Path(&["reason"])),
    field("reportingComponent", At::Path(&["reportingComponent"])),
    field("source", At::Either(&[&["source", "component"], &["reportingComponent"]])),
    field("type", At::Path(&["type"])),
];

/// The same fields under the names that `events.k8s.io` has for them.
const NEW_EVENT_FIELDS: &[SelectableField] = &[
    NAMESPACE,
    renamed("regarding.kind", "involvedObject.kind", At::Path(&["involvedObject", "kind"])),
    renamed("regarding.namespace", "involvedObject.namespace", At::Path(&["involvedObject", "namespace"])),
    renamed("regarding.name", "involvedObject.name", At::Path(&["involvedObject", "name"])),
    renamed("regarding.uid", "involvedObject.uid", At::Path(&["involvedObject", "uid"])),
    renamed("regarding.apiVersion", "involvedObject.apiVersion", At::Path(&["involvedObject", "apiVersion"])),
    renamed(
        "regarding.resourceVersion",
        "involvedObject.resourceVersion",
        At::Path(&["involvedObject", "resourceVersion"]),
    ),
    renamed("regarding.fieldPath", "involvedObject.fieldPath", At::Path(&["involvedObject", "fieldPath"])),
    field("reason", At::Path(&["reason"])),
    renamed("reportingController", "reportingComponent", At::Path(&["reportingComponent"])),
    field("type", At::Path(&["type"])),
];

/// How most kinds are. Rows say what is different.
const fn row(group: &'static str, ty: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource {
        group,
        version: "v1",
        plural,
        kind,
        ty,
        namespaced: true,
        short_names: &[],
        categories: &[],
        verbs: ALL,
        subresources: &[],
        storage: Some(plural),
        stored_as: None,
        fields: &[NAMESPACE],
        indexed_fields: &[],
        unknown_field: UnknownField::OnlyMetadata,
        generation: Generation::Unmanaged,
        names: NameRule::Subdomain,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        orphans_by_default: false,
        keeps_status: false,
    }
}

impl Resource {
    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }
    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }
    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }
    const fn extends_api(mut self) -> Self {
        self.categories = &["api-extensions"];
        self
    }
    const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }
    const fn subs(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }
    const fn stored_at(mut self, prefix: &'static str) -> Self {
        self.storage = Some(prefix);
        self
    }
    const fn stored_as(mut self, group: &'static str, version: &'static str, ty: &'static str) -> Self {
        self.stored_as = Some(StoredAs { group, version, ty });
        self
    }
    /// Nothing is stored: a request is answered and forgotten.
    const fn answered(mut self) -> Self {
        self.verbs = CREATE;
        self.storage = None;
        self
    }
    const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }
    const fn fields(mut self, fields: &'static [SelectableField], unknown: UnknownField) -> Self {
        self.fields = fields;
        self.unknown_field = unknown;
        self
    }
    const fn indexed_by(mut self, fields: &'static [&'static str]) -> Self {
        self.indexed_fields = fields;
        self
    }
    const fn generation(mut self, generation: Generation) -> Self {
        self.generation = generation;
        self
    }
    const fn named(mut self, names: NameRule) -> Self {
        self.names = names;
        self
    }
    const fn needs_version(mut self) -> Self {
        self.unconditional_update = false;
        self
    }
    const fn put_creates(mut self) -> Self {
        self.create_on_update = true;
        self
    }
    const fn returned(mut self) -> Self {
        self.returns_deleted = true;
        self
    }
    const fn orphans(mut self) -> Self {
        self.orphans_by_default = true;
        self
    }
    const fn with_status(mut self) -> Self {
        self.keeps_status = true;
        self
    }

    /// The group and version as objects say them: `apps/v1`, and `v1` in the core group.
    pub fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// The type of its objects.
    pub fn type_ref(&self) -> TypeRef {
        schema::lookup(self.ty).expect("the table of types has every kind; a test looks")
    }

    /// The type, group and version in which its objects are stored.
    pub fn stored(&self) -> StoredAs {
        self.stored_as.unwrap_or(StoredAs { group: self.group, version: self.version, ty: self.ty })
    }

    /// Whether it has that subresource.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether a write of the status leaves labels, annotations, owners and finalizers as they are.
    pub fn status_keeps_metadata(&self) -> bool {
        matches!(
            self.ty,
            "networking.v1.ServiceCIDR"
                | "resource.v1.ResourceClaim"
                | "storage.v1.VolumeAttachment"
                | "admissionregistration.v1.ValidatingAdmissionPolicy"
                | "flowcontrol.v1.FlowSchema"
                | "flowcontrol.v1.PriorityLevelConfiguration"
                | "apiextensions.v1.CustomResourceDefinition"
                | "apiregistration.v1.APIService"
        )
    }

    /// Whether it can be done.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

/// The group and version as objects say them.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

use At::{Flag, Number, Path};
use Generation::{Content, ContentOrLabels, Once, Spec, SpecOnceCreated, SpecOrAnnotations};
use NameRule::{Ip, Label, PathSegment};
use UnknownField::{NotSupported, NotSupportedFor, NotSupportedForKind};

const ADMISSION: &str = "admissionregistration.k8s.io";
const APPS: &str = "apps";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTOSCALING: &str = "autoscaling";
const BATCH: &str = "batch";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// Every resource; groups and versions in the order of discovery, in each the resources by name.
pub static RESOURCES: &[Resource] = &[
    row("", "core.v1.Binding", "bindings", "Binding").answered(),
    row("", "core.v1.ComponentStatus", "componentstatuses", "ComponentStatus")
        .cluster()
        .short(&["cs"])
        .answered()
        .verbs(&["get", "list"]),
    row("", "core.v1.ConfigMap", "configmaps", "ConfigMap").short(&["cm"]),
    row("", "core.v1.Endpoints", "endpoints", "Endpoints")
        .short(&["ep"])
        .stored_at("services/endpoints")
        .put_creates(),
    row("", "core.v1.Event", "events", "Event")
        .short(&["ev"])
        .put_creates()
        .fields(EVENT_FIELDS, NotSupported),
    row("", "core.v1.LimitRange", "limitranges", "LimitRange").short(&["limits"]).put_creates(),
    row("", "core.v1.Namespace", "namespaces", "Namespace")
        .cluster()
        .short(&["ns"])
        .verbs(NO_COLLECTION)
        .subs(&[sub("finalize", &["update"]), sub("status", GPU)])
        .named(Label)
        .returned()
        .fields(&[field("status.phase", Path(&["status", "phase"]))], NotSupported),
    row("", "core.v1.Node", "nodes", "Node")
        .cluster()
        .short(&["no"])
        .subs(&[sub_of("proxy", CONNECT, "", "v1", "NodeProxyOptions"), sub("status", GPU)])
        .stored_at("minions")
        .with_status()
        .fields(&[field("spec.unschedulable", Flag(&["spec", "unschedulable"]))], NotSupported),
    row("", "core.v1.PersistentVolumeClaim", "persistentvolumeclaims", "PersistentVolumeClaim")
        .short(&["pvc"])
        .subs(STATUS)
        .returned(),
    row("", "core.v1.PersistentVolume", "persistentvolumes", "PersistentVolume")
        .cluster()
        .short(&["pv"])
        .subs(STATUS)
        .returned(),
    row("", "core.v1.Pod", "pods", "Pod")
        .short(&["po"])
        .in_all()
        .subs(&[
            sub_of("attach", &["create", "get"], "", "v1", "PodAttachOptions"),
            sub_of("binding", CREATE, "", "v1", "Binding"),
            sub("ephemeralcontainers", GPU),
            sub_of("eviction", CREATE, "policy", "v1", "Eviction"),
            sub_of("exec", &["create", "get"], "", "v1", "PodExecOptions"),
            sub("log", &["get"]),
            sub_of("portforward", &["create", "get"], "", "v1", "PodPortForwardOptions"),
            sub_of("proxy", CONNECT, "", "v1", "PodProxyOptions"),
            sub("resize", GPU),
            sub("status", GPU),
        ])
        .returned()
        .generation(Spec)
        .fields(POD_FIELDS, NotSupported)
        .indexed_by(&["spec.nodeName"]),
    row("", "core.v1.PodTemplate", "podtemplates", "PodTemplate").returned().generation(Content),
    row("", "core.v1.ReplicationController", "replicationcontrollers", "ReplicationController")
        .short(&["rc"])
        .in_all()
        .subs(SCALE_STATUS)
        .stored_at("controllers")
        .orphans()
        .generation(Spec)
        .fields(&[NAMESPACE, field("status.replicas", Number(&["status", "replicas"]))], NotSupported),
    row("", "core.v1.ResourceQuota", "resourcequotas", "ResourceQuota")
        .short(&["quota"])
        .subs(STATUS)
        .returned(),
    row("", "core.v1.Secret", "secrets", "Secret")
        .fields(&[NAMESPACE, field("type", Path(&["type"]))], NotSupported),
    row("", "core.v1.ServiceAccount", "serviceaccounts", "ServiceAccount")
        .short(&["sa"])
        .subs(&[sub_of("token", CREATE, "authentication.k8s.io", "v1", "TokenRequest")])
        .returned(),
    row("", "core.v1.Service", "services", "Service")
        .short(&["svc"])
        .in_all()
        .subs(&[sub_of("proxy", CONNECT, "", "v1", "ServiceProxyOptions"), sub("status", GPU)])
        .stored_at("services/specs")
        .named(Label)
        .put_creates()
        .returned()
        .fields(
            &[
                NAMESPACE,
                field("spec.clusterIP", Path(&["spec", "clusterIP"])),
                field("spec.type", Path(&["spec", "type"])),
            ],
            NotSupported,
        ),
    row("apiregistration.k8s.io", "apiregistration.v1.APIService", "apiservices", "APIService")
        .cluster()
        .extends_api()
        .subs(STATUS)
        .stored_at("apiregistration.k8s.io/apiservices")
        .named(PathSegment)
        .needs_version(),
    row(APPS, "apps.v1.ControllerRevision", "controllerrevisions", "ControllerRevision"),
    row(APPS, "apps.v1.DaemonSet", "daemonsets", "DaemonSet")
        .short(&["ds"])
        .in_all()
        .subs(STATUS)
        .generation(Spec),
    row(APPS, "apps.v1.Deployment", "deployments", "Deployment")
        .short(&["deploy"])
        .in_all()
        .subs(SCALE_STATUS)
        .generation(SpecOrAnnotations),
    row(APPS, "apps.v1.ReplicaSet", "replicasets", "ReplicaSet")
        .short(&["rs"])
        .in_all()
        .subs(SCALE_STATUS)
        .generation(Spec),
    row(APPS, "apps.v1.StatefulSet", "statefulsets", "StatefulSet")
        .short(&["sts"])
        .in_all()
        .subs(SCALE_STATUS)
        .named(Label)
        .generation(Spec),
    row("events.k8s.io", "events.v1.Event", "events", "Event")
        .short(&["ev"])
        .put_creates()
        .stored_as("", "v1", "core.v1.Event")
        .fields(NEW_EVENT_FIELDS, NotSupported),
    row(AUTHENTICATION, "authentication.v1.SelfSubjectReview", "selfsubjectreviews", "SelfSubjectReview")
        .cluster()
        .answered(),
    row(AUTHENTICATION, "authentication.v1.TokenReview", "tokenreviews", "TokenReview").cluster().answered(),
    row(
        AUTHORIZATION,
        "authorization.v1.LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
    )
    .answered(),
    row(
        AUTHORIZATION,
        "authorization.v1.SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    )
    .cluster()
    .answered(),
    row(
        AUTHORIZATION,
        "authorization.v1.SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    )
    .cluster()
    .answered(),
    row(AUTHORIZATION, "authorization.v1.SubjectAccessReview", "subjectaccessreviews", "SubjectAccessReview")
        .cluster()
        .answered(),
    row(
        AUTOSCALING,
        "autoscaling.v2.HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    )
    .version("v2")
    .short(&["hpa"])
    .in_all()
    .subs(STATUS),
    row(
        AUTOSCALING,
        "autoscaling.v1.HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .in_all()
    .subs(STATUS)
    .stored_as("autoscaling", "v2", "autoscaling.v2.HorizontalPodAutoscaler"),
    row(BATCH, "batch.v1.CronJob", "cronjobs", "CronJob")
        .short(&["cj"])
        .in_all()
        .subs(STATUS)
        .generation(Spec),
    row(BATCH, "batch.v1.Job", "jobs", "Job").in_all().subs(STATUS).orphans().generation(Spec).fields(
        &[NAMESPACE, field("status.successful", Number(&["status", "succeeded"]))],
        NotSupportedFor("Job"),
    ),
    row(
        "certificates.k8s.io",
        "certificates.v1.CertificateSigningRequest",
        "certificatesigningrequests",
        "CertificateSigningRequest",
    )
    .cluster()
    .short(&["csr"])
    .subs(&[sub("approval", GPU), sub("status", GPU)])
    .named(PathSegment)
    .fields(&[field("spec.signerName", Path(&["spec", "signerName"]))], NotSupported),
    row(NETWORKING, "networking.v1.IngressClass", "ingressclasses", "IngressClass")
        .cluster()
        .generation(Spec),
    row(NETWORKING, "networking.v1.Ingress", "ingresses", "Ingress")
        .short(&["ing"])
        .subs(STATUS)
        .stored_at("ingress")
        .generation(Spec),
    row(NETWORKING, "networking.v1.IPAddress", "ipaddresses", "IPAddress").cluster().short(&["ip"]).named(Ip),
    row(NETWORKING, "networking.v1.NetworkPolicy", "networkpolicies", "NetworkPolicy")
        .short(&["netpol"])
        .generation(Spec),
    row(NETWORKING, "networking.v1.ServiceCIDR", "servicecidrs", "ServiceCIDR").cluster().subs(STATUS),
    row("policy", "policy.v1.PodDisruptionBudget", "poddisruptionbudgets", "PodDisruptionBudget")
        .short(&["pdb"])
        .subs(STATUS)
        .needs_version()
        .generation(Spec),
    row(RBAC, "rbac.v1.ClusterRoleBinding", "clusterrolebindings", "ClusterRoleBinding")
        .cluster()
        .named(PathSegment)
        .put_creates(),
    row(RBAC, "rbac.v1.ClusterRole", "clusterroles", "ClusterRole")
        .cluster()
        .named(PathSegment)
        .put_creates(),
    row(RBAC, "rbac.v1.RoleBinding", "rolebindings", "RoleBinding").named(PathSegment).put_creates(),
    row(RBAC, "rbac.v1.Role", "roles", "Role").named(PathSegment).put_creates(),
    row(STORAGE, "storage.v1.CSIDriver", "csidrivers", "CSIDriver")
        .cluster()
        .needs_version()
        .returned()
        .generation(SpecOnceCreated),
    row(STORAGE, "storage.v1.CSINode", "csinodes", "CSINode").cluster().needs_version().returned(),
    row(STORAGE, "storage.v1.CSIStorageCapacity", "csistoragecapacities", "CSIStorageCapacity")
        .needs_version(),
    row(STORAGE, "storage.v1.StorageClass", "storageclasses", "StorageClass")
        .cluster()
        .short(&["sc"])
        .returned(),
    row(STORAGE, "storage.v1.VolumeAttachment", "volumeattachments", "VolumeAttachment")
        .cluster()
        .subs(STATUS)
        .needs_version()
        .returned(),
    row(STORAGE, "storage.v1.VolumeAttributesClass", "volumeattributesclasses", "VolumeAttributesClass")
        .cluster()
        .short(&["vac"])
        .returned(),
    row(
        ADMISSION,
        "admissionregistration.v1.MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    )
    .cluster()
    .extends_api()
    .needs_version()
    .generation(Spec),
    row(
        ADMISSION,
        "admissionregistration.v1.MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    )
    .cluster()
    .extends_api()
    .needs_version()
    .generation(Spec),
    row(
        ADMISSION,
        "admissionregistration.v1.MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    )
    .cluster()
    .extends_api()
    .needs_version()
    .generation(Content),
    row(
        ADMISSION,
        "admissionregistration.v1.ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    )
    .cluster()
    .extends_api()
    .subs(STATUS)
    .needs_version()
    .generation(Spec),
    row(
        ADMISSION,
        "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    )
    .cluster()
    .extends_api()
    .needs_version()
    .generation(Spec),
    row(
        ADMISSION,
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    )
    .cluster()
    .extends_api()
    .needs_version()
    .generation(Content),
    row(
        "apiextensions.k8s.io",
        "apiextensions.v1.CustomResourceDefinition",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
    .cluster()
    .short(&["crd", "crds"])
    .extends_api()
    .subs(STATUS)
    .stored_at("apiextensions.k8s.io/customresourcedefinitions")
    .needs_version()
    .generation(Spec),
    row("scheduling.k8s.io", "scheduling.v1.PriorityClass", "priorityclasses", "PriorityClass")
        .cluster()
        .short(&["pc"])
        .generation(Once),
    row("coordination.k8s.io", "coordination.v1.Lease", "leases", "Lease").needs_version().put_creates(),
    row("node.k8s.io", "node.v1.RuntimeClass", "runtimeclasses", "RuntimeClass")
        .cluster()
        .needs_version()
        .put_creates(),
    row("discovery.k8s.io", "discovery.v1.EndpointSlice", "endpointslices", "EndpointSlice")
        .generation(ContentOrLabels),
    row(RESOURCE, "resource.v1.DeviceClass", "deviceclasses", "DeviceClass")
        .cluster()
        .returned()
        .generation(Spec),
    row(RESOURCE, "resource.v1.ResourceClaim", "resourceclaims", "ResourceClaim").subs(STATUS).returned(),
    row(RESOURCE, "resource.v1.ResourceClaimTemplate", "resourceclaimtemplates", "ResourceClaimTemplate")
        .returned(),
    row(RESOURCE, "resource.v1.ResourceSlice", "resourceslices", "ResourceSlice")
        .cluster()
        .returned()
        .generation(Spec)
        .fields(
            &[
                field("spec.nodeName", Path(&["spec", "nodeName"])),
                field("spec.driver", Path(&["spec", "driver"])),
            ],
            NotSupportedForKind,
        ),
    row(FLOW, "flowcontrol.v1.FlowSchema", "flowschemas", "FlowSchema")
        .cluster()
        .subs(STATUS)
        .generation(Spec),
    row(
        FLOW,
        "flowcontrol.v1.PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
    )
    .cluster()
    .subs(STATUS)
    .generation(Spec),
];

/// Which service has which port of the nodes: records of the server's own, which no path leads to. They have the form of
/// the one kind that says the same of addresses.
pub(crate) static NODE_PORTS: Resource =
    row("", "networking.v1.IPAddress", "servicenodeports", "IPAddress").cluster();

/// The servers that run on the store: records of the servers' own, which expire and no path leads to. They have the form
/// in which the original keeps the same.
pub(crate) static SERVERS: Resource = row("", "core.v1.Endpoints", "masterleases", "Endpoints").cluster();

static BY_PATH: LazyLock<HashMap<(&str, &str, &str), &'static Resource>> =
    LazyLock::new(|| RESOURCES.iter().map(|r| ((r.group, r.version, r.plural), r)).collect());

/// The resource of that name in a version of a group.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    BY_PATH.get(&(group, version, plural)).copied()
}

/// The groups in the order of discovery, each with its versions, the preferred one first. The core group leads.
pub fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for resource in RESOURCES {
        match groups.iter_mut().find(|(group, _)| *group == resource.group) {
            Some((_, versions)) if versions.contains(&resource.version) => {}
            Some((_, versions)) => versions.push(resource.version),
            None => groups.push((resource.group, vec![resource.version])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_type_and_a_path_of_its_own() {
        for resource in RESOURCES {
            let ty = resource.type_ref();
            assert!(ty.typed, "{}", resource.ty);
            assert_eq!(ty.short_name(), resource.kind);
            assert!(schema::lookup(resource.stored().ty).is_some());
            assert!(resource.verbs.is_sorted() && resource.subresources.is_sorted_by_key(|sub| sub.name));
        }
        assert_eq!(BY_PATH.len(), RESOURCES.len());
    }

    #[test]
    fn what_is_indexed_can_be_selected_by() {
        for resource in RESOURCES {
            for indexed in resource.indexed_fields {
                let known =
                    resource.fields.iter().any(|field| field.indexed == *indexed && field.at != At::Nowhere);
                assert!(known, "{} {indexed}", resource.plural);
            }
        }
        assert_eq!(find("", "v1", "pods").map(|pods| pods.indexed_fields), Some(&["spec.nodeName"][..]));
    }

    #[test]
    fn groups_stand_in_the_order_in_which_clients_show_them() {
        let groups: Vec<_> =
            groups().into_iter().map(|(group, versions)| (group, versions.join(","))).collect();
        assert_eq!(
            groups[..3],
            [("", "v1".into()), ("apiregistration.k8s.io", "v1".into()), ("apps", "v1".into())]
        );
        assert!(groups.contains(&("autoscaling", "v2,v1".to_owned())));
    }
}
