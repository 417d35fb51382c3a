//! The changes that a deletion makes to an object: decided here as plain data, before anything is stored.
//!
//! Kept true: an object is removed only when it has no finalizers and its grace period is over; a second deletion never
//! makes the grace period longer.

use crate::{
    document::{Edit, Fields},
    error::Error,
    kind::Kind,
    options::{DeleteOptions, Propagation},
    rest::Target,
    schema::{self, Timestamp},
};
use keepwatch_apimachinery::meta::Qualified;
use serde_json::{Value, json};

/// Checks the preconditions of a deletion: the uid and the resource version of the object.
pub(crate) fn check_preconditions(
    target: Target<'_>,
    options: &DeleteOptions,
    document: &Value,
) -> Result<(), Error> {
    let what = Qualified::new(&target.kind.group, &target.kind.name);
    if let Some(wanted) = &options.uid {
        let found = document.text("metadata.uid");
        if wanted != found {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
            );
            return Err(Error::conflict(what, target.name, &why));
        }
    }
    if let Some(wanted) = &options.resource_version {
        let found = document.text("metadata.resourceVersion");
        if wanted != found {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({found}). The object might have been modified"
            );
            return Err(Error::conflict(what, target.name, &why));
        }
    }
    Ok(())
}

/// The changes that a deletion makes to an object.
pub(crate) struct Deletion {
    /// The object as it is written first, if it changes.
    pub(crate) marked: Option<Value>,
    /// Whether the object is removed then.
    pub(crate) removes: bool,
}

impl Deletion {
    /// Whether the deletion writes anything.
    pub(crate) fn writes(&self) -> bool {
        self.marked.is_some() || self.removes
    }
}

/// The deletion of an object of most kinds.
pub(crate) fn plan(kind: &Kind, options: &DeleteOptions, document: &Value, now: Timestamp) -> Deletion {
    let mut marked = document.clone();
    let finalizers_changed = set_dependents_finalizer(kind, options.propagation, &mut marked);
    let held = !marked.finalizers().is_empty();
    if !held {
        return Deletion { marked: finalizers_changed.then_some(marked), removes: true };
    }
    if !document.is_deleting() {
        mark(&mut marked, now, 0);
        return Deletion { marked: Some(marked), removes: false };
    }
    Deletion { marked: finalizers_changed.then_some(marked), removes: false }
}

/// Marks an object for deletion.
pub(crate) fn mark(document: &mut Value, at: Timestamp, grace_seconds: i64) {
    let generation = document.number("metadata.generation");
    let metadata = document.object_or_new("metadata");
    metadata.insert("deletionTimestamp".to_owned(), schema::time(at).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace_seconds.into());
    if generation > 0 {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Sets the finalizer for which the garbage collector orphans or deletes dependents. Returns whether it changed.
pub(crate) fn set_dependents_finalizer(
    kind: &Kind,
    wanted: Option<Propagation>,
    document: &mut Value,
) -> bool {
    if kind.expires {
        return false;
    }
    let before: Vec<String> =
        document.finalizers().iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let has = |name: &str| before.iter().any(|own| own == name);
    let by_default = if kind.orphans_by_default { Propagation::Orphan } else { Propagation::Background };
    let policy = wanted.unwrap_or_else(|| {
        if has(ORPHAN) {
            Propagation::Orphan
        } else if has(FOREGROUND) {
            Propagation::Foreground
        } else {
            by_default
        }
    });
    let own = match policy {
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Background => None,
    };
    let others = before.iter().map(String::as_str).filter(|name| ![FOREGROUND, ORPHAN].contains(name));
    let after: Vec<&str> = others.chain(own).collect();
    if after == before || (own.is_some_and(has) && after.len() == before.len()) {
        return false;
    }
    let after = (!after.is_empty()).then(|| json!(after));
    document.object_or_new("metadata").set("finalizers", after);
    true
}
