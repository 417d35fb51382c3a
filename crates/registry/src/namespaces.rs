//! Empties deleted namespaces, so that no controller is needed for it.
//!
//! A namespace that is marked for deletion loses its objects, resource by resource; what has finalizers stays until they
//! are gone; when nothing is left the namespace's own finalizer is removed, and with it the namespace.

use crate::{
    admission::known,
    kinds::RESOURCES,
    options::{DeleteOptions, WriteOptions},
    rest::{Change, Registry, Target, document_of},
    schema::{self, Timestamp},
    strategy::{Part, Requester},
    subresource::set_condition,
    value::{at, fields, finalizers, is_deleting, list, name, text},
};
use futures::StreamExt;
use keepwatch_apimachinery::{
    list_options::{ListAt, Position, WatchStart},
    status::Status,
};
use keepwatch_storage::{ListRequest, WatchEvent, WatchRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinSet;

/// How long to wait before looking again at a namespace that something still holds.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The finalizer that stands for the contents of a namespace.
const CONTENTS: &str = "kubernetes";

/// Follows the namespaces and empties the deleted ones, for as long as the server runs.
pub async fn empty_deleted_namespaces(registry: Arc<Registry>) {
    let resource = known("", "namespaces");
    let Some(storage) = registry.storage(resource).cloned() else { return };
    let target = Target { resource, namespace: "", name: "" };
    let busy: Arc<Mutex<HashSet<String>>> = Arc::default();
    // They end with this task: one that waits for somebody's finalizer would else outlive the server.
    let mut jobs = JoinSet::new();
    loop {
        if let Ok(mut watch) = storage.watch(&target.key(), WatchRequest::from(WatchStart::state())).await {
            while let Some(Ok(event)) = watch.next().await {
                while jobs.try_join_next().is_some() {}
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
                let namespace = document_of(&object.value, None);
                let own = name(&namespace).to_owned();
                if is_deleting(&namespace) && holds_contents(&namespace) && busy.lock().insert(own.clone()) {
                    let (registry, busy) = (Arc::clone(&registry), Arc::clone(&busy));
                    jobs.spawn(async move {
                        // One of that name may be made and deleted again before this task is known to be through.
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
    list(namespace, &["spec", "finalizers"]).iter().any(|own| own == CONTENTS)
}

async fn is_due(registry: &Registry, namespace: &str) -> bool {
    let target = Target { resource: known("", "namespaces"), namespace: "", name: namespace };
    let found = registry.get(target, Position::MostRecent).await;
    found
        .map(|object| document_of(&object.value, None))
        .is_ok_and(|own| is_deleting(&own) && holds_contents(&own))
}

async fn empty(registry: &Registry, namespace: &str) {
    let mut wait = RETRY_MIN;
    loop {
        match delete_contents(registry, namespace).await {
            Ok(left) if left.is_empty() => match finalize(registry, namespace).await {
                Ok(()) => return,
                Err(status) if status.code == 404 => return,
                Err(error) => tracing::warn!(namespace, %error, "a namespace could not be finalized"),
            },
            Ok(left) => match tell_what_is_left(registry, namespace, &left).await {
                Err(status) if status.code == 404 => return,
                _ => {}
            },
            Err(error) => tracing::warn!(namespace, %error, "a namespace could not be emptied"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// What still holds a namespace: how many objects of a resource, and which finalizers they have.
#[derive(Default)]
struct Left {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }
}

async fn delete_contents(registry: &Registry, namespace: &str) -> Result<Left, Status> {
    let mut left = Left::default();
    let stored = RESOURCES.iter().filter(|r| r.namespaced && r.storage.is_some() && r.stored_as.is_none());
    for resource in stored {
        let all = Target { resource, namespace, name: "" };
        let Some(storage) = registry.storage(resource) else { continue };
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let found =
            storage.get_list(&all.key(), request).await.map_err(|error| all.failure("list", error))?;
        for object in &found.items {
            let document = document_of(&object.value, None);
            let one = Target { name: name(&document), ..all };
            let options =
                DeleteOptions { grace_period_seconds: overdue(&document).then_some(0), ..Default::default() };
            if !is_deleting(&document) || options.grace_period_seconds.is_some() {
                match registry.delete(one, &options).await {
                    Ok(crate::rest::Deleted::Gone(_)) => continue,
                    Err(status) if status.code == 404 => continue,
                    Ok(crate::rest::Deleted::Held(_)) => {}
                    Err(status) => return Err(status),
                }
            }
            *left.resources.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
            for finalizer in finalizers(&document).iter().filter_map(Value::as_str) {
                *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(left)
}

/// Whether an object had the time that it was given to end: nobody ended it, so the server does.
fn overdue(document: &Value) -> bool {
    let until = at(document, &["metadata", "deletionTimestamp"]).and_then(Value::as_str);
    until.and_then(schema::parse_time).is_some_and(|until| until <= Timestamp::now())
        && text(document, &["kind"]) == "Pod"
}

async fn finalize(registry: &Registry, namespace: &str) -> Result<(), Status> {
    let target = Target { resource: known("", "namespaces"), namespace: "", name: namespace };
    let object = registry.get(target, Position::MostRecent).await?;
    let mut document = document_of(&object.value, Some(object.revision));
    let others: Vec<Value> =
        list(&document, &["spec", "finalizers"]).iter().filter(|own| **own != CONTENTS).cloned().collect();
    fields(&mut document, &["spec"]).insert("finalizers".to_owned(), Value::Array(others));
    let change = Change::Replace(document);
    let options = WriteOptions::default();
    registry.update(target, Part::Finalize, change, &options, &Requester::default()).await.map(drop)
}

async fn tell_what_is_left(registry: &Registry, namespace: &str, left: &Left) -> Result<(), Status> {
    let target = Target { resource: known("", "namespaces"), namespace: "", name: namespace };
    let resources: Vec<String> = left
        .resources
        .iter()
        .map(|(resource, count)| format!("{resource} has {count} resource instances"))
        .collect();
    let finalizers: Vec<String> =
        left.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    registry
        .change_stored(target, false, |document| {
            for (kind, reason, message) in NOTHING_FAILED {
                tell(document, kind, "False", reason, message);
            }
            let (kind, words) = ("NamespaceContentRemaining", "Some resources are remaining: ");
            match resources.join(", ").as_str() {
                "" => tell(document, kind, "False", "ContentRemoved", "All content successfully removed"),
                left => tell(document, kind, "True", "SomeResourcesRemain", &format!("{words}{left}")),
            }
            let kind = "NamespaceFinalizersRemaining";
            let words = "Some content in the namespace has finalizers remaining: ";
            let none = "All content-preserving finalizers finished";
            match finalizers.join(", ").as_str() {
                "" => tell(document, kind, "False", "ContentHasNoFinalizers", none),
                left => tell(document, kind, "True", "SomeFinalizersRemain", &format!("{words}{left}")),
            }
            Ok(())
        })
        .await
        .map(drop)
}

/// What is told of a namespace whose contents do not go at once, besides what is left.
const NOTHING_FAILED: [(&str, &str, &str); 3] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
];

fn tell(document: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let known = list(document, &["status", "conditions"]).iter().find(|own| text(own, &["type"]) == kind);
    let is_told = |own: &Value| text(own, &["status"]) == status && text(own, &["message"]) == message;
    if known.is_some_and(is_told) {
        return;
    }
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": schema::time(Timestamp::now()),
        "reason": reason, "message": message,
    });
    set_condition(document, condition);
}
