//! The certificates that a server issues for itself, and its TLS configuration.
//!
//! In the data directory, `pki` holds a CA, a certificate for the server and one for its administrator; each
//! `name.crt` is beside its `name.key`. `admin.kubeconfig` has everything that a client needs.
//!
//! Kept true: a file is there whole or not at all, and private ones are readable by their owner only. A key is
//! written before its certificate, and a certificate that does not fit its key, its CA, its names or the time is
//! issued again for the same key; so an interrupted start is completed by the next one. The CA itself is never
//! replaced, because clients trust it.

mod names;
mod identity;
mod tls;
mod ca;
mod directory;
mod files;
#[cfg(test)]
mod tests;

pub use identity::{Identity, read_client_cas};
pub(crate) use names::{ServerNames, advertised_address, endpoint_address};
pub(crate) use tls::server_config;

use base64::{Engine, engine::general_purpose::STANDARD};
use ca::{Ca, Leaf, new_key};
use directory::Directory;
use files::{PRIVATE, read, write_if_room};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A failure to read or issue certificates: one line that names the file and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PkiError(String);

impl PkiError {
    fn at(path: &Path, problem: impl fmt::Display) -> PkiError {
        PkiError(format!("{} {problem}", path.display()))
    }

    fn making(what: &str, why: impl fmt::Display) -> PkiError {
        PkiError(format!("cannot make {what}: {why}"))
    }
}

impl fmt::Display for PkiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PkiError {}

/// The certificates and keys that the server issues for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pki {
    /// The CA's certificate, in PEM.
    pub(crate) ca: String,
    /// The server's own identity.
    pub(crate) server: Identity,
    /// The identity of an administrator.
    pub(crate) admin: Identity,
    /// The key that signs the tokens of service accounts, in PKCS#8.
    pub(crate) token_key: Vec<u8>,
}

impl Pki {
    /// Issues everything and stores nothing, for servers that live as long as a test.
    pub(crate) fn in_memory(names: &ServerNames) -> Result<Pki, PkiError> {
        let now = SystemTime::now();
        let ca = Ca::issue(new_key()?, now)?;
        let issue = |leaf: &Leaf<'_>| {
            let key = new_key()?;
            Ok(Identity { certificates: ca.issue_leaf(leaf, &key, now)?, key: key.serialize_pem() })
        };
        let server = issue(&Leaf::server(names))?;
        let token_key = new_key()?.serialize_der();
        Ok(Pki { server, admin: issue(&Leaf::admin())?, ca: ca.certificate, token_key })
    }

    /// Reads the data directory, and issues what is missing or about to expire. No other process may use the directory.
    pub(crate) fn open(data_dir: &Path, names: &ServerNames) -> Result<Pki, PkiError> {
        Pki::open_at(data_dir, names, SystemTime::now())
    }

    fn open_at(data_dir: &Path, names: &ServerNames, now: SystemTime) -> Result<Pki, PkiError> {
        let directory = Directory::at(data_dir.join("pki"))?;
        let ca = directory.ca(now)?;
        let server = directory.leaf(&Leaf::server(names), &ca, now)?;
        let token_key =
            directory.key("service-accounts", "or remove it: tokens issued so far end")?.serialize_der();
        Ok(Pki { server, admin: directory.leaf(&Leaf::admin(), &ca, now)?, ca: ca.certificate, token_key })
    }

    /// The CA of client certificates.
    pub(crate) fn client_ca(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.ca.as_bytes()).expect("it was issued or read as one")
    }

    /// The kubeconfig of the administrator of a server at `address`. Clients trust `trusted`, which is the CA
    /// unless the server was given another certificate.
    pub(crate) fn kubeconfig(&self, address: SocketAddr, trusted: &str) -> String {
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let server = SocketAddr::new(host, address.port());
        let [ca, certificate, key] =
            [trusted, &self.admin.certificates, &self.admin.key].map(|pem| STANDARD.encode(pem));
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: keepwatch\n\
             \x20 cluster:\n\
             \x20   server: https://{server}\n\
             \x20   certificate-authority-data: {ca}\n\
             users:\n\
             - name: keepwatch\n\
             \x20 user:\n\
             \x20   client-certificate-data: {certificate}\n\
             \x20   client-key-data: {key}\n\
             contexts:\n\
             - name: keepwatch\n\
             \x20 context:\n\
             \x20   cluster: keepwatch\n\
             \x20   user: keepwatch\n\
             current-context: keepwatch\n"
        )
    }

    /// Writes the administrator's kubeconfig into the data directory and returns its path, unless the disk is full.
    pub(crate) fn write_kubeconfig(
        &self,
        data_dir: &Path,
        address: SocketAddr,
        trusted: &str,
    ) -> Result<Option<PathBuf>, PkiError> {
        let (path, text) = (data_dir.join("admin.kubeconfig"), self.kubeconfig(address, trusted));
        if read(&path)?.as_ref() == Some(&text) || write_if_room(&path, &text, PRIVATE)? {
            return Ok(Some(path));
        }
        tracing::warn!(
            path = %path.display(),
            "the disk is too full to write the kubeconfig of this start: the file is missing or of an earlier one"
        );
        Ok(None)
    }
}
