//! The object or collection that a request is about.

use crate::{
    document::{Edit, Fields},
    error::Error,
    kind::Kind,
};
use keepwatch_apimachinery::meta::Qualified;
use keepwatch_storage::{Object, StorageError};
use serde_json::Value;

/// The object or collection that a request is about.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The resource, in the version of the request.
    pub kind: &'a Kind,
    /// The namespace; empty for resources outside namespaces and for all namespaces at once.
    pub namespace: &'a str,
    /// The object's name; empty for collections.
    pub name: &'a str,
}

/// Whether a name can be a path segment.
pub fn is_path_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%'])
}

impl<'a> Target<'a> {
    /// The key of the object, or of the collection, as storage wants it.
    pub fn key(&self) -> String {
        let mut key = format!("/{}", self.kind.storage.as_ref().unwrap_or(&self.kind.plural));
        for part in [self.namespace, self.name] {
            if !part.is_empty() {
                key.push('/');
                key.push_str(part);
            }
        }
        key
    }

    /// The resource with its group.
    pub fn qualified(&self) -> Qualified<'a> {
        Qualified::new(&self.kind.group, &self.kind.plural)
    }

    /// The error that the object does not exist.
    pub fn not_found(&self) -> Error {
        Error::not_found(self.qualified(), self.name)
    }

    pub(crate) fn exists(&self, object: &Object) -> Error {
        let document: Value = serde_json::from_slice(&object.value).unwrap_or_default();
        Error::already_exists(self.qualified(), self.name, document.is_deleting())
    }

    /// Refuses an object without a name.
    pub(crate) fn must_be_named(&self, document: &Value) -> Result<(), Error> {
        if document.name().is_empty() {
            let own = self.name;
            return Err(Error::bad_request(format!(
                "the name of the object ({own} based on URL) was undeterminable: name must be provided"
            )));
        }
        Ok(())
    }

    /// Refuses an object with another name or namespace than the path.
    pub(crate) fn must_be_of(&self, document: &Value) -> Result<(), Error> {
        let given = document.text("metadata.namespace");
        if self.kind.namespaced && !given.is_empty() && given != self.namespace {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Error::bad_request(message));
        }
        let given = document.name();
        if !given.is_empty() && !self.name.is_empty() && given != self.name {
            let message = format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                self.name
            );
            return Err(Error::bad_request(message));
        }
        Ok(())
    }

    /// Sets the name and namespace of the path, and refuses others.
    pub(crate) fn must_match(&self, document: &mut Value) -> Result<(), Error> {
        self.must_be_of(document)?;
        let metadata = document.object_or_new("metadata");
        if !self.kind.namespaced {
            metadata.remove("namespace");
        } else if !self.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), self.namespace.into());
        }
        if !self.name.is_empty() {
            metadata.insert("name".to_owned(), self.name.into());
        }
        Ok(())
    }

    /// The error that storage failed.
    pub(crate) fn failed(&self, operation: &'static str, error: StorageError) -> Error {
        Error::storage(self.qualified(), self.name, operation, error)
    }
}
