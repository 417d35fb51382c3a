//! etcd as a child process.
//!
//! Kept true: a member's process ends with the [`EtcdMember`], and (where `setpriv` is installed) with the test's
//! own process however that ends; ports are free when they are chosen, and chosen anew if another process was
//! faster.

use super::{
    client,
    proxy::{Network, Proxy},
};
use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

/// The time that a server has to start, or a cluster to agree on a leader.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of times that other ports are tried when a server ends as soon as it has started.
const PORT_TRIES_MAX: usize = 5;

/// The message that etcd logs when it serves clients.
const READY: &str = "ready to serve client requests";

const POLL_PAUSE: Duration = Duration::from_millis(20);

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Whether writes reach the disk before they are acknowledged. Slower; needed where a server is killed.
    pub fsync: bool,
    /// Whether clients must use TLS.
    pub tls: Option<ServerTls>,
    /// More arguments for etcd.
    pub args: Vec<String>,
}

impl ServerOptions {
    /// Writes reach the disk.
    pub fn durable() -> Self {
        Self { fsync: true, ..Self::default() }
    }
}

/// A server's TLS files, as PEM.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// The server's certificate, for 127.0.0.1.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// Whom clients' certificates must be signed by, if they must have one.
    pub client_ca: Option<String>,
}

/// One etcd on its own.
pub struct EtcdServer {
    member: EtcdMember,
    _dir: TempDir,
}

impl EtcdServer {
    /// Starts a server, quick rather than durable.
    pub async fn start() -> Self {
        Self::with(ServerOptions::default()).await
    }

    /// Starts a server.
    pub async fn with(options: ServerOptions) -> Self {
        let (mut members, dir) = start_members(1, &options).await;
        Self { member: members.remove(0), _dir: dir }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.member.direct_url()
    }

    /// The number of its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.member.process.as_ref().map(Child::id)
    }

    /// The server as a member, to do things to it.
    pub fn member(&mut self) -> &mut EtcdMember {
        &mut self.member
    }
}

/// Several etcd that form a cluster.
pub struct EtcdCluster {
    /// The members.
    pub members: Vec<EtcdMember>,
    _dir: TempDir,
}

impl EtcdCluster {
    /// Starts a cluster and waits until it has a leader.
    pub async fn start(size: usize, options: ServerOptions) -> Self {
        let (members, dir) = start_members(size, &options).await;
        let cluster = Self { members, _dir: dir };
        cluster.leader().await;
        cluster
    }

    /// The members' URLs, each through its proxy.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(EtcdMember::url).collect()
    }

    /// The number of the leader; waits until there is one.
    ///
    /// # Panics
    /// If none does for long.
    pub async fn leader(&self) -> usize {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            for (index, member) in self.members.iter().enumerate() {
                if member.is_running() && member.leads().await {
                    return index;
                }
            }
            assert!(Instant::now() < deadline, "the etcd cluster has no leader");
            sleep(POLL_PAUSE).await;
        }
    }
}

/// One etcd process, its data and the network to it.
pub struct EtcdMember {
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    address: SocketAddr,
    scheme: &'static str,
    proxy: Proxy,
    process: Option<Child>,
    paused: bool,
}

impl EtcdMember {
    /// Its URL, past the proxy.
    pub fn direct_url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Its URL through the proxy.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.proxy.address())
    }

    /// Changes the network between clients of [`url`](Self::url) and the member.
    pub fn set_network(&self, network: Network) {
        self.proxy.set(network);
    }

    /// Ends the process at once (SIGKILL). Does nothing if it does not run.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        self.paused = false;
    }

    /// Starts the process again, with the data it had.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "etcd runs already");
        self.process = Some(spawn(&self.program, &self.args, &self.log).expect("start etcd"));
    }

    /// Stops the process in its tracks (SIGSTOP).
    pub fn pause(&mut self) {
        self.signal("STOP");
        self.paused = true;
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) {
        self.signal("CONT");
        self.paused = false;
    }

    fn is_running(&self) -> bool {
        self.process.is_some() && !self.paused
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.as_ref().expect("etcd runs").id();
        let sent =
            Command::new("sh").arg("-c").arg(format!("kill -{signal} {pid}")).status().expect("run sh");
        assert!(sent.success(), "kill -{signal} {pid}");
    }

    /// Waits until it says that it is ready. False if it ended instead. Its port is no sign: another process may
    /// have taken it first.
    async fn is_ready(&mut self) -> bool {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let process = self.process.as_mut().expect("etcd was started");
            if process.try_wait().expect("ask for etcd's state").is_some() {
                return false;
            }
            if fs::read_to_string(&self.log).is_ok_and(|log| log.contains(READY)) {
                return true;
            }
            assert!(Instant::now() < deadline, "etcd does not get ready: {}", self.last_words());
            sleep(POLL_PAUSE).await;
        }
    }

    async fn leads(&self) -> bool {
        let asked = timeout(Duration::from_millis(500), client::status(self.direct_url())).await;
        let Ok(Ok(status)) = asked else { return false };
        status.leader != 0 && status.header.is_some_and(|header| header.member_id == status.leader)
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let mut lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.reverse();
        lines.join("\n")
    }
}

impl Drop for EtcdMember {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn start_members(size: usize, options: &ServerOptions) -> (Vec<EtcdMember>, TempDir) {
    for _ in 0..PORT_TRIES_MAX {
        let dir =
            tempfile::Builder::new().prefix("keepwatch-etcd-").tempdir().expect("make a folder for etcd");
        let mut members = prepare(dir.path(), size, options).await;
        members.iter_mut().for_each(EtcdMember::start);
        let mut all_ready = true;
        for member in &mut members {
            all_ready = all_ready && member.is_ready().await;
        }
        if all_ready {
            return (members, dir);
        }
        for member in &mut members {
            if let Some(Ok(Some(status))) = member.process.as_mut().map(Child::try_wait) {
                let words = member.last_words();
                assert!(words.contains("address already in use"), "etcd ended with {status}: {words}");
            }
        }
    }
    panic!("etcd found no free ports {PORT_TRIES_MAX} times");
}

async fn prepare(dir: &Path, size: usize, options: &ServerOptions) -> Vec<EtcdMember> {
    let program = program();
    // Held until all is prepared, so that our own proxies do not take them.
    let held = hold_free_ports(2 * size);
    let ports: Vec<_> =
        held.iter().map(|listener| listener.local_addr().expect("a bound port").port()).collect();
    let peers: Vec<_> = ports[size..].iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    let cluster: Vec<_> = peers.iter().enumerate().map(|(index, url)| format!("m{index}={url}")).collect();
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let mut members = Vec::new();
    for index in 0..size {
        let address = SocketAddr::from(([127, 0, 0, 1], ports[index]));
        let client_url = format!("{scheme}://{address}");
        let data = dir.join(format!("m{index}")).display().to_string();
        let mut args: Vec<String> = [
            ("--name", format!("m{index}")),
            ("--data-dir", data),
            ("--listen-client-urls", client_url.clone()),
            ("--advertise-client-urls", client_url),
            ("--listen-peer-urls", peers[index].clone()),
            ("--initial-advertise-peer-urls", peers[index].clone()),
            ("--initial-cluster", cluster.join(",")),
            ("--log-level", "info".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        if !options.fsync {
            args.push("--unsafe-no-fsync".to_owned());
        }
        if let Some(tls) = &options.tls {
            args.extend(tls_args(dir, tls));
        }
        args.extend(options.args.iter().cloned());
        members.push(EtcdMember {
            program: program.clone(),
            args,
            log: dir.join(format!("m{index}.log")),
            address,
            scheme,
            proxy: Proxy::start(address).await.expect("start a proxy"),
            process: None,
            paused: false,
        });
    }
    drop(held);
    members
}

fn tls_args(dir: &Path, tls: &ServerTls) -> Vec<String> {
    let file = |name: &str, content: &str| {
        let path = dir.join(name);
        fs::write(&path, content).expect("write a TLS file");
        path.display().to_string()
    };
    let mut args = vec![
        "--cert-file".to_owned(),
        file("server.crt", &tls.certificate),
        "--key-file".to_owned(),
        file("server.key", &tls.key),
    ];
    if let Some(ca) = &tls.client_ca {
        args.extend(["--client-cert-auth".to_owned(), "--trusted-ca-file".to_owned(), file("ca.crt", ca)]);
    }
    args
}

/// Takes unused ports, for as long as the listeners are kept.
fn hold_free_ports(count: usize) -> Vec<TcpListener> {
    (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("bind a free port")).collect()
}

fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("ETCD_BIN") {
        return program.into();
    }
    on_path("etcd").expect("there is no etcd on PATH: run ./test, which fetches one, or set ETCD_BIN")
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

fn spawn(program: &Path, args: &[String], log: &Path) -> io::Result<Child> {
    let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = match on_path("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    spawn_on_a_lasting_thread(command)
}

type SpawnRequest = (Command, SyncSender<io::Result<Child>>);

/// The signal for a parent's death is sent when the thread ends that made the child, so children are made by a
/// thread that lasts as long as the process.
fn spawn_on_a_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<SyncSender<SpawnRequest>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = sync_channel::<SpawnRequest>(0);
        std::thread::spawn(move || {
            for (mut command, answer) in requests {
                // The caller waits for the response.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (answer, child) = sync_channel(1);
    let sent = spawner.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    sent.map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}
