//! Admission: checks that look at other objects before an object is written.
//!
//! These are the admission plugins of Kubernetes that are always enabled and that clients notice. Fields that admission
//! adds to objects of one kind are set in the file of the kind.

use crate::{
    document::{Edit, Fields},
    error::{Error, Subject},
    kind::Kind,
    kinds::NAMESPACES,
    rest::{Registry, Target, document_of},
};
use keepwatch_apimachinery::{
    list_options::{ListAt, Position},
    status::Cause,
};
use keepwatch_storage::{ListRequest, Object, Unchanged};
use serde_json::{Value, json};

impl Registry {
    /// Rejects a change in a namespace that does not exist.
    pub(crate) async fn must_have_namespace(&self, target: Target<'_>) -> Result<(), Error> {
        if target.kind.namespaced {
            self.namespace(target.namespace, Position::Any).await?;
        }
        Ok(())
    }

    /// A namespace from the cache, or from storage if the cache does not have it or has it as terminating: it may just have
    /// been created (again).
    async fn namespace(&self, name: &str, position: Position) -> Result<Object, Error> {
        let target = Target { kind: &NAMESPACES, namespace: "", name };
        match self.get(target, position).await {
            Ok(namespace) if !is_ending(&namespace) => Ok(namespace),
            Err(error) if !error.is_not_found() => Err(error),
            _ => self.get(target, Position::MostRecent).await,
        }
    }

    /// Rejects new objects, and new subresources of objects, in a namespace that is terminating. The namespace accepts
    /// the object only if it has not changed when the object is written; the returned guard checks that.
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
        let namespace_name = target.namespace;
        let why = format!(
            "unable to create new content in namespace {namespace_name} because it is being terminated"
        );
        let message = format!("namespace {namespace_name} is being terminated");
        let causes = vec![Cause::new("NamespaceTerminating", message, "metadata.namespace")];
        Err(Error::Forbidden { subject: Subject::new(target.qualified(), new), why, causes })
    }

    /// The name of the newest class that an annotation makes the default.
    pub(crate) async fn default_of(&self, classes: &Kind, annotation: &str) -> Result<Option<String>, Error> {
        let classes = self.all_with(classes, annotation).await?;
        Ok(newest_default(&classes, annotation).map(str::to_owned))
    }

    /// All objects of a resource whose stored JSON contains a text.
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

/// Whether a namespace is terminating. Every write checks it, so the JSON is searched for the field before it is parsed.
fn is_ending(namespace: &Object) -> bool {
    mentions(namespace, "\"deletionTimestamp\"") && document_of(&namespace.value, None).is_deleting()
}

/// Whether the stored JSON of an object contains a text. Cheaper than parsing it.
fn mentions(object: &Object, text: &str) -> bool {
    memchr::memmem::find(&object.value, text.as_bytes()).is_some()
}

/// The name of the newest object that an annotation makes the default.
fn newest_default<'a>(classes: &'a [Value], annotation: &str) -> Option<&'a str> {
    let defaults = classes.iter().filter(|class| class.annotation(annotation) == "true");
    let newest = defaults.max_by(|a, b| {
        let created = |class: &'a Value| class.text("metadata.creationTimestamp");
        created(a).cmp(created(b)).then_with(|| b.name().cmp(a.name()))
    });
    newest.map(Fields::name)
}

/// Adds a finalizer that protects an object while it is in use.
pub(crate) fn protect(document: &mut Value, finalizer: &str) {
    if document.finalizers().iter().any(|own| own == finalizer) {
        return;
    }
    let own = document.object_or_new("metadata").entry("finalizers").or_insert_with(|| json!([]));
    if let Some(own) = own.as_array_mut() {
        own.push(finalizer.into());
    }
}
