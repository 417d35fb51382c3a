//! The failures of requests: which connection or response caused them, and which of them are retried.
//!
//! Invariants: an unsuccessful response becomes an error, made from its status code and its whole body. Requests that a
//! short wait can fix are retried here, up to [`RETRIES_MAX`] times; the reflector decides about everything else.

use super::wire;
use crate::error::{ApiError, Class};
use futures::StreamExt;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube_client::client::Body;
use kube_core::Status;
use std::{error::Error, io, time::Duration};

/// The number of retries before a failure is returned to the reflector.
const RETRIES_MAX: u32 = 10;

/// The wait before a retry after a broken connection.
pub(super) const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// A longer `Retry-After` is not waited for here but reported to the reflector.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// The maximum wait for a response, and for each part of a list. Servers answer slow requests within a minute. A
/// connection whose peer has disappeared stays silent.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);

/// The maximum number of bytes that are read of an error response.
const ERROR_BODY_MAX_BYTES: usize = 1 << 20;

/// The maximum length of a message from an error response that is not a `Status`.
const ERROR_TEXT_MAX_CHARS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Watch,
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ApiError,
    /// The wait before a retry, if a retry can help.
    pub(super) retry_after: Option<Duration>,
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Failure { error, retry_after: None }
    }
}

impl Failure {
    /// A request without a response. `otherwise` is the class if the connection is not the cause.
    pub(super) fn no_response(error: kube_client::Error, otherwise: Class, verb: Verb) -> Self {
        let connection = ConnectionFailure::of(&error);
        let is_retryable = match connection {
            Some(ConnectionFailure::Closed) => true,
            Some(ConnectionFailure::TimedOut) => verb == Verb::Watch,
            Some(ConnectionFailure::Refused) | None => false,
        };
        Failure {
            error: api_error(error, connection, otherwise),
            retry_after: is_retryable.then_some(RECONNECT_DELAY),
        }
    }
}

pub(super) fn api_error(
    error: kube_client::Error,
    connection: Option<ConnectionFailure>,
    otherwise: Class,
) -> ApiError {
    let class = match connection {
        Some(ConnectionFailure::Refused) => Class::Refused,
        Some(ConnectionFailure::Closed | ConnectionFailure::TimedOut) => Class::Interrupted,
        None => otherwise,
    };
    match error {
        kube_client::Error::Api(status) => ApiError::from_status(*status),
        error => ApiError::caused(class, describe(&error), error),
    }
}

/// The message of the innermost cause, which is the most specific.
fn describe(error: &kube_client::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Retries failures that a short wait can fix.
pub(super) async fn with_retries<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, Failure>>,
{
    for _ in 0..RETRIES_MAX {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(Failure { error, retry_after: Some(pause) }) if pause <= RETRY_DELAY_MAX => {
                tracing::debug!(%error, ?pause, "a request is retried");
                tokio::time::sleep(pause).await;
            }
            Err(failure) => return Err(failure.error),
        }
    }
    attempt().await.map_err(|failure| failure.error)
}

/// The failure of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionFailure {
    /// The connection was refused.
    Refused,
    /// The connection was closed or reset.
    Closed,
    /// The connection timed out.
    TimedOut,
}

impl ConnectionFailure {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        causes(error).find_map(|cause| {
            if let Some(error) = cause.downcast_ref::<io::Error>() {
                return ConnectionFailure::of_io(error.kind());
            }
            if let Some(error) = cause.downcast_ref::<hyper::Error>() {
                return ConnectionFailure::of_hyper(error);
            }
            cause.is::<tokio::time::error::Elapsed>().then_some(ConnectionFailure::TimedOut)
        })
    }

    fn of_io(kind: io::ErrorKind) -> Option<Self> {
        use io::ErrorKind::*;
        match kind {
            ConnectionRefused => Some(ConnectionFailure::Refused),
            UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected => {
                Some(ConnectionFailure::Closed)
            }
            TimedOut => Some(ConnectionFailure::TimedOut),
            _ => None,
        }
    }

    fn of_hyper(error: &hyper::Error) -> Option<Self> {
        if error.is_timeout() {
            return Some(ConnectionFailure::TimedOut);
        }
        // For a connection that ended with an HTTP/2 frame, or was dropped with its watch, hyper offers only the
        // text.
        let is_named = |name| error.to_string().starts_with(name);
        let is_closed = error.is_incomplete_message()
            || error.is_closed()
            || error.is_canceled()
            || is_named("http2 error")
            || is_named("dispatch task is gone");
        is_closed.then_some(ConnectionFailure::Closed)
    }
}

/// An error and its causes. The error inside an [`io::Error`] is not one of its sources, so it is added.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// Turns an unsuccessful response into a failure.
pub(super) async fn error_response(answer: Response<Body>) -> Failure {
    let (parts, body) = answer.into_parts();
    // A body that cannot be read is treated as empty: the status code is enough.
    let body = read(body, ERROR_BODY_MAX_BYTES).await.unwrap_or_default();
    let wait = retry_after(&parts.headers);
    let mut error = ApiError::from_status(status(parts.status, &body));
    error.retry_after = wait.or(error.retry_after);
    let is_busy = parts.status == StatusCode::TOO_MANY_REQUESTS || parts.status.is_server_error();
    Failure { error, retry_after: wait.filter(|_| is_busy) }
}

/// The `Status` in a response, or one made from its code and text.
fn status(code: StatusCode, body: &[u8]) -> Status {
    let mut status = wire::status(body).unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).trim().chars().take(ERROR_TEXT_MAX_CHARS).collect();
        let message = if text.is_empty() { format!("the server answered {code}") } else { text };
        Status::failure(&message, "")
    });
    if status.code == 0 {
        status.code = code.as_u16();
    }
    status
}

/// Only seconds are supported, not dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(crate::error::retry_after(seconds))
}

/// Fails after [`RESPONSE_TIMEOUT`]. Such a failure is not retried here, because a retry could take as long again.
pub(super) async fn with_timeout<T>(answer: impl Future<Output = T>) -> Result<T, ApiError> {
    let answer = tokio::time::timeout(RESPONSE_TIMEOUT, answer).await;
    answer.map_err(|_| {
        ApiError::new(Class::Other, format!("the server has not answered for {RESPONSE_TIMEOUT:?}"))
    })
}

/// Reads a body, up to a limit.
pub(super) async fn read(body: Body, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut whole = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = with_timeout(chunks.next()).await? {
        let chunk = chunk.map_err(|error| Failure::no_response(error, Class::Unreadable, Verb::List))?;
        let room = max_bytes - whole.len();
        whole.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() >= room {
            break;
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::time::Instant;

    #[test]
    fn a_response_without_a_status_gets_one_from_its_code_and_text() {
        for (code, text, class, message) in [
            (401, "", Class::Unauthorized, "the server answered 401 Unauthorized"),
            (410, "", Class::Gone, "the server answered 410 Gone"),
            (502, " bad gateway\n", Class::Other, "bad gateway"),
            (500, r#"{"code":404}"#, Class::Internal, r#"{"code":404}"#),
            (404, r#"{"kind":"Status","message":"no"}"#, Class::NotFound, "no"),
        ] {
            let error = ApiError::from_status(status(StatusCode::from_u16(code).unwrap(), text.as_bytes()));
            assert_eq!((error.class, error.to_string().as_str()), (class, message));
        }
    }

    fn broken(kind: io::ErrorKind, verb: Verb) -> Failure {
        let error = kube_client::Error::Service(Box::new(io::Error::other(io::Error::from(kind))));
        Failure::no_response(error, Class::Client, verb)
    }

    #[test]
    fn connection_failures_are_classified_by_cause() {
        use io::ErrorKind;
        for (kind, verb, class, is_retryable) in [
            (ErrorKind::ConnectionRefused, Verb::List, Class::Refused, false),
            (ErrorKind::ConnectionReset, Verb::List, Class::Interrupted, true),
            (ErrorKind::UnexpectedEof, Verb::Watch, Class::Interrupted, true),
            (ErrorKind::TimedOut, Verb::List, Class::Interrupted, false),
            (ErrorKind::TimedOut, Verb::Watch, Class::Interrupted, true),
            (ErrorKind::InvalidData, Verb::Watch, Class::Client, false),
        ] {
            let failure = broken(kind, verb);
            assert_eq!((failure.error.class, failure.retry_after.is_some()), (class, is_retryable), "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_retryable_request_is_sent_eleven_times_in_all() {
        for (failures, expected) in
            [(0, (true, 1, 0)), (3, (true, 4, 3)), (10, (true, 11, 10)), (99, (false, 11, 10))]
        {
            let start = Instant::now();
            let attempts = Mutex::new(0);
            let outcome = with_retries(|| {
                let mut attempts = attempts.lock().unwrap();
                *attempts += 1;
                let is_broken = *attempts <= failures;
                async move {
                    if is_broken { Err(broken(io::ErrorKind::ConnectionReset, Verb::List)) } else { Ok(()) }
                }
            });
            let outcome = outcome.await.is_ok();
            assert_eq!((outcome, *attempts.lock().unwrap(), start.elapsed().as_secs()), expected);
        }
    }
}
