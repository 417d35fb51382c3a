//! Servers that a test stops and starts again: in this process or in one of their own, with the same directory and port each
//! time.
//!
//! Kept true: at most one server runs on the directory, and it ends with its owner.

use crate::Fault;
use keepwatch::{Retention, Server};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout},
};

/// The time that a server may take to start.
const START_MAX: Duration = Duration::from_secs(30);

/// The time for which a server with a short history keeps it.
const SHORT_HISTORY: Duration = Duration::from_millis(200);

/// The options of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Whether it is a process of its own, which can be killed.
    pub as_process: bool,
    /// Whether it keeps history for a fraction of a second only, so that few watches can be resumed.
    pub short_history: bool,
    /// Whether lists and watches are served from memory. The watch cache has some history of its own.
    pub watch_cache: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions { as_process: false, short_history: false, watch_cache: true }
    }
}

/// A server that may be running or not.
pub struct TestServer {
    options: ServerOptions,
    address: SocketAddr,
    running: Running,
    directory: TempDir,
}

enum Running {
    Nothing,
    InProcess(Box<Server>),
    /// With its output: a program that cannot print any more stops.
    Child(Box<Child>, BufReader<ChildStdout>),
}

impl std::fmt::Debug for TestServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl TestServer {
    /// Starts a server on a directory and a port of its own.
    pub async fn start(options: ServerOptions) -> Result<TestServer, Fault> {
        let address = ([127, 0, 0, 1], 0).into();
        let mut server =
            TestServer { options, address, running: Running::Nothing, directory: tempfile::tempdir()? };
        server.resume().await?;
        Ok(server)
    }

    /// The address that it listens on when it runs.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client of it, or of another address at which it can be reached.
    pub async fn client(&self, at: Option<SocketAddr>) -> Result<Client, Fault> {
        let kubeconfig = fs::read_to_string(self.directory.path().join("admin.kubeconfig"))?;
        client_of(Kubeconfig::from_yaml(&kubeconfig)?, at, &KubeConfigOptions::default()).await
    }

    /// The text of its log, if it is a process.
    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Ends it: a process is killed; a server in this process finishes its requests.
    pub async fn end(&mut self) -> Result<(), Fault> {
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Nothing => {}
            Running::InProcess(server) => server.stop().await,
            Running::Child(mut child, _output) => child.kill().await?,
        }
        Ok(())
    }

    /// Starts it again, if it does not run.
    pub async fn resume(&mut self) -> Result<(), Fault> {
        if !matches!(self.running, Running::Nothing) {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            let started = if self.options.as_process { self.spawn().await } else { self.build().await };
            match started {
                Ok((running, address)) => {
                    (self.running, self.address) = (running, address);
                    return Ok(());
                }
                // Connections that are ending may hold port and directory for a moment.
                Err(_) if began.elapsed() < START_MAX => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn build(&self) -> Result<(Running, SocketAddr), Fault> {
        let mut builder = Server::builder()
            .data_dir(self.directory.path())
            .address(self.address)
            .watch_cache(self.options.watch_cache);
        if self.options.short_history {
            builder = builder.history(Retention { age_min: SHORT_HISTORY, events_min: 0, bytes_max: None });
        }
        let server = builder.start().await?;
        let address = server.address();
        Ok((Running::InProcess(Box::new(server)), address))
    }

    async fn spawn(&self) -> Result<(Running, SocketAddr), Fault> {
        let log = fs::File::options().create(true).append(true).open(self.directory.path().join("log"))?;
        let mut child = tokio::process::Command::new(program()?)
            .args(self.flags())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("its output was asked for")?;
        let (mut output, mut line) = (BufReader::new(output), String::new());
        tokio::time::timeout(START_MAX, output.read_line(&mut line)).await??;
        let address = line.split_once("https://").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let address = address
            .ok_or_else(|| format!("it is not ready: it printed {line:?} and logged {:?}", self.log()))?;
        Ok((Running::Child(Box::new(child), output), address))
    }

    fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            "serve".to_owned(),
            format!("--data-dir={}", self.directory.path().display()),
            format!("--secure-port={}", self.address.port()),
            format!("--watch-cache={}", self.options.watch_cache),
        ];
        if self.options.short_history {
            let age = format!("--history-min-age={}ms", SHORT_HISTORY.as_millis());
            flags.extend([age, "--history-min-events=0".to_owned()]);
        }
        flags
    }
}

/// A client for informers. If an address is given, it connects there.
pub async fn client_of(
    mut kubeconfig: Kubeconfig,
    at: Option<SocketAddr>,
    options: &KubeConfigOptions,
) -> Result<Client, Fault> {
    if let Some(at) = at {
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(format!("https://{at}"));
        }
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
    Ok(keepwatch_informer::client(config)?)
}

/// The program `keepwatch`: `KEEPWATCH_BIN`, or the one that was built beside this program.
pub fn program() -> Result<PathBuf, Fault> {
    if let Some(given) = env::var_os("KEEPWATCH_BIN") {
        return Ok(given.into());
    }
    let own = env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("keepwatch"));
    let found = beside.into_iter().find(|path: &PathBuf| Path::is_file(path));
    found.ok_or_else(|| {
        "the program keepwatch is not there: run `cargo build -p keepwatch`, or set KEEPWATCH_BIN".into()
    })
}
