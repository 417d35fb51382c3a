//! The metadata that objects of every kind have.

use std::{borrow::Cow, collections::BTreeSet};

use super::names;
use crate::{
    document::{FieldErrors, Fields, Node},
    kind::NameRule,
    kinds::core::event,
};

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The rules of a kind for metadata.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// The rule for names.
    pub(crate) names: NameRule,
    /// Whether there has to be a namespace.
    pub(crate) namespaced: bool,
    /// Whether a finalizer without a domain has to be one of the known ones.
    pub(crate) known_finalizers: bool,
}

/// Validates the metadata of an object.
pub(crate) fn check(meta: &Node, form: Form, errors: &mut FieldErrors) {
    let prefix = meta.at("generateName");
    if !prefix.as_text().is_empty() {
        errors.invalid_each(&prefix, names::object_prefix(prefix.as_text(), form.names));
    }
    let name = meta.at("name");
    if name.as_text().is_empty() {
        errors.required(&name, "name or generateName is required");
    } else {
        errors.invalid_each(&name, names::object(name.as_text(), form.names));
    }
    namespace(meta, form.namespaced, errors);
    errors.not_negative(&meta.at("generation"));
    labels(&meta.at("labels"), errors);
    annotations(&meta.at("annotations"), errors);
    owners(meta, errors);
    finalizers(meta, errors);
    managers(meta, errors);
    if form.known_finalizers {
        known_finalizers(meta, errors);
    }
}

/// Validates a change of the metadata.
pub(crate) fn check_change(meta: &Node, old: &Node, known: bool, errors: &mut FieldErrors) {
    if old.has("deletionTimestamp") {
        no_new_finalizers(meta, old, errors);
    }
    if meta.number("generation") < old.number("generation") {
        errors.invalid(&meta.at("generation"), meta.number("generation"), "must not be decremented");
    }
    let fields =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for name in fields {
        errors.immutable(&meta.at(name), &old.at(name));
    }
    labels(&meta.at("labels"), errors);
    annotations(&meta.at("annotations"), errors);
    owners(meta, errors);
    managers(meta, errors);
    if known {
        known_finalizers(meta, errors);
    }
}

fn namespace(meta: &Node, namespaced: bool, errors: &mut FieldErrors) {
    let namespace = meta.at("namespace");
    match (namespaced, namespace.as_text()) {
        (true, "") => errors.required(&namespace, ""),
        (true, text) => errors.invalid_each(&namespace, names::label(text)),
        (false, "") => {}
        (false, _) => errors.forbidden(&namespace, "not allowed on this type"),
    }
}

/// Validates labels. Errors have the path of the whole map.
pub(crate) fn labels(labels: &Node, errors: &mut FieldErrors) {
    for (key, value) in labels.own_entries() {
        for error in names::qualified(key) {
            errors.invalid(labels, key, &error);
        }
        for error in names::label_value(value.as_text()) {
            errors.invalid(labels, value.as_text(), &error);
        }
    }
}

/// Validates annotations. Errors have the path of the whole map.
pub(crate) fn annotations(annotations: &Node, errors: &mut FieldErrors) {
    let mut bytes = 0;
    for (key, value) in annotations.own_entries() {
        bytes += key.len() + value.as_text().len();
        let has_upper = key.bytes().any(|b| b.is_ascii_uppercase());
        let lower = if has_upper { Cow::Owned(key.to_ascii_lowercase()) } else { Cow::Borrowed(key) };
        for error in names::qualified(&lower) {
            errors.invalid(annotations, key, &error);
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.too_long(annotations, ANNOTATIONS_BYTES_MAX);
    }
}

/// Validates owner references. The paths of errors have no index.
fn owners(meta: &Node, errors: &mut FieldErrors) {
    let reported_at = meta.at("ownerReferences");
    let mut controller: Option<String> = None;
    for owner in meta.items("ownerReferences") {
        let (version, kind) = (owner.text("apiVersion"), owner.text("kind"));
        let bare_version = version.rsplit_once('/').map_or(version, |(_, version)| version);
        if bare_version.is_empty() {
            errors.invalid(&reported_at.at("apiVersion"), version, "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            if owner.text(name).is_empty() {
                errors.invalid(&reported_at.at(name), "", "must not be empty");
            }
        }
        if (version, kind) == event::NO_OWNER {
            errors.invalid(
                &reported_at,
                owner.value.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if owner.flag("controller") {
            let name = format!("{kind}/{}", owner.text("name"));
            if let Some(first) = &controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                errors.invalid(&reported_at, reported_at.value.clone(), &detail);
            } else {
                controller = Some(name);
            }
        }
    }
}

fn finalizers(meta: &Node, errors: &mut FieldErrors) {
    let reported_at = meta.at("finalizers");
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in meta.items("finalizers") {
        for error in names::qualified(finalizer.as_text()) {
            errors.invalid(&reported_at, finalizer.as_text(), &error);
        }
        orphan |= finalizer.as_text() == "orphan";
        foreground |= finalizer.as_text() == "foregroundDeletion";
    }
    if orphan && foreground {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(&reported_at, reported_at.value.clone(), detail);
    }
}

fn known_finalizers(meta: &Node, errors: &mut FieldErrors) {
    for finalizer in meta.items("finalizers") {
        known_finalizer(&finalizer, errors);
    }
}

/// Validates that a finalizer has a domain or is one of the known ones.
pub(crate) fn known_finalizer(finalizer: &Node, errors: &mut FieldErrors) {
    let text = finalizer.as_text();
    if !text.contains('/') && !STANDARD_FINALIZERS.contains(&text) {
        errors.invalid(
            finalizer,
            text,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

fn no_new_finalizers(meta: &Node, old: &Node, errors: &mut FieldErrors) {
    let had = |name: &str| old.items("finalizers").any(|finalizer| finalizer.as_text() == name);
    let mut added: Vec<_> =
        meta.items("finalizers").map(|finalizer| finalizer.as_text()).filter(|name| !had(name)).collect();
    if added.is_empty() {
        return;
    }
    added.sort_unstable();
    added.dedup();
    // Go formats a list of texts as Rust's `Debug` does.
    let shown = format!("{added:?}");
    let shown = shown.trim_start_matches('[').trim_end_matches(']');
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    );
    errors.forbidden(&meta.at("finalizers"), &detail);
}

fn managers(meta: &Node, errors: &mut FieldErrors) {
    for entry in meta.items("managedFields") {
        let operation = entry.at("operation");
        if !matches!(operation.as_text(), "Apply" | "Update") {
            errors.invalid(&operation, operation.as_text(), "must be `Apply` or `Update`");
        }
        let form = entry.at("fieldsType");
        if !matches!(form.as_text(), "" | "FieldsV1") {
            errors.invalid(&form, form.as_text(), "must be `FieldsV1`");
        }
        let manager = entry.at("manager");
        if manager.as_text().len() > MANAGER_BYTES_MAX {
            errors.too_long(&manager, MANAGER_BYTES_MAX);
        }
        if manager.as_text().chars().any(char::is_control) {
            errors.invalid(&manager, manager.as_text(), "should only contain printable characters");
        }
        if entry.text("subresource").len() > SUBRESOURCE_BYTES_MAX {
            errors.too_long(&entry.at("subresource"), SUBRESOURCE_BYTES_MAX);
        }
    }
}

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const REASON_RULE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
     alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  \
     or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
     '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates the conditions of an object, in the form that kinds share.
pub(crate) fn conditions(owner: &Node, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for condition in owner.items("conditions") {
        let (ty, reason) = (condition.at("type"), condition.at("reason"));
        if !seen.insert(condition.text("type")) {
            errors.duplicate(&ty, ty.as_text());
        }
        errors.invalid_each(&ty, names::qualified(ty.as_text()));
        errors.must_be_one_of(&condition.at("status"), &["False", "True", "Unknown"]);
        let generation = condition.number("observedGeneration");
        if generation < 0 {
            let detail = "must be greater than or equal to zero";
            errors.invalid(&condition.at("observedGeneration"), generation, detail);
        }
        errors.not_empty(&condition.at("lastTransitionTime"));
        errors.not_empty(&reason);
        if !reason.as_text().is_empty() && !is_reason(reason.as_text()) {
            errors.invalid(&reason, reason.as_text(), REASON_RULE);
        }
        for (name, bytes_max) in [("reason", REASON_BYTES_MAX), ("message", MESSAGE_BYTES_MAX)] {
            if condition.text(name).len() > bytes_max {
                errors.too_long(&condition.at(name), bytes_max);
            }
        }
    }
}

/// Validates the conditions in a status.
pub(crate) fn conditions_of_status(new: &Node, _: &Node, errors: &mut FieldErrors) {
    conditions(&new.at("status"), errors);
}

fn is_reason(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(&b))
}
