//! Fields that admission sets in a new pod: its priority, the overhead of its runtime class, and tolerations for nodes
//! that fail.

use crate::{
    document::{Edit, Fields},
    error::Error,
    kinds::known,
    rest::{Registry, Target, document_of},
};
use keepwatch_apimachinery::{list_options::Position, meta::Qualified};
use serde_json::{Map, Value, json};

impl Registry {
    pub(super) async fn set_priority(&self, pod: &mut Value) -> Result<(), Error> {
        let wanted = pod.text("spec.priorityClassName").to_owned();
        let classes = known("scheduling.k8s.io", "priorityclasses");
        let class = if wanted.is_empty() {
            let is_default = |class: &Value| class.field("globalDefault") == Some(&Value::Bool(true));
            let defaults = self.all_with(classes, "\"globalDefault\"").await?.into_iter().filter(is_default);
            defaults.min_by_key(|class| class.number("value"))
        } else {
            let target = Target { kind: classes, namespace: "", name: &wanted };
            let found = match self.get(target, Position::Any).await {
                Err(error) if error.is_not_found() => self.get(target, Position::MostRecent).await,
                other => other,
            };
            match found {
                Ok(object) => Some(document_of(&object.value, None)),
                Err(error) if error.is_not_found() => {
                    let why = format!("no PriorityClass with name {wanted} was found");
                    return Err(Error::forbidden(Qualified::core("pods"), pod.name(), &why));
                }
                Err(error) => return Err(error),
            }
        };
        let value =
            class.as_ref().and_then(|class| class.field("value")).and_then(Value::as_i64).unwrap_or(0);
        let policy =
            class.as_ref().map(|class| class.text("preemptionPolicy")).filter(|policy| !policy.is_empty());
        let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
        if let Some(given) =
            pod.field("spec.priority").and_then(Value::as_i64).filter(|given| *given != value)
        {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            );
            return Err(Error::forbidden(Qualified::core("pods"), pod.name(), &why));
        }
        let given = pod.text("spec.preemptionPolicy");
        if !given.is_empty() && given != policy {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(Error::forbidden(Qualified::core("pods"), pod.name(), &why));
        }
        let own_name = class.as_ref().filter(|_| wanted.is_empty()).map(|class| class.name().to_owned());
        let spec = pod.object_or_new("spec");
        if let Some(own_name) = own_name {
            spec.insert("priorityClassName".to_owned(), own_name.into());
        }
        spec.insert("priority".to_owned(), value.into());
        spec.insert("preemptionPolicy".to_owned(), policy.into());
        Ok(())
    }

    /// Adds the overhead of a pod's runtime class to its spec. Returns the error with which the pod is rejected if it
    /// is valid.
    pub(super) async fn apply_runtime_class(&self, pod: &mut Value) -> Result<Option<Error>, Error> {
        let wanted = pod.text("spec.runtimeClassName").to_owned();
        let forbidden = |pod: &Value, why: &str| {
            Error::forbidden(Qualified::core("pods"), pod.name(), format!("pod rejected: {why}"))
        };
        let refused = |pod: &Value, why: &str| Err(forbidden(pod, why));
        let mut refused_if_valid = None;
        let is_empty = |amounts: &Value| amounts.as_object().is_none_or(Map::is_empty);
        let given = pod.field("spec.overhead").filter(|amounts| !is_empty(amounts)).cloned();
        let class = match pod.field("spec.runtimeClassName") {
            None => Value::Null,
            Some(_) => {
                let kind = known("node.k8s.io", "runtimeclasses");
                let target = Target { kind, namespace: "", name: &wanted };
                let found = match self.get(target, Position::Any).await {
                    Err(error) if error.is_not_found() => self.get(target, Position::MostRecent).await,
                    other => other,
                };
                match found {
                    Ok(object) => document_of(&object.value, None),
                    Err(error) if error.is_not_found() => {
                        return refused(pod, &format!("RuntimeClass {wanted:?} not found"));
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        match (class.field("overhead.podFixed"), given) {
            (None, Some(_)) => {
                let why = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
                refused_if_valid = Some(forbidden(pod, why));
            }
            (Some(own), Some(given)) if *own != given => {
                return refused(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead");
            }
            (Some(own), _) => drop(pod.object_or_new("spec").insert("overhead".to_owned(), own.clone())),
            (None, None) => {}
        }
        let selector = class.field("scheduling.nodeSelector").and_then(Value::as_object);
        for (key, value) in selector.into_iter().flatten() {
            let own = pod.object_or_new("spec.nodeSelector");
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
        let tolerations = class.list("scheduling.tolerations").to_vec();
        if !tolerations.is_empty() {
            let own = pod.object_or_new("spec").entry("tolerations").or_insert_with(|| json!([]));
            if let Some(own) = own.as_array_mut() {
                let new: Vec<Value> =
                    tolerations.into_iter().filter(|toleration| !own.contains(toleration)).collect();
                own.extend(new);
            }
        }
        Ok(refused_if_valid)
    }
}

/// The number of seconds that a pod stays on a node that is not ready or unreachable.
const TOLERATED_SECONDS: i64 = 300;

pub(crate) fn add_default_tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            let (own, effect) = (toleration.text("key"), toleration.text("effect"));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if pod.list("spec.tolerations").iter().any(covers) {
            continue;
        }
        let tolerations = pod.object_or_new("spec").entry("tolerations").or_insert_with(|| json!([]));
        if let Some(tolerations) = tolerations.as_array_mut() {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}
