//! The configuration of a server before it starts.

use crate::{
    error::StartError,
    pki::Identity,
    server::{Server, start},
};
use keepwatch_cacher::CacherOptions;
use keepwatch_endpoints::{
    ApiOptions,
    auth::{AlwaysAllow, Authorizer, StaticTokens},
    origins::AllowedOrigins,
    serve::Limits,
};
use keepwatch_registry::RegistryOptions;
use keepwatch_storage_embedded::{EmbeddedOptions, Retention};
#[cfg(feature = "etcd")]
use keepwatch_storage_etcd::EtcdOptions;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// The storage of objects, if it is not the data directory.
#[derive(Clone, Debug)]
pub(crate) enum StorageChoice {
    Memory,
    #[cfg(feature = "etcd")]
    Etcd(Box<EtcdOptions>),
}

/// The configuration of a server. The defaults are those of kube-apiserver, except that a free port of the loopback
/// address is used and that objects are kept in memory unless there is a data directory.
#[must_use]
pub struct Builder {
    pub(crate) storage: Option<StorageChoice>,
    pub(crate) embedded: EmbeddedOptions,
    pub(crate) key_prefix: String,
    pub(crate) watch_cache: bool,
    pub(crate) watch_cache_history_bytes: usize,
    pub(crate) address: SocketAddr,
    pub(crate) advertise_address: Option<IpAddr>,
    pub(crate) http_port: Option<u16>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) identity: Option<Identity>,
    pub(crate) client_cas: Vec<CertificateDer<'static>>,
    pub(crate) tokens: Vec<StaticTokens>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) registry: RegistryOptions,
    pub(crate) api: ApiOptions,
    pub(crate) limits: Limits,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            storage: None,
            embedded: EmbeddedOptions::default(),
            key_prefix: "/registry".to_owned(),
            watch_cache: true,
            watch_cache_history_bytes: CacherOptions::default().history_bytes_max,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            advertise_address: None,
            http_port: None,
            data_dir: None,
            identity: None,
            client_cas: Vec::new(),
            tokens: Vec::new(),
            authorizer: Arc::new(AlwaysAllow),
            registry: RegistryOptions::default(),
            api: ApiOptions {
                request_timeout: Duration::from_secs(60),
                min_watch: Duration::from_secs(1800),
                reads_in_flight_max: 400,
                writes_in_flight_max: 200,
                allowed_origins: AllowedOrigins::default(),
                address: String::new(),
                descriptions: Arc::new(|_| Map::new()),
            },
            limits: Limits::default(),
        }
    }
}

/// Storage.
impl Builder {
    /// Keeps objects in memory until the server stops. This is the default if there is no data directory; if there is
    /// one, only certificates are kept there.
    pub fn memory(mut self) -> Builder {
        self.storage = Some(StorageChoice::Memory);
        self
    }

    /// Keeps the server's certificates and `admin.kubeconfig` in this directory, and objects too unless
    /// [`Builder::memory`] or etcd is chosen.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.data_dir = Some(directory.into());
        self
    }

    /// Keeps objects in etcd, which other servers may use at the same time.
    #[cfg(feature = "etcd")]
    pub fn etcd(mut self, options: EtcdOptions) -> Builder {
        self.storage = Some(StorageChoice::Etcd(Box::new(options)));
        self
    }

    /// The prefix of all keys in storage; `/registry` unless changed.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Builder {
        self.key_prefix = prefix.into();
        self
    }

    /// The history that the embedded or memory store keeps, from which watches can be resumed.
    pub fn history(mut self, retention: Retention) -> Builder {
        self.embedded.retention = retention;
        self
    }

    /// Whether lists and watches are served from memory, which is the default.
    pub fn watch_cache(mut self, yes: bool) -> Builder {
        self.watch_cache = yes;
        self
    }

    /// The number of bytes of each resource's history that are kept in memory. Older events are read from the store.
    pub fn watch_cache_history_bytes(mut self, bytes: usize) -> Builder {
        self.watch_cache_history_bytes = bytes;
        self
    }
}

/// Listening and certificates.
impl Builder {
    /// Listens on this address; port 0 picks a free one.
    pub fn address(mut self, address: impl Into<SocketAddr>) -> Builder {
        self.address = address.into();
        self
    }

    /// The address at which others reach the server, if it is not the one that it listens on.
    pub fn advertise_address(mut self, address: IpAddr) -> Builder {
        self.advertise_address = Some(address);
        self
    }

    /// Also serves plain HTTP on this port of the loopback address; 0 picks a free one.
    pub fn http_port(mut self, port: u16) -> Builder {
        self.http_port = Some(port);
        self
    }

    /// Serves with this certificate instead of one that the server issues itself.
    pub fn serving_certificate(mut self, identity: Identity) -> Builder {
        self.identity = Some(identity);
        self
    }

    /// Accepts client certificates that these CAs have signed, beside those of the server's own CA.
    pub fn client_cas(mut self, cas: impl IntoIterator<Item = CertificateDer<'static>>) -> Builder {
        self.client_cas.extend(cas);
        self
    }

    /// The limits on the time and the memory that a connection may take.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = limits;
        self
    }
}

/// Users and requests.
impl Builder {
    /// Also accepts these bearer tokens.
    pub fn tokens(mut self, tokens: StaticTokens) -> Builder {
        self.tokens.push(tokens);
        self
    }

    /// Authorizes requests with this authorizer. Without one every authenticated user may do everything.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Builder {
        self.authorizer = Arc::new(authorizer);
        self
    }

    /// Lets browsers call from pages of these origins.
    pub fn allowed_origins(mut self, origins: AllowedOrigins) -> Builder {
        self.api.allowed_origins = origins;
        self
    }

    /// Describes types and fields in the OpenAPI documents, which `kubectl explain` shows. Without it the documents have
    /// everything but descriptions.
    ///
    /// The function receives types, by names such as `io.k8s.api.core.v1.Pod`, and returns the JSON schemas of them and
    /// of all types that they consist of, by name, as `k8s-openapi` has them with its feature `schemars`. The documents
    /// take descriptions from them, and nothing else. It is called once for each document that a client requests, and
    /// again when the served kinds have changed.
    pub fn descriptions(
        mut self,
        schemas: impl Fn(&[&str]) -> Map<String, Value> + Send + Sync + 'static,
    ) -> Builder {
        self.api.descriptions = Arc::new(schemas);
        self
    }

    /// The maximum duration of a request, unless it is a watch.
    pub fn request_timeout(mut self, timeout: Duration) -> Builder {
        self.api.request_timeout = timeout;
        self
    }

    /// The minimum duration of a watch, unless its client requests another; the maximum is twice as long.
    pub fn min_request_timeout(mut self, timeout: Duration) -> Builder {
        self.api.min_watch = timeout;
        self
    }

    /// The maximum number of concurrent reads; 0 is no limit.
    pub fn max_requests_inflight(mut self, count: usize) -> Builder {
        self.api.reads_in_flight_max = count;
        self
    }

    /// The maximum number of concurrent writes; 0 is no limit.
    pub fn max_mutating_requests_inflight(mut self, count: usize) -> Builder {
        self.api.writes_in_flight_max = count;
        self
    }
}

/// The cluster.
impl Builder {
    /// The time for which events are kept.
    pub fn event_ttl(mut self, ttl: Duration) -> Builder {
        self.registry.event_ttl = ttl;
        self
    }

    /// The addresses that services get: the first of the network, and the length of its prefix.
    pub fn service_cluster_ip_range(mut self, network: Ipv4Addr, prefix_bits: u8) -> Builder {
        self.registry.service_range = (network, prefix_bits);
        self
    }

    /// The ports that services of type NodePort get.
    pub fn service_node_port_range(mut self, ports: RangeInclusive<u16>) -> Builder {
        self.registry.node_ports = ports;
        self
    }

    /// Whether the server itself empties deleted namespaces, as it does by default, or leaves that to a controller.
    pub fn empties_namespaces(mut self, yes: bool) -> Builder {
        self.registry.empties_namespaces = yes;
        self
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(self) -> Result<Server, StartError> {
        start(self).await
    }
}
