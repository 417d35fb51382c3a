//! Deletes the contents of terminating namespaces, so that no controller manager is needed for it.
//!
//! The pods are deleted first, then the other objects, resource by resource. Objects with finalizers stay until these are
//! removed. When nothing is left, the namespace's own finalizer is removed, and with it the namespace. Its conditions show
//! the progress, as the controller manager writes them.

use crate::{
    document::{Edit, Fields},
    error::Error,
    kind::Kind,
    kinds::{NAMESPACES, known},
    options::{DeleteOptions, Propagation, WriteOptions},
    rest::{Change, Deleted, Registry, Target, document_of},
    schema::{self, Timestamp},
    strategy::{Part, Requester},
};
use futures::StreamExt;
use keepwatch_apimachinery::list_options::{ListAt, Position, WatchStart};
use keepwatch_storage::{ListRequest, WatchEvent, WatchRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinSet;

/// The time until the next attempt to empty a namespace that is not empty yet.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The finalizer in a namespace's spec that remains until the namespace is empty.
const CONTENTS: &str = "kubernetes";

/// Follows the namespaces and empties the deleted ones, for as long as the server runs.
pub async fn empty_deleted_namespaces(registry: Arc<Registry>) {
    let kind = &*NAMESPACES;
    let Some(storage) = registry.storage(kind) else { return };
    let target = Target { kind, namespace: "", name: "" };
    let busy: Arc<Mutex<HashSet<String>>> = Arc::default();
    // They end with this task: one that waits for a client's finalizer would otherwise outlive the server.
    let mut jobs = JoinSet::new();
    loop {
        if let Ok(mut watch) = storage.watch(&target.key(), WatchRequest::from(WatchStart::state())).await {
            while let Some(Ok(event)) = watch.next().await {
                while jobs.try_join_next().is_some() {}
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
                let namespace = document_of(&object.value, None);
                let own = namespace.name().to_owned();
                if namespace.is_deleting() && holds_contents(&namespace) && busy.lock().insert(own.clone()) {
                    let (registry, busy) = (Arc::clone(&registry), Arc::clone(&busy));
                    jobs.spawn(async move {
                        // A namespace of that name may be created and deleted again before this task has removed its
                        // job.
                        let mut due = true;
                        while due {
                            empty(&registry, &own).await;
                            busy.lock().remove(&own);
                            due = is_due(&registry, &own).await && busy.lock().insert(own.clone());
                        }
                    });
                }
            }
        }
        tokio::time::sleep(RETRY_MAX).await;
    }
}

fn holds_contents(namespace: &Value) -> bool {
    namespace.list("spec.finalizers").iter().any(|own| own == CONTENTS)
}

async fn is_due(registry: &Registry, namespace: &str) -> bool {
    matches!(due(registry, namespace).await, Ok(Some(_)))
}

/// The uid of a namespace that has to be emptied; none if it does not, or is gone.
async fn due(registry: &Registry, namespace: &str) -> Result<Option<String>, Error> {
    let target = Target { kind: &NAMESPACES, namespace: "", name: namespace };
    match registry.get(target, Position::MostRecent).await {
        Ok(object) => {
            let own = document_of(&object.value, None);
            let uid = own.text("metadata.uid").to_owned();
            Ok((own.is_deleting() && holds_contents(&own)).then_some(uid))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn empty(registry: &Registry, namespace: &str) {
    let mut wait = RETRY_MIN;
    loop {
        // Another server may have been faster, and the name may belong to another namespace by now.
        match due(registry, namespace).await {
            Ok(None) => return,
            Ok(Some(uid)) => {
                if try_to_empty(registry, namespace, &uid).await {
                    return;
                }
            }
            Err(error) => tracing::warn!(namespace, %error, "a namespace could not be read"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// Deletes as much as possible and writes the remaining contents to the status. Returns whether nothing is left to do.
async fn try_to_empty(registry: &Registry, namespace: &str, uid: &str) -> bool {
    let remaining = delete_contents(registry, namespace, uid).await;
    for error in &remaining.failures {
        tracing::warn!(namespace, %error, "a namespace could not be emptied");
    }
    // The conditions are written even if all is gone: clients may have added finalizers to the namespace.
    match write_conditions(registry, namespace, uid, &remaining).await {
        Err(error) if error.is_not_found() => return true,
        Err(error) => tracing::warn!(namespace, %error, "the conditions of a namespace could not be written"),
        Ok(()) => {}
    }
    if !remaining.is_empty() {
        return false;
    }
    match finalize(registry, namespace, uid).await {
        Ok(()) => true,
        Err(error) if error.is_not_found() => true,
        Err(error) => {
            tracing::warn!(namespace, %error, "a namespace could not be finalized");
            false
        }
    }
}

/// The remaining contents of a namespace: the number of objects of each resource and with each finalizer, and the
/// errors of the deletions that failed.
#[derive(Default)]
struct Remaining {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    failures: BTreeSet<String>,
    /// Pods remain, so the other resources were not counted.
    pods: bool,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.failures.is_empty()
    }
}

/// Deletes the pods of a namespace and, once they are gone, all other objects: those that pods use stay while they run.
async fn delete_contents(registry: &Registry, namespace: &str, uid: &str) -> Remaining {
    let mut remaining = Remaining::default();
    let pods = known("", "pods");
    delete_all(registry, pods, (namespace, uid), &mut remaining).await;
    remaining.pods = !remaining.resources.is_empty();
    if remaining.pods {
        return remaining;
    }
    // Events are counted in both groups that have them, as the controller manager does; versions of one group are not.
    let is_counted = |kind: &Kind| kind.stored_as.as_ref().is_none_or(|stored| stored.group != kind.group);
    let is_other = |kind: &Kind| kind.namespaced && kind.storage.is_some() && kind.id() != pods.id();
    for kind in registry.catalog().snapshot().kinds() {
        if is_other(kind) && is_counted(kind) {
            delete_all(registry, kind, (namespace, uid), &mut remaining).await;
        }
    }
    remaining
}

///
/// Another server may have finished the deletion, and the name may belong to a new namespace. So the objects are deleted by
/// their uids, and only if the namespace is still the same after they were listed: then none of them belongs to a new one.
async fn delete_all(
    registry: &Registry,
    kind: &Kind,
    (namespace, uid): (&str, &str),
    remaining: &mut Remaining,
) {
    let all = Target { kind, namespace, name: "" };
    let Some(storage) = registry.storage_to_list(kind) else { return };
    let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
    let found = match storage.get_list(&all.key(), request).await {
        Ok(found) => found,
        Err(error) => {
            remaining.failures.insert(all.failed("list", error).to_string());
            return;
        }
    };
    if !found.items.is_empty() && !matches!(due(registry, namespace).await, Ok(Some(own)) if own == uid) {
        remaining
            .failures
            .insert(format!("the namespace {namespace} is not the one any more whose objects were listed"));
        return;
    }
    for object in &found.items {
        let document = document_of(&object.value, None);
        let one = Target { name: document.name(), ..all };
        let options = DeleteOptions {
            grace_period_seconds: overdue(&document).then_some(0),
            // Dependents in the namespace are deleted too, so none needs to be orphaned.
            propagation: Some(Propagation::Background),
            uid: Some(document.text("metadata.uid").to_owned()),
            ..Default::default()
        };
        if !document.is_deleting() || options.grace_period_seconds.is_some() {
            match registry.delete(one, &options).await {
                Ok(Deleted::Gone(_)) => continue,
                Err(error) if error.is_not_found() => continue,
                Ok(Deleted::Held(_)) => {}
                // It was replaced in the meantime. The next round lists again.
                Err(error) if error.is_conflict() => {}
                Err(error) => drop(remaining.failures.insert(error.to_string())),
            }
        }
        *remaining.resources.entry(format!("{}.{}", kind.plural, kind.group)).or_default() += 1;
        for finalizer in document.finalizers().iter().filter_map(Value::as_str) {
            *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// Whether the grace period of an object is over. Nothing else deleted it, so the server does.
fn overdue(document: &Value) -> bool {
    let until = document.field("metadata.deletionTimestamp").and_then(Value::as_str);
    until.and_then(schema::parse_time).is_some_and(|until| until <= Timestamp::now())
        && document.number_if_set("metadata.deletionGracePeriodSeconds").is_some_and(|seconds| seconds > 0)
}

async fn finalize(registry: &Registry, namespace: &str, uid: &str) -> Result<(), Error> {
    let target = Target { kind: &NAMESPACES, namespace: "", name: namespace };
    let object = registry.get(target, Position::MostRecent).await?;
    let mut document = document_of(&object.value, Some(object.revision));
    must_be_the_same(target, &document, uid)?;
    let others: Vec<Value> =
        document.list("spec.finalizers").iter().filter(|own| **own != CONTENTS).cloned().collect();
    document.object_or_new("spec").insert("finalizers".to_owned(), Value::Array(others));
    let change = Change::Replace(document);
    let options = WriteOptions::default();
    let updated = registry.update(target, Part::Finalize, change, &options, &Requester::default()).await;
    updated.map(drop).map_err(|failed| failed.error)
}

/// Fails if the namespace of that name is another one, created later.
fn must_be_the_same(target: Target<'_>, document: &Value, uid: &str) -> Result<(), Error> {
    if document.text("metadata.uid") == uid { Ok(()) } else { Err(target.not_found()) }
}

async fn write_conditions(
    registry: &Registry,
    namespace: &str,
    uid: &str,
    remaining: &Remaining,
) -> Result<(), Error> {
    let target = Target { kind: &NAMESPACES, namespace: "", name: namespace };
    let conditions = conditions(remaining);
    registry
        .change_stored(target, false, |document| {
            must_be_the_same(target, document, uid)?;
            for (kind, problem) in &conditions {
                set_namespace_condition(document, kind, problem.as_ref());
            }
            Ok(())
        })
        .await
        .map(drop)
}

/// A reason and a message.
type Problem = (&'static str, String);

/// The problem that each condition of a namespace reports; absent where there is none.
fn conditions(remaining: &Remaining) -> [(&'static str, Option<Problem>); 5] {
    let joined = |counts: &BTreeMap<String, usize>, word: &str| {
        let each: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {word} {count} resource instances")).collect();
        // While pods remain, the other resources are not counted, and the controller manager reports neither.
        (!each.is_empty() && !remaining.pods).then(|| each.join(", "))
    };
    let failures: Vec<&str> = remaining.failures.iter().map(String::as_str).collect();
    let failed = (!failures.is_empty()).then(|| {
        let all = failures.join(", ");
        format!("Failed to delete all resource types, {} remaining: {all}", failures.len())
    });
    let resources =
        joined(&remaining.resources, "has").map(|all| format!("Some resources are remaining: {all}"));
    let finalizers = joined(&remaining.finalizers, "in")
        .map(|all| format!("Some content in the namespace has finalizers remaining: {all}"));
    [
        ("NamespaceDeletionDiscoveryFailure", None),
        ("NamespaceDeletionGroupVersionParsingFailure", None),
        ("NamespaceDeletionContentFailure", failed.map(|message| ("ContentDeletionFailed", message))),
        ("NamespaceContentRemaining", resources.map(|message| ("SomeResourcesRemain", message))),
        ("NamespaceFinalizersRemaining", finalizers.map(|message| ("SomeFinalizersRemain", message))),
    ]
}

/// The reason and the message of a condition without a problem.
fn without_problem(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "NamespaceDeletionDiscoveryFailure" => {
            ("ResourcesDiscovered", "All resources successfully discovered")
        }
        "NamespaceDeletionGroupVersionParsingFailure" => {
            ("ParsedGroupVersions", "All legacy kube types successfully parsed")
        }
        "NamespaceDeletionContentFailure" => {
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization")
        }
        "NamespaceContentRemaining" => ("ContentRemoved", "All content successfully removed"),
        _ => ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    }
}

/// Writes one condition. Its time changes with its status alone.
fn set_namespace_condition(document: &mut Value, kind: &str, problem: Option<&Problem>) {
    let status = if problem.is_some() { "True" } else { "False" };
    let (reason, message) =
        problem.map_or(without_problem(kind), |(reason, message)| (*reason, message.as_str()));
    let known = document.list("status.conditions").iter().find(|own| own.text("type") == kind);
    let since = known
        .filter(|own| own.text("status") == status)
        .and_then(|own| own.field("lastTransitionTime").cloned())
        .unwrap_or_else(|| schema::time(Timestamp::now()).into());
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    document.set_condition(condition);
}
