//! Certificates with their keys, as they are given in files.

use super::{PkiError, files::read_given};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use std::{fmt, path::Path};

/// A certificate, followed by those that lead to its CA, and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificates.
    pub certificates: String,
    /// The key.
    pub key: String,
}

/// Without the key, which must not be logged.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads an identity from two files, which must belong together.
    pub fn read(certificates: &Path, key: &Path) -> Result<Identity, PkiError> {
        let identity = Identity { certificates: read_given(certificates)?, key: read_given(key)? };
        if certificates_of(&identity.certificates).is_none() {
            return Err(PkiError::at(certificates, "holds no certificate: give one in PEM"));
        }
        if PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).is_err() {
            return Err(PkiError::at(key, "holds no private key: give one in PEM, not encrypted"));
        }
        match identity.certified_key() {
            Ok(_) => Ok(identity),
            Err(rustls::Error::InconsistentKeys(_)) => {
                let problem = format!(
                    "is not the key of {}: give the two that belong together",
                    certificates.display()
                );
                Err(PkiError::at(key, problem))
            }
            Err(error) => Err(PkiError::at(certificates, format!("cannot be used: {error}"))),
        }
    }

    pub(super) fn certified_key(&self) -> Result<CertifiedKey, rustls::Error> {
        let certificates = certificates_of(&self.certificates)
            .ok_or_else(|| rustls::Error::General("there is no certificate".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        CertifiedKey::from_der(certificates, key, &aws_lc_rs::default_provider())
    }
}

/// The certificates in a PEM text; none if there are none or one is broken.
pub(super) fn certificates_of(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    certificates.ok().filter(|certificates| !certificates.is_empty())
}

/// Reads the CAs of client certificates from a file.
pub fn read_client_cas(path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    certificates_of(&read_given(path)?)
        .ok_or_else(|| PkiError::at(path, "holds no certificate: give the client CA in PEM"))
}
