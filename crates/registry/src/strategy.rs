//! What the server itself puts into objects before they are stored, kind by kind.
//!
//! Kept true: identity (name, namespace, uid, creation time) never changes after the creation; status is written through
//! its subresource alone where there is one; generation counts the changes that the kind says.

use crate::{
    admission::{protect, tolerate_for_a_while},
    convert::{SPEC_NOTES, STATUS_NOTES, keep_notes},
    defaults::qos,
    kind::{Generation, Kind},
    schema::{self, Timestamp},
    value::{at, fields, finalizers, integer, list, list_mut, name, same, set, text},
};
use serde_json::{Map, Value, json};

/// Who sends a request, as far as kinds keep it.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// The user's name.
    pub name: String,
    /// The user's uid.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, if that has a path of its own.
    Main,
    /// The status.
    Status,
    /// A namespace's finalizers.
    Finalize,
    /// Whether a certificate may be signed.
    Approval,
    /// Containers that are added to a running pod.
    EphemeralContainers,
    /// What a pod's containers may use.
    Resize,
}

/// Where an owner was found twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// In what the client sent.
    InRequest,
    /// In what came of a patch.
    AfterAdmission,
}

/// Keeps each owner reference once. Returns a warning if one stood there again.
pub(crate) fn drop_repeated_owners(document: &mut Value, found: Repeated) -> Option<String> {
    let owners = document.pointer_mut("/metadata/ownerReferences")?.as_array_mut()?;
    let (mut kept, mut repeated) = (Vec::with_capacity(owners.len()), Vec::new());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            repeated.push(text(&owner, &["uid"]).to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if repeated.is_empty() {
        return None;
    }
    let when = match found {
        Repeated::InRequest => "",
        Repeated::AfterAdmission => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ))
}

/// Fills in what every new object gets, then what its kind does.
pub(crate) fn prepare_create(
    kind: &Kind,
    document: &mut Value,
    namespace: &str,
    now: Timestamp,
    who: &Requester,
) {
    let uid = new_uid();
    let metadata = fields(document, &["metadata"]);
    for dropped in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "resourceVersion"]
    {
        metadata.remove(dropped);
    }
    metadata.insert("uid".to_owned(), uid.clone().into());
    metadata.insert("creationTimestamp".to_owned(), schema::time(now).into());
    if kind.namespaced {
        metadata.insert("namespace".to_owned(), namespace.into());
    } else {
        metadata.remove("namespace");
    }
    if !matches!(kind.generation, Generation::Unmanaged | Generation::SpecOnceCreated) {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if kind.subresource("status").is_some() && !kind.keeps_status {
        reset_status(kind, document);
    }
    drop_disabled_fields(kind, document);
    match kind.ty.name {
        "core.v1.Pod" => new_pod(document, now),
        "core.v1.Namespace" => {
            label_namespace(document);
            let mut finalizers = list(document, &["spec", "finalizers"]).to_vec();
            if !finalizers.contains(&json!("kubernetes")) {
                finalizers.push(json!("kubernetes"));
            }
            fields(document, &["spec"]).insert("finalizers".to_owned(), finalizers.into());
            document["status"] = json!({"phase": "Active"});
        }
        "core.v1.PersistentVolume" => {
            document["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": schema::time(now)});
        }
        "core.v1.PersistentVolumeClaim" => {
            document["status"] = json!({"phase": "Pending"});
            agree_on_data_source(document, None);
        }
        "core.v1.Service" => {
            list_the_address(document);
            drop_internal_traffic_of_names(document);
        }
        "apps.v1.DaemonSet" => set_template_generation(document, 1),
        "core.v1.LimitRange" if name(document).is_empty() => {
            fields(document, &["metadata"]).insert("name".to_owned(), new_uid().into());
        }
        "core.v1.ServiceAccount" => keep_names_of_secrets(document),
        "storage.v1.VolumeAttributesClass" => {
            protect(document, "kubernetes.io/vac-protection");
        }
        "batch.v1.Job" => own_job_pods(document, &uid),
        "certificates.v1.CertificateSigningRequest" => sign_by(document, who),
        "apiextensions.v1.CustomResourceDefinition" => remember_stored_version(document),
        "apiregistration.v1.APIService" => local_is_available(document, now),
        "autoscaling.v1.HorizontalPodAutoscaler" => keep_notes(document, &Value::Null, &STATUS_NOTES),
        _ => {}
    }
}

/// Keeps what the part in question may not change, and counts the generation.
pub(crate) fn prepare_update(kind: &Kind, part: Part, new: &mut Value, old: &Value, now: Timestamp) {
    keep_metadata(new, old);
    drop_disabled_fields(kind, new);
    match part {
        Part::Main => prepare_main_update(kind, new, old),
        Part::Status => prepare_status_update(kind, new, old, now),
        Part::Finalize => {
            let wanted = at(new, &["spec", "finalizers"])
                .filter(|list| list.as_array().is_some_and(|l| !l.is_empty()));
            let wanted = wanted.cloned();
            *new = old.clone();
            set(fields(new, &["spec"]), "finalizers", wanted);
        }
        Part::Approval => {
            let (metadata, conditions) =
                (new["metadata"].take(), at(new, &["status", "conditions"]).cloned());
            *new = old.clone();
            new["metadata"] = metadata;
            set(fields(new, &["status"]), "conditions", conditions);
            date_conditions(new, at(old, &["status", "conditions"]), now);
        }
        Part::EphemeralContainers => {
            let containers = at(new, &["spec", "ephemeralContainers"]).cloned();
            *new = old.clone();
            set(fields(new, &["spec"]), "ephemeralContainers", containers);
            if new["spec"] != old["spec"] {
                bump(new, old);
            }
        }
        Part::Resize => {
            let wanted = std::mem::take(new);
            *new = old.clone();
            for kind in ["containers", "initContainers"] {
                resize(new, &wanted, kind);
            }
            if new["spec"] != old["spec"] {
                bump(new, old);
            }
        }
    }
    fields(new, &["metadata"]).remove("managedFields");
    if kind.ty.name == "batch.v1.Job" {
        label_job(new);
    }
}

/// Whether an object is marked for deletion and nothing holds it any more.
pub(crate) fn is_finished(document: &Value) -> bool {
    let is_namespace = text(document, &["kind"]) == "Namespace";
    let held = !finalizers(document).is_empty()
        || (is_namespace && !list(document, &["spec", "finalizers"]).is_empty());
    let grace = integer(document, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    crate::value::is_deleting(document) && !held && grace == 0
}

/// A random uid (UUID, version 4).
pub fn new_uid() -> String {
    let mut bits: u128 = rand::random();
    bits = (bits & !(0xf << 76)) | (4 << 76);
    bits = (bits & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How much of the beginning of a generated name is kept.
const GENERATED_PREFIX_BYTES_MAX: usize = 58;

/// A name with that beginning and five random letters.
pub(crate) fn generate_name(prefix: &str) -> String {
    let end = prefix.floor_char_boundary(GENERATED_PREFIX_BYTES_MAX);
    let suffix = (0..5).map(|_| char::from(SUFFIX[rand::random_range(0..SUFFIX.len())]));
    prefix[..end].chars().chain(suffix).collect()
}

fn reset_status(kind: &Kind, document: &mut Value) {
    let status = kind.ty.json_field("status").map(|field| match field.kind {
        schema::ValueKind::Message(ty) => schema::zero(ty),
        _ => Value::Null,
    });
    set(fields(document, &[]), "status", status);
}

fn new_pod(document: &mut Value, now: Timestamp) {
    let mut status = json!({"phase": "Pending", "qosClass": qos::qos_class(&document["spec"])});
    if !list(document, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": schema::time(now), "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    document["status"] = status;
}

/// Every namespace can be selected by its name.
pub(crate) fn label_namespace(document: &mut Value) {
    let own = name(document).to_owned();
    if own.is_empty() {
        return;
    }
    fields(document, &["metadata", "labels"]).insert("kubernetes.io/metadata.name".to_owned(), own.into());
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(document: &mut Value, generation: i64) {
    fields(document, &["metadata", "annotations"])
        .insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

fn selects_its_pods(job: &Value) -> bool {
    at(job, &["spec", "manualSelector"]) != Some(&Value::Bool(true))
}

/// The pods of a job carry its name, and a job without labels carries theirs. A name that the client gave them stays, and
/// is refused later if it is not the job's.
pub(crate) fn name_job_pods(document: &mut Value) {
    let own = name(document).to_owned();
    if own.is_empty() {
        return;
    }
    if selects_its_pods(document) {
        let labels = fields(document, &["spec", "template", "metadata", "labels"]);
        for label in ["job-name", "batch.kubernetes.io/job-name"] {
            labels.entry(label).or_insert_with(|| own.as_str().into());
        }
    }
    label_job(document);
}

/// A job without labels has those of its pods.
fn label_job(job: &mut Value) {
    let labels = at(job, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels.filter(|_| at(job, &["metadata", "labels"]).is_none()) {
        fields(job, &["metadata"]).insert("labels".to_owned(), labels);
    }
}

fn own_job_pods(document: &mut Value, uid: &str) {
    if selects_its_pods(document) {
        let labels = fields(document, &["spec", "template", "metadata", "labels"]);
        for label in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
            labels.entry(label).or_insert_with(|| uid.into());
        }
        let selector = fields(document, &["spec", "selector", "matchLabels"]);
        selector.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
    }
    name_job_pods(document);
}

/// What this server answers itself is available at once.
fn local_is_available(service: &mut Value, now: Timestamp) {
    if at(service, &["spec", "service"]).is_none_or(Value::is_null) {
        service["status"] = json!({"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": schema::time(now),
            "reason": "Local", "message": "Local APIServices are always available",
        }]});
    }
}

/// A definition remembers every version in which objects of its kind may be stored.
fn remember_stored_version(definition: &mut Value) {
    let is_stored = |version: &&Value| at(version, &["storage"]) == Some(&Value::Bool(true));
    let stored = list(definition, &["spec", "versions"]).iter().find(is_stored);
    let Some(stored) = stored.and_then(|version| at(version, &["name"])).cloned() else { return };
    let mut all = list(definition, &["status", "storedVersions"]).to_vec();
    if !all.contains(&stored) {
        all.push(stored);
        fields(definition, &["status"]).insert("storedVersions".to_owned(), Value::Array(all));
    }
}

fn sign_by(document: &mut Value, who: &Requester) {
    let spec = fields(document, &["spec"]);
    crate::value::set_text(spec, "username", &who.name);
    crate::value::set_text(spec, "uid", &who.uid);
    set(spec, "groups", (!who.groups.is_empty()).then(|| json!(who.groups)));
    set(spec, "extra", (!who.extra.is_empty()).then(|| json!(who.extra)));
}

/// What no client changes: identity and, once set, the mark of deletion.
fn keep_metadata(new: &mut Value, old: &Value) {
    let metadata = fields(new, &["metadata"]);
    let old = &old["metadata"];
    for kept in ["creationTimestamp", "generation"] {
        set(metadata, kept, old.get(kept).cloned());
    }
    for kept in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(kept).is_none_or(Value::is_null) {
            set(metadata, kept, old.get(kept).cloned());
        }
    }
}

fn prepare_main_update(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.subresource("status").is_some() {
        set(fields(new, &[]), "status", old.get("status").cloned());
    }
    match kind.ty.name {
        "core.v1.Namespace" => {
            label_namespace(new);
            set(fields(new, &["spec"]), "finalizers", at(old, &["spec", "finalizers"]).cloned());
        }
        "core.v1.Pod" => keep_admitted(new, old),
        "core.v1.Service" => {
            drop_what_its_type_had(new, old);
            drop_internal_traffic_of_names(new);
            keep_service_addresses(new, old);
        }
        "core.v1.ServiceAccount" => keep_names_of_secrets(new),
        "core.v1.PersistentVolumeClaim" => agree_on_data_source(new, Some(old)),
        "apiextensions.v1.CustomResourceDefinition" => remember_stored_version(new),
        "autoscaling.v1.HorizontalPodAutoscaler" => keep_notes(new, old, &STATUS_NOTES),
        "apps.v1.DaemonSet" => {
            let generation =
                text(old, &["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(0);
            let changed = at(new, &["spec", "template"]) != at(old, &["spec", "template"]);
            set_template_generation(new, if changed { generation + 1 } else { generation });
        }
        "certificates.v1.CertificateSigningRequest" => {
            set(fields(new, &[]), "spec", old.get("spec").cloned())
        }
        _ => {}
    }
    if counts(kind.generation, new, old) {
        bump(new, old);
    }
}

fn counts(generation: Generation, new: &Value, old: &Value) -> bool {
    let differ = |path: &[&str]| {
        let part = |document| at(document, path).unwrap_or(&Value::Null);
        !same(part(new), part(old))
    };
    let content = |document: &Value, without_status: bool| -> Value {
        let fields = document.as_object().cloned().unwrap_or_default();
        let skipped = |name: &str| name == "metadata" || (without_status && name == "status");
        fields.into_iter().filter(|(name, _)| !skipped(name)).collect::<Map<_, _>>().into()
    };
    match generation {
        Generation::Unmanaged | Generation::Once => false,
        Generation::Spec | Generation::SpecOnceCreated => differ(&["spec"]),
        Generation::SpecOrAnnotations => differ(&["spec"]) || differ(&["metadata", "annotations"]),
        Generation::Content => !same(&content(new, true), &content(old, true)),
        Generation::ContentOrLabels => {
            !same(&content(new, false), &content(old, false)) || differ(&["metadata", "labels"])
        }
    }
}

fn bump(new: &mut Value, old: &Value) {
    let generation = integer(old, &["metadata", "generation"]).unwrap_or(0);
    fields(new, &["metadata"]).insert("generation".to_owned(), (generation + 1).into());
}

fn prepare_status_update(kind: &Kind, new: &mut Value, old: &Value, now: Timestamp) {
    let (mut metadata, status) = (new["metadata"].take(), new.get("status").cloned());
    match kind.ty.name {
        "apps.v1.Deployment" => {
            set(fields(&mut metadata, &[]), "labels", at(old, &["metadata", "labels"]).cloned())
        }
        "core.v1.Pod" => {
            let owners = at(old, &["metadata", "ownerReferences"]).cloned();
            set(fields(&mut metadata, &[]), "ownerReferences", owners);
        }
        _ => {}
    }
    if kind.status_keeps_metadata {
        for kept in ["labels", "annotations", "finalizers", "ownerReferences"] {
            set(fields(&mut metadata, &[]), kept, at(old, &["metadata", kept]).cloned());
        }
    }
    let conditions = at(old, &["status", "conditions"]).cloned();
    *new = old.clone();
    new["metadata"] = metadata;
    set(fields(new, &[]), "status", status);
    match kind.ty.name {
        "core.v1.PersistentVolume" => date_phase(new, old, now),
        "core.v1.Pod" => {
            let status = fields(new, &["status"]);
            if status.get("qosClass").is_none_or(Value::is_null) {
                set(status, "qosClass", at(old, &["status", "qosClass"]).cloned());
            }
        }
        "core.v1.Namespace" => label_namespace(new),
        "autoscaling.v1.HorizontalPodAutoscaler" => keep_notes(new, old, &SPEC_NOTES),
        "certificates.v1.CertificateSigningRequest" => {
            keep_approval(new, conditions.as_ref());
            date_conditions(new, conditions.as_ref(), now);
        }
        _ => {}
    }
}

/// A volume says since when it has its phase.
fn date_phase(new: &mut Value, old: &Value, now: Timestamp) {
    let (phase, before) = (text(new, &["status", "phase"]).to_owned(), text(old, &["status", "phase"]));
    let (given, known) =
        (at(new, &["status", "lastPhaseTransitionTime"]), at(old, &["status", "lastPhaseTransitionTime"]));
    let at = match given {
        Some(given) if Some(given) != known => given.clone(),
        _ if phase != before => schema::time(now).into(),
        _ => known.cloned().unwrap_or_default(),
    };
    set(fields(new, &["status"]), "lastPhaseTransitionTime", (!at.is_null()).then_some(at));
}

/// The status of a certificate request says what was signed; who may be trusted is said elsewhere.
fn keep_approval(new: &mut Value, old: Option<&Value>) {
    let is_approval = |condition: &Value| matches!(text(condition, &["type"]), "Approved" | "Denied");
    let kept = old.and_then(Value::as_array).into_iter().flatten().filter(|c| is_approval(c)).cloned();
    let others = list(new, &["status", "conditions"]).iter().filter(|c| !is_approval(c)).cloned();
    let all: Vec<Value> = kept.chain(others).collect();
    set(fields(new, &["status"]), "conditions", (!all.is_empty()).then_some(Value::Array(all)));
}

/// Says of conditions when they were written and when they came to be, where their writer does not.
fn date_conditions(new: &mut Value, old: Option<&Value>, now: Timestamp) {
    let now = Value::from(schema::time(now));
    let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let conditions = fields(new, &["status"]).get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let is_same =
            |other: &&Value| ["type", "status"].iter().all(|name| other.get(name) == condition.get(name));
        let began = old.iter().filter(is_same).find_map(|same| at(same, &["lastTransitionTime"]));
        let began = began.unwrap_or(&now).clone();
        for (field, moment) in [("lastUpdateTime", now.clone()), ("lastTransitionTime", began)] {
            if at(condition, &[field]).is_none() {
                fields(condition, &[]).insert(field.to_owned(), moment);
            }
        }
    }
}

/// Fields that the API has, but no server of this version keeps unless a feature gate that is off by default is on.
fn drop_disabled_fields(kind: &Kind, document: &mut Value) {
    match kind.ty.name {
        "core.v1.Pod" => {
            drop_disabled_pod_fields(fields(document, &["spec"]));
            if let Some(status) = document.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("nodeAllocatableResourceClaimStatuses");
                for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
                    for container in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        for mount in list_mut(container, "/volumeMounts") {
                            fields(mount, &[]).remove("volumeStatus");
                        }
                    }
                }
            }
        }
        "core.v1.PodTemplate" => drop_disabled_template_fields(document.pointer_mut("/template/spec")),
        "batch.v1.CronJob" => {
            drop_disabled_template_fields(document.pointer_mut("/spec/jobTemplate/spec/template/spec"));
        }
        "apps.v1.StatefulSet" => {
            let rolling = document.pointer_mut("/spec/updateStrategy/rollingUpdate");
            if let Some(rolling) = rolling.and_then(Value::as_object_mut) {
                rolling.remove("maxUnavailable");
            }
            for claim in list_mut(document, "/spec/volumeClaimTemplates") {
                let claim = fields(claim, &[]);
                claim.insert("apiVersion".to_owned(), "v1".into());
                claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
            }
            drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
        }
        "apps.v1.Deployment"
        | "apps.v1.ReplicaSet"
        | "apps.v1.DaemonSet"
        | "batch.v1.Job"
        | "core.v1.ReplicationController" => {
            drop_disabled_template_fields(document.pointer_mut("/spec/template/spec"));
        }
        "core.v1.Node" => {
            fields(document, &["spec"]).remove("configSource");
            if let Some(status) = document.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("config");
            }
        }
        "coordination.v1.Lease" => {
            let spec = fields(document, &["spec"]);
            spec.remove("strategy");
            spec.remove("preferredHolder");
        }
        "storage.v1.CSIDriver" => drop(fields(document, &["spec"]).remove("preventPodSchedulingIfMissing")),
        "discovery.v1.EndpointSlice" => {
            for endpoint in list_mut(document, "/endpoints") {
                fields(endpoint, &[]).remove("deprecatedTopology");
            }
        }
        "resource.v1.ResourceSlice" => {
            for device in list_mut(document, "/spec/devices") {
                fields(device, &[]).remove("nodeAllocatableResourceMappings");
                let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
                for (_, attribute) in attributes.into_iter().flatten() {
                    if let Some(attribute) = attribute.as_object_mut() {
                        attribute.retain(|name, _| {
                            !["bools", "ints", "strings", "versions"].contains(&name.as_str())
                        });
                    }
                }
            }
        }
        _ => {}
    }
}

fn drop_disabled_template_fields(spec: Option<&mut Value>) {
    if let Some(spec) = spec.and_then(Value::as_object_mut) {
        drop_disabled_pod_fields(spec);
    }
}

fn drop_disabled_pod_fields(spec: &mut Map<String, Value>) {
    spec.remove("schedulingGroup");
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for source in list_mut(volume, "/projected/sources") {
            let source = fields(source, &[]);
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else {
                continue;
            };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
}

/// The two fields that say what a claim begins with say the same. Alone and new, the older one knows only claims and
/// snapshots: what else it names is dropped. Nothing comes from another namespace unless it already did.
fn agree_on_data_source(claim: &mut Value, old: Option<&Value>) {
    let had = |name: &str| old.is_some_and(|old| at(old, &["spec", name]).is_some_and(|had| !had.is_null()));
    let spec = fields(claim, &["spec"]);
    spec.retain(|name, value| !matches!(name.as_str(), "dataSource" | "dataSourceRef") || !value.is_null());
    let is_elsewhere =
        spec.get("dataSourceRef").is_some_and(|source| !text(source, &["namespace"]).is_empty());
    if is_elsewhere && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let is_known = |source: &Value| {
        matches!(
            (text(source, &["kind"]), text(source, &["apiGroup"])),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        )
    };
    let is_alone = !spec.contains_key("dataSourceRef") && !had("dataSource") && !had("dataSourceRef");
    if is_alone && spec.get("dataSource").is_some_and(|source| !is_known(source)) {
        spec.remove("dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) if !source.is_null() => {
            let mut reference = source;
            fields(&mut reference, &[]).entry("apiGroup").or_insert(Value::Null);
            spec.insert("dataSourceRef".to_owned(), reference);
        }
        (None, Some(mut source)) if text(&source, &["namespace"]).is_empty() && !source.is_null() => {
            fields(&mut source, &[]).remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

/// Of the secrets of a service account only the names count.
fn keep_names_of_secrets(account: &mut Value) {
    for secret in list_mut(account, "/secrets") {
        if let Some(secret) = secret.as_object_mut() {
            secret.retain(|field, _| field == "name");
        }
    }
}

/// A client that knows one address only says that one; the list follows.
fn list_the_address(service: &mut Value) {
    let given = text(service, &["spec", "clusterIP"]).to_owned();
    if !given.is_empty() && list(service, &["spec", "clusterIPs"]).is_empty() {
        fields(service, &["spec"]).insert("clusterIPs".to_owned(), json!([given]));
    }
}

/// What the cluster added to a pod stays, though its client need not know of it.
fn keep_admitted(new: &mut Value, old: &Value) {
    for kept in ["priority", "preemptionPolicy"] {
        if at(new, &["spec", kept]).is_none() {
            set(fields(new, &["spec"]), kept, at(old, &["spec", kept]).cloned());
        }
    }
    tolerate_for_a_while(new);
}

/// What a service had because of its type goes with the type, unless the client says otherwise: a patch of the type alone
/// carries it along.
fn drop_what_its_type_had(new: &mut Value, old: &Value) {
    fn is(service: &Value, types: &[&str]) -> bool {
        types.contains(&text(service, &["spec", "type"]))
    }
    let has_address = |service: &Value| !is(service, &["ExternalName"]);
    let has_node_ports = |service: &Value| is(service, &["NodePort", "LoadBalancer"]);
    let is_balanced = |service: &Value| is(service, &["LoadBalancer"]);
    let checks_health = |service: &Value| {
        is_balanced(service) && text(service, &["spec", "externalTrafficPolicy"]) == "Local"
    };
    let is_reachable = |service: &Value| {
        has_node_ports(service)
            || (is(service, &["ClusterIP"]) && !list(service, &["spec", "externalIPs"]).is_empty())
    };
    let no_longer = |needs: &dyn Fn(&Value) -> bool, new: &Value| needs(old) && !needs(new);
    let mut gone: Vec<&[&str]> = Vec::new();
    if no_longer(&has_address, new) {
        gone.extend([&["clusterIP", "clusterIPs"][..], &["ipFamilies"], &["ipFamilyPolicy"]]);
    }
    if no_longer(&checks_health, new) {
        gone.push(&["healthCheckNodePort"]);
    }
    if no_longer(&is_balanced, new) {
        gone.extend([&["allocateLoadBalancerNodePorts"][..], &["loadBalancerClass"]]);
    }
    if no_longer(&is_reachable, new) {
        gone.push(&["externalTrafficPolicy"]);
    }
    let ports_of = |service: &Value| -> Vec<i64> {
        list(service, &["spec", "ports"])
            .iter()
            .map(|port| integer(port, &["nodePort"]).unwrap_or_default())
            .collect()
    };
    let drops_node_ports =
        no_longer(&has_node_ports, new) && ports_of(new).iter().all(|port| ports_of(old).contains(port));
    if !is_balanced(new) {
        set(fields(new, &["status"]), "loadBalancer", Some(json!({})));
    }
    let spec = fields(new, &["spec"]);
    for together in gone {
        if together.iter().all(|name| spec.get(*name) == old["spec"].get(*name)) {
            spec.retain(|name, _| !together.contains(&name.as_str()));
        }
    }
    if drops_node_ports {
        for port in list_mut(new, "/spec/ports") {
            fields(port, &[]).remove("nodePort");
        }
    }
}

/// A service that is a mere name has no traffic within the cluster. What is no policy at all stays, and is refused later.
fn drop_internal_traffic_of_names(service: &mut Value) {
    let is_known = matches!(text(service, &["spec", "internalTrafficPolicy"]), "Cluster" | "Local");
    if is_known && text(service, &["spec", "type"]) == "ExternalName" {
        fields(service, &["spec"]).remove("internalTrafficPolicy");
    }
}

/// A service that does not speak of its addresses keeps them.
fn keep_service_addresses(new: &mut Value, old: &Value) {
    let needs_address = |service: &Value| text(service, &["spec", "type"]) != "ExternalName";
    if !needs_address(new) {
        // One that is asked for all the same is refused later.
        if text(new, &["spec", "clusterIP"]) != text(old, &["spec", "clusterIP"]) {
            list_the_address(new);
        }
        return;
    }
    if !needs_address(old) {
        list_the_address(new);
    } else {
        let given = text(new, &["spec", "clusterIP"]).to_owned();
        let several = list(new, &["spec", "clusterIPs"]).to_vec();
        let old_one = text(old, &["spec", "clusterIP"]);
        let spec = fields(new, &["spec"]);
        if given.is_empty() && several.is_empty() {
            for kept in ["clusterIP", "clusterIPs"] {
                set(spec, kept, at(old, &["spec", kept]).cloned());
            }
        } else if given.is_empty() && !several.is_empty() {
            spec.insert("clusterIP".to_owned(), several[0].clone());
        } else if given != old_one || several.is_empty() {
            // A client that knows one field only changes that one; the list follows.
            let unchanged = at(old, &["spec", "clusterIPs"]).and_then(Value::as_array) == Some(&several);
            if several.is_empty() || unchanged {
                spec.insert("clusterIPs".to_owned(), json!([given]));
            }
        }
        for kept in ["ipFamilies", "ipFamilyPolicy"] {
            if spec.get(kept).is_none_or(Value::is_null) {
                set(spec, kept, at(old, &["spec", kept]).cloned());
            }
        }
    }
    keep_node_ports(new, old);
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let has_node_ports =
        |service: &Value| matches!(text(service, &["spec", "type"]), "NodePort" | "LoadBalancer");
    if !has_node_ports(new) || !has_node_ports(old) {
        return;
    }
    let same = |a: &Value, b: &Value| {
        a.get("port") == b.get("port") && text(a, &["protocol"]) == text(b, &["protocol"])
    };
    let old_ports = list(old, &["spec", "ports"]).to_vec();
    let taken: Vec<i64> =
        list(new, &["spec", "ports"]).iter().filter_map(|port| integer(port, &["nodePort"])).collect();
    let ports = list_mut(new, "/spec/ports");
    for port in ports.filter(|port| integer(port, &["nodePort"]).unwrap_or(0) == 0) {
        let kept = old_ports.iter().find(|old| same(old, port)).and_then(|old| integer(old, &["nodePort"]));
        if let Some(kept) = kept.filter(|kept| !taken.contains(kept)) {
            port["nodePort"] = kept.into();
        }
    }
    let health = at(old, &["spec", "healthCheckNodePort"]).cloned();
    let spec = fields(new, &["spec"]);
    if spec.get("externalTrafficPolicy").and_then(Value::as_str) == Some("Local")
        && !spec.contains_key("healthCheckNodePort")
    {
        set(spec, "healthCheckNodePort", health);
    }
}

fn resize(new: &mut Value, wanted: &Value, kind: &str) {
    let wanted = list(wanted, &["spec", kind]);
    for container in new["spec"].get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
        let same = wanted.iter().find(|other| text(other, &["name"]) == text(container, &["name"]));
        if let Some(same) = same {
            for field in ["resources", "resizePolicy"] {
                set(fields(container, &[]), field, same.get(field).cloned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Here and not over REST, because definitions are refused there as long as nothing serves what they define.
    #[test]
    fn a_definition_remembers_every_version_in_which_objects_may_be_stored() {
        let kind = crate::kinds::find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
        let definition =
            |versions: Value| json!({"metadata": {"name": "a.b"}, "spec": {"versions": versions}});
        let now = Timestamp::now();
        let mut made = definition(json!([version("v1", true)]));
        prepare_create(kind, &mut made, "", now, &Requester::default());
        assert_eq!(made["status"]["storedVersions"], json!(["v1"]));

        let mut changed = definition(json!([version("v2", true), version("v1", false)]));
        prepare_update(kind, Part::Main, &mut changed, &made, now);
        assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));

        let mut dropped = changed.clone();
        dropped["status"]["storedVersions"] = json!(["v2"]);
        prepare_update(kind, Part::Status, &mut dropped, &changed, now);
        assert_eq!(
            dropped["status"]["storedVersions"],
            json!(["v2"]),
            "whoever moved the objects may say so"
        );
    }
}
