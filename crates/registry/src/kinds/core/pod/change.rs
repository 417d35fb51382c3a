//! Changes of a pod and of its status.

use crate::document::{FieldErrors, Fields, Node, same_except};
use std::collections::BTreeSet;

use serde_json::Value;

use crate::validation::{
    containers, names,
    pod::{APP_ARMOR, MIRROR, SECONDS_MAX, same_spec},
    pod_scheduling::tolerations,
};

/// Of users and groups.
const ID_MAX: i64 = i32::MAX as i64;

const CHANGEABLE: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
     additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
     previously negative)";

/// Allows those changes that Kubernetes allows in a stored pod.
pub(crate) fn pod_change(pod: &Node, old: &Node, errors: &mut FieldErrors) {
    annotation_changes(pod, old, errors);
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    if same_spec(pod, old) {
        return;
    }
    for list in ["containers", "initContainers"] {
        if spec.length(list) != before.length(list) {
            errors.forbidden(&spec.at(list), "pod updates may not add or remove containers");
            return;
        }
        for container in spec.items(list) {
            errors.not_empty(&container.at("image"));
            containers::image_has_no_spaces(&container, errors);
        }
    }
    if !deadline_change(&spec, &before, errors) {
        return;
    }
    toleration_changes(&spec, &before, errors);
    gate_changes(&spec, &before, errors);
    let gated = before.length("schedulingGates") > 0;
    if gated {
        gated_changes(&spec, &before, errors);
    }
    if !rest_is_same(&spec, &before, gated) {
        errors.forbidden(&spec, CHANGEABLE);
    }
}

/// Whether a pod is a mirror pod, which represents a static pod of its node.
pub(crate) fn is_mirror(pod: &Node) -> bool {
    pod.entry("metadata.annotations", MIRROR).exists()
}

/// Allows ephemeral containers to be added, in any order.
pub(crate) fn ephemeral_change(pod: &Node, old: &Node, errors: &mut FieldErrors) {
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    for was in before.items("ephemeralContainers") {
        let name = was.text("name");
        let now = spec.items("ephemeralContainers").filter(|now| now.text("name") == name).last();
        let done = match now {
            None => "removed\n",
            Some(now) if now.value != was.value => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers \"{name}\" may not be {done}");
        errors.forbidden(&spec.at("ephemeralContainers"), &detail);
    }
}

fn annotation_changes(pod: &Node, old: &Node, errors: &mut FieldErrors) {
    let (annotations, before) = (pod.at("metadata.annotations"), old.at("metadata.annotations"));
    let guarded = |key: &str| -> Option<&str> {
        if key.starts_with(APP_ARMOR) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in before.own_entries() {
        let is_same = annotations.value.get(key) == Some(value.value);
        if let Some(what) = guarded(key).filter(|_| !is_same) {
            errors.forbidden(&value, &format!("may not remove or update {what}"));
        }
    }
    for (key, value) in annotations.own_entries().filter(|(key, _)| before.value.get(*key).is_none()) {
        if let Some(what) = guarded(key) {
            errors.forbidden(&value, &format!("may not add {what}"));
        }
    }
}

/// Validates a change of the deadline. Returns whether other changes have yet to be validated.
fn deadline_change(spec: &Node, before: &Node, errors: &mut FieldErrors) -> bool {
    let deadline = spec.at("activeDeadlineSeconds");
    match (deadline.as_number(), before.at("activeDeadlineSeconds").as_number()) {
        (Some(now), _) if !(0..=SECONDS_MAX).contains(&now) => {
            errors.invalid(&deadline, now, &format!("must be between 0 and {SECONDS_MAX}, inclusive"));
            false
        }
        (Some(now), Some(was)) if was < now => {
            errors.invalid(&deadline, now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(&deadline, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn toleration_changes(spec: &Node, before: &Node, errors: &mut FieldErrors) {
    let kept = |old: Node| {
        spec.items("tolerations").any(|new| same_except(new.value, old.value, &["tolerationSeconds"]))
    };
    if !before.items("tolerations").all(kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&spec.at("tolerations"), detail);
        return;
    }
    tolerations(spec, errors);
}

fn gate_changes(spec: &Node, before: &Node, errors: &mut FieldErrors) {
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        if !before.items("schedulingGates").any(|old| old.text("name") == name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&gate.at("name"), &detail);
        }
    }
}

/// Validates a change of the node selector and affinity: until the pod is scheduled, they may become narrower.
fn gated_changes(spec: &Node, before: &Node, errors: &mut FieldErrors) {
    let selector = spec.at("nodeSelector");
    if !before.entries("nodeSelector").all(|(key, value)| selector.value.get(key) == Some(value.value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&selector, selector.value.clone(), detail);
    }
    let (required, was) = (
        spec.at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        before.at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
    );
    let count = was.length("nodeSelectorTerms");
    let terms = required.at("nodeSelectorTerms");
    if count > 0 && count != required.length("nodeSelectorTerms") {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid(&terms, terms.value.clone(), detail);
        return;
    }
    for (new, old) in required.items("nodeSelectorTerms").zip(was.items("nodeSelectorTerms")) {
        if !only_adds(&new, &old) {
            errors.invalid(&new, new.value.clone(), "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn only_adds(new: &Node, old: &Node) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Node| lists.iter().all(|list| term.length(list) == 0);
    if is_empty(old) {
        return is_empty(new);
    }
    lists.iter().all(|list| {
        new.length(list) >= old.length(list)
            && new.items(list).zip(old.items(list)).all(|(new, old)| new.value == old.value)
    })
}

fn rest_is_same(spec: &Node, before: &Node, gated: bool) -> bool {
    let grace = |spec: &Node| spec.number("terminationGracePeriodSeconds");
    let mut except =
        vec!["containers", "initContainers", "activeDeadlineSeconds", "schedulingGates", "tolerations"];
    if grace(before) < 0 && grace(spec) == 1 {
        except.push("terminationGracePeriodSeconds");
    }
    if gated {
        except.extend(["nodeSelector", "affinity"]);
        let (affinity, was) = (spec.at("affinity"), before.at("affinity"));
        let sides = ["podAffinity", "podAntiAffinity"];
        if !sides.iter().all(|side| affinity.at(side).value == was.at(side).value) {
            return false;
        }
    }
    let same_containers = |list: &str| {
        spec.items(list)
            .zip(before.items(list))
            .all(|(new, old)| same_except(new.value, old.value, &["image"]))
    };
    same_except(spec.value, before.value, &except)
        && same_containers("containers")
        && same_containers("initContainers")
}

/// Validates a change of a pod's status.
pub(crate) fn pod_status(pod: &Node, old: &Node, errors: &mut FieldErrors) {
    annotation_changes(pod, old, errors);
    let (status, before) = (pod.at("status"), old.at("status"));
    for condition in status.items("conditions") {
        let kind = condition.at_as("type", "Type");
        errors.invalid_each(&kind, names::qualified(kind.as_text()));
        generation(&condition, errors);
    }
    generation(&status, errors);
    if pod.at("spec").text("nodeName") != old.at("spec").text("nodeName") {
        errors.forbidden(&status.at("nodeName"), "may not be changed directly");
    }
    let nominated = status.at("nominatedNodeName");
    if nominated.as_text() != before.text("nominatedNodeName") {
        errors.valid_if_set(&nominated, names::subdomain);
    }
    errors.immutable(&status.at("qosClass"), &before.at("qosClass"));
    let restart = old.at("spec").text("restartPolicy");
    no_restart(&status, &before, "containerStatuses", restart, errors);
    let spec = old.at("spec");
    if !spec.items("initContainers").any(|container| container.text("restartPolicy") == "Always") {
        no_restart(&status, &before, "initContainerStatuses", restart, errors);
    }
    no_restart(&status, &before, "ephemeralContainerStatuses", "Never", errors);
    claim_statuses(pod, errors);
    extended_claim(pod, errors);
    addresses(&status, "podIPs", errors);
    if status.length("hostIPs") > 0 {
        let first = status.item("hostIPs", 0);
        if first.text("ip") != status.text("hostIP") {
            errors.invalid(&first.at("ip"), first.text("ip"), "must be equal to `hostIP`");
        }
        addresses(&status, "hostIPs", errors);
    }
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        let spec = pod.at("spec");
        for container in status.items(list) {
            let own = spec.items(containers).find(|own| own.text("name") == container.text("name"));
            for allocated in container.items("allocatedResourcesStatus") {
                if let Some(own) = &own {
                    must_be_requested(own, &allocated.at("name"), errors);
                }
                health(&allocated, errors);
            }
        }
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in status.items(list) {
            container_user(&container, errors);
        }
    }
    for container in status.items("ephemeralContainerStatuses") {
        if container.length("allocatedResourcesStatus") > 0 {
            let at = container.at("allocatedResourcesStatus");
            errors.forbidden(&at, "must not be specified in container status");
        }
    }
}

/// Validates the observed generation.
fn generation(of: &Node, errors: &mut FieldErrors) {
    let generation = of.at("observedGeneration");
    if let Some(number) = generation.as_number().filter(|number| *number < 0) {
        errors.invalid(&generation, number, "must be a non-negative integer");
    }
}

/// Validates the user of a container's status.
fn container_user(container: &Node, errors: &mut FieldErrors) {
    let user = container.at("user.linux");
    for id in [user.at("uid"), user.at("gid")].into_iter().chain(user.items("supplementalGroups")) {
        if let Some(number) = id.as_number().filter(|number| !(0..=ID_MAX).contains(number)) {
            let detail = format!("must be between 0 and {ID_MAX}, inclusive");
            errors.invalid(&id, number, &detail);
        }
    }
}

/// Validates that the claims in a pod's status are claims of the pod.
fn claim_statuses(pod: &Node, errors: &mut FieldErrors) {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let mut seen = BTreeSet::new();
    for claim in status.items("resourceClaimStatuses") {
        let name = claim.at("name");
        if !spec.items("resourceClaims").any(|own| own.text("name") == name.as_text()) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&name, name.as_text(), detail);
        }
        if !seen.insert(name.as_text()) {
            errors.duplicate(&name, name.as_text());
        }
        let object = claim.at("resourceClaimName");
        if object.exists() {
            errors.invalid_each(&object, names::subdomain(object.as_text()));
        }
    }
}

/// Validates the status of the claim for a pod's extended resources.
fn extended_claim(pod: &Node, errors: &mut FieldErrors) {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let claim = status.at("extendedResourceClaimStatus");
    if !claim.exists() {
        return;
    }
    if claim.length("requestMappings") == 0 {
        errors.required(&claim.at("requestMappings"), "at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for mapping in claim.items("requestMappings") {
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|name| mapping.text(name));
        let mut all = spec.items("containers").chain(spec.items("initContainers"));
        match all.find(|own| own.text("name") == container) {
            Some(own) if own.at("resources.requests").value.get(resource).is_none() => {
                let detail = "must match the extended resource name of an entry in \
                     spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&mapping.at("resourceName"), resource, detail);
            }
            Some(_) => {}
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&mapping.at("containerName"), container, detail);
            }
        }
        // Kubernetes reports it at the claim.
        for detail in names::label(request) {
            errors.invalid(&claim.at("requestName"), request, &detail);
        }
        if !seen.insert((container, resource, request)) {
            for (name, value) in
                [("containerName", container), ("resourceName", resource), ("requestName", request)]
            {
                errors.duplicate(&mapping.at(name), value);
            }
        }
    }
    errors.valid_name(&claim.at("resourceClaimName"), names::subdomain);
}

/// Validates that an allocated resource is one that the container requests.
fn must_be_requested(container: &Node, resource: &Node, errors: &mut FieldErrors) {
    let claimed = |claim: &Node| match (claim.text("name"), claim.text("request")) {
        (name, "") => format!("claim:{name}"),
        (name, request) => format!("claim:{name}/{request}"),
    };
    let asked = container.at("resources");
    let (is_asked_for, detail) = if resource.as_text().starts_with("claim:") {
        let detail = "must match one of the container's resource claims in a format \
             'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
        (asked.items("claims").any(|claim| claimed(&claim) == resource.as_text()), detail)
    } else {
        let detail = "must match one of the container's resource requests";
        (asked.at("requests").value.get(resource.as_text()).is_some(), detail)
    };
    if !is_asked_for {
        errors.invalid(resource, resource.as_text(), detail);
    }
}

/// The maximum length of the message about a device's health.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1024;

fn health(allocated: &Node, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for resource in allocated.items("resources") {
        errors.must_be_one_of(&resource.at("health"), &["Healthy", "Unhealthy", "Unknown"]);
        let message = resource.at("message");
        if message.exists() && message.as_text().is_empty() {
            errors.required(&message, "must be non-empty if specified");
        } else if message.as_text().len() > HEALTH_MESSAGE_BYTES_MAX {
            errors.too_long(&message, HEALTH_MESSAGE_BYTES_MAX);
        }
        if !seen.insert(resource.text("resourceID")) {
            errors.duplicate(&resource.at("resourceID"), resource.text("resourceID"));
        }
    }
}

/// Validates that a container that has ended for good does not run again.
fn no_restart(status: &Node, before: &Node, list: &str, restart: &str, errors: &mut FieldErrors) {
    if restart == "Always" {
        return;
    }
    for (at, old) in before.items(list).enumerate() {
        let ended = old.at("state.terminated");
        if !ended.exists() || (restart == "OnFailure" && ended.number("exitCode") != 0) {
            continue;
        }
        for new in status.items(list).filter(|new| new.text("name") == old.text("name")) {
            if !new.at("state").has("terminated") {
                let detail = "may not be transitioned to non-terminated state";
                errors.forbidden(&status.item(list, at).at("state"), detail);
            }
        }
    }
}

fn addresses(status: &Node, list: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for address in status.items(list) {
        for error in names::ip(address.text("ip")) {
            errors.invalid(&address, address.text("ip"), &error);
        }
        if !seen.insert(address.text("ip")) {
            errors.duplicate_formatted(&address, &address.value.to_string());
        }
    }
    let sixes = status.items(list).filter(|address| address.text("ip").contains(':')).count();
    let fours = status.length(list) - sixes;
    if sixes > 1 || fours > 1 {
        let all = status.at(list);
        errors.invalid(&all, all.value.clone(), "may specify no more than one IP for each IP family");
    }
}
