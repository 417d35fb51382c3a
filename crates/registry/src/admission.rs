//! What must be so around an object before it is written.
//!
//! These are the steps of Kubernetes' admission that every cluster has and clients notice. They look at other objects, so
//! they come before the write and not inside it. What the cluster adds to objects of one kind stands with the kind.

use crate::{
    error::{Error, Subject},
    kind::Kind,
    kinds::known,
    rest::{Registry, Target, document_of},
    value::{fields, is_deleting, name, text},
};
use keepwatch_apimachinery::{
    list_options::{ListAt, Position},
    status::Cause,
};
use keepwatch_storage::{ListRequest, Object, Unchanged};
use serde_json::{Value, json};

impl Registry {
    /// Refuses a change in a namespace that is not there.
    pub(crate) async fn must_have_namespace(&self, target: Target<'_>) -> Result<(), Error> {
        if target.kind.namespaced {
            self.namespace(target.namespace, Position::Any).await?;
        }
        Ok(())
    }

    /// A namespace, as fresh as it has to be: one that is not known yet, or known to end, may just have been made (anew).
    async fn namespace(&self, name: &str, position: Position) -> Result<Object, Error> {
        let target = Target { kind: known("", "namespaces"), namespace: "", name };
        match self.get(target, position).await {
            Ok(namespace) if !is_ending(&namespace) => Ok(namespace),
            Err(error) if !error.is_not_found() => Err(error),
            _ => self.get(target, Position::MostRecent).await,
        }
    }

    /// A namespace that is being deleted takes nothing new, be it an object or something under the name of one. That it
    /// takes an object is sure only as long as what is returned does not change.
    pub(crate) async fn must_take_new_content(
        &self,
        target: Target<'_>,
        new: &str,
        position: Position,
    ) -> Result<Option<Unchanged>, Error> {
        if target.kind.takes_any_namespace {
            return Ok(None);
        }
        let namespace = self.namespace(target.namespace, position).await?;
        if !is_ending(&namespace) {
            return Ok(Some(Unchanged { key: namespace.key.clone(), modified: namespace.revision }));
        }
        let place = target.namespace;
        let why = format!("unable to create new content in namespace {place} because it is being terminated");
        let message = format!("namespace {place} is being terminated");
        let causes = vec![Cause::new("NamespaceTerminating", message, "metadata.namespace")];
        Err(Error::Forbidden { subject: Subject::new(target.qualified(), new), why, causes })
    }

    /// The name of the newest class that an annotation makes the default.
    pub(crate) async fn default_of(&self, classes: &Kind, annotation: &str) -> Result<Option<String>, Error> {
        let classes = self.all_with(classes, annotation).await?;
        Ok(newest_default(&classes, annotation).map(str::to_owned))
    }

    /// All objects of a resource that have this text in them.
    pub(crate) async fn all_with(&self, kind: &Kind, text: &str) -> Result<Vec<Value>, Error> {
        let target = Target { kind, namespace: "", name: "" };
        let Some(storage) = self.storage(kind) else { return Ok(Vec::new()) };
        let request = ListRequest { at: ListAt::Any, ..ListRequest::all() };
        let listed =
            storage.get_list(&target.key(), request).await.map_err(|error| target.failed("list", error))?;
        let items = listed.items.iter().filter(|object| mentions(object, text));
        Ok(items.map(|object| document_of(&object.value, None)).collect())
    }
}

/// Whether a namespace is being deleted. Every write asks, and hardly any namespace has even the word in it.
fn is_ending(namespace: &Object) -> bool {
    mentions(namespace, "\"deletionTimestamp\"") && is_deleting(&document_of(&namespace.value, None))
}

/// Whether a text stands anywhere in an object as it is stored. Cheaper than reading it.
fn mentions(object: &Object, text: &str) -> bool {
    memchr::memmem::find(&object.value, text.as_bytes()).is_some()
}

/// The name of the newest object that an annotation makes the default.
fn newest_default<'a>(classes: &'a [Value], annotation: &str) -> Option<&'a str> {
    let defaults =
        classes.iter().filter(|class| text(class, &["metadata", "annotations", annotation]) == "true");
    let newest = defaults.max_by(|a, b| {
        let created = |class: &'a Value| text(class, &["metadata", "creationTimestamp"]);
        created(a).cmp(created(b)).then_with(|| name(b).cmp(name(a)))
    });
    newest.map(name)
}

/// Adds a finalizer that keeps an object while it is used.
pub(crate) fn protect(document: &mut Value, finalizer: &str) {
    if crate::value::finalizers(document).iter().any(|own| own == finalizer) {
        return;
    }
    let own = fields(document, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(own) = own.as_array_mut() {
        own.push(finalizer.into());
    }
}
