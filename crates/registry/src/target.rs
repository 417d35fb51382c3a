//! What a request is about, and how failures are told in its terms.

use crate::{
    kind::Kind,
    value::{fields, is_deleting, name, text},
};
use keepwatch_apimachinery::{meta::Qualified, status::Status};
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
    pub fn not_found(&self) -> Status {
        Status::not_found(self.qualified(), self.name)
    }

    pub(crate) fn exists(&self, object: &Object) -> Status {
        let mut status = Status::already_exists(self.qualified(), self.name);
        let document: Value = serde_json::from_slice(&object.value).unwrap_or_default();
        if is_deleting(&document) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    /// Refuses an object that does not say its name.
    pub(crate) fn must_be_named(&self, document: &Value) -> Result<(), Status> {
        if name(document).is_empty() {
            let own = self.name;
            return Err(Status::bad_request(format!(
                "the name of the object ({own} based on URL) was undeterminable: name must be provided"
            )));
        }
        Ok(())
    }

    /// Refuses another name or namespace than the path has.
    pub(crate) fn must_be_of(&self, document: &Value) -> Result<(), Status> {
        let given = text(document, &["metadata", "namespace"]);
        if self.kind.namespaced && !given.is_empty() && given != self.namespace {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(message));
        }
        let given = name(document);
        if !given.is_empty() && !self.name.is_empty() && given != self.name {
            let message = format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                self.name
            );
            return Err(Status::bad_request(message));
        }
        Ok(())
    }

    /// Fills in the name and namespace of the path, and refuses others.
    pub(crate) fn must_match(&self, document: &mut Value) -> Result<(), Status> {
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

    pub(crate) fn lost(&self, operation: &str, error: StorageError) -> Lost {
        match error {
            StorageError::InvalidObject { .. } => Lost::Race,
            StorageError::NotFound { .. } => self.not_found().into(),
            other => Lost::Failed(Box::new(self.failure(operation, other))),
        }
    }

    /// The answer to a failure of storage.
    pub fn failure(&self, operation: &str, error: StorageError) -> Status {
        failure(self.qualified(), self.name, operation, error)
    }
}

/// When to try again what storage could not do.
const STORAGE_RETRY_SECONDS: u32 = 2;

/// The answer to a failure of storage in an operation on a resource, and perhaps on one object of it.
pub fn failure(what: Qualified<'_>, name: &str, operation: &str, error: StorageError) -> Status {
    use keepwatch_storage::ExpiredRead;
    let unavailable = |error: &StorageError| {
        tracing::error!(error = error as &dyn std::error::Error, kind = %what, "storage failed");
    };
    match error {
        StorageError::NotFound { .. } => Status::not_found(what, name),
        StorageError::KeyExists { .. } => Status::already_exists(what, name),
        StorageError::InvalidObject { .. } => Status::conflict(what, name, &error.to_string()),
        StorageError::VersionSet => Status::unexplained(error.to_string()),
        StorageError::TooLarge { requested, current, retry_after_seconds } => {
            Status::too_large_resource_version(requested, current, retry_after_seconds.unwrap_or(1))
        }
        StorageError::Expired(ExpiredRead::List) => Status::expired_list(),
        StorageError::Expired(ExpiredRead::Continue(fresh)) => Status::expired_continue(&fresh),
        StorageError::Expired(ExpiredRead::Watch) => Status::expired_watch(),
        StorageError::Expired(ExpiredRead::WatchAfter { requested, oldest }) => {
            Status::too_old_resource_version(requested, oldest)
        }
        StorageError::Unready { message, retry_after_seconds } => {
            Status::too_many_requests(message, retry_after_seconds)
        }
        StorageError::InvalidKey(_) => Status::bad_request(error.to_string()),
        StorageError::Timeout { .. } => {
            unavailable(&error);
            match operation {
                "list" => Status::server_timeout(what, operation, STORAGE_RETRY_SECONDS),
                // Nothing is known of a write that was under way: whether to try again is for the client to decide.
                _ => Status::unexplained(error.to_string()),
            }
        }
        StorageError::Unreachable { .. } => {
            unavailable(&error);
            Status::server_timeout(what, operation, STORAGE_RETRY_SECONDS)
        }
        StorageError::Full { .. } => {
            unavailable(&error);
            Status::internal_error(&error.to_string())
        }
        StorageError::Rejected(source) => Status::internal_error(&source.to_string()),
        other => {
            unavailable(&other);
            Status::internal_error(&other.to_string())
        }
    }
}

/// Why a write did not go through.
pub(crate) enum Lost {
    /// Somebody else came first.
    Race,
    /// It cannot be made of the object that it began with, or there is none.
    Refused(Box<Status>),
    /// Storage failed. Whether the write went through may be unknown, so it is not made again.
    Failed(Box<Status>),
}

impl From<Status> for Lost {
    fn from(status: Status) -> Lost {
        Lost::Refused(Box::new(status))
    }
}

/// Why a new object was not written.
pub(crate) enum Unwritten {
    /// It will never be.
    Refused(Box<Status>),
    /// Storage failed.
    Failed(StorageError),
}
