//! Whether an object may be stored as it is, and whether it may become what it is to be.
//!
//! [`create`] and [`update`] tell every fault of a document, in the order in which Kubernetes asks its rules and in its
//! words; no fault means that the document keeps all of them. Rules only look: documents come normalised and with their
//! defaults, and nothing here needs the store, so references are not followed and nothing is allocated.
//!
//! What is asked of one kind only stands in the kind's file, as methods of its strategy; the modules here hold the rules that
//! kinds share. Faults of metadata come more than once on updates, because Kubernetes checks it for every kind and again
//! for most.
//!
//! Not here: selectors of requests, quotas, whether others exist, and the schemas of custom resources.

pub(crate) mod document;
pub(crate) mod names;
pub(crate) mod metadata;
pub(crate) mod selectors;
pub(crate) mod resources;
pub(crate) mod volumes;
pub(crate) mod containers;
pub(crate) mod pod;
pub(crate) mod cron;
pub(crate) mod workloads;
pub(crate) mod service;
pub(crate) mod storage;
pub(crate) mod warnings;
pub(crate) mod windows;

#[cfg(test)]
pub(crate) mod tests;

use keepwatch_apimachinery::status::Cause;
use serde_json::Value;

use self::{
    document::{Faults, Node},
    metadata::Form,
    warnings::Warnings,
};
use crate::{
    defaults::qos::qos_class,
    kind::{Kind, NameRule},
    kinds::core::pod::change as pod_change,
};

/// What is wrong with a new object.
pub fn create(kind: &Kind, document: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let object = Node::root(document);
    if kind.strategy.validate_addresses(&object, None, &mut faults) {
        return faults.0;
    }
    metadata::check(&object.at("metadata"), form(kind), &mut faults);
    kind.strategy.validate(&object, None, &mut faults);
    faults.0
}

/// What is wrong with an object that is to take the place of another.
pub fn update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let (new, old) = (Node::root(new), Node::root(old));
    if kind.strategy.validate_addresses(&new, Some(&old), &mut faults) {
        return faults.0;
    }
    common_change(kind, &new, &old, &mut faults);
    let (strategy, form) = (&kind.strategy, form(kind));
    for step in strategy.update_order() {
        match step {
            Step::MetaChange => metadata::check_change(
                &new.at("metadata"),
                &old.at("metadata"),
                form.known_finalizers,
                &mut faults,
            ),
            Step::Meta => metadata::check(&new.at("metadata"), form, &mut faults),
            Step::Own => strategy.validate(&new, Some(&old), &mut faults),
            Step::Change => strategy.validate_change(&new, &old, &mut faults),
        }
    }
    faults.0
}

/// What is wrong with an object whose status is to change.
pub fn update_status(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let (new, old) = (Node::root(new), Node::root(old));
    common_change(kind, &new, &old, &mut faults);
    let known = form(kind).known_finalizers;
    metadata::check_change(&new.at("metadata"), &old.at("metadata"), known, &mut faults);
    kind.strategy.validate_status(&new, &old, &mut faults);
    faults.0
}

/// What is wrong with a pod whose containers are resized; what a plain update may change does not count.
pub fn resize_containers(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Faults::default();
    let (new, old) = (Node::root(new), Node::root(old));
    common_change(kind, &new, &old, &mut faults);
    kind.strategy.validate(&new, Some(&old), &mut faults);
    let class = |pod: &Node| qos_class(pod.at("spec").value);
    if class(&new) != class(&old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        faults.invalid(&new.at("spec"), class(&new), detail);
    }
    faults.0
}

/// What is wrong with a pod to which containers are added while it runs.
pub fn add_containers(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    if pod_change::is_mirror(&Node::root(old)) {
        return vec![Cause::forbidden("", "static pods do not support ephemeral containers")];
    }
    let mut faults = Faults(resize_containers(kind, new, old));
    pod_change::ephemeral_change(&Node::root(new), &Node::root(old), &mut faults);
    faults.0
}

/// What is fine, but better avoided.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let old = old.map(Node::root);
    kind.strategy.warn(&Node::root(new), old.as_ref(), &mut warnings);
    if let Some(text) = kind.not_enforced {
        warnings.push(text);
    }
    warnings.0
}

/// What every update is asked, whatever the kind.
fn common_change(kind: &Kind, new: &Node, old: &Node, faults: &mut Faults) {
    let (meta, before) = (new.at("metadata"), old.at("metadata"));
    let form = Form { names: NameRule::PathSegment, namespaced: kind.namespaced, known_finalizers: false };
    metadata::check(&meta, form, faults);
    metadata::check_change(&meta, &before, false, faults);
}

fn form(kind: &Kind) -> Form {
    let names = kind.validated_names;
    Form { names, namespaced: kind.namespaced, known_finalizers: kind.known_finalizers }
}

/// One thing that an update asks.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    MetaChange,
    Meta,
    Own,
    Change,
}

/// What is new is looked at as if it were created, then beside what was.
pub(crate) const WHOLE: &[Step] = &[Step::MetaChange, Step::Meta, Step::Own, Step::Change];
/// The same, but what may change comes first.
pub(crate) const CHANGE_FIRST: &[Step] = &[Step::MetaChange, Step::Change, Step::Meta, Step::Own];
/// What may change comes first, and names are not looked at again.
pub(crate) const CHANGE_THEN_OWN: &[Step] = &[Step::MetaChange, Step::Change, Step::Own];
/// Names are not looked at again.
pub(crate) const SPEC: &[Step] = &[Step::MetaChange, Step::Own, Step::Change];
/// Only what may change is looked at.
pub(crate) const CHANGE: &[Step] = &[Step::MetaChange, Step::Change];
/// The change of metadata comes late.
pub(crate) const LATE: &[Step] = &[Step::Meta, Step::Own, Step::MetaChange, Step::Change];
/// The change of metadata is left to what every kind is asked.
pub(crate) const ITSELF: &[Step] = &[Step::Meta, Step::Own, Step::Change];
/// The same, and all but the change is asked twice.
pub(crate) const TWICE: &[Step] = &[Step::Meta, Step::Own, Step::Meta, Step::Own, Step::Change];
/// Only the kind's own rules are asked.
pub(crate) const OWN: &[Step] = &[Step::Own];
