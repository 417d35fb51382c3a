//! Pod.

use crate::{
    defaults::{self, qos},
    deletion::Deletion,
    document::{Edit, FieldErrors, Fields, Node, Object},
    error::Error,
    kind::{At, Generation, Kind, SelectableField, Subresource, UnknownField, path},
    kinds::core::pod_template::drop_disabled_pod_fields,
    options::DeleteOptions,
    rest::{Registry, Target},
    schema::{self, Timestamp},
    strategy::{Creation, Part, Strategy, next_generation},
    table::Column,
    validation::{
        self,
        warnings::{self, Warnings},
    },
};
use async_trait::async_trait;
use serde_json::{Value, json};

mod admission;
mod binding;
pub(crate) mod change;
mod deletion;
mod eviction;
mod table;

use admission::add_default_tolerations;

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
        add_default_tolerations(pod);
        Ok(refused_if_valid)
    }

    fn set_defaults(&self, object: &mut Object) {
        defaults::pod::pod(object)
    }

    fn drop_disabled_fields(&self, document: &mut Value) {
        drop_disabled_pod_fields(document.object_or_new("spec"));
        if let Some(status) = document.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("nodeAllocatableResourceClaimStatuses");
            for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
                for container in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    for mount in container.list_mut("volumeMounts") {
                        mount.make_object().remove("volumeStatus");
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
        let owners = old.field("metadata.ownerReferences").cloned();
        new.object_or_new("metadata").set("ownerReferences", owners);
        let status = new.object_or_new("status");
        if status.get("qosClass").is_none_or(Value::is_null) {
            status.set("qosClass", old.field("status.qosClass").cloned());
        }
    }

    /// Adds ephemeral containers, or changes the resources of containers.
    fn prepare_part_update(&self, part: Part, new: &mut Value, old: &Value, _: Timestamp) {
        let wanted = std::mem::replace(new, old.clone());
        match part {
            Part::EphemeralContainers => {
                let containers = wanted.field("spec.ephemeralContainers").cloned();
                new.object_or_new("spec").set("ephemeralContainers", containers);
            }
            _ => ["containers", "initContainers"].into_iter().for_each(|list| resize(new, &wanted, list)),
        }
        if new["spec"] != old["spec"] {
            next_generation(new, old);
        }
    }

    /// The limits of a plain update do not apply.
    fn validate_part(&self, kind: &Kind, part: Part, new: &Node, old: &Node, errors: &mut FieldErrors) {
        let adds_containers = part == Part::EphemeralContainers;
        if adds_containers && change::is_mirror(old) {
            errors.forbidden(&Node::root(new.value), "static pods do not support ephemeral containers");
            return;
        }
        validation::common_change(kind, new, old, errors);
        self.validate(new, Some(old), errors);
        let class = |pod: &Node| qos::qos_class(pod.at("spec").value);
        if class(new) != class(old) {
            let detail = "Pod QOS Class may not change as a result of resizing";
            errors.invalid(&new.at("spec"), class(new), detail);
        }
        if adds_containers {
            change::ephemeral_change(new, old, errors);
        }
    }

    fn validate(&self, new: &Node, old: Option<&Node>, errors: &mut FieldErrors) {
        validation::pod::pod(new, old, errors)
    }

    fn validate_change(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        change::pod_change(new, old, errors)
    }

    fn validate_status(&self, new: &Node, old: &Node, errors: &mut FieldErrors) {
        change::pod_status(new, old, errors)
    }

    fn warn(&self, object: &Node, old: Option<&Node>, warnings: &mut Warnings) {
        // Pods change often, and seldom by users.
        if old.is_none() {
            warnings::hostname(object, "the Pod's hostname", warnings);
            warnings::pod(&object.at("metadata"), &object.at("spec"), warnings);
        }
    }

    fn plan_deletion(&self, kind: &Kind, options: &DeleteOptions, pod: &Value, now: Timestamp) -> Deletion {
        deletion::plan(kind, options, pod, now)
    }

    fn must_be_reachable(&self, pod: &Value) -> Result<(), Error> {
        if pod.text("spec.nodeName").is_empty() {
            return Err(Error::bad_request(format!("pod {} does not have a host assigned", pod.name())));
        }
        Ok(())
    }

    fn columns(&self) -> &[Column] {
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
    if !document.list("spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": schema::time(now), "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    document["status"] = status;
}

/// Keeps what admission added to a pod, for clients that replace it without these fields.
fn keep_admitted(new: &mut Value, old: &Value) {
    for kept in ["priority", "preemptionPolicy"] {
        if !new.field("spec").has(kept) {
            new.object_or_new("spec").set(kept, old.field("spec").field(kept).cloned());
        }
    }
    add_default_tolerations(new);
}

/// Sets the resources of the containers of one list.
fn resize(new: &mut Value, wanted: &Value, list: &str) {
    let wanted = wanted.field("spec").list(list);
    for container in new["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        let same = wanted.iter().find(|other| other.text("name") == container.text("name"));
        if let Some(same) = same {
            for field in ["resources", "resizePolicy"] {
                container.set(field, same.get(field).cloned());
            }
        }
    }
}
