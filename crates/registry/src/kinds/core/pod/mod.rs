//! Pod.

use crate::{
    defaults::{self, fields::Object, qos},
    deletion::Deletion,
    error::Error,
    kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path},
    kinds::core::pod_template::drop_disabled_pod_fields,
    options::DeleteOptions,
    rest::{Registry, Target},
    schema::{self, Timestamp},
    strategy::{Creation, Strategy},
    table::Column,
    validation::{
        self,
        document::{Faults, Node},
        warnings::{self, Warnings},
    },
    value::{at, fields, list, list_mut, name, set, text},
};
use async_trait::async_trait;
use serde_json::{Value, json};

mod admission;
mod binding;
pub(crate) mod change;
mod deletion;
mod eviction;
mod table;

use admission::tolerate_for_a_while;

pub(super) fn kind() -> Kind {
    Kind::of_type("", "core.v1.Pod", "pods")
        .short_names(&["po"])
        .categories(&["all"])
        .subresources([
            Subresource::new("attach", &["create", "get"]).of("", "v1", "PodAttachOptions"),
            Subresource::new("binding", &["create"]).of("", "v1", "Binding"),
            Subresource::new("ephemeralcontainers", &["get", "patch", "update"]),
            Subresource::new("eviction", &["create"]).of("policy", "v1", "Eviction"),
            Subresource::new("exec", &["create", "get"]).of("", "v1", "PodExecOptions"),
            Subresource::new("log", &["get"]),
            Subresource::new("portforward", &["create", "get"]).of("", "v1", "PodPortForwardOptions"),
            Subresource::new("proxy", &["create", "delete", "get", "patch", "update"]).of(
                "",
                "v1",
                "PodProxyOptions",
            ),
            Subresource::new("resize", &["get", "patch", "update"]),
            Subresource::status(),
        ])
        .returns_deleted()
        .generation(Generation::Spec)
        .selectable(selectable_fields(), UnknownField::NotSupported)
        .indexed_by(&["spec.nodeName"])
        .strategy(PodStrategy)
}

fn selectable_fields() -> Vec<SelectableField> {
    vec![
        SelectableField::namespace(),
        SelectableField::new("spec.nodeName"),
        SelectableField::new("spec.host").indexed_as("spec.nodeName").at(At::Path(path("spec.nodeName"))),
        SelectableField::new("spec.restartPolicy"),
        SelectableField::new("spec.schedulerName"),
        SelectableField::new("spec.serviceAccountName"),
        SelectableField::new("spec.hostNetwork").at(At::Flag(path("spec.hostNetwork"))),
        SelectableField::new("status.phase"),
        SelectableField::new("status.podIP"),
        SelectableField::new("status.podIPs").at(At::Nowhere),
        SelectableField::new("status.nominatedNodeName"),
    ]
}

struct PodStrategy;

#[async_trait]
impl Strategy for PodStrategy {
    async fn admit(
        &self,
        registry: &Registry,
        _: Target<'_>,
        pod: &mut Value,
    ) -> Result<Option<Error>, Error> {
        registry.set_priority(pod).await?;
        let refused_if_valid = registry.apply_runtime_class(pod).await?;
        tolerate_for_a_while(pod);
        Ok(refused_if_valid)
    }

    fn set_defaults(&self, object: &mut Object) {
        defaults::pod::pod(object)
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_pod_fields(fields(document, &["spec"]));
        if let Some(status) = document.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("nodeAllocatableResourceClaimStatuses");
            for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
                for container in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    for mount in list_mut(container, "/volumeMounts") {
                        fields(mount, &[]).remove("volumeStatus");
                    }
                }
            }
        }
    }

    fn prepare_create(&self, document: &mut Value, creation: &Creation<'_>) {
        new_pod(document, creation.now);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep_admitted(new, old);
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, _: Timestamp) {
        let owners = at(old, &["metadata", "ownerReferences"]).cloned();
        set(fields(new, &["metadata"]), "ownerReferences", owners);
        let status = fields(new, &["status"]);
        if status.get("qosClass").is_none_or(Value::is_null) {
            set(status, "qosClass", at(old, &["status", "qosClass"]).cloned());
        }
    }

    fn validate(&self, new: &Node, old: Option<&Node>, faults: &mut Faults) {
        validation::pod::pod(new, old, faults)
    }

    fn validate_change(&self, new: &Node, old: &Node, faults: &mut Faults) {
        change::pod_change(new, old, faults)
    }

    fn validate_status(&self, new: &Node, old: &Node, faults: &mut Faults) {
        change::pod_status(new, old, faults)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        // Pods change often, and seldom by people.
        if old.is_none() {
            warnings::hostname(object, "the Pod's hostname", warnings);
            warnings::pod(&object.at("metadata"), &object.at("spec"), warnings);
        }
    }

    fn plan_deletion(&self, kind: &Kind, options: &DeleteOptions, pod: &Value, now: Timestamp) -> Deletion {
        deletion::plan(kind, options, pod, now)
    }

    fn must_be_reachable(&self, pod: &Value) -> Result<(), Error> {
        if text(pod, &["spec", "nodeName"]).is_empty() {
            return Err(Error::bad_request(format!("pod {} does not have a host assigned", name(pod))));
        }
        Ok(())
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, pod: &Value, now: Timestamp) -> Vec<Value> {
        table::cells(pod, now)
    }

    fn row_conditions(&self, pod: &Value) -> Option<Value> {
        table::completed(pod)
    }
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

/// What the cluster added to a pod stays, though its client need not know of it.
fn keep_admitted(new: &mut Value, old: &Value) {
    for kept in ["priority", "preemptionPolicy"] {
        if at(new, &["spec", kept]).is_none() {
            set(fields(new, &["spec"]), kept, at(old, &["spec", kept]).cloned());
        }
    }
    tolerate_for_a_while(new);
}
