//! The binding of a pod to a node.

use crate::{
    document::{Edit, Fields},
    error::Error,
    kinds::known,
    rest::{Registry, Target},
    schema::{self, Timestamp},
};
use keepwatch_apimachinery::{list_options::Position, meta::Qualified, status::Cause};
use serde_json::{Value, json};

impl Registry {
    /// Binds a pod to a node.
    pub async fn bind(&self, target: Target<'_>, binding: &Value, dry_run: bool) -> Result<(), Error> {
        let pods = Target { kind: known("", "pods"), ..target };
        self.must_take_new_content(pods, pods.name, Position::Any).await?;
        let qualified = Qualified::core("pods/binding");
        let node = binding.text("target.name");
        let kind = binding.text("target.kind");
        let mut causes = Vec::new();
        if !kind.is_empty() && kind != "Node" {
            causes.push(Cause::not_supported("target.kind", kind, &["Node", "<empty>"]));
        }
        if node.is_empty() {
            causes.push(Cause::required("target.name", ""));
        }
        if !causes.is_empty() {
            return Err(Error::invalid(Qualified::core("Binding"), target.name, causes));
        }
        let change = |pod: &mut Value| -> Result<(), Error> {
            for (field, label) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
                let (wanted, found) =
                    (binding.field("metadata").text(field), pod.field("metadata").text(field));
                if !wanted.is_empty() && wanted != found {
                    let why = format!(
                        "Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
                    );
                    return Err(Error::conflict(qualified, target.name, &why));
                }
            }
            bind_pod(pod, node, binding).map_err(|why| Error::conflict(qualified, target.name, &why))
        };
        self.change_stored(pods, dry_run, change).await?;
        Ok(())
    }
}

fn bind_pod(pod: &mut Value, node: &str, binding: &Value) -> Result<(), String> {
    let own = pod.name().to_owned();
    if pod.is_deleting() {
        return Err(format!("pod {own} is being deleted, cannot be assigned to a host"));
    }
    let bound = pod.text("spec.nodeName");
    if !bound.is_empty() {
        return Err(format!("pod {own} is already assigned to node \"{bound}\""));
    }
    if !pod.list("spec.schedulingGates").is_empty() {
        return Err(format!("pod {own} has non-empty .spec.schedulingGates"));
    }
    pod.object_or_new("spec").insert("nodeName".to_owned(), node.into());
    pod.object_or_new("status").remove("nominatedNodeName");
    for kind in ["annotations", "labels"] {
        if let Some(Value::Object(given)) = binding.field("metadata").field(kind).cloned() {
            pod.object_or_new("metadata").object_or_new(kind).extend(given);
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": schema::time(Timestamp::now()),
    });
    pod.set_condition(condition);
    Ok(())
}
