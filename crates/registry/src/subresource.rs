//! What lies under the name of an object and is no part of it: scale, binding, eviction, tokens.

use crate::{
    codec::Expected,
    deletion::must_meet,
    kind::Kind,
    kinds::known,
    options::{DeleteOptions, FieldValidation, WriteOptions},
    rest::{
        Attempts, Change, Handled, Patch, Registry, Target, apply_patch, convert_from_stored, document_of,
        must_be_based_on, must_have_uid,
    },
    schema::{self, Timestamp},
    strategy::{Part, Requester},
    value::{at, fields, integer, list, name, set, text},
};
use keepwatch_apimachinery::{
    list_options::{ListAt, Position},
    meta::Qualified,
    selector::{Operator, Requirement},
    status::{Cause, Status},
};
use keepwatch_storage::{Existing, ListRequest, Object};
use serde_json::{Map, Value, json};

/// Makes tokens for service accounts.
pub trait TokenIssuer: Send + Sync {
    /// A token that says the claims, signed.
    fn issue(&self, claims: &Value) -> Result<String, Status>;
    /// Who issues it, and for whom if the client does not say.
    fn issuer(&self) -> &str;
}

/// The name of a scale in paths and messages.
const SCALE: Qualified<'static> = Qualified::new("autoscaling", "Scale");

impl Registry {
    /// How many of something there are to be.
    pub async fn scale(&self, target: Target<'_>) -> Result<Value, Status> {
        let object = self.get(target, Position::MostRecent).await?;
        Ok(scale_of(target.kind, &object))
    }

    /// Changes how many there are to be.
    pub async fn set_scale(
        &self,
        target: Target<'_>,
        change: Change<'_>,
        options: &WriteOptions,
        who: &Requester,
    ) -> Result<(Value, Vec<String>), Status> {
        let mut warnings = Vec::new();
        let storage = self.storage(target.kind).ok_or_else(|| target.not_found())?;
        let (key, mut attempts) = (target.key(), Attempts::new(options.dry_run));
        while let Some(existing) = attempts.next(storage.as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failure("get", error))?;
            let object = object.ok_or_else(|| target.not_found())?;
            let (document, names_version) = match scaled(target, &change, &object, &mut warnings) {
                Err(_) if !is_current => continue,
                scaled => scaled?,
            };
            match self.update(target, Part::Main, Change::Replace(document), options, who).await {
                // Somebody wrote in between; only whoever named a version wants to know.
                Err(refusal) if refusal.status.code == 409 && !(names_version && is_current) => continue,
                Err(refusal) => return Err(refusal.into()),
                Ok(written) => {
                    warnings.extend(written.warnings);
                    return Ok((scale_of_document(target.kind, written.shown.document()), warnings));
                }
            }
        }
        Err(Status::modified(target.qualified(), target.name))
    }

    /// Puts a pod on a node.
    pub async fn bind(&self, target: Target<'_>, binding: &Value, dry_run: bool) -> Result<Handled, Status> {
        let pods = Target { kind: known("", "pods"), ..target };
        self.must_take_new_content(pods, pods.name, Position::Any).await?;
        let place = Qualified::core("pods/binding");
        let node = text(binding, &["target", "name"]);
        let kind = text(binding, &["target", "kind"]);
        let mut causes = Vec::new();
        if !kind.is_empty() && kind != "Node" {
            causes.push(Cause::not_supported("target.kind", kind, &["Node", "<empty>"]));
        }
        if node.is_empty() {
            causes.push(Cause::required("target.name", ""));
        }
        if !causes.is_empty() {
            return Err(Status::invalid(Qualified::core("Binding"), target.name, causes));
        }
        let change = |pod: &mut Value| -> Result<(), Status> {
            for (field, label) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
                let (wanted, found) = (text(binding, &["metadata", field]), text(pod, &["metadata", field]));
                if !wanted.is_empty() && wanted != found {
                    let why = format!(
                        "Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
                    );
                    return Err(Status::conflict(place, target.name, &why));
                }
            }
            bind_pod(pod, node, binding).map_err(|why| Status::conflict(place, target.name, &why))
        };
        self.change_stored(pods, dry_run, change).await?;
        Ok(Handled::Status(Status::done(201)))
    }

    /// Changes what is stored, by the server itself, outside the rules that clients are held to.
    pub(crate) async fn change_stored(
        &self,
        target: Target<'_>,
        dry_run: bool,
        change: impl Fn(&mut Value) -> Result<(), Status>,
    ) -> Result<Object, Status> {
        use keepwatch_storage::{Preconditions, StorageError, Update, UpdateOptions};
        let storage = self.storage(target.kind).ok_or_else(|| target.not_found())?;
        let (key, mut attempts) = (target.key(), Attempts::new(dry_run));
        while let Some(existing) = attempts.next(storage.as_ref(), &key).await {
            let Existing { object, is_current } = existing.map_err(|error| target.failure("get", error))?;
            let current = object.ok_or_else(|| target.not_found())?;
            let mut document = document_of(&current.value, Some(current.revision));
            match change(&mut document) {
                Err(_) if !is_current => continue,
                changed => changed?,
            }
            if dry_run {
                return Ok(current);
            }
            fields(&mut document, &["metadata"]).remove("resourceVersion");
            let update = Update::new(crate::rest::encode(target.kind, &document));
            let preconditions = Preconditions { uid: None, revision: Some(current.revision) };
            let options = UpdateOptions { ignore_not_found: false, preconditions, hint: Some(current) };
            match storage.guaranteed_update(&key, options, &mut |_| Ok(update.clone())).await {
                Err(StorageError::InvalidObject { .. }) => continue,
                other => return other.map_err(|error| target.failure("update", error)),
            }
        }
        Err(Status::modified(target.qualified(), target.name))
    }

    /// Asks that a pod leaves its node, if its disruption budget allows it.
    pub async fn evict(
        &self,
        target: Target<'_>,
        options: &DeleteOptions,
        dry_run: bool,
    ) -> Result<Handled, Status> {
        self.must_take_new_content(target, target.name, Position::Any).await?;
        let mut options = DeleteOptions { dry_run: dry_run || options.dry_run, ..options.clone() };
        let object = self.get(target, Position::MostRecent).await?;
        let pod = document_of(&object.value, Some(object.revision));
        must_meet(target, &options, &pod)?;
        let phase = text(&pod, &["status", "phase"]);
        let counted =
            !matches!(phase, "Succeeded" | "Failed" | "Pending") && !crate::value::is_deleting(&pod);
        if counted {
            self.spend_budget(target, &pod, options.dry_run).await?;
        }
        if !options.dry_run {
            let told = self.change_stored(target, false, |pod| {
                must_meet(target, &options, pod)?;
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": schema::time(Timestamp::now()), "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                });
                set_condition(pod, condition);
                Ok(())
            });
            let told = told.await?.revision.to_string();
            // The version that the client meant has just been changed by the server itself.
            options.resource_version = options.resource_version.map(|_| told);
        }
        self.delete(target, &options).await?;
        Ok(Handled::Status(Status::done(201)))
    }

    async fn spend_budget(&self, target: Target<'_>, pod: &Value, dry_run: bool) -> Result<(), Status> {
        let kind = known("policy", "poddisruptionbudgets");
        let all = Target { kind, namespace: target.namespace, name: "" };
        let Some(storage) = self.storage(kind) else { return Ok(()) };
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let budgets =
            storage.get_list(&all.key(), request).await.map_err(|error| all.failure("list", error))?;
        let labels = at(pod, &["metadata", "labels"]).cloned().unwrap_or_default();
        let covering: Vec<Value> = budgets
            .items
            .iter()
            .map(|object| document_of(&object.value, None))
            .filter(|budget| selects(at(budget, &["spec", "selector"]), &labels))
            .collect();
        let budget = match covering.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::unexplained(message));
            }
        };
        if !is_ready(pod) && unhealthy_may_go(budget) {
            return Ok(());
        }
        let own = Target { kind, namespace: target.namespace, name: name(budget) };
        let spent = self.change_stored(own, dry_run, |budget| spend(budget, target.name)).await;
        spent.map(drop)
    }

    /// A token for a service account.
    pub async fn request_token(
        &self,
        target: Target<'_>,
        request: &Value,
        issuer: &dyn TokenIssuer,
    ) -> Result<Value, Status> {
        let seconds = integer(request, &["spec", "expirationSeconds"]).unwrap_or(TOKEN_SECONDS_USUAL);
        let what = Qualified::new("authentication.k8s.io", "TokenRequest");
        let too = |detail: &str| {
            let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), detail);
            Err(Status::invalid(what, "", vec![cause]))
        };
        if seconds < TOKEN_SECONDS_MIN {
            return too("may not specify a duration less than 10 minutes");
        }
        if seconds > TOKEN_SECONDS_MAX {
            return too("may not specify a duration larger than 2^32 seconds");
        }
        self.must_take_new_content(target, target.name, Position::Any).await?;
        let account = self.get(target, Position::MostRecent).await?;
        let account = document_of(&account.value, None);
        let uid = text(&account, &["metadata", "uid"]);
        let now = Timestamp::now();
        let expires = now + jiff::SignedDuration::from_secs(seconds);
        let given = list(request, &["spec", "audiences"]);
        let audiences = if given.is_empty() { vec![issuer.issuer().into()] } else { given.to_vec() };
        let mut own =
            json!({"namespace": target.namespace, "serviceaccount": {"name": target.name, "uid": uid}});
        self.bind_token(target, at(request, &["spec", "boundObjectRef"]), fields(&mut own, &[])).await?;
        let claims = json!({
            "iss": issuer.issuer(), "aud": audiences, "iat": now.as_second(), "nbf": now.as_second(),
            "exp": expires.as_second(), "jti": crate::strategy::new_uid(), "kubernetes.io": own,
            "sub": format!("system:serviceaccount:{}:{}", target.namespace, target.name),
        });
        let token = issuer.issue(&claims)?;
        let bound = at(request, &["spec", "boundObjectRef"]).cloned().unwrap_or_default();
        Ok(json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": target.name, "namespace": target.namespace, "uid": crate::strategy::new_uid(),
                "creationTimestamp": schema::time(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": schema::time(expires)},
        }))
    }
}

impl Registry {
    /// Says in the claims of a token to which object it is bound: it is worth nothing without it.
    async fn bind_token(
        &self,
        account: Target<'_>,
        bound: Option<&Value>,
        claims: &mut Map<String, Value>,
    ) -> Result<(), Status> {
        let Some(bound) = bound else { return Ok(()) };
        let (kind, version) = (text(bound, &["kind"]), text(bound, &["apiVersion"]));
        let (claim, plural) = match (version, kind) {
            ("v1", "Pod") => ("pod", "pods"),
            ("v1", "Secret") => ("secret", "secrets"),
            ("v1", "Node") => ("node", "nodes"),
            _ => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let place = account.name;
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount \"{place}\" to type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let kind = known("", plural);
        let namespace = if kind.namespaced { account.namespace } else { "" };
        let target = Target { kind, namespace, name: text(bound, &["name"]) };
        let object = document_of(&self.get(target, Position::MostRecent).await?.value, None);
        let (wanted, uid) = (text(bound, &["uid"]), text(&object, &["metadata", "uid"]));
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(Qualified::core(&kind.name), target.name, &why));
        }
        if claim == "pod" {
            if text(&object, &["spec", "serviceAccountName"]) != account.name {
                let place = account.name;
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount \"{place}\" to pod running with different serviceaccount name."
                )));
            }
            self.tell_node(text(&object, &["spec", "nodeName"]), claims).await?;
        }
        claims.insert(claim.to_owned(), json!({"name": target.name, "uid": uid}));
        Ok(())
    }

    /// A token of a pod says where the pod is.
    async fn tell_node(&self, node: &str, claims: &mut Map<String, Value>) -> Result<(), Status> {
        if node.is_empty() {
            return Ok(());
        }
        let target = Target { kind: known("", "nodes"), namespace: "", name: node };
        let mut told = json!({"name": node});
        match self.get(target, Position::MostRecent).await {
            Ok(found) => told["uid"] = document_of(&found.value, None)["metadata"]["uid"].take(),
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
        claims.insert("node".to_owned(), told);
        Ok(())
    }
}

const TOKEN_SECONDS_USUAL: i64 = 3600;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

fn scale_of(kind: &Kind, object: &Object) -> Value {
    scale_of_document(kind, document_of(&object.value, Some(object.revision)))
}

fn scale_of_document(kind: &Kind, document: Value) -> Value {
    let document = convert_from_stored(kind, document);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        set(&mut metadata, field, at(&document, &["metadata", field]).cloned());
    }
    let mut spec = Map::new();
    let replicas = integer(&document, &["spec", "replicas"]).unwrap_or(0);
    set(&mut spec, "replicas", (replicas != 0).then(|| replicas.into()));
    let mut status = Map::new();
    status.insert("replicas".to_owned(), integer(&document, &["status", "replicas"]).unwrap_or(0).into());
    crate::value::set_text(&mut status, "selector", &selector_text(at(&document, &["spec", "selector"])));
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// What a change of its scale makes of an object, and whether the change names the version that it is meant for. What a
/// patch says of a version is looked at anew each time.
fn scaled(
    target: Target<'_>,
    change: &Change<'_>,
    object: &Object,
    warnings: &mut Vec<String>,
) -> Result<(Value, bool), Status> {
    let kind = target.kind;
    let scale = match change {
        Change::Replace(scale) => scale.clone(),
        Change::Patch { patch, strictness } => {
            warnings.clear();
            apply_scale_patch(patch, *strictness, &scale_of(kind, object), warnings)?
        }
    };
    target.must_be_of(&scale)?;
    let is_replaced = matches!(change, Change::Replace(_));
    if is_replaced {
        must_have_uid(target, &scale, object)?;
    }
    let replicas = integer(&scale, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let cause = Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
        return Err(Status::invalid(SCALE, target.name, vec![cause]));
    }
    let has_version = !text(&scale, &["metadata", "resourceVersion"]).is_empty();
    if has_version {
        must_be_based_on(target, &scale, object)?;
    }
    let mut document = convert_from_stored(kind, document_of(&object.value, Some(object.revision)));
    fields(&mut document, &["spec"]).insert("replicas".to_owned(), replicas.into());
    Ok((document, is_replaced && has_version))
}

fn apply_scale_patch(
    patch: &Patch,
    strictness: FieldValidation,
    scale: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let ty = schema::lookup("autoscaling.v1.Scale").expect("the table of types has scales");
    let expected = Expected::part("autoscaling", "v1", "Scale", ty);
    apply_patch(expected, patch, strictness, scale, warnings)
}

/// A selector as text: `a=b,c in (d,e)`. Selectors of replication controllers are plain maps.
pub(crate) fn selector_text(selector: Option<&Value>) -> String {
    let requirements = requirements(selector);
    requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn requirements(selector: Option<&Value>) -> Vec<Requirement> {
    let Some(selector) = selector.and_then(Value::as_object) else { return Vec::new() };
    let is_plain = selector.values().all(Value::is_string) && !selector.is_empty();
    let empty = Map::new();
    let labels =
        if is_plain { Some(selector) } else { selector.get("matchLabels").and_then(Value::as_object) };
    let equal = labels.unwrap_or(&empty).iter().map(|(key, value)| {
        (key.clone(), Operator::Equals, vec![value.as_str().unwrap_or_default().to_owned()])
    });
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    let others = expressions.map(|expression| {
        let operator = match text(expression, &["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            _ => Operator::DoesNotExist,
        };
        let values =
            list(expression, &["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        (text(expression, &["key"]).to_owned(), operator, values)
    });
    let mut all: Vec<Requirement> = equal
        .chain(others)
        .filter_map(|(key, operator, values)| Requirement::new(key, operator, values).ok())
        .collect();
    all.sort_by(|a, b| a.key().cmp(b.key()));
    all
}

/// Whether a selector of an object selects labels. None selects nothing, an empty one everything.
fn selects(selector: Option<&Value>, labels: &Value) -> bool {
    let Some(selector) = selector else { return false };
    let own: keepwatch_storage::Pairs = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .collect();
    requirements(Some(selector)).iter().all(|requirement| requirement.matches(&own))
}

fn bind_pod(pod: &mut Value, node: &str, binding: &Value) -> Result<(), String> {
    let own = name(pod).to_owned();
    if crate::value::is_deleting(pod) {
        return Err(format!("pod {own} is being deleted, cannot be assigned to a host"));
    }
    let bound = text(pod, &["spec", "nodeName"]);
    if !bound.is_empty() {
        return Err(format!("pod {own} is already assigned to node \"{bound}\""));
    }
    if !list(pod, &["spec", "schedulingGates"]).is_empty() {
        return Err(format!("pod {own} has non-empty .spec.schedulingGates"));
    }
    fields(pod, &["spec"]).insert("nodeName".to_owned(), node.into());
    fields(pod, &["status"]).remove("nominatedNodeName");
    for kind in ["annotations", "labels"] {
        if let Some(Value::Object(given)) = at(binding, &["metadata", kind]).cloned() {
            fields(pod, &["metadata", kind]).extend(given);
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": schema::time(Timestamp::now()),
    });
    set_condition(pod, condition);
    Ok(())
}

/// Sets one condition among those of an object's status.
pub(crate) fn set_condition(document: &mut Value, condition: Value) {
    let conditions = fields(document, &["status"]).entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let same = |other: &&mut Value| text(other, &["type"]) == text(&condition, &["type"]);
    match conditions.iter_mut().find(same) {
        Some(own) => *own = condition,
        None => conditions.push(condition),
    }
}

fn is_ready(pod: &Value) -> bool {
    let ready =
        |condition: &Value| text(condition, &["type"]) == "Ready" && text(condition, &["status"]) == "True";
    list(pod, &["status", "conditions"]).iter().any(ready)
}

/// Whether pods that do not work may leave although the budget is spent.
fn unhealthy_may_go(budget: &Value) -> bool {
    if text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" {
        return true;
    }
    let (healthy, desired) =
        (integer(budget, &["status", "currentHealthy"]), integer(budget, &["status", "desiredHealthy"]));
    healthy.unwrap_or(0) >= desired.unwrap_or(0) && desired.unwrap_or(0) > 0
}

/// How long a client waits for a budget that is not counted yet, in seconds.
const BUDGET_RETRY_SECONDS: u32 = 10;
/// How many evictions a budget remembers.
const DISRUPTED_PODS_MAX: usize = 2000;

fn spend(budget: &mut Value, pod: &str) -> Result<(), Status> {
    let own = name(budget).to_owned();
    let refused = |message: String, retry: u32| {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut status = Status::too_many_requests(why, retry);
        let causes = vec![Cause::new("DisruptionBudget", message, "")];
        let details = status.details.get_or_insert_default();
        details.causes = causes;
        Err(status)
    };
    let generation = integer(budget, &["metadata", "generation"]).unwrap_or(0);
    if integer(budget, &["status", "observedGeneration"]).unwrap_or(0) < generation {
        let message = format!("The disruption budget {own} is still being processed by the server.");
        return refused(message, BUDGET_RETRY_SECONDS);
    }
    let allowed = integer(budget, &["status", "disruptionsAllowed"]).unwrap_or(0);
    if allowed <= 0 {
        let count = |field| integer(budget, &["status", field]).unwrap_or(0);
        let message = format!(
            "The disruption budget {own} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        );
        return refused(message, 0);
    }
    let status = fields(budget, &["status"]);
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    let disrupted = fields(budget, &["status", "disruptedPods"]);
    if disrupted.len() >= DISRUPTED_PODS_MAX {
        return refused(format!("The disruption budget {own} has too many evictions under way."), 0);
    }
    disrupted.insert(pod.to_owned(), schema::time(Timestamp::now()).into());
    Ok(())
}
