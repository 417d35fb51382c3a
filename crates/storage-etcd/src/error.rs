//! The meaning of etcd's errors for the caller.
//!
//! The question that matters is what is known of a write: that it was not done ([`Fault::NotDone`]), nothing
//! ([`Fault::Unknown`], [`Fault::Timeout`]), or that etcd has decided ([`Fault::Answer`]).

use crate::options::chain;
use keepwatch_storage::{ExpiredRead, StorageError};
use std::{error::Error, fmt};
use tonic::{Code, ConnectError as Unconnected, Status};

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const FUTURE_REVISION: &str = "etcdserver: mvcc: required revision is a future revision";
const SPACE_EXCEEDED: &str = "etcdserver: mvcc: database space exceeded";
const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";
/// With these etcd says that it did not even begin.
const NOT_BEGUN: [&str; 4] = [
    NO_LEADER,
    "etcdserver: too many requests",
    "etcdserver: revision of auth store is old",
    "raft proposal dropped",
];
const NO_LEADER: &str = "etcdserver: no leader";

/// The failure of one request to etcd.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was not done, for certain; another member, or the same one later, may do it.
    NotDone(Status),
    /// The connection or the member failed. It may have been done.
    Unknown(Status),
    /// No answer came in time. It may have been done.
    Timeout,
    /// etcd's final word.
    Answer(Status),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        let message = status.message();
        if never_connected(&status) || NOT_BEGUN.contains(&message) {
            return Self::NotDone(status);
        }
        // A status that came over the wire has no source; one made on this side of it has.
        let failed_here = status.source().is_some() && !message.starts_with("etcdserver:");
        match status.code() {
            _ if failed_here => Self::Unknown(status),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => {
                Self::Unknown(status)
            }
            // Streams that end in disorder.
            Code::Internal | Code::Unknown if !message.starts_with("etcdserver:") => Self::Unknown(status),
            _ => Self::Answer(status),
        }
    }
}

fn never_connected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<Unconnected>() {
            return true;
        }
        source = error.source();
    }
    false
}

impl Fault {
    /// The message of etcd, if there is one.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::NotDone(status) | Self::Unknown(status) | Self::Answer(status) => status.message(),
            Self::Timeout => "",
        }
    }

    pub(crate) fn is_future_revision(&self) -> bool {
        self.message() == FUTURE_REVISION
    }

    pub(crate) fn is_compacted(&self) -> bool {
        self.message() == COMPACTED
    }

    pub(crate) fn is_lease_not_found(&self) -> bool {
        self.message() == LEASE_NOT_FOUND
    }

    /// Says nothing of a write: it may have been done.
    pub(crate) fn is_no_space(&self) -> bool {
        self.message() == SPACE_EXCEEDED
    }

    pub(crate) fn is_no_leader(&self) -> bool {
        self.message() == NO_LEADER
    }

    /// The caller's error, while doing what.
    pub(crate) fn into_storage_error(self, doing: &'static str) -> StorageError {
        if self.is_compacted() {
            return StorageError::Expired(ExpiredRead::List);
        }
        match self {
            Self::Timeout => StorageError::Timeout { doing },
            Self::Unknown(status) if status.code() == Code::DeadlineExceeded => {
                StorageError::Timeout { doing }
            }
            Self::Unknown(status) | Self::NotDone(status) => {
                StorageError::Unreachable { doing, source: Box::new(status) }
            }
            Self::Answer(status) if status.message() == SPACE_EXCEEDED => {
                StorageError::Full { source: Box::new(status) }
            }
            Self::Answer(status) => StorageError::backend(doing, status),
        }
    }
}

/// The reason why etcd cannot be used, in one line that says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The options cannot be right; nothing was tried.
    Options(String),
    /// No member could be reached.
    Unreachable(String),
    /// A member was reached and refused us.
    Refused(String),
}

impl ConnectError {
    pub(crate) fn options(text: impl Into<String>) -> Self {
        Self::Options(text.into())
    }

    pub(crate) fn from_fault(fault: Fault, endpoints: &[String], user: Option<&str>) -> Self {
        let endpoints = endpoints.join(", ");
        match fault {
            Fault::Timeout => Self::Unreachable(format!(
                "etcd at {endpoints} does not answer: check that it runs and that the network lets us through"
            )),
            Fault::Unknown(status) | Fault::NotDone(status) => {
                let cause = status.source().map_or_else(|| status.message().to_owned(), chain);
                let advice = if cause.contains("certificate") {
                    "check the CA, the client certificate and the host name"
                } else {
                    "check the endpoints and that etcd runs there"
                };
                Self::Unreachable(format!("etcd at {endpoints} cannot be reached: {cause}; {advice}"))
            }
            Fault::Answer(status) => {
                let cause = status.message();
                let advice = match user {
                    Some(user) if cause.contains("authentication failed") => {
                        format!("check the password of the etcd user {user:?}")
                    }
                    Some(user) if cause.contains("permission denied") => {
                        format!("grant the etcd user {user:?} the objects' prefix and \"compact_rev_key\"")
                    }
                    None if cause.contains("user name is empty") => {
                        "give an etcd user and a password".to_owned()
                    }
                    _ => "see etcd's log".to_owned(),
                };
                Self::Refused(format!("etcd at {endpoints} refuses us: {cause}; {advice}"))
            }
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(text) | Self::Unreachable(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

impl Error for ConnectError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: Code, message: &str) -> Fault {
        Status::new(code, message).into()
    }

    #[test]
    fn only_requests_that_were_certainly_not_executed_may_be_sent_again() {
        for (code, message) in [
            (Code::Unavailable, NO_LEADER),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
            (Code::Unknown, "raft proposal dropped"),
        ] {
            assert!(matches!(fault(code, message), Fault::NotDone(_)), "{message}");
        }
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unknown, "transport error"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
        ] {
            assert!(matches!(fault(code, message), Fault::Unknown(_)), "{message}");
        }
        let refused = Status::from_error(Box::new(Unconnected("connection refused".into())));
        assert!(matches!(refused.into(), Fault::NotDone(_)));
    }

    #[test]
    fn each_error_of_etcd_has_one_next_step_for_the_caller() {
        let error = |code, message| fault(code, message).into_storage_error("testing");
        assert!(matches!(error(Code::OutOfRange, COMPACTED), StorageError::Expired(ExpiredRead::List)));
        assert!(matches!(error(Code::ResourceExhausted, SPACE_EXCEEDED), StorageError::Full { .. }));
        assert!(matches!(error(Code::Unavailable, "x"), StorageError::Unreachable { doing: "testing", .. }));
        assert!(matches!(error(Code::DeadlineExceeded, "x"), StorageError::Timeout { doing: "testing" }));
        let denied = error(Code::PermissionDenied, "etcdserver: permission denied");
        assert!(matches!(denied, StorageError::Backend { doing: "testing", .. }));
        assert!(matches!(Fault::Timeout.into_storage_error("testing"), StorageError::Timeout { .. }));
        assert!(fault(Code::OutOfRange, FUTURE_REVISION).is_future_revision());
    }
}
