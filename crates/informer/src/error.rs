//! What can go wrong between an informer and its server, sorted by what is to be done about it.

use crate::ObjectKey;
use kube_core::Status;
use std::{error::Error, fmt, sync::Arc, time::Duration};

/// Why a request failed, or a watch ended.
#[derive(Clone)]
pub struct ApiError {
    /// What kind of failure it is.
    pub class: Class,
    /// What the server said, if it said anything.
    pub status: Option<Box<Status>>,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The version asked for is too old.
    Expired,
    /// The same, as some servers say it.
    Gone,
    /// The version asked for is too new.
    TooLarge,
    /// The server is asked too much.
    TooManyRequests,
    /// Nobody listens.
    Refused,
    /// The server failed.
    Internal,
    /// It does not know who asks.
    Unauthorized,
    /// Whoever asks may not.
    Forbidden,
    /// There is no such resource.
    NotFound,
    /// The server does not take the question: 400 or 422.
    Rejected,
    /// Any other answer that is no success.
    Other,
    /// The connection broke.
    Interrupted,
    /// The answer cannot be read.
    Unreadable,
    /// A watch ended within a second without saying anything.
    VeryShort,
    /// The request could not be made at all.
    Client,
}

impl Class {
    /// The name of the class, as metrics have it.
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

    /// Whether another version has to be asked for.
    pub(crate) fn is_version_unavailable(self) -> bool {
        matches!(self, Class::Expired | Class::Gone | Class::TooLarge)
    }

    /// Whether one may not ask at all.
    pub(crate) fn is_denied(self) -> bool {
        matches!(self, Class::Unauthorized | Class::Forbidden)
    }

    /// Whether the same question can be asked again a little later.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Class::TooManyRequests | Class::Refused)
    }
}

impl ApiError {
    /// A failure that no server told of.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        ApiError { class, status: None, retry_after: None, message: message.into(), source: None }
    }

    /// The same, and what caused it.
    pub fn caused(
        class: Class,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        ApiError { source: Some(Arc::from(source.into())), ..ApiError::new(class, message) }
    }

    /// What a server said.
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

/// However long a server asks to be left alone, it is asked again after this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

pub(crate) fn retry_after(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(RETRY_AFTER_MAX)
}

/// What Kubernetes calls the reason of a failure; others are as good as none.
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

/// New servers say it in a cause, old ones in words.
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

/// What an informer was doing when something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Asking for a list.
    List,
    /// Opening a watch.
    Open,
    /// Reading from a watch.
    Stream,
    /// Reading one object.
    Decode,
    /// Changing an object before it is kept.
    Transform,
    /// Telling a handler.
    Handler,
}

impl Phase {
    /// The name of the phase, as metrics have it.
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

/// Something went wrong in an informer, and what it does about it. It always goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerError {
    /// What it was doing.
    pub phase: Phase,
    /// What went wrong.
    pub error: ApiError,
    /// Of which object, if it is about one.
    pub key: Option<ObjectKey>,
    /// How many failures there were in a row, with this one.
    pub attempt: u32,
    /// How long it waits before it tries again.
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
    fn failures_are_sorted_by_reason_then_by_code() {
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
