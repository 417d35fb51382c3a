//! The options of a connection to etcd, and of the store in it.
//!
//! Everything is checked before a connection is made, so that a mistake is reported as one and not as a cluster
//! that cannot be reached.

use crate::error::ConnectError;
use std::{fmt, fs, path::PathBuf, time::Duration};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// The interval at which an idle connection is tried. etcd cuts clients off that ping more often than every 5 s
/// (`--grpc-keepalive-min-time`).
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(5_500);

/// The time that a member has to answer a ping. With the interval: a member that is paused, or behind a network that
/// swallows everything, is given up after 8 s at the most. Where there are reads it is noticed sooner.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(2_500);

/// The number of bytes of an answer or a watch that may lie unread on its way to its reader.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The window shared by all streams of a connection: the most HTTP/2 allows, because a reader that stops must
/// not take the room of the others. What is buffered is bounded by the streams' own windows.
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;

/// The options of a connection to etcd, and of the store in it.
///
/// ```
/// use keepwatch_storage_etcd::EtcdOptions;
///
/// let options = EtcdOptions::new(["http://10.0.0.1:2379", "http://10.0.0.2:2379"]);
/// assert_eq!(options.request_timeout.as_secs(), 10);
/// ```
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members' URLs, `http://` or `https://`. The first that answers is used until it fails.
    pub endpoints: Vec<String>,
    /// Needed for `https://`.
    pub tls: Option<EtcdTls>,
    /// The user to log in as, where etcd's access control is on.
    pub user: Option<EtcdUser>,
    /// The time that a request may take, retries on other members included.
    pub request_timeout: Duration,
    /// The time that making a connection may take.
    pub dial_timeout: Duration,
    /// The age of the history that is kept: from time to time, one server of the group compacts away what is older. Zero
    /// leaves that to others.
    pub compaction_interval: Duration,
    /// The way in which objects with a time to live share leases.
    pub leases: LeaseOptions,
}

impl EtcdOptions {
    /// The members at these URLs, and Kubernetes' defaults for the rest.
    pub fn new<I>(endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            tls: None,
            user: None,
            request_timeout: Duration::from_secs(10),
            dial_timeout: Duration::from_secs(3),
            compaction_interval: Duration::from_secs(5 * 60),
            leases: LeaseOptions::default(),
        }
    }

    /// One endpoint for each member.
    pub(crate) fn build_endpoints(&self) -> Result<Vec<Endpoint>, ConnectError> {
        if self.endpoints.is_empty() {
            return Err(ConnectError::options(
                "no etcd endpoint is given: name at least one, as http(s)://host:2379",
            ));
        }
        let tls = self.tls.as_ref().map(EtcdTls::load).transpose()?;
        self.endpoints.iter().map(|url| self.build_endpoint(url, tls.as_ref())).collect()
    }

    fn build_endpoint(&self, url: &str, tls: Option<&ClientTlsConfig>) -> Result<Endpoint, ConnectError> {
        let secure = match url.split_once("://") {
            Some(("http", _)) => false,
            Some(("https", _)) => true,
            _ => {
                let text = format!("the etcd endpoint {url:?} is not a URL: write it as http(s)://host:2379");
                return Err(ConnectError::options(text));
            }
        };
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| {
            ConnectError::options(format!("the etcd endpoint {url:?} is not a URL: {}", chain(&error)))
        })?;
        let endpoint = match (secure, tls) {
            (false, None) => endpoint,
            (true, Some(tls)) => endpoint.tls_config(tls.clone()).map_err(|error| {
                let text =
                    format!("etcd's TLS files cannot be used: {}; check that the key fits", chain(&error));
                ConnectError::options(text)
            })?,
            (true, None) => {
                let text =
                    format!("the etcd endpoint {url:?} needs a CA to check it with: give etcd's CA file");
                return Err(ConnectError::options(text));
            }
            (false, Some(_)) => {
                let text =
                    format!("the etcd endpoint {url:?} is plain text but TLS files are given: use https://");
                return Err(ConnectError::options(text));
            }
        };
        Ok(endpoint
            .connect_timeout(self.dial_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            // etcd takes pings on a connection without any stream for an attack.
            .keep_alive_while_idle(false)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES))
    }
}

/// The options of TLS connections to etcd.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// The CA of etcd's certificates.
    pub ca: Pem,
    /// Our certificate and its key, if etcd asks clients for one.
    pub identity: Option<(Pem, Pem)>,
}

impl EtcdTls {
    fn load(&self) -> Result<ClientTlsConfig, ConnectError> {
        let ca = self.ca.load("CA", "CERTIFICATE")?;
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        if let Some((certificate, key)) = &self.identity {
            let certificate = certificate.load("client certificate", "CERTIFICATE")?;
            let key = key.load("client key", "PRIVATE KEY")?;
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Ok(config)
    }
}

/// Something in PEM format.
#[derive(Clone)]
pub enum Pem {
    /// In a file, read when connecting.
    File(PathBuf),
    /// At hand.
    Bytes(Vec<u8>),
}

impl Pem {
    fn load(&self, what: &str, label: &str) -> Result<Vec<u8>, ConnectError> {
        let (bytes, place) = match self {
            Self::Bytes(bytes) => (bytes.clone(), String::new()),
            Self::File(path) => {
                let bytes = fs::read(path).map_err(|error| {
                    let path = path.display();
                    ConnectError::options(format!("etcd's {what} file {path} cannot be read: {error}"))
                })?;
                (bytes, format!(" file {}", path.display()))
            }
        };
        // An "EC PRIVATE KEY" is one too.
        let found = String::from_utf8_lossy(&bytes).lines().any(|line| {
            line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{label}-----"))
        });
        if !found {
            return Err(ConnectError::options(format!(
                "etcd's {what}{place} holds no \"{label}\" in PEM format: give the right file"
            )));
        }
        Ok(bytes)
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({path:?})"),
            // May be a private key.
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
        }
    }
}

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdUser {
    /// The user's name.
    pub name: String,
    /// The user's password. Never shown by `Debug`.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The way in which objects with a time to live share leases: a lease costs etcd far more than a key that hangs on it.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// The time that an object may live longer than asked at the most. Never more than 5 % of its time to live.
    pub reuse_max: Duration,
    /// The number of objects that share one lease at the most; they all expire in one moment.
    pub objects_max: usize,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self { reuse_max: Duration::from_secs(60), objects_max: 1_000 }
    }
}

/// An error and its causes in one line; causes that only repeat are left out.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: EtcdOptions) -> String {
        options.build_endpoints().expect_err("refused").to_string()
    }

    #[test]
    fn mistakes_are_reported_before_anything_is_tried() {
        let none: [&str; 0] = [];
        assert!(refusal(EtcdOptions::new(none)).contains("name at least one"));
        assert!(refusal(EtcdOptions::new(["10.0.0.1:2379"])).contains("http(s)://host:2379"));
        assert!(refusal(EtcdOptions::new(["http://a b"])).contains("is not a URL"));
        assert!(refusal(EtcdOptions::new(["https://a:2379"])).contains("give etcd's CA file"));
        let with_ca = |url: &str, ca| {
            let tls = Some(EtcdTls { ca, identity: None });
            refusal(EtcdOptions { tls, ..EtcdOptions::new([url]) })
        };
        let missing = with_ca("https://a:2379", Pem::File("/nowhere/ca.pem".into()));
        assert!(missing.starts_with("etcd's CA file /nowhere/ca.pem cannot be read:"), "{missing}");
        let garbage = with_ca("https://a:2379", Pem::Bytes(b"not a certificate".to_vec()));
        assert!(garbage.contains("no \"CERTIFICATE\" in PEM format"), "{garbage}");
        let pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
        let plain = with_ca("http://a:2379", Pem::Bytes(pem));
        assert!(plain.contains("use https://"), "{plain}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let user = EtcdUser { name: "root".into(), password: "s3cret".into() };
        let tls = EtcdTls { ca: Pem::Bytes(b"s3cret".to_vec()), identity: None };
        let options = EtcdOptions { user: Some(user), tls: Some(tls), ..EtcdOptions::new(["http://a"]) };
        assert!(!format!("{options:?}").contains("s3cret"));
    }
}
