//! The deletion of a pod, which has a grace period to end.

use crate::{
    deletion::{Deletion, mark, set_dependents_finalizer},
    document::{Edit, Fields},
    kind::Kind,
    options::DeleteOptions,
    schema::{self, Timestamp},
};
use jiff::SignedDuration;
use serde_json::Value;

/// The changes that the deletion of a pod makes: it gets a grace period.
pub(super) fn plan(kind: &Kind, options: &DeleteOptions, document: &Value, now: Timestamp) -> Deletion {
    let mut marked = document.clone();
    let finalizers_changed = set_dependents_finalizer(kind, options.propagation, &mut marked);
    let held = !marked.finalizers().is_empty();
    let asked = options.grace_period_seconds;
    if let Some(until) = document.field("metadata.deletionTimestamp").and_then(Value::as_str) {
        let left = document.number("metadata.deletionGracePeriodSeconds");
        let shorter = asked.filter(|asked| *asked < left);
        let Some(shorter) = shorter else {
            let removes = !held && left == 0;
            // The propagation policy can still change while the grace period runs.
            return Deletion { marked: (finalizers_changed && left == 0).then_some(marked), removes };
        };
        let asked_first = schema::parse_time(until).and_then(|until| until.checked_sub(seconds(left)).ok());
        let ends = asked_first.and_then(|at| at.checked_add(seconds(shorter)).ok()).unwrap_or(now);
        // Never in the past: the kubelet needs a moment to end the pod.
        let (ends, shorter) = if shorter > 0 && ends < now { (now + seconds(1), 1) } else { (ends, shorter) };
        let metadata = marked.object_or_new("metadata");
        metadata.insert("deletionTimestamp".to_owned(), schema::time(ends).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), shorter.into());
        return Deletion { marked: Some(marked), removes: shorter == 0 && !held };
    }
    let own = document.number_if_set("spec.terminationGracePeriodSeconds").unwrap_or(30);
    let ended = matches!(document.text("status.phase"), "Succeeded" | "Failed");
    let unscheduled = document.text("spec.nodeName").is_empty();
    let grace = if ended || unscheduled { 0 } else { asked.unwrap_or(own).max(0) };
    mark(&mut marked, now.checked_add(seconds(grace)).unwrap_or(now), grace);
    Deletion { marked: Some(marked), removes: grace == 0 && !held }
}

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}
