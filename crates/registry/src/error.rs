//! The reasons for which a request fails.
//!
//! An error describes the failure. `endpoints` turns it into the `Status` that a client receives.

use keepwatch_apimachinery::{meta::Qualified, status::Cause};
use keepwatch_storage::StorageError;
use std::fmt;

/// The reason for which a request failed.
#[derive(Debug)]
pub enum Error {
    /// There is no such object.
    NotFound(Box<Subject>),
    /// There is no such resource.
    UnknownPath,
    /// The resource has no such method or subresource.
    MethodNotAllowed,
    /// There is such an object already.
    AlreadyExists {
        /// The object.
        subject: Box<Subject>,
        /// Whether it is marked for deletion.
        is_deleting: bool,
    },
    /// An object existed for every generated name; the subject has the last one.
    NoFreeName(Box<Subject>),
    /// The object has changed since the client read it.
    Modified(Box<Subject>),
    /// The state of the object does not allow the request.
    Conflict {
        /// The object.
        subject: Box<Subject>,
        /// The reason.
        why: String,
    },
    /// The object breaks rules of its kind.
    Invalid {
        /// The kind and the object.
        subject: Box<Subject>,
        /// Each rule that it breaks.
        causes: Vec<Cause>,
    },
    /// The request is forbidden for every user.
    Forbidden {
        /// The object.
        subject: Box<Subject>,
        /// The reason.
        why: String,
        /// The causes, for programs.
        causes: Vec<Cause>,
    },
    /// The request is malformed or contradicts itself.
    BadRequest(String),
    /// The request or the object is too large.
    TooLarge(String),
    /// A patch does not fit the object.
    DoesNotFit,
    /// A disruption budget does not allow the eviction.
    OverBudget {
        /// The reason.
        why: String,
        /// The number of seconds after which to try again; zero if the client decides.
        retry_after_seconds: u32,
    },
    /// An error for which the API has no reason, only a message.
    Unexplained(String),
    /// Something that should not happen.
    Internal(String),
    /// The deadline of the request has passed.
    Late,
    /// The rules of a custom resource take longer than the caller allowed. Nothing was written; it can begin again where
    /// they may take longer.
    TakesLong,
    /// The server stopped before the request was complete.
    Stopping,
    /// Storage failed, or rejected the operation.
    Storage {
        /// The resource, and the object if it is about one.
        subject: Box<Subject>,
        /// The operation that failed.
        operation: &'static str,
        /// The error of the storage.
        error: Box<StorageError>,
    },
}

/// The object or resource that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The API group.
    pub group: String,
    /// The resource (`pods`); the kind (`Pod`) where the object itself is at fault.
    pub kind: String,
    /// The name of the object; empty if it is about none, or about one without a name.
    pub name: String,
}

impl Subject {
    pub(crate) fn new(what: Qualified<'_>, name: &str) -> Box<Subject> {
        let [group, kind, name] = [what.group, what.kind, name].map(str::to_owned);
        Box::new(Subject { group, kind, name })
    }

    /// The resource or kind with its group.
    pub fn qualified(&self) -> Qualified<'_> {
        Qualified::new(&self.group, &self.kind)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.qualified();
        if self.name.is_empty() { what.fmt(f) } else { write!(f, "{what} {:?}", self.name) }
    }
}

impl Error {
    /// There is no such object.
    pub fn not_found(what: Qualified<'_>, name: &str) -> Error {
        Error::NotFound(Subject::new(what, name))
    }

    /// There is such an object already.
    pub(crate) fn already_exists(what: Qualified<'_>, name: &str, is_deleting: bool) -> Error {
        Error::AlreadyExists { subject: Subject::new(what, name), is_deleting }
    }

    /// An object existed for every generated name.
    pub(crate) fn no_free_name(what: Qualified<'_>, name: &str) -> Error {
        Error::NoFreeName(Subject::new(what, name))
    }

    /// The object has changed since the client read it.
    pub(crate) fn modified(what: Qualified<'_>, name: &str) -> Error {
        Error::Modified(Subject::new(what, name))
    }

    /// The state of the object does not allow the request.
    pub(crate) fn conflict(what: Qualified<'_>, name: &str, why: impl Into<String>) -> Error {
        Error::Conflict { subject: Subject::new(what, name), why: why.into() }
    }

    /// The object breaks rules of its kind.
    pub(crate) fn invalid(what: Qualified<'_>, name: &str, causes: Vec<Cause>) -> Error {
        Error::Invalid { subject: Subject::new(what, name), causes }
    }

    /// The request is forbidden for every user.
    pub(crate) fn forbidden(what: Qualified<'_>, name: &str, why: impl Into<String>) -> Error {
        Error::Forbidden { subject: Subject::new(what, name), why: why.into(), causes: Vec::new() }
    }

    /// The request is malformed or contradicts itself.
    pub(crate) fn bad_request(why: impl Into<String>) -> Error {
        Error::BadRequest(why.into())
    }

    /// An error for which the API has no reason.
    pub(crate) fn unexplained(why: impl Into<String>) -> Error {
        Error::Unexplained(why.into())
    }

    /// Storage failed, or rejected the operation.
    pub fn storage(what: Qualified<'_>, name: &str, operation: &'static str, error: StorageError) -> Error {
        Error::Storage { subject: Subject::new(what, name), operation, error: Box::new(error) }
    }

    /// Whether the object or resource does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            Error::NotFound(_) | Error::UnknownPath => true,
            Error::Storage { error, .. } => matches!(**error, StorageError::NotFound { .. }),
            _ => false,
        }
    }

    /// Whether the request conflicts with the state of the object.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Error::AlreadyExists { .. }
            | Error::NoFreeName(_)
            | Error::Modified(_)
            | Error::Conflict { .. } => true,
            Error::Storage { error, .. } => {
                matches!(**error, StorageError::KeyExists { .. } | StorageError::InvalidObject { .. })
            }
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(subject) => write!(f, "{subject} was not found"),
            Error::UnknownPath => f.write_str("there is no such resource"),
            Error::MethodNotAllowed => f.write_str("the resource does not have that method"),
            Error::AlreadyExists { subject, .. } => write!(f, "{subject} exists already"),
            Error::NoFreeName(subject) => write!(f, "no free name was found for {subject}"),
            Error::Modified(subject) => write!(f, "{subject} was changed by somebody else"),
            Error::Conflict { subject, why } => write!(f, "{subject}: {why}"),
            Error::Invalid { subject, causes } => {
                write!(f, "{subject} is invalid")?;
                causes.iter().try_for_each(|cause| write!(f, "; {}: {}", cause.field, cause.message))
            }
            Error::Forbidden { subject, why, .. } => write!(f, "{subject} is forbidden: {why}"),
            Error::BadRequest(why)
            | Error::TooLarge(why)
            | Error::OverBudget { why, .. }
            | Error::Unexplained(why)
            | Error::Internal(why) => f.write_str(why),
            Error::DoesNotFit => f.write_str("the patch does not fit the object"),
            Error::Late => f.write_str("nobody waits for the answer any more"),
            Error::TakesLong => f.write_str("the rules of the kind take long to evaluate"),
            Error::Stopping => f.write_str("the server is stopping"),
            Error::Storage { subject, operation, error } => write!(f, "{operation} {subject}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Storage { error, .. } => Some(&**error),
            _ => None,
        }
    }
}
