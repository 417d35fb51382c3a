//! The validation of objects: of a new object, and of a change.
//!
//! [`create`] and [`update`] return every error of a document, in the order and the words of Kubernetes; no error means
//! that the document is valid. Validation changes nothing: documents come normalised and with their defaults. It needs no
//! storage, so references are not followed and nothing is allocated.
//!
//! Rules for one kind only are in the kind's file, as methods of its strategy; the modules here hold the rules that
//! kinds share. Errors of metadata come more than once on updates, because Kubernetes checks it for every kind and
//! again for most.
//!
//! [`rules`] evaluates the rules that users wrote for their own kinds. It comes last and can take long, so it has a limit in time.
//!
//! Not here: selectors of requests, quotas, the existence of other objects, and the schemas of custom resources.

pub(crate) mod names;
pub(crate) mod metadata;
pub(crate) mod selectors;
pub(crate) mod resources;
pub(crate) mod volumes;
pub(crate) mod containers;
pub(crate) mod pod;
pub(crate) mod pod_security;
pub(crate) mod pod_scheduling;
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

use self::{metadata::Form, warnings::Warnings};
use crate::{
    document::{FieldErrors, Node},
    error::Error,
    kind::{Kind, NameRule},
    options::WriteOptions,
    strategy::{Evaluated, Interrupted, Part},
};
use std::time::Instant;

/// Validates a new object.
pub fn create(kind: &Kind, document: &Value) -> Vec<Cause> {
    let mut errors = FieldErrors::default();
    let object = Node::root(document);
    if kind.strategy.validate_first(&object, None, &mut errors) {
        return errors.0;
    }
    metadata::check(&object.at("metadata"), form(kind), &mut errors);
    kind.strategy.validate(&object, None, &mut errors);
    errors.0
}

/// Validates the new version of an object.
pub fn update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut errors = FieldErrors::default();
    let (new, old) = (Node::root(new), Node::root(old));
    if kind.strategy.validate_first(&new, Some(&old), &mut errors) {
        return errors.0;
    }
    common_change(kind, &new, &old, &mut errors);
    let (strategy, form) = (&kind.strategy, form(kind));
    for step in strategy.update_order() {
        match step {
            Step::MetaChange => metadata::check_change(
                &new.at("metadata"),
                &old.at("metadata"),
                form.known_finalizers,
                &mut errors,
            ),
            Step::Meta => metadata::check(&new.at("metadata"), form, &mut errors),
            Step::Own => strategy.validate(&new, Some(&old), &mut errors),
            Step::Change => strategy.validate_change(&new, &old, &mut errors),
        }
    }
    errors.0
}

/// Validates an object that is changed through a subresource, or as a whole.
pub fn update_part(kind: &Kind, part: Part, new: &Value, old: &Value) -> Vec<Cause> {
    let mut errors = FieldErrors::default();
    match part {
        Part::Main => return update(kind, new, old),
        Part::Status => status_change(kind, &Node::root(new), &Node::root(old), &mut errors),
        part => kind.strategy.validate_part(kind, part, &Node::root(new), &Node::root(old), &mut errors),
    }
    errors.0
}

/// Validates a change of the status.
pub(crate) fn status_change(kind: &Kind, new: &Node, old: &Node, errors: &mut FieldErrors) {
    common_change(kind, new, old, errors);
    let known = form(kind).known_finalizers;
    metadata::check_change(&new.at("metadata"), &old.at("metadata"), known, errors);
    kind.strategy.validate_status(new, old, errors);
}

/// Evaluates the rules that users wrote for a kind, for an object in which validation has found `causes`. Adds the errors
/// to them, and returns warnings about what an update leaves broken.
///
/// # Errors
///
/// The rules took longer than they may.
pub fn rules(
    kind: &Kind,
    new: &Value,
    old: Option<&Value>,
    options: &WriteOptions,
    causes: &mut Vec<Cause>,
) -> Result<Vec<String>, Error> {
    let begun = Instant::now();
    let limits = [options.deadline, options.rules_time_max.map(|max| begun + max)];
    let until = limits.into_iter().flatten().min();
    let interrupted = || until.is_some_and(|until| until <= Instant::now());
    let mut errors = FieldErrors(std::mem::take(causes));
    let evaluated =
        kind.strategy.evaluate_rules(&Evaluated { new, old, interrupted: &interrupted }, &mut errors);
    *causes = errors.0;
    evaluated.map_err(|Interrupted| options.must_be_in_time().err().unwrap_or(Error::TakesLong))
}

/// Warnings about a valid object.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Warnings::default();
    let old = old.map(Node::root);
    kind.strategy.warn(&Node::root(new), old.as_ref(), &mut warnings);
    if let Some(text) = kind.not_enforced {
        warnings.push(text);
    }
    warnings.0
}

/// Applies the rules for updates of all kinds.
pub(crate) fn common_change(kind: &Kind, new: &Node, old: &Node, errors: &mut FieldErrors) {
    let (meta, before) = (new.at("metadata"), old.at("metadata"));
    let form = Form { names: NameRule::PathSegment, namespaced: kind.namespaced, known_finalizers: false };
    metadata::check(&meta, form, errors);
    metadata::check_change(&meta, &before, false, errors);
}

fn form(kind: &Kind) -> Form {
    let names = kind.validated_names;
    Form { names, namespaced: kind.namespaced, known_finalizers: kind.known_finalizers }
}

/// A step of the validation of an update.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    MetaChange,
    Meta,
    Own,
    Change,
}

/// The new object is validated as if it were created, then compared with the old one.
pub(crate) const WHOLE: &[Step] = &[Step::MetaChange, Step::Meta, Step::Own, Step::Change];
/// The same, but the changes are validated first.
pub(crate) const CHANGE_FIRST: &[Step] = &[Step::MetaChange, Step::Change, Step::Meta, Step::Own];
/// The changes are validated first, and names are not validated again.
pub(crate) const CHANGE_THEN_OWN: &[Step] = &[Step::MetaChange, Step::Change, Step::Own];
/// Names are not validated again.
pub(crate) const SPEC: &[Step] = &[Step::MetaChange, Step::Own, Step::Change];
/// Only the comparison.
pub(crate) const CHANGE: &[Step] = &[Step::MetaChange, Step::Change];
/// The change of metadata is validated after the object itself.
pub(crate) const LATE: &[Step] = &[Step::Meta, Step::Own, Step::MetaChange, Step::Change];
/// The change of metadata is validated only as for every kind.
pub(crate) const ITSELF: &[Step] = &[Step::Meta, Step::Own, Step::Change];
/// The same, and everything except the comparison is validated twice.
pub(crate) const TWICE: &[Step] = &[Step::Meta, Step::Own, Step::Meta, Step::Own, Step::Change];
/// Only the kind's own rules.
pub(crate) const OWN: &[Step] = &[Step::Own];
