//! The server that is measured: one that a kubeconfig names, or one that is started for it.
//!
//! Kept true: a server that was started here ends with the run, and its directory is gone.

use crate::{Failure, cluster::Protocol};
use kube_client::{
    Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// The server to measure.
#[derive(Clone, Debug)]
pub enum Target {
    /// The server of a kubeconfig, with its processes, as far as they run here.
    Cluster {
        /// The connection and its credentials.
        config: Box<Config>,
        /// The processes that are measured.
        processes: Vec<u32>,
    },
    /// A server that is started for it.
    Own(OwnServer),
}

/// The options for starting a server.
#[derive(Clone, Debug)]
pub struct OwnServer {
    /// The program: `keepwatch`.
    pub program: PathBuf,
    /// `memory`, `embedded` or `etcd`.
    pub storage: String,
    /// The directory of its files; a temporary one if absent.
    pub directory: Option<PathBuf>,
    /// Whether connections are encrypted.
    pub is_tls: bool,
    /// Processes that work for it, such as its etcd; they are measured with it.
    pub other_processes: Vec<u32>,
    /// Other flags.
    pub flags: Vec<String>,
}

/// The time that a server may take until it is ready.
const START_MAX: Duration = Duration::from_secs(60);
/// The time that it may take to end.
const STOP_MAX: Duration = Duration::from_secs(60);

/// A server that was started here.
pub(crate) struct Started {
    pub(crate) process: u32,
    pub(crate) config: Config,
    /// The time from the start of the process until it printed that it is ready.
    pub(crate) until_ready: Duration,
    /// The process ends when this is dropped.
    child: Child,
    _directory: Option<TempDir>,
}

impl Started {
    /// Stops the server with a signal, as an operator would, and waits until it has ended.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        let id = self.process.to_string();
        let stopped = async {
            Command::new("kill").args(["-TERM", &id]).status().await?;
            self.child.wait().await
        };
        let ended = timeout(STOP_MAX, stopped).await;
        let late = |_| Failure::new(format!("the server did not end within {} s", STOP_MAX.as_secs()));
        ended.map_err(late)?.map(drop).map_err(Failure::at("the server cannot be stopped"))
    }
}

impl OwnServer {
    pub(crate) async fn start(&self) -> Result<Started, Failure> {
        let temporary = match &self.directory {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(Failure::at("no directory can be made"))?),
        };
        let chosen = self.directory.as_deref().or(temporary.as_ref().map(TempDir::path));
        let directory = chosen.ok_or_else(|| Failure::new("there is no directory"))?.to_owned();
        let log = std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::File::create(directory.join("bench.log")));
        let log = log.map_err(Failure::at(directory.display()))?;
        let plain = if self.is_tls { None } else { Some(PlainHttp::new(&directory)?) };
        let began = Instant::now();
        let mut child = Command::new(&self.program)
            .args(["serve", "--secure-port", "0", "--storage", &self.storage, "--data-dir"])
            .arg(&directory)
            // Thousands of concurrent clients are intended.
            .args(["--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0"])
            .args(&self.flags)
            .args(plain.iter().flat_map(PlainHttp::flags))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            // A signal from the terminal is meant for this program, which still has to report its results.
            .process_group(0)
            .spawn()
            .map_err(Failure::at(self.program.display()))?;
        let output = child.stdout.take().ok_or_else(|| Failure::new("the server has no output"))?;
        let mut lines = BufReader::new(output).lines();
        let said = timeout(START_MAX, lines.next_line()).await;
        if !matches!(&said, Ok(Ok(Some(line))) if line.contains("ready")) {
            let log = std::fs::read_to_string(directory.join("bench.log")).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it says nothing").to_owned();
            return Err(Failure::new(format!("the server did not start: {last}")));
        }
        let until_ready = began.elapsed();
        // Reads the rest of its output, so that it does not block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let kubeconfig = directory.join("admin.kubeconfig");
        let unread = || Failure::at(kubeconfig.display());
        let read = Kubeconfig::read_from(&kubeconfig).map_err(unread())?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(unread())?;
        if let Some(PlainHttp { port, token, .. }) = plain {
            let url = format!("http://127.0.0.1:{port}");
            config.cluster_url = url.parse().map_err(Failure::at(url))?;
            config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        }
        let process = child.id().ok_or_else(|| Failure::new("the server has ended already"))?;
        Ok(Started { process, config, until_ready, child, _directory: temporary })
    }
}

/// The port and the credentials for plain HTTP, where there are no certificates.
struct PlainHttp {
    port: u16,
    token: String,
    tokens: PathBuf,
}

impl PlainHttp {
    fn new(directory: &Path) -> Result<PlainHttp, Failure> {
        // A port on which no process listens now.
        let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = bound.map_err(Failure::at("no port is free"))?.port();
        let (token, tokens) =
            (format!("{:032x}", rand::random::<u128>()), directory.join("bench-tokens.csv"));
        let line = format!("{token},keepwatch-bench,keepwatch-bench,\"system:masters\"\n");
        std::fs::write(&tokens, line).map_err(Failure::at(tokens.display()))?;
        Ok(PlainHttp { port, token, tokens })
    }

    fn flags(&self) -> [String; 4] {
        let (port, tokens) = (self.port.to_string(), self.tokens.display().to_string());
        ["--http-port".to_owned(), port, "--token-auth-file".to_owned(), tokens]
    }
}

/// Rejects HTTP/2 without TLS, which servers do not accept.
pub(crate) fn check(target: &Target, protocol: Protocol) -> Result<(), Failure> {
    let is_tls = match target {
        Target::Own(own) => own.is_tls,
        Target::Cluster { config, .. } => config.cluster_url.scheme_str() != Some("http"),
    };
    if protocol == Protocol::Http2 && !is_tls {
        return Err(Failure::new("HTTP/2 is agreed on by TLS, and this server is asked without it"));
    }
    Ok(())
}
