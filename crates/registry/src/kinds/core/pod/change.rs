//! What may change in a pod, and what is told of one that runs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::validation::{
    containers,
    document::{Faults, Node, same_but},
    names,
    pod::{APP_ARMOR, MIRROR, SECONDS_MAX, same_spec, tolerations},
};

/// Of users and groups.
const ID_MAX: i64 = i32::MAX as i64;

const CHANGEABLE: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
     additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
     previously negative)";

/// What may change in a pod.
pub(crate) fn pod_change(pod: &Node, old: &Node, faults: &mut Faults) {
    annotation_changes(pod, old, faults);
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    if same_spec(pod, old) {
        return;
    }
    for list in ["containers", "initContainers"] {
        if spec.len_of(list) != before.len_of(list) {
            faults.forbidden(&spec.at(list), "pod updates may not add or remove containers");
            return;
        }
        for container in spec.items(list) {
            faults.given(&container.at("image"));
            containers::image_has_no_spaces(&container, faults);
        }
    }
    if !deadline_change(&spec, &before, faults) {
        return;
    }
    toleration_changes(&spec, &before, faults);
    gate_changes(&spec, &before, faults);
    let gated = before.len_of("schedulingGates") > 0;
    if gated {
        gated_changes(&spec, &before, faults);
    }
    if !rest_is_same(&spec, &before, gated) {
        faults.forbidden(&spec, CHANGEABLE);
    }
}

/// Whether a pod only shows one that its node runs by itself.
pub(crate) fn is_mirror(pod: &Node) -> bool {
    pod.at("metadata.annotations").has(MIRROR)
}

/// What may change among the containers that were added to a running pod: more may come, in any order.
pub(crate) fn ephemeral_change(pod: &Node, old: &Node, faults: &mut Faults) {
    let (spec, before) = (pod.at("spec"), old.at("spec"));
    for was in before.items("ephemeralContainers") {
        let name = was.text_of("name");
        let now = spec.items("ephemeralContainers").filter(|now| now.text_of("name") == name).last();
        let done = match now {
            None => "removed\n",
            Some(now) if now.value != was.value => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers \"{name}\" may not be {done}");
        faults.forbidden(&spec.at("ephemeralContainers"), &detail);
    }
}

fn annotation_changes(pod: &Node, old: &Node, faults: &mut Faults) {
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
            faults.forbidden(&value, &format!("may not remove or update {what}"));
        }
    }
    for (key, value) in annotations.own_entries().filter(|(key, _)| before.value.get(*key).is_none()) {
        if let Some(what) = guarded(key) {
            faults.forbidden(&value, &format!("may not add {what}"));
        }
    }
}

/// Whether a change of the deadline leaves more to be looked at.
fn deadline_change(spec: &Node, before: &Node, faults: &mut Faults) -> bool {
    let deadline = spec.at("activeDeadlineSeconds");
    match (deadline.number(), before.at("activeDeadlineSeconds").number()) {
        (Some(now), _) if !(0..=SECONDS_MAX).contains(&now) => {
            faults.invalid(&deadline, now, &format!("must be between 0 and {SECONDS_MAX}, inclusive"));
            false
        }
        (Some(now), Some(was)) if was < now => {
            faults.invalid(&deadline, now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            faults.invalid(&deadline, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn toleration_changes(spec: &Node, before: &Node, faults: &mut Faults) {
    let kept = |old: Node| {
        spec.items("tolerations").any(|new| same_but(new.value, old.value, &["tolerationSeconds"]))
    };
    if !before.items("tolerations").all(kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden(&spec.at("tolerations"), detail);
        return;
    }
    tolerations(spec, faults);
}

fn gate_changes(spec: &Node, before: &Node, faults: &mut Faults) {
    for gate in spec.items("schedulingGates") {
        let name = gate.text_of("name");
        if !before.items("schedulingGates").any(|old| old.text_of("name") == name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.forbidden(&gate.at("name"), &detail);
        }
    }
}

/// Before a pod can be scheduled, the choice of its node may be narrowed.
fn gated_changes(spec: &Node, before: &Node, faults: &mut Faults) {
    let selector = spec.at("nodeSelector");
    if !before.entries("nodeSelector").all(|(key, value)| selector.value.get(key) == Some(value.value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.invalid(&selector, selector.value.clone(), detail);
    }
    let (required, was) = (
        spec.at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        before.at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
    );
    let count = was.len_of("nodeSelectorTerms");
    let terms = required.at("nodeSelectorTerms");
    if count > 0 && count != required.len_of("nodeSelectorTerms") {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        faults.invalid(&terms, terms.value.clone(), detail);
        return;
    }
    for (new, old) in required.items("nodeSelectorTerms").zip(was.items("nodeSelectorTerms")) {
        if !only_adds(&new, &old) {
            faults.invalid(&new, new.value.clone(), "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn only_adds(new: &Node, old: &Node) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Node| lists.iter().all(|list| term.len_of(list) == 0);
    if is_empty(old) {
        return is_empty(new);
    }
    lists.iter().all(|list| {
        new.len_of(list) >= old.len_of(list)
            && new.items(list).zip(old.items(list)).all(|(new, old)| new.value == old.value)
    })
}

fn rest_is_same(spec: &Node, before: &Node, gated: bool) -> bool {
    let grace = |spec: &Node| spec.number_of("terminationGracePeriodSeconds");
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
        spec.items(list).zip(before.items(list)).all(|(new, old)| same_but(new.value, old.value, &["image"]))
    };
    same_but(spec.value, before.value, &except)
        && same_containers("containers")
        && same_containers("initContainers")
}

/// What may change in a pod's status.
pub(crate) fn pod_status(pod: &Node, old: &Node, faults: &mut Faults) {
    annotation_changes(pod, old, faults);
    let (status, before) = (pod.at("status"), old.at("status"));
    for condition in status.items("conditions") {
        let kind = condition.at_as("type", "Type");
        faults.texts(&kind, names::qualified(kind.text()));
        generation(&condition, faults);
    }
    generation(&status, faults);
    if pod.at("spec").text_of("nodeName") != old.at("spec").text_of("nodeName") {
        faults.forbidden(&status.at("nodeName"), "may not be changed directly");
    }
    let nominated = status.at("nominatedNodeName");
    if nominated.text() != before.text_of("nominatedNodeName") {
        faults.if_given(&nominated, names::subdomain);
    }
    faults.unchanged(&status.at("qosClass"), &before.at("qosClass"));
    let restart = old.at("spec").text_of("restartPolicy");
    no_resurrection(&status, &before, "containerStatuses", restart, faults);
    let spec = old.at("spec");
    if !spec.items("initContainers").any(|container| container.text_of("restartPolicy") == "Always") {
        no_resurrection(&status, &before, "initContainerStatuses", restart, faults);
    }
    no_resurrection(&status, &before, "ephemeralContainerStatuses", "Never", faults);
    claim_statuses(pod, faults);
    extended_claim(pod, faults);
    addresses(&status, "podIPs", faults);
    if status.len_of("hostIPs") > 0 {
        let first = status.item("hostIPs", 0);
        if first.text_of("ip") != status.text_of("hostIP") {
            faults.invalid(&first.at("ip"), first.text_of("ip"), "must be equal to `hostIP`");
        }
        addresses(&status, "hostIPs", faults);
    }
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        let spec = pod.at("spec");
        for container in status.items(list) {
            let own = spec.items(containers).find(|own| own.text_of("name") == container.text_of("name"));
            for allocated in container.items("allocatedResourcesStatus") {
                if let Some(own) = &own {
                    must_be_asked_for(own, &allocated.at("name"), faults);
                }
                health(&allocated, faults);
            }
        }
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in status.items(list) {
            container_user(&container, faults);
        }
    }
    for container in status.items("ephemeralContainerStatuses") {
        if container.len_of("allocatedResourcesStatus") > 0 {
            let at = container.at("allocatedResourcesStatus");
            faults.forbidden(&at, "must not be specified in container status");
        }
    }
}

/// The generation that was looked at last.
fn generation(of: &Node, faults: &mut Faults) {
    let generation = of.at("observedGeneration");
    if let Some(number) = generation.number().filter(|number| *number < 0) {
        faults.invalid(&generation, number, "must be a non-negative integer");
    }
}

/// The user under which a container runs.
fn container_user(container: &Node, faults: &mut Faults) {
    let user = container.at("user.linux");
    for id in [user.at("uid"), user.at("gid")].into_iter().chain(user.items("supplementalGroups")) {
        if let Some(number) = id.number().filter(|number| !(0..=ID_MAX).contains(number)) {
            let detail = format!("must be between 0 and {ID_MAX}, inclusive");
            faults.invalid(&id, number, &detail);
        }
    }
}

/// A claim that a pod's status speaks of is one that the pod has.
fn claim_statuses(pod: &Node, faults: &mut Faults) {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let mut seen = BTreeSet::new();
    for claim in status.items("resourceClaimStatuses") {
        let name = claim.at("name");
        if !spec.items("resourceClaims").any(|own| own.text_of("name") == name.text()) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            faults.invalid(&name, name.text(), detail);
        }
        if !seen.insert(name.text()) {
            faults.duplicate(&name, name.text());
        }
        let object = claim.at("resourceClaimName");
        if object.exists() {
            faults.texts(&object, names::subdomain(object.text()));
        }
    }
}

/// The claim that was made for a pod's extended resources.
fn extended_claim(pod: &Node, faults: &mut Faults) {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let claim = status.at("extendedResourceClaimStatus");
    if !claim.exists() {
        return;
    }
    if claim.len_of("requestMappings") == 0 {
        faults.required(&claim.at("requestMappings"), "at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for mapping in claim.items("requestMappings") {
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|name| mapping.text_of(name));
        let mut all = spec.items("containers").chain(spec.items("initContainers"));
        match all.find(|own| own.text_of("name") == container) {
            Some(own) if own.at("resources.requests").value.get(resource).is_none() => {
                let detail = "must match the extended resource name of an entry in \
                     spec.initContainers.resources.requests or spec.containers.resources.requests";
                faults.invalid(&mapping.at("resourceName"), resource, detail);
            }
            Some(_) => {}
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                faults.invalid(&mapping.at("containerName"), container, detail);
            }
        }
        // Upstream reports it at the claim.
        for detail in names::label(request) {
            faults.invalid(&claim.at("requestName"), request, &detail);
        }
        if !seen.insert((container, resource, request)) {
            for (name, value) in
                [("containerName", container), ("resourceName", resource), ("requestName", request)]
            {
                faults.duplicate(&mapping.at(name), value);
            }
        }
    }
    faults.named(&claim.at("resourceClaimName"), names::subdomain);
}

/// A resource that was allocated for a container is one that it asks for.
fn must_be_asked_for(container: &Node, resource: &Node, faults: &mut Faults) {
    let claimed = |claim: &Node| match (claim.text_of("name"), claim.text_of("request")) {
        (name, "") => format!("claim:{name}"),
        (name, request) => format!("claim:{name}/{request}"),
    };
    let asked = container.at("resources");
    let (is_asked_for, detail) = if resource.text().starts_with("claim:") {
        let detail = "must match one of the container's resource claims in a format \
             'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
        (asked.items("claims").any(|claim| claimed(&claim) == resource.text()), detail)
    } else {
        let detail = "must match one of the container's resource requests";
        (asked.at("requests").value.get(resource.text()).is_some(), detail)
    };
    if !is_asked_for {
        faults.invalid(resource, resource.text(), detail);
    }
}

/// How many bytes there may be in what is said of a device's health.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1024;

fn health(allocated: &Node, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for resource in allocated.items("resources") {
        faults.must_be_one_of(&resource.at("health"), &["Healthy", "Unhealthy", "Unknown"]);
        let message = resource.at("message");
        if message.exists() && message.text().is_empty() {
            faults.required(&message, "must be non-empty if specified");
        } else if message.text().len() > HEALTH_MESSAGE_BYTES_MAX {
            faults.too_long(&message, HEALTH_MESSAGE_BYTES_MAX);
        }
        if !seen.insert(resource.text_of("resourceID")) {
            faults.duplicate(&resource.at("resourceID"), resource.text_of("resourceID"));
        }
    }
}

/// A container that ended for good does not run again.
fn no_resurrection(status: &Node, before: &Node, list: &str, restart: &str, faults: &mut Faults) {
    if restart == "Always" {
        return;
    }
    for (at, old) in before.items(list).enumerate() {
        let ended = old.at("state.terminated");
        if !ended.exists() || (restart == "OnFailure" && ended.number_of("exitCode") != 0) {
            continue;
        }
        for new in status.items(list).filter(|new| new.text_of("name") == old.text_of("name")) {
            if !new.at("state").has("terminated") {
                let detail = "may not be transitioned to non-terminated state";
                faults.forbidden(&status.item(list, at).at("state"), detail);
            }
        }
    }
}

fn addresses(status: &Node, list: &str, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for address in status.items(list) {
        for fault in names::ip(address.text_of("ip")) {
            faults.invalid(&address, address.text_of("ip"), &fault);
        }
        if !seen.insert(address.text_of("ip")) {
            faults.duplicate_shown(&address, &address.value.to_string());
        }
    }
    let sixes = status.items(list).filter(|address| address.text_of("ip").contains(':')).count();
    let fours = status.len_of(list) - sixes;
    if sixes > 1 || fours > 1 {
        let all = status.at(list);
        faults.invalid(&all, all.value.clone(), "may specify no more than one IP for each IP family");
    }
}
