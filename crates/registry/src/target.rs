//! What a request is about.

use crate::{
    error::Error,
    kind::Kind,
    value::{fields, is_deleting, name, text},
};
use keepwatch_apimachinery::meta::Qualified;
use keepwatch_storage::{Object, StorageError};
use serde_json::Value;

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The resource, in the version that the client speaks.
    pub kind: &'a Kind,
    /// The namespace; empty for resources outside namespaces and for all namespaces at once.
    pub namespace: &'a str,
    /// The object's name; empty for collections.
    pub name: &'a str,
}

/// Whether a name can stand in a path.
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

    /// That there is no such object.
    pub fn not_found(&self) -> Error {
        Error::not_found(self.qualified(), self.name)
    }

    pub(crate) fn exists(&self, object: &Object) -> Error {
        let document: Value = serde_json::from_slice(&object.value).unwrap_or_default();
        Error::already_exists(self.qualified(), self.name, is_deleting(&document))
    }

    /// Refuses an object that does not say its name.
    pub(crate) fn must_be_named(&self, document: &Value) -> Result<(), Error> {
        if name(document).is_empty() {
            let own = self.name;
            return Err(Error::bad_request(format!(
                "the name of the object ({own} based on URL) was undeterminable: name must be provided"
            )));
        }
        Ok(())
    }

    /// Refuses another name or namespace than the path has.
    pub(crate) fn must_be_of(&self, document: &Value) -> Result<(), Error> {
        let given = text(document, &["metadata", "namespace"]);
        if self.kind.namespaced && !given.is_empty() && given != self.namespace {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Error::bad_request(message));
        }
        let given = name(document);
        if !given.is_empty() && !self.name.is_empty() && given != self.name {
            let message = format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                self.name
            );
            return Err(Error::bad_request(message));
        }
        Ok(())
    }

    /// Fills in the name and namespace of the path, and refuses others.
    pub(crate) fn must_match(&self, document: &mut Value) -> Result<(), Error> {
        self.must_be_of(document)?;
        let metadata = fields(document, &["metadata"]);
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

    pub(crate) fn lost(&self, operation: &'static str, error: StorageError) -> Lost {
        match error {
            StorageError::InvalidObject { .. } => Lost::Race,
            StorageError::NotFound { .. } => self.not_found().into(),
            other => Lost::Failed(self.failed(operation, other)),
        }
    }

    /// That storage failed.
    pub(crate) fn failed(&self, operation: &'static str, error: StorageError) -> Error {
        Error::storage(self.qualified(), self.name, operation, error)
    }
}

/// Why a write did not go through.
pub(crate) enum Lost {
    /// Somebody else came first.
    Race,
    /// It cannot be made of the object that it began with, or there is none.
    Refused(Error),
    /// Storage failed. Whether the write went through may be unknown, so it is not made again.
    Failed(Error),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Lost {
        Lost::Refused(error)
    }
}

/// Why a new object was not written.
pub(crate) enum Unwritten {
    /// It will never be.
    Refused(Error),
    /// Storage failed.
    Failed(StorageError),
}
