//! What becomes of an object that is to be deleted: plain decisions, before anything is stored.
//!
//! Kept true: an object goes only when nobody holds it by a finalizer and its time is up; what is already going is not made
//! to stay longer.

use crate::{
    kind::Kind,
    options::{DeleteOptions, Propagation},
    rest::Target,
    schema::{self, Timestamp},
    value::{at, fields, finalizers, integer, is_deleting, list, set, text},
};
use keepwatch_apimachinery::{meta::Qualified, status::Status};
use serde_json::{Value, json};

/// A deletion that says which object or version it means is for no other.
pub(crate) fn must_meet(target: Target<'_>, options: &DeleteOptions, document: &Value) -> Result<(), Status> {
    let what = Qualified::new(&target.kind.group, &target.kind.name);
    if let Some(wanted) = &options.uid {
        let found = text(document, &["metadata", "uid"]);
        if wanted != found {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(what, target.name, &why));
        }
    }
    if let Some(wanted) = &options.resource_version {
        let found = text(document, &["metadata", "resourceVersion"]);
        if wanted != found {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({found}). The object might have been modified"
            );
            return Err(Status::conflict(what, target.name, &why));
        }
    }
    Ok(())
}

/// How an object is deleted.
pub(crate) struct Deletion {
    /// What is stored first, if anything.
    pub(crate) marked: Option<Value>,
    /// Whether the object goes then.
    pub(crate) removes: bool,
}

impl Deletion {
    /// Whether anything is to be done at all.
    pub(crate) fn writes(&self) -> bool {
        self.marked.is_some() || self.removes
    }
}

pub(crate) fn plan_deletion(
    kind: &Kind,
    options: &DeleteOptions,
    document: &Value,
    now: Timestamp,
) -> Deletion {
    if kind.ty.name == "core.v1.Namespace" {
        return plan_namespace_deletion(kind, options, document, now);
    }
    let mut marked = document.clone();
    let finalizers_changed = set_dependents_finalizer(kind, options.propagation, &mut marked);
    let held = !finalizers(&marked).is_empty();
    if kind.ty.name == "core.v1.Pod" {
        return plan_pod_deletion(options, document, marked, finalizers_changed, held, now);
    }
    if !held {
        return Deletion { marked: finalizers_changed.then_some(marked), removes: true };
    }
    if !is_deleting(document) {
        mark(&mut marked, now, 0);
        return Deletion { marked: Some(marked), removes: false };
    }
    Deletion { marked: finalizers_changed.then_some(marked), removes: false }
}

fn mark(document: &mut Value, at: Timestamp, grace_seconds: i64) {
    let generation = integer(document, &["metadata", "generation"]).unwrap_or(0);
    let metadata = fields(document, &["metadata"]);
    metadata.insert("deletionTimestamp".to_owned(), schema::time(at).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace_seconds.into());
    if generation > 0 {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

fn plan_namespace_deletion(
    kind: &Kind,
    options: &DeleteOptions,
    document: &Value,
    now: Timestamp,
) -> Deletion {
    let held = |document: &Value| {
        !finalizers(document).is_empty() || !list(document, &["spec", "finalizers"]).is_empty()
    };
    if is_deleting(document) {
        return Deletion { marked: None, removes: !held(document) };
    }
    let mut marked = document.clone();
    set_dependents_finalizer(kind, options.propagation, &mut marked);
    if !held(&marked) {
        return Deletion { marked: None, removes: true };
    }
    fields(&mut marked, &["metadata"]).insert("deletionTimestamp".to_owned(), schema::time(now).into());
    fields(&mut marked, &["status"]).insert("phase".to_owned(), "Terminating".into());
    Deletion { marked: Some(marked), removes: false }
}

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What becomes of dependents is told to whoever collects them by a finalizer. Returns whether that changed.
fn set_dependents_finalizer(kind: &Kind, wanted: Option<Propagation>, document: &mut Value) -> bool {
    if kind.expires {
        return false;
    }
    let before: Vec<String> =
        finalizers(document).iter().filter_map(Value::as_str).map(str::to_owned).collect();
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
    set(fields(document, &["metadata"]), "finalizers", after);
    true
}

fn plan_pod_deletion(
    options: &DeleteOptions,
    document: &Value,
    mut marked: Value,
    finalizers_changed: bool,
    held: bool,
    now: Timestamp,
) -> Deletion {
    let asked = options.grace_period_seconds;
    if let Some(until) = at(document, &["metadata", "deletionTimestamp"]).and_then(Value::as_str) {
        let left = integer(document, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        let shorter = asked.filter(|asked| *asked < left);
        let Some(shorter) = shorter else {
            let removes = !held && left == 0;
            // What becomes of dependents is settled while the pod still has time.
            return Deletion { marked: (finalizers_changed && left == 0).then_some(marked), removes };
        };
        let asked_first = schema::parse_time(until).and_then(|until| until.checked_sub(seconds(left)).ok());
        let ends = asked_first.and_then(|at| at.checked_add(seconds(shorter)).ok()).unwrap_or(now);
        // Never in the past: whoever ends the pod is to have a moment.
        let (ends, shorter) = if shorter > 0 && ends < now { (now + seconds(1), 1) } else { (ends, shorter) };
        let metadata = fields(&mut marked, &["metadata"]);
        metadata.insert("deletionTimestamp".to_owned(), schema::time(ends).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), shorter.into());
        return Deletion { marked: Some(marked), removes: shorter == 0 && !held };
    }
    let own = integer(document, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    let ended = matches!(text(document, &["status", "phase"]), "Succeeded" | "Failed");
    let unscheduled = text(document, &["spec", "nodeName"]).is_empty();
    let grace = if ended || unscheduled { 0 } else { asked.unwrap_or(own).max(0) };
    mark(&mut marked, now.checked_add(seconds(grace)).unwrap_or(now), grace);
    Deletion { marked: Some(marked), removes: grace == 0 && !held }
}

fn seconds(count: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_secs(count)
}
