//! The directory that holds certificates and keys.

use super::{
    Identity, PkiError,
    ca::{Ca, Leaf, new_key, unix_seconds},
    files::{PRIVATE, PUBLIC, plain, read, write, write_if_room},
    identity::certificates_of,
};
use rcgen::{Issuer, KeyPair, PublicKeyData};
use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The directory with certificates and keys.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn at(path: PathBuf) -> Result<Directory, PkiError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| PkiError::at(&path, format!("cannot be made: {}", plain(&error))))?;
        Ok(Directory(path))
    }

    pub(super) fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{name}.{extension}"))
    }

    pub(super) fn ca(&self, now: SystemTime) -> Result<Ca, PkiError> {
        let (certificate_path, key_path) = (self.file("ca", "crt"), self.file("ca", "key"));
        let start_anew =
            format!("or remove {} to start anew, with new certificates for all clients", self.0.display());
        let Some(certificate) = read(&certificate_path)? else {
            let ca = Ca::issue(self.key("ca", &start_anew)?, now)?;
            write(&certificate_path, &ca.certificate, PUBLIC)?;
            return Ok(ca);
        };
        let bad = |path: &Path, problem: &str| Err(PkiError::at(path, format!("{problem}, {start_anew}")));
        if !key_path.exists() {
            return bad(&key_path, "is missing, though its certificate is there: put it back");
        }
        let key = self.key("ca", &start_anew)?;
        let der = certificates_of(&certificate)
            .map(|mut all| all.swap_remove(0))
            .unwrap_or_else(|| Vec::new().into());
        let Ok((_, parsed)) = x509_parser::parse_x509_certificate(&der) else {
            return bad(&certificate_path, "holds no certificate: put it back");
        };
        if parsed.public_key().raw != key.subject_public_key_info() {
            return bad(&key_path, "is not the key of ca.crt: put the right one back");
        }
        if parsed.validity().not_after.timestamp() <= unix_seconds(now) {
            return bad(&certificate_path, "has expired: put a newer one there");
        }
        match Issuer::from_ca_cert_der(&der, key) {
            Ok(issuer) => Ok(Ca { certificate, issuer }),
            Err(_) => bad(&certificate_path, "holds no certificate of a CA: put one there"),
        }
    }

    pub(super) fn leaf(&self, leaf: &Leaf<'_>, ca: &Ca, now: SystemTime) -> Result<Identity, PkiError> {
        let path = self.file(leaf.name, "crt");
        let key = self.key(leaf.name, "or remove it to have a new one made")?;
        let current = read(&path)?.map(|pem| {
            let problem = "holds no certificate: remove it to have a new one made";
            let ders = certificates_of(&pem).ok_or_else(|| PkiError::at(&path, problem))?;
            let (_, parsed) =
                x509_parser::parse_x509_certificate(&ders[0]).map_err(|_| PkiError::at(&path, problem))?;
            Ok(leaf.is_served_by(&parsed, &key, ca, now).then_some(pem))
        });
        let certificates = match current.transpose()?.flatten() {
            Some(current) => current,
            None => {
                let issued = ca.issue_leaf(leaf, &key, now)?;
                // One that is not kept is issued again at the next start, for the same key.
                match write_if_room(&path, &issued, PUBLIC)? {
                    true => tracing::info!(path = %path.display(), "issued a certificate"),
                    false => tracing::warn!(
                        path = %path.display(),
                        "issued a certificate, but the disk is too full to write it"
                    ),
                }
                issued
            }
        };
        Ok(Identity { certificates, key: key.serialize_pem() })
    }

    /// The key of that name, which is generated if there is none.
    pub(super) fn key(&self, name: &str, remedy: &str) -> Result<KeyPair, PkiError> {
        let path = self.file(name, "key");
        if let Some(pem) = read(&path)? {
            let problem = format!("holds no private key: put it back, {remedy}");
            return KeyPair::from_pem(&pem).map_err(|_| PkiError::at(&path, problem));
        }
        let key = new_key()?;
        write(&path, &key.serialize_pem(), PRIVATE)?;
        Ok(key)
    }
}
