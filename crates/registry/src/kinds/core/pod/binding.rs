//! The choice of a node for a pod.

use crate::{
    error::Error,
    kinds::known,
    rest::{Registry, Target},
    schema::{self, Timestamp},
    value::{at, fields, list, name, set_condition, text},
};
use keepwatch_apimachinery::{list_options::Position, meta::Qualified, status::Cause};
use serde_json::{Value, json};

impl Registry {
    /// Puts a pod on a node.
    pub async fn bind(&self, target: Target<'_>, binding: &Value, dry_run: bool) -> Result<(), Error> {
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
            return Err(Error::invalid(Qualified::core("Binding"), target.name, causes));
        }
        let change = |pod: &mut Value| -> Result<(), Error> {
            for (field, label) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
                let (wanted, found) = (text(binding, &["metadata", field]), text(pod, &["metadata", field]));
                if !wanted.is_empty() && wanted != found {
                    let why = format!(
                        "Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"
                    );
                    return Err(Error::conflict(place, target.name, &why));
                }
            }
            bind_pod(pod, node, binding).map_err(|why| Error::conflict(place, target.name, &why))
        };
        self.change_stored(pods, dry_run, change).await?;
        Ok(())
    }
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
