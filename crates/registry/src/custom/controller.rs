//! Watches the definitions: accepts their names, serves their resources, and deletes the objects of those that are
//! deleted.
//!
//! Kept true: the served resources follow from the stored definitions alone, so servers on one store serve the same; a
//! definition is served once its names are stored as accepted; one that was served without a change since stays served
//! as it is, with its caches and watches.
//!
//! One task does all but the deletion of objects, so that names are given in the order in which definitions come.

use super::{
    Definition,
    definition::Names,
    names::{self, Condition, Taken},
    schema,
};
use crate::{
    document::{Edit, Fields},
    error::Error,
    kinds::known,
    options::DeleteOptions,
    rest::{Registry, Target, document_of, namespace_and_name},
    schema::Timestamp,
};
use futures::StreamExt;
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, Position, WatchStart},
    status::Cause,
};
use keepwatch_storage::{ListRequest, Object, WatchEvent, WatchRequest};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinSet;

/// The finalizer that holds a definition until its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The delays between attempts to delete the objects of a definition, which finalizers may hold.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The controller of definitions: those that are known, and its background tasks.
pub struct Definitions {
    registry: Arc<Registry>,
    known: BTreeMap<String, Known>,
    /// The definitions whose objects are being deleted.
    deleting: Arc<Mutex<HashSet<String>>>,
    jobs: JoinSet<()>,
}

/// The state of a definition that the controller needs while others change.
struct Known {
    group: String,
    accepted: Names,
    /// Whether some of the names that it requests are not accepted.
    lacks_names: bool,
    /// The served definition, if it is served.
    served: Option<Arc<Definition>>,
}

/// The result of examining a definition.
struct Seen {
    /// The names that it had before, if they are others now.
    released: bool,
    serving: Serving,
}

/// The definition that is to be served.
enum Serving {
    /// The definition that was served before.
    Same,
    /// This definition.
    New(Arc<Definition>),
    /// No definition.
    Nothing,
}

impl Definitions {
    /// Serves the definitions that are stored already, all at once.
    pub async fn load(registry: Arc<Registry>) -> Result<Definitions, Error> {
        let mut definitions = Definitions {
            registry: Arc::clone(&registry),
            known: BTreeMap::new(),
            deleting: Arc::default(),
            jobs: JoinSet::new(),
        };
        let Some(storage) = registry.storage(kind()) else { return Ok(definitions) };
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let found = storage.get_list(&target("").key(), request).await;
        let found = found.map_err(|error| target("").failed("list", error))?;
        let mut all = Vec::new();
        for object in &found.items {
            let Some(definition) = established(object) else { continue };
            let definition = Arc::new(definition);
            let known = Known {
                group: definition.group.clone(),
                accepted: definition.names.clone(),
                lacks_names: false,
                served: Some(Arc::clone(&definition)),
            };
            definitions.known.insert(namespace_and_name(kind(), object).1.to_owned(), known);
            all.push(definition);
        }
        registry.serve_definitions(&all, false);
        Ok(definitions)
    }

    /// Watches the definitions for as long as the server runs.
    pub async fn follow(mut self) {
        loop {
            let Some(storage) = self.registry.storage(kind()) else { return };
            let request = WatchRequest::from(WatchStart::state());
            if let Ok(mut watch) = storage.watch(&target("").key(), request).await {
                let mut initial: Option<HashSet<String>> = Some(HashSet::new());
                while let Some(Ok(event)) = watch.next().await {
                    while self.jobs.try_join_next().is_some() {}
                    match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                            let own = namespace_and_name(kind(), &object).1.to_owned();
                            if let Some(initial) = &mut initial {
                                initial.insert(own.clone());
                            }
                            self.look_at(&own, object).await;
                        }
                        WatchEvent::Deleted(object) => {
                            self.forget(namespace_and_name(kind(), &object).1, object.revision).await
                        }
                        WatchEvent::Bookmark { initial_state_end, revision } => {
                            // Forgets the definitions that were deleted while there was no watch.
                            if let Some(initial) = initial.take_if(|_| initial_state_end) {
                                let gone = self.known.keys().filter(|own| !initial.contains(*own));
                                for own in gone.cloned().collect::<Vec<_>>() {
                                    self.forget(&own, revision).await;
                                }
                            }
                        }
                    }
                }
            }
            tokio::time::sleep(RETRY_MAX).await;
        }
    }

    /// Examines a definition, and those that wait for names that it has released.
    async fn look_at(&mut self, own: &str, object: Object) {
        let revision = object.revision;
        let seen = self.examine(own, object).await;
        self.serve(own, seen.serving, revision);
        if seen.released {
            self.look_at_waiting(own).await;
        }
    }

    /// Examines the other definitions of a group whose requested names are not all accepted.
    async fn look_at_waiting(&mut self, own: &str) {
        let Some(group) = self.known.get(own).map(|known| known.group.clone()) else { return };
        self.look_at_group(&group, own).await;
    }

    async fn look_at_group(&mut self, group: &str, but: &str) {
        let waits = |(name, known): &(&String, &Known)| {
            known.lacks_names && known.group == group && name.as_str() != but
        };
        let waiting: Vec<String> = self.known.iter().filter(waits).map(|(name, _)| name.clone()).collect();
        for other in waiting {
            let Ok(object) = self.registry.get(target(&other), Position::MostRecent).await else { continue };
            let revision = object.revision;
            let seen = self.examine(&other, object).await;
            self.serve(&other, seen.serving, revision);
        }
    }

    /// Sets the accepted names and conditions of a definition, and returns the result.
    async fn examine(&mut self, own: &str, mut object: Object) -> Seen {
        let mut document = document_of(&object.value, None);
        let had = names::names_in(&document, "status.acceptedNames");
        let taken = self.taken(own, document.text("spec.group"));
        if document.is_deleting() {
            self.delete_objects(own, &document);
        } else if update_status(&mut document.clone(), &taken, Timestamp::now()) {
            let written = self.registry.change_stored(target(own), false, |document| {
                update_status(document, &taken, Timestamp::now());
                Ok(())
            });
            match written.await {
                Ok(stored) => {
                    document = document_of(&stored.value, None);
                    object = stored;
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    tracing::warn!(definition = own, %error, "the status of a definition could not be written")
                }
            }
        }
        let accepted = names::names_in(&document, "status.acceptedNames");
        let before = self.known.get(own).map_or(had, |known| known.accepted.clone());
        let lacks_names = names::names_in(&document, "spec.names") != accepted;
        let served = self.known.remove(own).and_then(|known| known.served);
        let serving = match established(&object) {
            None => Serving::Nothing,
            Some(definition) => match &served {
                Some(old)
                    if old.serves_the_same(&definition)
                        && old.is_terminating == definition.is_terminating =>
                {
                    Serving::Same
                }
                _ => Serving::New(Arc::new(definition)),
            },
        };
        let group = document.text("spec.group").to_owned();
        let released = before != accepted;
        self.known.insert(own.to_owned(), Known { group, accepted, lacks_names, served });
        Seen { released, serving }
    }

    /// The names that others than a definition have in its group, and its own.
    fn taken(&self, own: &str, group: &str) -> Taken {
        let mut taken = Taken::default();
        for (_, known) in self.known.iter().filter(|(name, known)| known.group == group || *name == own) {
            taken.add(&known.accepted);
        }
        taken
    }

    /// Serves this from now on. Events before this version are still delivered to existing watches.
    fn serve(&mut self, own: &str, serving: Serving, since: ResourceVersion) {
        let Some(known) = self.known.get_mut(own) else { return };
        match serving {
            Serving::Same => {}
            Serving::Nothing => {
                if let Some(old) = known.served.take() {
                    self.withdraw(&old, since);
                }
            }
            Serving::New(new) => {
                // Caches and watches go on if only the deletion is new.
                let is_changed = known.served.as_ref().is_none_or(|old| !old.serves_the_same(&new));
                for replaced in self.registry.serve_definitions(&[Arc::clone(&new)], is_changed) {
                    self.jobs.spawn(replaced.finish(since));
                }
                known.served = Some(new);
            }
        }
    }

    fn withdraw(&mut self, served: &Definition, since: ResourceVersion) {
        if let Some(replaced) = self.registry.withdraw_definition(served) {
            self.jobs.spawn(replaced.finish(since));
        }
    }

    /// Stops serving a definition that was deleted at this version.
    async fn forget(&mut self, own: &str, since: ResourceVersion) {
        let Some(known) = self.known.remove(own) else { return };
        if let Some(served) = &known.served {
            self.withdraw(served, since);
        }
        self.look_at_group(&known.group, own).await;
    }

    /// Deletes the objects of a definition that is being deleted, if that is not being done yet.
    fn delete_objects(&mut self, own: &str, document: &Value) {
        let is_held = document.finalizers().iter().any(|finalizer| finalizer == CLEANUP);
        if !is_held || !self.deleting.lock().insert(own.to_owned()) {
            return;
        }
        let (registry, deleting, own) =
            (Arc::clone(&self.registry), Arc::clone(&self.deleting), own.to_owned());
        let uid = document.text("metadata.uid").to_owned();
        self.jobs.spawn(async move {
            let mut wait = RETRY_MIN;
            while let Err(error) = delete_objects(&registry, &own, &uid).await {
                if error.is_not_found() {
                    break;
                }
                tracing::warn!(definition = own, %error, "the objects of a definition could not be deleted");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
            deleting.lock().remove(&own);
        });
    }
}

fn kind() -> &'static crate::kind::Kind {
    known("apiextensions.k8s.io", "customresourcedefinitions")
}

fn target(name: &str) -> Target<'_> {
    Target { kind: kind(), namespace: "", name }
}

/// A stored definition, if it is established.
fn established(object: &Object) -> Option<Definition> {
    let is_established = |definition: &Definition| definition.is_established;
    Definition::read(&object.value).filter(is_established)
}

/// Gives a definition the names that it can have, and the conditions that follow. Returns whether anything is new.
fn update_status(document: &mut Value, taken: &Taken, now: Timestamp) -> bool {
    let wanted = names::names_in(document, "spec.names");
    let accepted = names::names_in(document, "status.acceptedNames");
    let (names, condition) = names::accept(&wanted, &accepted, taken);
    let mut is_new = names != accepted;
    if is_new {
        names::set_accepted(document, &names);
    }
    let was = names::is_true(document, "Established");
    let annotation = document.annotation(names::APPROVED).to_owned();
    let group = document.text("spec.group").to_owned();
    let established = names::established(was, condition.is_true);
    let all = [Some(condition), established, names::conformant(&group, &annotation)];
    for condition in all.iter().flatten() {
        is_new |= names::set_condition(document, condition, now);
    }
    let had = document.list("status.conditions").iter().any(|own| own.text("type") == NOT_STRUCTURAL);
    // Only old definitions can have a schema that is not structural: they have the condition, or preserve unknown
    // fields.
    if had || document.flag("spec.preserveUnknownFields") {
        match not_structural(document) {
            Some(condition) => is_new |= names::set_condition(document, &condition, now),
            None if had => {
                let all =
                    document.object_or_new("status").get_mut("conditions").and_then(Value::as_array_mut);
                all.into_iter().for_each(|all| all.retain(|own| own.text("type") != NOT_STRUCTURAL));
                is_new = true;
            }
            None => {}
        }
    }
    is_new
}

/// The condition of an old definition whose schemas are not structural.
const NOT_STRUCTURAL: &str = "NonStructuralSchema";

fn not_structural(document: &Value) -> Option<Condition> {
    let condition = |reason, message| Condition { kind: NOT_STRUCTURAL, is_true: true, reason, message };
    let mut causes = Vec::new();
    if document.flag("spec.preserveUnknownFields") {
        causes.push(Cause::invalid("spec.preserveUnknownFields", &true.into(), "must be false"));
    }
    for (number, version) in document.list("spec.versions").iter().enumerate() {
        let Some(schema) = version.field("schema.openAPIV3Schema") else { continue };
        let path = format!("spec.versions[{number}].schema.openAPIV3Schema");
        match schema::definition::not_structural(schema, &path) {
            Ok(own) => causes.extend(own),
            Err(why) => {
                let name = version.text("name");
                let message = format!("failed to check validation schema for version {name}: {why}");
                return Some(condition("StructuralError", message));
            }
        }
    }
    let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
    match causes.as_slice() {
        [] => None,
        [one] => Some(condition("Violations", one.clone())),
        all => Some(condition("Violations", format!("[{}]", all.join(", ")))),
    }
}

/// Deletes all objects of a definition, waits until they are gone, and removes its finalizer.
async fn delete_objects(registry: &Registry, own: &str, uid: &str) -> Result<(), Error> {
    let terminating = |is_true, reason, message: &str| Condition {
        kind: "Terminating",
        is_true,
        reason,
        message: message.to_owned(),
    };
    let object = registry.get(target(own), Position::MostRecent).await?;
    let document = document_of(&object.value, None);
    must_be_the_same(own, &document, uid)?;
    let last = match Definition::read(&object.value).filter(|definition| definition.is_established) {
        None => terminating(false, "NeverEstablished", "resource was never established"),
        Some(mut definition) => {
            // Deleted objects are not returned, so no webhook, which may be gone too, has to convert them.
            definition.webhook = None;
            let begun =
                terminating(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
            set_condition(registry, own, uid, &begun).await?;
            if let Err(error) = empty(registry, &Arc::new(definition), own, uid).await {
                let why = format!("could not delete all instances: {error}");
                let failed = terminating(true, "InstanceDeletionFailed", &why);
                set_condition(registry, own, uid, &failed).await?;
                return Err(error);
            }
            terminating(false, "InstanceDeletionCompleted", "removed all instances")
        }
    };
    let removed = registry.remove_finalizer(target(own), CLEANUP, |document| {
        must_be_the_same(own, document, uid)?;
        names::set_condition(document, &last, Timestamp::now());
        Ok(())
    });
    removed.await
}

async fn set_condition(
    registry: &Registry,
    own: &str,
    uid: &str,
    condition: &Condition,
) -> Result<(), Error> {
    let written = registry.change_stored(target(own), false, |document| {
        must_be_the_same(own, document, uid)?;
        names::set_condition(document, condition, Timestamp::now());
        Ok(())
    });
    written.await.map(drop)
}

/// Refuses a definition of the same name that was created later.
fn must_be_the_same(own: &str, document: &Value, uid: &str) -> Result<(), Error> {
    if document.text("metadata.uid") == uid { Ok(()) } else { Err(target(own).not_found()) }
}

/// Deletes the objects of a definition until there are none.
///
/// Another server may have finished the deletion, and the name may belong to a new definition. So the objects are deleted
/// by their uids, and only if the definition is still the same after they were listed.
async fn empty(registry: &Registry, definition: &Arc<Definition>, own: &str, uid: &str) -> Result<(), Error> {
    let kind = super::served::kinds(definition).stored;
    let all = Target { kind: &kind, namespace: "", name: "" };
    let mut wait = RETRY_MIN;
    loop {
        let storage = registry.storage_without_cache(&kind);
        storage.until_ready().await;
        let request = ListRequest { at: ListAt::MostRecent, ..ListRequest::all() };
        let list = storage.get_list(&all.key(), request).await.map_err(|error| all.failed("list", error))?;
        if list.items.is_empty() {
            return Ok(());
        }
        let current = registry.get(target(own), Position::MostRecent).await?;
        must_be_the_same(own, &document_of(&current.value, None), uid)?;
        let (mut is_any_left, mut failed) = (false, None);
        for object in &list.items {
            let (namespace, name) = namespace_and_name(&kind, object);
            let document = document_of(&object.value, None);
            if document.is_deleting() {
                is_any_left = true;
                continue;
            }
            let only_it = DeleteOptions {
                uid: Some(document.text("metadata.uid").to_owned()),
                ..DeleteOptions::default()
            };
            let one = Target { namespace, name, ..all };
            match registry.delete(one, &only_it).await {
                Ok(crate::rest::Deleted::Held(_)) => is_any_left = true,
                Ok(crate::rest::Deleted::Gone(_)) => {}
                Err(error) if error.is_not_found() => {}
                // It was replaced in the meantime. The next round lists again.
                Err(error) if error.is_conflict() => is_any_left = true,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        // The remaining objects have finalizers that other clients have to remove.
        if is_any_left {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
    }
}

impl Registry {
    /// Removes a finalizer and makes another change with it, by the server itself; the object goes if nothing else holds
    /// it and it is being deleted.
    async fn remove_finalizer(
        &self,
        target: Target<'_>,
        finalizer: &str,
        change: impl Fn(&mut Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_held_otherwise = |document: &Value| document.finalizers().iter().any(|own| own != finalizer);
        let current = self.get(target, Position::MostRecent).await?;
        let document = document_of(&current.value, None);
        if document.is_deleting() && !is_held_otherwise(&document) {
            change(&mut document.clone())?;
            return self.remove_stored(target, &current).await;
        }
        let written = self.change_stored(target, false, |document| {
            change(document)?;
            let others: Vec<Value> =
                document.finalizers().iter().filter(|own| *own != finalizer).cloned().collect();
            let others = (!others.is_empty()).then_some(Value::Array(others));
            document.object_or_new("metadata").set("finalizers", others);
            Ok(())
        });
        written.await.map(drop)
    }
}

/// Marks a definition for deletion, as its own finalizer holds it until its objects are gone.
pub(crate) fn mark_for_deletion(document: &Value, now: Timestamp) -> Value {
    let mut marked = document.clone();
    let metadata = marked.object_or_new("metadata");
    metadata.insert("deletionTimestamp".to_owned(), crate::schema::time(now).into());
    let mut all = document.finalizers().to_vec();
    if !all.iter().any(|own| own == CLEANUP) {
        all.push(CLEANUP.into());
    }
    marked.object_or_new("metadata").insert("finalizers".to_owned(), Value::Array(all));
    let condition = Condition {
        kind: "Terminating",
        is_true: true,
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
            .to_owned(),
    };
    names::set_condition(&mut marked, &condition, now);
    marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conditions(document: &Value) -> Vec<String> {
        let shown = |own: &Value| ["type", "status", "reason"].map(|field| own.text(field)).join(" ");
        document.list("status.conditions").iter().map(shown).collect()
    }

    fn definition(spec: Value) -> Value {
        let mut document =
            json!({"metadata": {"name": "as.b.io"}, "spec": spec, "status": {"conditions": null}});
        document["spec"]["names"] =
            json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
        document
    }

    #[test]
    fn a_definition_gets_its_names_once_and_is_established() {
        let mut document = definition(json!({"group": "b.io"}));
        let (taken, now) = (Taken::default(), Timestamp::now());
        assert!(update_status(&mut document, &taken, now));
        let expected = ["NamesAccepted True NoConflicts", "Established True InitialNamesAccepted"];
        assert_eq!(conditions(&document), expected);
        assert_eq!(document["status"]["acceptedNames"], document["spec"]["names"]);
        assert!(!update_status(&mut document, &taken, now), "there is nothing new");
    }

    #[test]
    fn what_was_established_stays_so_when_it_asks_for_a_name_that_is_taken() {
        let mut document = definition(json!({"group": "b.io"}));
        let now = Timestamp::now();
        update_status(&mut document, &Taken::default(), now);
        let mut taken = Taken::default();
        taken.add(&names::names_in(&json!({"names": {"shortNames": ["x"]}}), "names"));
        document["spec"]["names"]["shortNames"] = json!(["x"]);
        assert!(update_status(&mut document, &taken, now));
        let expected = ["NamesAccepted False ShortNamesConflict", "Established True InitialNamesAccepted"];
        assert_eq!(conditions(&document), expected);
    }

    #[test]
    fn a_definition_of_old_is_told_that_its_schema_is_not_structural_until_it_is() {
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"a": {}}}}});
        let mut document =
            definition(json!({"group": "b.io", "preserveUnknownFields": true, "versions": [version]}));
        let (taken, now) = (Taken::default(), Timestamp::now());
        update_status(&mut document, &taken, now);
        assert_eq!(conditions(&document)[2], "NonStructuralSchema True Violations");
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        document["spec"]["preserveUnknownFields"] = false.into();
        assert!(update_status(&mut document, &taken, now));
        assert_eq!(conditions(&document).len(), 2);
    }

    #[test]
    fn a_definition_that_is_deleted_is_held_until_its_objects_are_gone() {
        let marked = mark_for_deletion(&definition(json!({"group": "b.io"})), Timestamp::now());
        assert_eq!(marked.finalizers(), [json!(CLEANUP)]);
        assert!(marked.is_deleting());
        assert_eq!(conditions(&marked), ["Terminating True InstanceDeletionPending"]);
    }
}
