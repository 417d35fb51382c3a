//! The server: assembled, started and stopped.
//!
//! Kept true: a server that [`Builder::start`] returns is ready, so it can be used at once; one that stops accepts no
//! new requests, finishes those that have begun, ends its watches, and only then closes its store.

use crate::{
    builder::{Builder, StorageChoice},
    caches::Caches,
    error::StartError,
    history::{self, HistoryMetrics},
    pki::{self, Pki, ServerNames},
    tokens::{ServiceAccountTokens, SigningKey},
    webhook::Webhooks,
};
use keepwatch_endpoints::{
    Api, ApiOptions,
    api::Parts,
    auth::Authenticator,
    health::{Check, Health},
    metrics::MetricsEndpoint,
    serve::Acceptor,
    shutdown::Shutdown,
    shutdown_signal::ShutdownSignal,
    watch::Encodings,
};
use keepwatch_registry::{Registry, custom::Definitions, kind::Kind, kinds::empty_deleted_namespaces};
use keepwatch_storage::Backend;
use keepwatch_storage_embedded::Embedded;
#[cfg(feature = "etcd")]
use keepwatch_storage_etcd::EtcdBackend;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket},
    task::{AbortHandle, JoinSet},
};

/// The number of bytes of encoded events that are kept for other watchers of the same resource.
const ENCODINGS_BYTES_MAX: usize = 8 << 20;
/// The maximum number of concurrent requests where no limit is wanted.
const UNLIMITED: usize = 1 << 20;
/// The maximum time that a server that stops waits for its clients.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// The maximum time that a server that stops takes to remove its endpoint, so that clients go to other servers.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// The maximum time that a health check waits for storage.
const HEALTH_WAIT_MAX: Duration = Duration::from_secs(2);

/// A server that runs. Dropping it stops it at once; [`Server::stop`] lets its clients finish.
pub struct Server {
    address: SocketAddr,
    http_address: Option<SocketAddr>,
    kubeconfig: String,
    kubeconfig_path: Option<PathBuf>,
    store: Opened,
    shutdown: Shutdown,
    caches: Arc<Caches>,
    /// The tasks end when this is dropped.
    tasks: JoinSet<()>,
    own_objects: OwnObjects,
}

/// The registry of the server's own objects, and the task that reconciles them.
struct OwnObjects {
    registry: Arc<Registry>,
    /// The address at which clients reach the server.
    address: (IpAddr, u16),
    task: AbortHandle,
}

impl OwnObjects {
    fn keep(registry: Arc<Registry>, address: (IpAddr, u16), tasks: &mut JoinSet<()>) -> OwnObjects {
        let task = tasks.spawn(Arc::clone(&registry).keep_own_objects(address));
        OwnObjects { registry, address, task }
    }

    /// Removes the server from the endpoints, so that no more clients come here.
    async fn leave(&self) {
        self.task.abort();
        match tokio::time::timeout(LEAVE_MAX, self.registry.leave(self.address)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the endpoint of this server could not be removed"),
            Err(_) => {
                tracing::warn!("the endpoint of this server could not be removed: the store is too slow")
            }
        }
    }
}

impl Server {
    /// A server to be configured and started.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address on which it serves plain HTTP, if it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig of the administrator, as text.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The path of that kubeconfig, if the server has a data directory and there was room for it.
    pub fn kubeconfig_path(&self) -> Option<&std::path::Path> {
        self.kubeconfig_path.as_deref()
    }

    /// A sentence about the storage and the number of objects at the start.
    pub fn store(&self) -> (&str, Option<usize>) {
        (&self.store.name, self.store.objects)
    }

    /// A client of the administrator.
    #[cfg(feature = "client")]
    pub async fn client(&self) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
        let config = kube::config::Kubeconfig::from_yaml(&self.kubeconfig)?;
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Accepts no new requests, finishes those in flight, ends watches, and closes the store.
    pub async fn stop(mut self) {
        self.own_objects.leave().await;
        self.shutdown.stop(DRAIN_MAX).await;
        self.end().await;
    }

    async fn end(&mut self) {
        self.tasks.abort_all();
        for cache in self.caches.all() {
            cache.stop().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.abandon();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A store that is open.
struct Opened {
    name: String,
    objects: Option<usize>,
}

/// Starts a server and waits until it is ready.
pub(crate) async fn start(mut builder: Builder) -> Result<Server, StartError> {
    // The first random number of a process takes 20 ms, in which the library measures the clock's jitter.
    tokio::task::spawn_blocking(|| aws_lc_rs::rand::fill(&mut [0]));
    let (backend, store) = open(&builder).await?;
    let metrics = prometheus::Registry::new();
    #[cfg(target_os = "linux")]
    metrics.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
    // A data directory is locked, and memory is ours alone. An etcd may have other servers.
    builder.registry.owns_storage = !uses_etcd(&builder);
    let caches = Caches::new(&builder, Arc::clone(&backend), &metrics)?;
    let opening = Arc::clone(&caches);
    let open = move |kind: &Arc<Kind>, inspector| opening.open(kind, inspector);
    let registry = Arc::new(Registry::new(builder.registry.clone(), open));
    metrics.register(Box::new(HistoryMetrics::new(Arc::clone(&backend))?))?;
    let (listener, address) = listen(builder.address)?;
    let http = match builder.http_port {
        Some(port) => Some(listen((Ipv4Addr::LOCALHOST, port).into())?),
        None => None,
    };
    let service_ip = IpAddr::V4(first_address(builder.registry.service_range.0));
    let advertised = builder.advertise_address.unwrap_or_else(|| pki::advertised_address(address.ip()));
    let names = ServerNames::new(address.ip(), advertised, service_ip);
    let advertised = SocketAddr::new(advertised, address.port());
    let pki = match builder.data_dir.clone() {
        Some(directory) => {
            let made = tokio::task::spawn_blocking(move || Pki::open(&directory, &names)).await;
            made.map_err(|error| StartError::Internal(Box::new(error)))??
        }
        None => Pki::in_memory(&names)?,
    };
    let identity = builder.identity.take();
    let trusted = identity.as_ref().map_or(pki.ca.clone(), |given| given.certificates.clone());
    let mut client_cas = vec![pki.client_ca()];
    client_cas.append(&mut builder.client_cas);
    let tls = pki::server_config(identity.as_ref().unwrap_or(&pki.server), &client_cas)?;

    for cache in caches.all() {
        cache.until_ready().await;
    }
    let reachable = (pki::endpoint_address(advertised.ip()), advertised.port());
    if let Err(error) = registry.bootstrap(reachable).await {
        // A full disk is no reason not to start: only a server that runs can delete objects. It tries again while it runs.
        if backend.trouble().is_none() {
            return Err(StartError::Bootstrap(error));
        }
        tracing::warn!(%error, "the server's own objects cannot be written yet");
    }

    registry.convert_by(Arc::new(Webhooks::new(&registry)));
    let definitions = Definitions::load(Arc::clone(&registry)).await.map_err(StartError::Bootstrap)?;

    let shutdown = Shutdown::default();
    let kubeconfig = pki.kubeconfig(address, &trusted);
    let kubeconfig_path = match &builder.data_dir {
        Some(directory) => pki.write_kubeconfig(directory, address, &trusted)?,
        None => None,
    };
    let mut tasks = JoinSet::new();
    let own_objects = OwnObjects::keep(Arc::clone(&registry), reachable, &mut tasks);
    tasks.spawn(definitions.follow());
    if builder.registry.empties_namespaces {
        tasks.spawn(empty_deleted_namespaces(Arc::clone(&registry)));
    }
    let tokens = ServiceAccountTokens::new(SigningKey::read(&pki.token_key)?, Arc::clone(&registry));
    let health = health(&caches, &backend, &shutdown.signal);
    let limits = builder.limits;
    let metrics = MetricsEndpoint::new(metrics, move || {
        let backend = Arc::clone(&backend);
        async move { backend.size_bytes().await.ok().flatten() }
    })?;
    let api = api(builder, registry, tokens, health, metrics, advertised, &shutdown)?;
    let mut listen_on = |listener, tls| {
        let listening = Acceptor { listener, tls, api: Arc::clone(&api), shutdown: shutdown.clone(), limits };
        tasks.spawn(listening.serve());
    };
    listen_on(listener, Some(tls));
    let http_address = http.map(|(listener, address)| {
        listen_on(listener, None);
        address
    });
    Ok(Server {
        address,
        http_address,
        kubeconfig,
        kubeconfig_path,
        store,
        shutdown,
        caches,
        tasks,
        own_objects,
    })
}

fn uses_etcd(builder: &Builder) -> bool {
    match builder.storage {
        #[cfg(feature = "etcd")]
        Some(StorageChoice::Etcd(_)) => true,
        Some(StorageChoice::Memory) | None => false,
    }
}

/// Opens the store.
async fn open(builder: &Builder) -> Result<(Arc<dyn Backend>, Opened), StartError> {
    match (&builder.storage, &builder.data_dir) {
        #[cfg(feature = "etcd")]
        (Some(StorageChoice::Etcd(options)), _) => {
            let store = EtcdBackend::connect((**options).clone()).await.map_err(StartError::Connect)?;
            let name = format!("etcd at {}", options.endpoints.join(","));
            Ok((Arc::new(store), Opened { name, objects: None }))
        }
        (None, Some(directory)) => {
            let (path, options) = (directory.join("store"), builder.embedded);
            let runtime = tokio::runtime::Handle::current();
            let opened = tokio::task::spawn_blocking(move || {
                let _inside = runtime.enter();
                Embedded::open(path, options)
            });
            let store = opened.await.map_err(|error| StartError::Internal(Box::new(error)))?;
            let store = store.map_err(StartError::Open)?;
            let name = directory.display().to_string();
            let objects = Some(store.object_count());
            Ok((Arc::new(store), Opened { name, objects }))
        }
        (Some(StorageChoice::Memory), _) | (None, None) => {
            let store = Embedded::memory(builder.embedded);
            Ok((Arc::new(store), Opened { name: "memory".to_owned(), objects: Some(0) }))
        }
    }
}

/// The maximum length of the queue of connections that wait to be accepted, as far as the system allows. If all clients
/// reconnect at once and it is full, those that do not fit try again a second later.
const WAITING_MAX: u32 = 4096;

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let fault = |error| StartError::Listen(address, error);
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(fault)?;
    // A server that is restarted need not wait until the connections of the one before have timed out.
    socket.set_reuseaddr(true).map_err(fault)?;
    socket.bind(address).map_err(fault)?;
    let listener = socket.listen(WAITING_MAX).map_err(fault)?;
    let bound = listener.local_addr().map_err(fault)?;
    Ok((listener, bound))
}

/// The address of the server's own service.
fn first_address(network: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(network).saturating_add(1))
}

fn health(caches: &Arc<Caches>, backend: &Arc<dyn Backend>, stopping: &ShutdownSignal) -> Health {
    let (caches, stopping, backend) = (Arc::clone(caches), stopping.clone(), Arc::clone(backend));
    let (asked, checked, advising) = (Arc::clone(&backend), Arc::clone(&backend), Arc::clone(&backend));
    let storage_answers = move || {
        let backend = Arc::clone(&asked);
        async move {
            let answer = tokio::time::timeout(HEALTH_WAIT_MAX, backend.current_revision()).await;
            matches!(answer, Ok(Ok(_)))
        }
    };
    let caches_are_filled = move || {
        let filled = caches.all().iter().all(|cache| cache.is_ready());
        async move { filled }
    };
    let takes_writes = move || {
        let takes_writes = checked.trouble().is_none();
        async move { takes_writes }
    };
    let goes_on = move || {
        let goes_on = !stopping.is_set();
        async move { goes_on }
    };
    Health::new([
        Check::new("etcd", true, storage_answers),
        Check::new("storage-writable", false, takes_writes).with_advice(move || advising.trouble()),
        Check::new("watch-cache", false, caches_are_filled)
            .with_detail(move || history::in_words(backend.history())),
        Check::new("shutdown", false, goes_on),
    ])
}

fn api(
    mut builder: Builder,
    registry: Arc<Registry>,
    tokens: ServiceAccountTokens,
    health: Health,
    metrics: MetricsEndpoint,
    advertised: SocketAddr,
    shutdown: &Shutdown,
) -> Result<Arc<Api>, StartError> {
    let mut authenticator = Authenticator::default();
    for own in builder.tokens.drain(..) {
        authenticator = authenticator.with_tokens(own);
    }
    authenticator = authenticator.with_tokens(tokens.clone());
    let limit = |limit: usize| if limit == 0 { UNLIMITED } else { limit };
    let options = ApiOptions {
        address: advertised.to_string(),
        reads_in_flight_max: limit(builder.api.reads_in_flight_max),
        writes_in_flight_max: limit(builder.api.writes_in_flight_max),
        ..builder.api
    };
    let parts = Parts {
        registry,
        encodings: Arc::new(Encodings::new(ENCODINGS_BYTES_MAX)),
        options,
        authenticator,
        authorizer: builder.authorizer,
        tokens: Some(Arc::new(tokens)),
        health,
        metrics,
        shutdown: shutdown.clone(),
    };
    Ok(Arc::new(Api::new(parts)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpStream, time::Duration};

    /// The library's default is 128.
    #[tokio::test]
    async fn many_connections_wait_to_be_accepted() {
        let (_listener, address) = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        let at_once = limit.trim().parse().unwrap_or(128).min(300);
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900));
        let waiting: Result<Vec<_>, _> = (0..at_once).map(connect).collect();
        assert!(waiting.is_ok(), "{waiting:?}");
    }
}
