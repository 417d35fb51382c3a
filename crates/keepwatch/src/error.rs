//! The errors with which a server does not start.

use crate::{pki::PkiError, tokens::KeyError};
use keepwatch_storage_embedded::OpenError;
#[cfg(feature = "etcd")]
use keepwatch_storage_etcd::ConnectError;
use std::{error::Error, fmt, io, net::SocketAddr};

/// The error with which a server did not start. The text says what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory cannot be used.
    Open(OpenError),
    /// etcd cannot be reached.
    #[cfg(feature = "etcd")]
    Connect(ConnectError),
    /// Certificates cannot be read or made.
    Pki(PkiError),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The server's own objects cannot be made.
    Bootstrap(keepwatch_registry::Error),
    /// A failure that does not depend on the configuration.
    Internal(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Open(error) => error.fmt(f),
            #[cfg(feature = "etcd")]
            StartError::Connect(error) => error.fmt(f),
            StartError::Pki(error) => error.fmt(f),
            StartError::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}: choose another address or port")
            }
            StartError::Bootstrap(error) => write!(f, "the server's own objects cannot be made: {error}"),
            StartError::Internal(error) => error.fmt(f),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Open(error) => Some(error),
            #[cfg(feature = "etcd")]
            StartError::Connect(error) => Some(error),
            StartError::Pki(error) => Some(error),
            StartError::Listen(_, error) => Some(error),
            StartError::Bootstrap(error) => Some(error),
            StartError::Internal(error) => Some(&**error),
        }
    }
}

impl From<PkiError> for StartError {
    fn from(error: PkiError) -> StartError {
        StartError::Pki(error)
    }
}

impl From<KeyError> for StartError {
    fn from(error: KeyError) -> StartError {
        StartError::Internal(Box::new(error))
    }
}

impl From<prometheus::Error> for StartError {
    fn from(error: prometheus::Error) -> StartError {
        StartError::Internal(Box::new(error))
    }
}
