//! The responses to failures: the one place where errors become a `Status`.

use keepwatch_apimachinery::status::{Cause, Status};
use keepwatch_registry::{Error, error::Subject};
use keepwatch_storage::{ExpiredRead, StorageError};

/// When to try again what storage could not do.
const STORAGE_RETRY_SECONDS: u32 = 2;

/// The Status for an error.
pub fn to_status(error: Error) -> Status {
    match error {
        Error::NotFound(subject) => Status::not_found(subject.qualified(), &subject.name),
        Error::UnknownPath => Status::unknown_path(),
        Error::MethodNotAllowed => Status::method_not_allowed(),
        Error::AlreadyExists { subject, is_deleting } => {
            let mut status = Status::already_exists(subject.qualified(), &subject.name);
            if is_deleting {
                status.message = format!("object is being deleted: {}", status.message);
            }
            status
        }
        Error::NoFreeName(subject) => Status::no_free_name(subject.qualified(), &subject.name),
        Error::Modified(subject) => Status::modified(subject.qualified(), &subject.name),
        Error::Conflict { subject, why } => Status::conflict(subject.qualified(), &subject.name, &why),
        Error::Invalid { subject, causes } => Status::invalid(subject.qualified(), &subject.name, causes),
        Error::Forbidden { subject, why, causes } => {
            with_causes(Status::forbidden(subject.qualified(), &subject.name, &why), causes)
        }
        Error::BadRequest(why) => Status::bad_request(why),
        Error::TooLarge(why) => Status::request_entity_too_large(&why),
        Error::DoesNotFit => Status::unprocessable(),
        Error::OverBudget { why, retry_after_seconds } => {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let causes = vec![Cause::new("DisruptionBudget", why, "")];
            with_causes(Status::too_many_requests(message, retry_after_seconds), causes)
        }
        Error::Unexplained(why) => Status::unexplained(why),
        Error::Internal(why) => Status::internal_error(&why),
        Error::Late | Error::TakesLong => {
            Status::timeout("request did not complete within the allotted timeout", 0)
        }
        Error::Stopping => Status::service_unavailable("the server is stopping"),
        Error::Storage { subject, operation, error } => storage(&subject, operation, *error),
    }
}

fn with_causes(mut status: Status, causes: Vec<Cause>) -> Status {
    if !causes.is_empty() {
        status.details.get_or_insert_default().causes = causes;
    }
    status
}

fn storage(subject: &Subject, operation: &str, error: StorageError) -> Status {
    let (what, name) = (subject.qualified(), subject.name.as_str());
    let log = |error: &StorageError| {
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
            log(&error);
            match operation {
                "list" => Status::server_timeout(what, operation, STORAGE_RETRY_SECONDS),
                // Nothing is known of a write that was under way: whether to try again is for the client to decide.
                _ => Status::unexplained(error.to_string()),
            }
        }
        StorageError::Unreachable { .. } => {
            log(&error);
            Status::server_timeout(what, operation, STORAGE_RETRY_SECONDS)
        }
        StorageError::Rejected(source) => Status::internal_error(&source.to_string()),
        other => {
            log(&other);
            Status::internal_error(&other.to_string())
        }
    }
}
