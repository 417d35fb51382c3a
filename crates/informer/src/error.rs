//! Errors between an informer and its server, classified by how to handle them.

use crate::object::ObjectKey;
use kube_core::Status;
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// The error of a failed request or of a watch that ended.
#[derive(Clone)]
pub struct ApiError {
    /// The class of the failure.
    pub class: Class,
    /// The `Status` that the server sent, if it sent one.
    pub status: Option<Box<Status>>,
    /// The wait that the server asks for.
    pub retry_after: Option<Duration>,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Classes of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The requested version is too old (reason `Expired`).
    Expired,
    /// The requested version is too old (reason `Gone` or status 410).
    Gone,
    /// The requested version is newer than the server's.
    TooLarge,
    /// The server is overloaded: status 429.
    TooManyRequests,
    /// The connection was refused.
    Refused,
    /// The server failed: status 500.
    Internal,
    /// The client is not authenticated: status 401.
    Unauthorized,
    /// The client is not authorized: status 403.
    Forbidden,
    /// The resource does not exist: status 404.
    NotFound,
    /// The server rejects the request: status 400 or 422.
    Rejected,
    /// Any other unsuccessful response.
    Other,
    /// The connection broke.
    Interrupted,
    /// The response could not be decoded.
    Unreadable,
    /// A watch ended within a second without any event.
    VeryShort,
    /// The request could not be sent.
    Client,
}

impl Class {
    /// The name of the class, as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Expired => "expired",
            Class::Gone => "gone",
            Class::TooLarge => "too_large",
            Class::TooManyRequests => "too_many_requests",
            Class::Refused => "refused",
            Class::Internal => "internal",
            Class::Unauthorized => "unauthorized",
            Class::Forbidden => "forbidden",
            Class::NotFound => "not_found",
            Class::Rejected => "rejected",
            Class::Other => "other",
            Class::Interrupted => "interrupted",
            Class::Unreadable => "unreadable",
            Class::VeryShort => "very_short",
            Class::Client => "client",
        }
    }

    /// Whether another version has to be requested.
    pub(crate) fn is_version_unavailable(self) -> bool {
        matches!(self, Class::Expired | Class::Gone | Class::TooLarge)
    }

    /// Whether access is denied.
    pub(crate) fn is_denied(self) -> bool {
        matches!(self, Class::Unauthorized | Class::Forbidden)
    }

    /// Whether the same request can be retried after a wait.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Class::TooManyRequests | Class::Refused)
    }
}

impl ApiError {
    /// An error without a `Status`.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        ApiError { class, status: None, retry_after: None, message: message.into(), source: None }
    }

    /// An error with a cause.
    pub fn caused(
        class: Class,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        ApiError { source: Some(Arc::from(source.into())), ..ApiError::new(class, message) }
    }

    /// An error from the `Status` of a server.
    pub fn from_status(status: Status) -> Self {
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let retry_after = (seconds > 0).then(|| retry_after(seconds.into()));
        let message = if status.message.is_empty() {
            format!("the server answered {}", status.code)
        } else {
            status.message.clone()
        };
        ApiError {
            class: classify(&status),
            status: Some(Box::new(status)),
            retry_after,
            message,
            source: None,
        }
    }
}

/// The longest wait that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

pub(crate) fn retry_after(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(RETRY_AFTER_MAX)
}

/// The reasons that Kubernetes defines. Other reasons are ignored.
const KNOWN_REASONS: [&str; 19] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];

fn classify(status: &Status) -> Class {
    let reason = status.reason.as_str();
    let is_unknown = !KNOWN_REASONS.contains(&reason);
    let by_code = |code: u16| status.code == code && is_unknown;
    if is_too_large(status, reason == "Timeout" || by_code(504)) {
        return Class::TooLarge;
    }
    match reason {
        "Expired" => Class::Expired,
        "Gone" => Class::Gone,
        "InternalError" => Class::Internal,
        "TooManyRequests" => Class::TooManyRequests,
        _ if by_code(410) => Class::Gone,
        _ if by_code(500) => Class::Internal,
        _ => match status.code {
            429 => Class::TooManyRequests,
            401 => Class::Unauthorized,
            403 => Class::Forbidden,
            404 => Class::NotFound,
            400 | 422 => Class::Rejected,
            _ => Class::Other,
        },
    }
}

/// New servers report it as a cause, old ones in the message.
fn is_too_large(status: &Status, is_timeout: bool) -> bool {
    const WORDS: &str = "Too large resource version";
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        || is_timeout && (status.message.contains(WORDS) || causes.iter().any(|cause| cause.message == WORDS))
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.class, self.message)
    }
}

impl Error for ApiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

/// The step of an informer in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Listing.
    List,
    /// Opening a watch.
    Open,
    /// Reading a watch.
    Stream,
    /// Decoding an object.
    Decode,
    /// Transforming an object.
    Transform,
    /// Calling a handler.
    Handler,
}

impl Phase {
    /// The name of the phase, as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::List => "list",
            Phase::Open => "open",
            Phase::Stream => "stream",
            Phase::Decode => "decode",
            Phase::Transform => "transform",
            Phase::Handler => "handler",
        }
    }
}

/// An error of an informer. The informer continues after every error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerError {
    /// The step in which it occurred.
    pub phase: Phase,
    /// The error.
    pub error: ApiError,
    /// The object, if the error is about one.
    pub key: Option<ObjectKey>,
    /// The number of consecutive failures, including this one.
    pub attempt: u32,
    /// The wait before the next attempt.
    pub next_delay: Option<Duration>,
}

impl fmt::Display for InformerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.phase.as_str(), self.error)?;
        match &self.key {
            Some(key) => write!(f, " ({key})"),
            None => Ok(()),
        }
    }
}

impl Error for InformerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classified_by_reason_then_by_code() {
        for (json, expected) in [
            (r#"{"code":410,"reason":"Expired"}"#, Class::Expired),
            (r#"{"code":410,"reason":"Gone"}"#, Class::Gone),
            (r#"{"code":410}"#, Class::Gone),
            (r#"{"code":410,"reason":"Strange"}"#, Class::Gone),
            (r#"{"code":410,"reason":"Conflict"}"#, Class::Other),
            (r#"{"code":429}"#, Class::TooManyRequests),
            (r#"{"code":500,"reason":"TooManyRequests"}"#, Class::TooManyRequests),
            (r#"{"code":500}"#, Class::Internal),
            (r#"{"code":500,"reason":"InternalError"}"#, Class::Internal),
            (r#"{"code":504,"reason":"Timeout"}"#, Class::Other),
            (
                r#"{"code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
                Class::TooLarge,
            ),
            (
                r#"{"code":504,"reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]}}"#,
                Class::TooLarge,
            ),
            (
                r#"{"code":504,"message":"Timeout: Too large resource version: 9, current: 5"}"#,
                Class::TooLarge,
            ),
            (r#"{"code":422,"reason":"Invalid"}"#, Class::Rejected),
            (r#"{"code":403,"reason":"Forbidden"}"#, Class::Forbidden),
        ] {
            let status: Status = serde_json::from_str(json).unwrap();
            assert_eq!(ApiError::from_status(status).class, expected, "{json}");
        }
    }
}
