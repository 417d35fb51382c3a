//! The metadata that objects of every kind have.

use std::{borrow::Cow, collections::BTreeSet};

use super::{
    document::{Faults, Node},
    names,
};
use crate::{kind::NameRule, kinds::core::event};

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What the metadata of a kind has to be.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Which names there may be.
    pub(crate) names: NameRule,
    /// Whether there has to be a namespace.
    pub(crate) namespaced: bool,
    /// Whether a finalizer without a domain has to be one of the known ones.
    pub(crate) known_finalizers: bool,
}

/// Metadata by itself.
pub(crate) fn check(meta: &Node, form: Form, faults: &mut Faults) {
    let prefix = meta.at("generateName");
    if !prefix.text().is_empty() {
        faults.texts(&prefix, names::object_prefix(prefix.text(), form.names));
    }
    let name = meta.at("name");
    if name.text().is_empty() {
        faults.required(&name, "name or generateName is required");
    } else {
        faults.texts(&name, names::object(name.text(), form.names));
    }
    namespace(meta, form.namespaced, faults);
    faults.not_negative(&meta.at("generation"));
    labels(&meta.at("labels"), faults);
    annotations(&meta.at("annotations"), faults);
    owners(meta, faults);
    finalizers(meta, faults);
    managers(meta, faults);
    if form.known_finalizers {
        known_finalizers(meta, faults);
    }
}

/// Metadata beside what it was.
pub(crate) fn check_change(meta: &Node, old: &Node, known: bool, faults: &mut Faults) {
    if old.has("deletionTimestamp") {
        no_new_finalizers(meta, old, faults);
    }
    if meta.number_of("generation") < old.number_of("generation") {
        faults.invalid(&meta.at("generation"), meta.number_of("generation"), "must not be decremented");
    }
    let fields =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for name in fields {
        faults.unchanged(&meta.at(name), &old.at(name));
    }
    labels(&meta.at("labels"), faults);
    annotations(&meta.at("annotations"), faults);
    owners(meta, faults);
    managers(meta, faults);
    if known {
        known_finalizers(meta, faults);
    }
}

fn namespace(meta: &Node, namespaced: bool, faults: &mut Faults) {
    let namespace = meta.at("namespace");
    match (namespaced, namespace.text()) {
        (true, "") => faults.required(&namespace, ""),
        (true, text) => faults.texts(&namespace, names::label(text)),
        (false, "") => {}
        (false, _) => faults.forbidden(&namespace, "not allowed on this type"),
    }
}

/// Labels, blamed as a whole.
pub(crate) fn labels(labels: &Node, faults: &mut Faults) {
    for (key, value) in labels.own_entries() {
        for fault in names::qualified(key) {
            faults.invalid(labels, key, &fault);
        }
        for fault in names::label_value(value.text()) {
            faults.invalid(labels, value.text(), &fault);
        }
    }
}

/// Annotations, blamed as a whole.
pub(crate) fn annotations(annotations: &Node, faults: &mut Faults) {
    let mut bytes = 0;
    for (key, value) in annotations.own_entries() {
        bytes += key.len() + value.text().len();
        let has_upper = key.bytes().any(|b| b.is_ascii_uppercase());
        let lower = if has_upper { Cow::Owned(key.to_ascii_lowercase()) } else { Cow::Borrowed(key) };
        for fault in names::qualified(&lower) {
            faults.invalid(annotations, key, &fault);
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        faults.too_long(annotations, ANNOTATIONS_BYTES_MAX);
    }
}

/// Owners are blamed together: their paths have no index.
fn owners(meta: &Node, faults: &mut Faults) {
    let blamed = meta.at("ownerReferences");
    let mut controller: Option<String> = None;
    for owner in meta.items("ownerReferences") {
        let (version, kind) = (owner.text_of("apiVersion"), owner.text_of("kind"));
        let bare_version = version.rsplit_once('/').map_or(version, |(_, version)| version);
        if bare_version.is_empty() {
            faults.invalid(&blamed.at("apiVersion"), version, "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            if owner.text_of(name).is_empty() {
                faults.invalid(&blamed.at(name), "", "must not be empty");
            }
        }
        if (version, kind) == event::NO_OWNER {
            faults.invalid(&blamed, owner.value.clone(), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.flag("controller") {
            let name = format!("{kind}/{}", owner.text_of("name"));
            if let Some(first) = &controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                faults.invalid(&blamed, blamed.value.clone(), &detail);
            } else {
                controller = Some(name);
            }
        }
    }
}

fn finalizers(meta: &Node, faults: &mut Faults) {
    let blamed = meta.at("finalizers");
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in meta.items("finalizers") {
        for fault in names::qualified(finalizer.text()) {
            faults.invalid(&blamed, finalizer.text(), &fault);
        }
        orphan |= finalizer.text() == "orphan";
        foreground |= finalizer.text() == "foregroundDeletion";
    }
    if orphan && foreground {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        faults.invalid(&blamed, blamed.value.clone(), detail);
    }
}

fn known_finalizers(meta: &Node, faults: &mut Faults) {
    for finalizer in meta.items("finalizers") {
        known_finalizer(&finalizer, faults);
    }
}

/// A finalizer has a domain or is one of the known ones.
pub(crate) fn known_finalizer(finalizer: &Node, faults: &mut Faults) {
    let text = finalizer.text();
    if !text.contains('/') && !STANDARD_FINALIZERS.contains(&text) {
        faults.invalid(
            finalizer,
            text,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

fn no_new_finalizers(meta: &Node, old: &Node, faults: &mut Faults) {
    let had = |name: &str| old.items("finalizers").any(|finalizer| finalizer.text() == name);
    let mut added: Vec<_> =
        meta.items("finalizers").map(|finalizer| finalizer.text()).filter(|name| !had(name)).collect();
    if added.is_empty() {
        return;
    }
    added.sort_unstable();
    added.dedup();
    // The way in which Go shows a list of texts is the way in which Rust debugs one.
    let shown = format!("{added:?}");
    let shown = shown.trim_start_matches('[').trim_end_matches(']');
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    );
    faults.forbidden(&meta.at("finalizers"), &detail);
}

fn managers(meta: &Node, faults: &mut Faults) {
    for entry in meta.items("managedFields") {
        let operation = entry.at("operation");
        if !matches!(operation.text(), "Apply" | "Update") {
            faults.invalid(&operation, operation.text(), "must be `Apply` or `Update`");
        }
        let form = entry.at("fieldsType");
        if !matches!(form.text(), "" | "FieldsV1") {
            faults.invalid(&form, form.text(), "must be `FieldsV1`");
        }
        let manager = entry.at("manager");
        if manager.text().len() > MANAGER_BYTES_MAX {
            faults.too_long(&manager, MANAGER_BYTES_MAX);
        }
        if manager.text().chars().any(char::is_control) {
            faults.invalid(&manager, manager.text(), "should only contain printable characters");
        }
        if entry.text_of("subresource").len() > SUBRESOURCE_BYTES_MAX {
            faults.too_long(&entry.at("subresource"), SUBRESOURCE_BYTES_MAX);
        }
    }
}

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const REASON_RULE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
     alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  \
     or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
     '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// The conditions of an object, in the form that kinds share.
pub(crate) fn conditions(owner: &Node, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for condition in owner.items("conditions") {
        let (ty, reason) = (condition.at("type"), condition.at("reason"));
        if !seen.insert(condition.text_of("type")) {
            faults.duplicate(&ty, ty.text());
        }
        faults.texts(&ty, names::qualified(ty.text()));
        faults.must_be_one_of(&condition.at("status"), &["False", "True", "Unknown"]);
        let generation = condition.number_of("observedGeneration");
        if generation < 0 {
            let detail = "must be greater than or equal to zero";
            faults.invalid(&condition.at("observedGeneration"), generation, detail);
        }
        faults.given(&condition.at("lastTransitionTime"));
        faults.given(&reason);
        if !reason.text().is_empty() && !is_reason(reason.text()) {
            faults.invalid(&reason, reason.text(), REASON_RULE);
        }
        for (name, bytes_max) in [("reason", REASON_BYTES_MAX), ("message", MESSAGE_BYTES_MAX)] {
            if condition.text_of(name).len() > bytes_max {
                faults.too_long(&condition.at(name), bytes_max);
            }
        }
    }
}

/// The conditions in a status.
pub(crate) fn conditions_of_status(new: &Node, _: &Node, faults: &mut Faults) {
    conditions(&new.at("status"), faults);
}

fn is_reason(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(&b))
}
