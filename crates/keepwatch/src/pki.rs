//! The certificates of a server that nobody gave any, and its TLS.
//!
//! In the data directory, `pki` holds a CA, a certificate for the server and one for its administrator; each
//! `name.crt` stands beside its `name.key`. `admin.kubeconfig` has all that a client needs.
//!
//! Kept true: a file is there whole or not at all, and private ones are readable by their owner only. A key is
//! written before its certificate, and a certificate that does not fit its key, its CA, its names or the time is
//! issued anew for the same key; so an interrupted start is carried on by the next one. The CA itself is never
//! replaced, because clients trust it.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use keepwatch_endpoints::{
    auth::{AnyCertificate, WithVersion1},
    serve::Tls,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_VALID: Duration = DAY.saturating_mul(10 * 365);
const CERTIFICATE_VALID: Duration = DAY.saturating_mul(365);
/// A certificate with less than this left is issued anew at the next start.
const RENEWED_BEFORE_END: Duration = DAY.saturating_mul(30);
/// How far a client's clock may be behind ours.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

const DNS_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why certificates cannot be had: one line that names the file and the remedy.
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

/// By which addresses clients reach the server. They know it by `localhost` and by the names of the service
/// `kubernetes` as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNames {
    addresses: Vec<IpAddr>,
}

impl ServerNames {
    /// The names of a server that listens on `bind`, tells others to use `advertised`, and is behind the service address
    /// `service`.
    pub fn new(bind: IpAddr, advertised: IpAddr, service: IpAddr) -> ServerNames {
        let mut addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for address in [bind, advertised, service] {
            if !address.is_unspecified() && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        ServerNames { addresses }
    }

    fn alternative_names(&self) -> Result<Vec<SanType>, PkiError> {
        let names = DNS_NAMES.iter().map(|name| name.parse().map(SanType::DnsName));
        let names = names.chain(self.addresses.iter().map(|address| Ok(SanType::IpAddress(*address))));
        names.collect::<Result<_, _>>().map_err(|why| PkiError::making("the server's names", why))
    }

    fn are_covered_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
        let names = &names.value.general_names;
        let has_name = |name| names.contains(&GeneralName::DNSName(name));
        let has_address = |address: &IpAddr| match address {
            IpAddr::V4(address) => names.contains(&GeneralName::IPAddress(&address.octets())),
            IpAddr::V6(address) => names.contains(&GeneralName::IPAddress(&address.octets())),
        };
        DNS_NAMES.into_iter().all(has_name) && self.addresses.iter().all(has_address)
    }
}

/// The address at which others reach a server that listens on `bind`: if that is every address, the one from which this
/// machine talks to others.
pub fn advertised_address(bind: IpAddr) -> IpAddr {
    if !bind.is_unspecified() {
        return bind;
    }
    outward_address(bind).unwrap_or_else(|| match bind {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    })
}

/// The address to which the service `kubernetes` leads if `advertised` is a loopback address, which no endpoint may have.
/// kube-apiserver then names the address from which the machine talks to others, too.
pub fn endpoint_address(advertised: IpAddr) -> IpAddr {
    let outward = || outward_address(Ipv4Addr::UNSPECIFIED.into());
    if advertised.is_loopback() { outward().unwrap_or(advertised) } else { advertised }
}

/// The address from which this machine talks to others, if it can. Nothing is sent.
fn outward_address(unspecified: IpAddr) -> Option<IpAddr> {
    let other: IpAddr = match unspecified {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((unspecified, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// A certificate, followed by those that lead to its CA, and its private key; both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificates.
    pub certificates: String,
    /// The key.
    pub key: String,
}

/// Without the key, which does not belong in a log.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

impl Identity {
    /// What stands in these two files, which have to fit each other.
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

    fn certified_key(&self) -> Result<CertifiedKey, rustls::Error> {
        let certificates = certificates_of(&self.certificates)
            .ok_or_else(|| rustls::Error::General("there is no certificate".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        CertifiedKey::from_der(certificates, key, &aws_lc_rs::default_provider())
    }
}

/// The certificates in a PEM text; none if there are none or one is broken.
fn certificates_of(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    certificates.ok().filter(|certificates| !certificates.is_empty())
}

/// The CAs in a file that a flag names.
pub fn read_client_cas(path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    certificates_of(&read_given(path)?)
        .ok_or_else(|| PkiError::at(path, "holds no certificate: give the client CA in PEM"))
}

/// How a server speaks TLS: with this identity, HTTP/2 or HTTP/1.1, and with clients that are known by a certificate from
/// one of these CAs.
///
/// Sessions are resumed from what clients keep, so they take no memory here.
pub fn server_config(identity: &Identity, client_cas: &[CertificateDer<'static>]) -> Result<Tls, PkiError> {
    let unusable = |what: &str| {
        let what = what.to_owned();
        move |error: &dyn fmt::Display| PkiError(format!("{what} cannot be used: {error}"))
    };
    let (bad_identity, bad_ca) = (unusable("the server's certificate"), unusable("the client CA"));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for ca in client_cas {
        roots.add(ca.clone()).map_err(|error| bad_ca(&error))?;
    }
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| bad_identity(&error))?;
    let verifier = if roots.is_empty() {
        None
    } else {
        let algorithms = provider.signature_verification_algorithms;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let others = verifier.allow_unauthenticated().build().map_err(|error| bad_ca(&error))?;
        let verifier = WithVersion1 { others, client_cas: client_cas.to_vec(), algorithms };
        Some(Arc::new(verifier) as Arc<dyn ClientCertVerifier>)
    };
    let builder = match verifier.clone() {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(AnyCertificate(verifier))),
    };
    let key = Arc::new(identity.certified_key().map_err(|error| bad_identity(&error))?);
    let mut config = builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| bad_identity(&error))?;
    config.send_tls13_tickets = 1;
    Ok(Tls { config: Arc::new(config), verifier })
}

/// What the server made for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pki {
    /// The CA's certificate, in PEM.
    pub ca: String,
    /// The server's own identity.
    pub server: Identity,
    /// One that may do everything.
    pub admin: Identity,
    /// The key that signs the tokens of service accounts, in PKCS#8.
    pub token_key: Vec<u8>,
}

impl Pki {
    /// Made anew and kept nowhere, for servers that live as long as a test.
    pub fn in_memory(names: &ServerNames) -> Result<Pki, PkiError> {
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

    /// What is in the data directory; what is missing or about to end is made. The caller has to be the only one who
    /// uses the directory.
    pub fn open(data_dir: &Path, names: &ServerNames) -> Result<Pki, PkiError> {
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

    /// The CA whose certificates clients may show.
    pub fn client_ca(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.ca.as_bytes()).expect("it was issued or read as one")
    }

    /// The kubeconfig of the administrator of a server at `address`. Clients trust `trusted`, which is the CA
    /// unless the server was given another certificate.
    pub fn kubeconfig(&self, address: SocketAddr, trusted: &str) -> String {
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

    /// Writes the administrator's kubeconfig into the data directory and returns its path.
    pub fn write_kubeconfig(
        &self,
        data_dir: &Path,
        address: SocketAddr,
        trusted: &str,
    ) -> Result<PathBuf, PkiError> {
        let path = data_dir.join("admin.kubeconfig");
        write(&path, &self.kubeconfig(address, trusted), PRIVATE)?;
        Ok(path)
    }
}

/// What a certificate other than the CA's is for.
struct Leaf<'a> {
    name: &'static str,
    common_name: &'static str,
    organisation: Option<&'static str>,
    usage: ExtendedKeyUsagePurpose,
    server_names: Option<&'a ServerNames>,
}

impl<'a> Leaf<'a> {
    fn server(names: &'a ServerNames) -> Leaf<'a> {
        Leaf {
            name: "server",
            common_name: "keepwatch",
            organisation: None,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
            server_names: Some(names),
        }
    }

    fn admin() -> Leaf<'a> {
        Leaf {
            name: "admin",
            common_name: "keepwatch-admin",
            organisation: Some("system:masters"),
            usage: ExtendedKeyUsagePurpose::ClientAuth,
            server_names: None,
        }
    }

    /// Whether this certificate still serves.
    fn is_served_by(
        &self,
        certificate: &X509Certificate<'_>,
        key: &KeyPair,
        ca: &Ca,
        now: SystemTime,
    ) -> bool {
        let validity = certificate.validity();
        certificate.public_key().raw == key.subject_public_key_info()
            && ca.has_issued(certificate)
            && validity.not_before.timestamp() <= unix_seconds(now)
            && validity.not_after.timestamp() >= unix_seconds(now + RENEWED_BEFORE_END)
            && self.server_names.is_none_or(|names| names.are_covered_by(certificate))
    }
}

/// The CA, ready to issue.
struct Ca {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn issue(key: KeyPair, now: SystemTime) -> Result<Ca, PkiError> {
        let mut params = certificate_params("keepwatch-ca", now, CA_VALID)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(|why| PkiError::making("a CA", why))?;
        Ok(Ca { certificate: certificate.pem(), issuer: Issuer::new(params, key) })
    }

    fn issue_leaf(&self, leaf: &Leaf<'_>, key: &KeyPair, now: SystemTime) -> Result<String, PkiError> {
        let mut params = certificate_params(leaf.common_name, now, CERTIFICATE_VALID)?;
        if let Some(organisation) = leaf.organisation {
            params.distinguished_name.push(DnType::OrganizationName, organisation);
        }
        if let Some(names) = leaf.server_names {
            params.subject_alt_names = names.alternative_names()?;
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![leaf.usage.clone()];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(key, &self.issuer);
        certificate.map(|certificate| certificate.pem()).map_err(|why| PkiError::making("a certificate", why))
    }

    fn has_issued(&self, certificate: &X509Certificate<'_>) -> bool {
        let Some(ca) = certificates_of(&self.certificate) else { return false };
        let Ok((_, ca)) = x509_parser::parse_x509_certificate(&ca[0]) else { return false };
        certificate.issuer() == ca.subject() && certificate.verify_signature(Some(ca.public_key())).is_ok()
    }
}

fn certificate_params(
    common_name: &str,
    now: SystemTime,
    valid: Duration,
) -> Result<CertificateParams, PkiError> {
    // Certificates for one key must not have one number, which is what they get by default.
    let mut serial = [0; 16];
    let random = aws_lc_rs::default_provider().secure_random.fill(&mut serial);
    random.map_err(|_| PkiError::making("a certificate", "the system has no random numbers"))?;
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + valid).into();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

fn new_key() -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|why| PkiError::making("a key", why))
}

fn unix_seconds(time: SystemTime) -> i64 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// The directory with certificates and keys.
struct Directory(PathBuf);

impl Directory {
    fn at(path: PathBuf) -> Result<Directory, PkiError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| PkiError::at(&path, format!("cannot be made: {}", plain(&error))))?;
        Ok(Directory(path))
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{name}.{extension}"))
    }

    fn ca(&self, now: SystemTime) -> Result<Ca, PkiError> {
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

    fn leaf(&self, leaf: &Leaf<'_>, ca: &Ca, now: SystemTime) -> Result<Identity, PkiError> {
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
                write(&path, &issued, PUBLIC)?;
                tracing::info!(path = %path.display(), "issued a certificate");
                issued
            }
        };
        Ok(Identity { certificates, key: key.serialize_pem() })
    }

    /// The key of that name, made if it is not there.
    fn key(&self, name: &str, remedy: &str) -> Result<KeyPair, PkiError> {
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

const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let problem = format!("cannot be read: {}: make it readable or remove it", plain(&error));
            Err(PkiError::at(path, problem))
        }
    }
}

fn read_given(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|error| PkiError::at(path, format!("cannot be read: {}", plain(&error))))
}

/// Puts a file there whole or, if that fails, leaves what was there.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let unfinished = path.with_added_extension("unfinished");
    let written = || {
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    written().map_err(|error| PkiError::at(path, format!("cannot be written: {}", plain(&error))))
}

/// What an I/O error says, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::HandshakeKind;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::server::danger::ClientCertVerifier;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn names() -> ServerNames {
        ServerNames::new(LOOPBACK, LOOPBACK, SERVICE)
    }

    fn open(directory: &Path) -> Pki {
        Pki::open(directory, &names()).unwrap()
    }

    fn client(trusted: &Pki, identity: Option<&Identity>) -> Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(trusted.client_ca()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificates = certificates_of(&identity.certificates).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(certificates, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    /// What the server knows of a connection.
    #[derive(Debug, PartialEq)]
    struct Met {
        certificates: usize,
        verified: bool,
        protocol: Option<Vec<u8>>,
        kind: Option<HandshakeKind>,
    }

    async fn meet(server: &Tls, client: &Arc<rustls::ClientConfig>, name: &'static str) -> io::Result<Met> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let serving = async {
            let mut stream = TlsAcceptor::from(server.config.clone()).accept(far).await?;
            stream.write_all(b"hello").await?;
            stream.shutdown().await?;
            let connection = stream.get_ref().1;
            let shown = connection.peer_certificates().unwrap_or_default();
            let is_verified = |verifier: &Arc<dyn ClientCertVerifier>| {
                verifier.verify_client_cert(&shown[0], &shown[1..], UnixTime::now()).is_ok()
            };
            Ok(Met {
                certificates: shown.len(),
                verified: !shown.is_empty() && server.verifier.as_ref().is_some_and(is_verified),
                protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
                kind: connection.handshake_kind(),
            })
        };
        let asking = async {
            let name = ServerName::try_from(name).unwrap();
            let mut stream = TlsConnector::from(client.clone()).connect(name, near).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            assert_eq!(text, "hello");
            io::Result::Ok(())
        };
        let (met, asked) = tokio::join!(serving, asking);
        asked.and(met)
    }

    #[tokio::test]
    async fn clients_are_known_by_a_certificate_of_the_ca() {
        let pki = Pki::in_memory(&names()).unwrap();
        let stranger = Pki::in_memory(&names()).unwrap();
        let server = server_config(&pki.server, &[pki.client_ca()]).unwrap();
        let met = |certificates, verified| Met {
            certificates,
            verified,
            protocol: Some(b"h2".to_vec()),
            kind: Some(HandshakeKind::Full),
        };
        for name in ["localhost", "127.0.0.1", "::1", "10.0.0.1", "kubernetes.default.svc.cluster.local"] {
            assert_eq!(meet(&server, &client(&pki, None), name).await.unwrap(), met(0, false), "{name}");
        }
        for (identity, verified) in [(&pki.admin, true), (&stranger.admin, false), (&pki.server, false)] {
            let came = meet(&server, &client(&pki, Some(identity)), "localhost").await;
            assert_eq!(came.unwrap(), met(1, verified), "{identity:?}");
        }
        for (trusted, name) in [(&stranger, "localhost"), (&pki, "example.com")] {
            assert!(meet(&server, &client(trusted, None), name).await.is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn several_cas_may_vouch_for_clients_or_none() {
        let (one, two) = (Pki::in_memory(&names()).unwrap(), Pki::in_memory(&names()).unwrap());
        let both = server_config(&one.server, &[one.client_ca(), two.client_ca()]).unwrap();
        for admin in [&one.admin, &two.admin] {
            assert_eq!(meet(&both, &client(&one, Some(admin)), "localhost").await.unwrap().certificates, 1);
        }
        let none = server_config(&one.server, &[]).unwrap();
        assert_eq!(meet(&none, &client(&one, Some(&one.admin)), "localhost").await.unwrap().certificates, 0);
    }

    #[tokio::test]
    async fn a_session_is_resumed_with_the_certificate_it_began_with() {
        let pki = Pki::in_memory(&names()).unwrap();
        let server = server_config(&pki.server, &[pki.client_ca()]).unwrap();
        let client = client(&pki, Some(&pki.admin));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let met = meet(&server, &client, "localhost").await.unwrap();
            assert_eq!((met.certificates, met.kind), (1, Some(kind)));
        }
    }

    #[tokio::test]
    async fn what_is_in_the_directory_is_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().join("data");
        let pki = open(&data_dir);
        assert_eq!(open(&data_dir), pki);
        let server = server_config(&pki.server, &[pki.client_ca()]).unwrap();
        assert_eq!(
            meet(&server, &client(&pki, Some(&pki.admin)), "localhost").await.unwrap().certificates,
            1
        );
    }

    #[test]
    fn private_files_are_their_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let pki = open(directory.path());
        let address = SocketAddr::new(LOOPBACK, 6443);
        for _ in 0..2 {
            pki.write_kubeconfig(directory.path(), address, &pki.ca).unwrap();
        }
        let mode =
            |name: &str| fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
        for name in
            ["pki/ca.key", "pki/server.key", "pki/admin.key", "pki/service-accounts.key", "admin.kubeconfig"]
        {
            assert_eq!(mode(name), 0o600, "{name}");
        }
        assert_eq!(mode("pki"), 0o700);
        let mut left: Vec<_> = fs::read_dir(directory.path().join("pki"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let all = "admin.crt admin.key ca.crt ca.key server.crt server.key service-accounts.key";
        assert_eq!(left.join(" "), all);
    }

    #[test]
    fn a_certificate_is_renewed_in_its_last_month_and_for_new_names() {
        let directory = tempfile::tempdir().unwrap();
        let (first, now) = (open(directory.path()), SystemTime::now());
        let other = ServerNames::new(LOOPBACK, Ipv4Addr::new(192, 0, 2, 7).into(), SERVICE);
        let mut before = first.clone();
        for (day, names, renewed) in [
            (330, &names(), (false, false)),
            (0, &other, (true, false)),
            // What was issued for the other address covers these names too.
            (0, &names(), (false, false)),
            (336, &names(), (true, true)),
            (336 + 330, &names(), (false, false)),
        ] {
            let after = Pki::open_at(directory.path(), names, now + DAY * day).unwrap();
            assert_eq!((after.server != before.server, after.admin != before.admin), renewed, "day {day}");
            assert_eq!((&after.ca, &after.server.key), (&first.ca, &first.server.key));
            before = after;
        }
    }

    #[test]
    fn an_interrupted_start_is_carried_on() {
        for lost in ["ca.crt", "server.crt", "server.key", "admin.key", "admin.crt"] {
            let directory = tempfile::tempdir().unwrap();
            let before = open(directory.path());
            fs::remove_file(directory.path().join("pki").join(lost)).unwrap();
            fs::write(directory.path().join("pki").join(lost).with_added_extension("unfinished"), "-----BE")
                .unwrap();
            let after = open(directory.path());
            assert_eq!(after, open(directory.path()), "{lost}");
            server_config(&after.server, &[after.client_ca()]).unwrap();
            assert_eq!(lost == "ca.crt", before.ca != after.ca, "{lost}");
            assert_eq!(lost == "server.key", before.server.key != after.server.key, "{lost}");
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_remedy() {
        let anew = "or remove DIR to start anew, with new certificates for all clients";
        for (file, text, message) in [
            (
                "ca.key",
                None,
                format!("DIR/ca.key is missing, though its certificate is there: put it back, {anew}"),
            ),
            ("ca.key", Some("-----BEGIN"), format!("DIR/ca.key holds no private key: put it back, {anew}")),
            ("ca.crt", Some(""), format!("DIR/ca.crt holds no certificate: put it back, {anew}")),
            (
                "server.crt",
                Some("junk"),
                "DIR/server.crt holds no certificate: remove it to have a new one made".to_owned(),
            ),
            (
                "admin.key",
                Some(""),
                "DIR/admin.key holds no private key: put it back, or remove it to have a new one made"
                    .to_owned(),
            ),
        ] {
            let directory = tempfile::tempdir().unwrap();
            open(directory.path());
            let (pki, path) = (directory.path().join("pki"), directory.path().join("pki").join(file));
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            let error = Pki::open(directory.path(), &names()).unwrap_err().to_string();
            assert_eq!(error.replace(pki.to_str().unwrap(), "DIR"), message);
        }
    }

    #[test]
    fn the_ca_is_never_replaced() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (pki, late) = (open(directory.path()), SystemTime::now() + CA_VALID + DAY);
        let error = Pki::open_at(directory.path(), &names(), late).unwrap_err().to_string();
        assert!(error.contains("/ca.crt has expired: put a newer one there, or remove "), "{error}");

        open(other.path());
        fs::copy(other.path().join("pki/ca.key"), directory.path().join("pki/ca.key")).unwrap();
        let error = Pki::open(directory.path(), &names()).unwrap_err().to_string();
        assert!(error.contains("/ca.key is not the key of ca.crt: "), "{error}");

        fs::copy(other.path().join("pki/ca.crt"), directory.path().join("pki/ca.crt")).unwrap();
        let moved = open(directory.path());
        assert_ne!(moved.server.certificates, pki.server.certificates, "as it is another CA's");
        assert_eq!(moved.server.key, pki.server.key);
    }

    #[test]
    fn given_files_have_to_fit_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let pki = open(directory.path());
        let file = |name: &str| directory.path().join("pki").join(name);
        assert_eq!(Identity::read(&file("server.crt"), &file("server.key")), Ok(pki.server.clone()));
        assert_eq!(read_client_cas(&file("ca.crt")), Ok(vec![pki.client_ca()]));
        for (error, message) in [
            (
                Identity::read(&file("server.crt"), &file("admin.key")).unwrap_err(),
                "DIR/admin.key is not the key of DIR/server.crt: give the two that belong together",
            ),
            (
                Identity::read(&file("server.key"), &file("server.key")).unwrap_err(),
                "DIR/server.key holds no certificate: give one in PEM",
            ),
            (
                Identity::read(&file("server.crt"), &file("ca.crt")).unwrap_err(),
                "DIR/ca.crt holds no private key: give one in PEM, not encrypted",
            ),
            (
                read_client_cas(&file("ca.key")).unwrap_err(),
                "DIR/ca.key holds no certificate: give the client CA in PEM",
            ),
            (
                read_client_cas(&file("none")).unwrap_err(),
                "DIR/none cannot be read: No such file or directory",
            ),
        ] {
            assert_eq!(
                error.to_string().replace(file("").to_str().unwrap().trim_end_matches('/'), "DIR"),
                message
            );
        }
    }

    #[test]
    fn a_kubeconfig_holds_all_that_a_client_needs() {
        let pki = Pki::in_memory(&names()).unwrap();
        for (address, server) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("0.0.0.0:1234", "https://127.0.0.1:1234"),
            ("[::]:6443", "https://[::1]:6443"),
            ("192.0.2.7:443", "https://192.0.2.7:443"),
        ] {
            let text = pki.kubeconfig(address.parse().unwrap(), &pki.ca);
            let value = |key: &str| {
                let line =
                    text.lines().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "));
                line.unwrap_or_default()
            };
            assert_eq!(value("server"), server);
            assert_eq!(value("current-context"), "keepwatch");
            for (key, pem) in [
                ("certificate-authority-data", &pki.ca),
                ("client-certificate-data", &pki.admin.certificates),
                ("client-key-data", &pki.admin.key),
            ] {
                assert_eq!(STANDARD.decode(value(key)).unwrap(), pem.as_bytes(), "{key}");
            }
        }
    }

    #[test]
    fn a_server_on_all_addresses_is_known_by_the_one_that_it_advertises() {
        let known = |bind: &str| {
            let bind = bind.parse().unwrap();
            let advertised = advertised_address(bind);
            let names = ServerNames::new(bind, advertised, SERVICE).addresses;
            assert!(names.contains(&advertised));
            names
        };
        assert_eq!(known("127.0.0.1"), [LOOPBACK, Ipv6Addr::LOCALHOST.into(), SERVICE]);
        assert!(known("192.0.2.7").contains(&Ipv4Addr::new(192, 0, 2, 7).into()));
        for unspecified in ["0.0.0.0", "::"] {
            assert!(!known(unspecified).iter().any(IpAddr::is_unspecified));
        }
    }

    #[test]
    fn the_administrator_is_a_master() {
        let pki = Pki::in_memory(&names()).unwrap();
        let admin = &certificates_of(&pki.admin.certificates).unwrap()[0];
        let (_, admin) = x509_parser::parse_x509_certificate(admin).unwrap();
        assert_eq!(admin.subject().to_string(), "CN=keepwatch-admin, O=system:masters");
    }

    #[test]
    fn certificates_in_memory_are_made_in_no_time() {
        let quickest = (0..5).map(|_| {
            let start = Instant::now();
            Pki::in_memory(&names()).unwrap();
            start.elapsed()
        });
        let quickest = quickest.min().unwrap();
        assert!(quickest < Duration::from_millis(2), "{quickest:?}");
    }
}
