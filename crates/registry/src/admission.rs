//! What must be so around an object before it is written, and what the cluster adds to it.
//!
//! These are the steps of Kubernetes' admission that every cluster has and clients notice. They look at other objects, so
//! they come before the write and not inside it.

use crate::{
    kind::Kind,
    kinds::known,
    rest::{Registry, Target, document_of},
    value::{at, fields, integer, is_deleting, list, name, text},
};
use keepwatch_apimachinery::{
    list_options::Position,
    meta::Qualified,
    status::{Cause, Status},
};
use keepwatch_storage::{ListRequest, Object, Unchanged};
use serde_json::{Map, Value, json};

/// The namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What is told to whoever writes an object that asks for something this server does not do yet.
pub(crate) fn not_enforced(ty: &str, document: &Value) -> Option<&'static str> {
    let group = ty.rsplit_once('.').map_or(ty, |(group, _)| group);
    let is_secured = || {
        let labels = at(document, &["metadata", "labels"]).and_then(Value::as_object);
        labels
            .is_some_and(|labels| labels.keys().any(|label| label.starts_with("pod-security.kubernetes.io/")))
    };
    match (group, ty) {
        (_, "core.v1.Namespace") if is_secured() => {
            Some("levels of pod security are kept but not enforced yet")
        }
        ("rbac.v1", _) => {
            Some("roles are kept but not enforced yet: every authenticated user may do everything")
        }
        ("admissionregistration.v1", _) => {
            Some("webhooks and admission policies are kept but not called yet")
        }
        (_, "core.v1.ResourceQuota" | "core.v1.LimitRange") => {
            Some("quotas and limit ranges are kept but not enforced yet")
        }
        (_, "apiregistration.v1.APIService")
            if at(document, &["spec", "service"]).is_some_and(|service| !service.is_null()) =>
        {
            Some("requests are not passed on to other API servers yet")
        }
        _ => None,
    }
}

/// A new object that may be written.
pub(crate) struct Admitted {
    /// What must not change until it is.
    pub(crate) unchanged: Option<Unchanged>,
    /// Why it is refused, if nothing is found wrong with its fields.
    pub(crate) refused_if_valid: Option<Status>,
}

impl Registry {
    /// Adds to a new object, before it is validated, what the cluster gives it.
    pub(crate) async fn admit_create(
        &self,
        target: Target<'_>,
        document: &mut Value,
    ) -> Result<Admitted, Status> {
        let unchanged = match target.kind.namespaced {
            true => self.must_take_new_content(target, name(document), Position::Any).await?,
            false => None,
        };
        let mut refused_if_valid = None;
        match target.kind.ty.name {
            "apiextensions.v1.CustomResourceDefinition" => {
                let mut status = Status::method_not_supported(target.qualified(), "create");
                status.message =
                    "custom resources are not served yet, so their definitions are not taken".to_owned();
                return Err(status);
            }
            "core.v1.Pod" => {
                self.set_priority(document).await?;
                refused_if_valid = self.apply_runtime_class(document).await?;
                tolerate_for_a_while(document);
            }
            "core.v1.Node" => taint_until_ready(document),
            "core.v1.PersistentVolume" => protect(document, "kubernetes.io/pv-protection"),
            "core.v1.PersistentVolumeClaim" => {
                protect(document, "kubernetes.io/pvc-protection");
                self.set_storage_class(document).await?;
            }
            "networking.v1.Ingress" => self.set_ingress_class(document).await?,
            _ => {}
        }
        Ok(Admitted { unchanged, refused_if_valid })
    }

    pub(crate) async fn admit_update(&self, target: Target<'_>) -> Result<(), Status> {
        if target.kind.namespaced {
            self.namespace(target.namespace, Position::Any).await?;
        }
        Ok(())
    }

    pub(crate) fn admit_delete(&self, target: Target<'_>) -> Result<(), Status> {
        if target.kind.ty.name == "core.v1.Namespace" && IMMORTAL.contains(&target.name) {
            return Err(Status::forbidden(
                target.qualified(),
                target.name,
                "this namespace may not be deleted",
            ));
        }
        Ok(())
    }

    /// A namespace, as fresh as it has to be: one that is not known yet, or known to end, may just have been made (anew).
    async fn namespace(&self, name: &str, position: Position) -> Result<Object, Status> {
        let target = Target { kind: known("", "namespaces"), namespace: "", name };
        match self.get(target, position).await {
            Ok(namespace) if !is_ending(&namespace) => Ok(namespace),
            Err(status) if status.code != 404 => Err(status),
            _ => self.get(target, Position::MostRecent).await,
        }
    }

    /// A namespace that is being deleted takes nothing new, be it an object or something under the name of one. That it
    /// takes an object is sure only as long as what is returned does not change.
    pub(crate) async fn must_take_new_content(
        &self,
        target: Target<'_>,
        new: &str,
        position: Position,
    ) -> Result<Option<Unchanged>, Status> {
        if target.kind.plural == "localsubjectaccessreviews" {
            return Ok(None);
        }
        let namespace = self.namespace(target.namespace, position).await?;
        if !is_ending(&namespace) {
            return Ok(Some(Unchanged { key: namespace.key.clone(), modified: namespace.revision }));
        }
        let place = target.namespace;
        let why = format!("unable to create new content in namespace {place} because it is being terminated");
        let mut status = Status::forbidden(target.qualified(), new, &why);
        let message = format!("namespace {place} is being terminated");
        if let Some(details) = &mut status.details {
            details.causes = vec![Cause::new("NamespaceTerminating", message, "metadata.namespace")];
        }
        Err(status)
    }

    /// All objects of a resource that have this text in them.
    async fn all(&self, kind: &Kind, text: &str) -> Result<Vec<Value>, Status> {
        let target = Target { kind, namespace: "", name: "" };
        let Some(storage) = self.storage(kind) else { return Ok(Vec::new()) };
        let request =
            ListRequest { at: keepwatch_apimachinery::list_options::ListAt::Any, ..ListRequest::all() };
        let listed =
            storage.get_list(&target.key(), request).await.map_err(|error| target.failure("list", error))?;
        let items = listed.items.iter().filter(|object| mentions(object, text));
        Ok(items.map(|object| document_of(&object.value, None)).collect())
    }

    async fn set_priority(&self, pod: &mut Value) -> Result<(), Status> {
        let wanted = text(pod, &["spec", "priorityClassName"]).to_owned();
        let classes = known("scheduling.k8s.io", "priorityclasses");
        let class = if wanted.is_empty() {
            let is_default = |class: &Value| at(class, &["globalDefault"]) == Some(&Value::Bool(true));
            let defaults = self.all(classes, "\"globalDefault\"").await?.into_iter().filter(is_default);
            defaults.min_by_key(|class| integer(class, &["value"]).unwrap_or(0))
        } else {
            let target = Target { kind: classes, namespace: "", name: &wanted };
            let found = match self.get(target, Position::Any).await {
                Err(status) if status.code == 404 => self.get(target, Position::MostRecent).await,
                other => other,
            };
            match found {
                Ok(object) => Some(document_of(&object.value, None)),
                Err(status) if status.code == 404 => {
                    let why = format!("no PriorityClass with name {wanted} was found");
                    return Err(Status::forbidden(Qualified::core("pods"), name(pod), &why));
                }
                Err(status) => return Err(status),
            }
        };
        let value =
            class.as_ref().and_then(|class| at(class, &["value"])).and_then(Value::as_i64).unwrap_or(0);
        let policy = class
            .as_ref()
            .map(|class| text(class, &["preemptionPolicy"]))
            .filter(|policy| !policy.is_empty());
        let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
        if let Some(given) =
            at(pod, &["spec", "priority"]).and_then(Value::as_i64).filter(|given| *given != value)
        {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            );
            return Err(Status::forbidden(Qualified::core("pods"), name(pod), &why));
        }
        let given = text(pod, &["spec", "preemptionPolicy"]);
        if !given.is_empty() && given != policy {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(Status::forbidden(Qualified::core("pods"), name(pod), &why));
        }
        let own_name = class.as_ref().filter(|_| wanted.is_empty()).map(|class| name(class).to_owned());
        let spec = fields(pod, &["spec"]);
        if let Some(own_name) = own_name {
            spec.insert("priorityClassName".to_owned(), own_name.into());
        }
        spec.insert("priority".to_owned(), value.into());
        spec.insert("preemptionPolicy".to_owned(), policy.into());
        Ok(())
    }

    /// Adds what the runtime of a pod needs to what the pod needs. Returns why the pod is refused once it is valid.
    async fn apply_runtime_class(&self, pod: &mut Value) -> Result<Option<Status>, Status> {
        let wanted = text(pod, &["spec", "runtimeClassName"]).to_owned();
        let refusal = |pod: &Value, why: &str| {
            Status::forbidden(Qualified::core("pods"), name(pod), &format!("pod rejected: {why}"))
        };
        let refused = |pod: &Value, why: &str| Err(refusal(pod, why));
        let mut refused_if_valid = None;
        let is_empty = |amounts: &Value| amounts.as_object().is_none_or(Map::is_empty);
        let given = at(pod, &["spec", "overhead"]).filter(|amounts| !is_empty(amounts)).cloned();
        let class = match at(pod, &["spec", "runtimeClassName"]) {
            None => Value::Null,
            Some(_) => {
                let kind = known("node.k8s.io", "runtimeclasses");
                let target = Target { kind, namespace: "", name: &wanted };
                let found = match self.get(target, Position::Any).await {
                    Err(status) if status.code == 404 => self.get(target, Position::MostRecent).await,
                    other => other,
                };
                match found {
                    Ok(object) => document_of(&object.value, None),
                    Err(status) if status.code == 404 => {
                        return refused(pod, &format!("RuntimeClass {wanted:?} not found"));
                    }
                    Err(status) => return Err(status),
                }
            }
        };
        match (at(&class, &["overhead", "podFixed"]), given) {
            (None, Some(_)) => {
                let why = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
                refused_if_valid = Some(refusal(pod, why));
            }
            (Some(own), Some(given)) if *own != given => {
                return refused(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead");
            }
            (Some(own), _) => drop(fields(pod, &["spec"]).insert("overhead".to_owned(), own.clone())),
            (None, None) => {}
        }
        let selector = at(&class, &["scheduling", "nodeSelector"]).and_then(Value::as_object);
        for (key, value) in selector.into_iter().flatten() {
            let own = fields(pod, &["spec", "nodeSelector"]);
            let there = own.entry(key.clone()).or_insert_with(|| value.clone()).clone();
            if there != *value {
                let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (theirs, ours) = (shown(value), shown(&there));
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {theirs}; pod.spec.nodeSelector[{key}] = {ours}"
                );
                return refused(pod, &why);
            }
        }
        let tolerations = crate::value::list(&class, &["scheduling", "tolerations"]).to_vec();
        if !tolerations.is_empty() {
            let own = fields(pod, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
            if let Some(own) = own.as_array_mut() {
                let new: Vec<Value> =
                    tolerations.into_iter().filter(|toleration| !own.contains(toleration)).collect();
                own.extend(new);
            }
        }
        Ok(refused_if_valid)
    }

    async fn set_storage_class(&self, claim: &mut Value) -> Result<(), Status> {
        if at(claim, &["spec", "storageClassName"]).is_some() {
            return Ok(());
        }
        let annotation = "storageclass.kubernetes.io/is-default-class";
        let classes = self.all(known("storage.k8s.io", "storageclasses"), annotation).await?;
        let newest = newest_default(&classes, annotation);
        if let Some(class) = newest {
            fields(claim, &["spec"]).insert("storageClassName".to_owned(), class.into());
        }
        Ok(())
    }

    async fn set_ingress_class(&self, ingress: &mut Value) -> Result<(), Status> {
        let given = at(ingress, &["spec", "ingressClassName"]).is_some()
            || at(ingress, &["metadata", "annotations", "kubernetes.io/ingress.class"]).is_some();
        if given {
            return Ok(());
        }
        let annotation = "ingressclass.kubernetes.io/is-default-class";
        let classes = self.all(known("networking.k8s.io", "ingressclasses"), annotation).await?;
        if let Some(class) = newest_default(&classes, annotation) {
            fields(ingress, &["spec"]).insert("ingressClassName".to_owned(), class.into());
        }
        Ok(())
    }
}

/// Whether a namespace is being deleted. Every write asks, and hardly any namespace has even the word in it.
fn is_ending(namespace: &Object) -> bool {
    mentions(namespace, "\"deletionTimestamp\"") && is_deleting(&document_of(&namespace.value, None))
}

/// Whether a text stands anywhere in an object as it is stored. Cheaper than reading it.
fn mentions(object: &Object, text: &str) -> bool {
    memchr::memmem::find(&object.value, text.as_bytes()).is_some()
}

/// The name of the newest object that an annotation makes the default.
fn newest_default<'a>(classes: &'a [Value], annotation: &str) -> Option<&'a str> {
    let defaults =
        classes.iter().filter(|class| text(class, &["metadata", "annotations", annotation]) == "true");
    let newest = defaults.max_by(|a, b| {
        let created = |class: &'a Value| text(class, &["metadata", "creationTimestamp"]);
        created(a).cmp(created(b)).then_with(|| name(b).cmp(name(a)))
    });
    newest.map(name)
}

/// How long a pod stays on a node that does not answer, in seconds.
const TOLERATED_SECONDS: i64 = 300;

pub(crate) fn tolerate_for_a_while(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            let (own, effect) = (text(toleration, &["key"]), text(toleration, &["effect"]));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if list(pod, &["spec", "tolerations"]).iter().any(covers) {
            continue;
        }
        let tolerations = fields(pod, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
        if let Some(tolerations) = tolerations.as_array_mut() {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

fn taint_until_ready(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let tainted = |taint: &Value| text(taint, &["key"]) == key && text(taint, &["effect"]) == "NoSchedule";
    if list(node, &["spec", "taints"]).iter().any(tainted) {
        return;
    }
    let taints = fields(node, &["spec"]).entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
}

pub(crate) fn protect(document: &mut Value, finalizer: &str) {
    if crate::value::finalizers(document).iter().any(|own| own == finalizer) {
        return;
    }
    let own = fields(document, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(own) = own.as_array_mut() {
        own.push(finalizer.into());
    }
}
