//! The servers that are measured: each a process of its own, so that its time and memory are its own.
//!
//! Kept true: a server ends when it is dropped; its directory is gone then, unless another one has it as well.

use crate::bare;
use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Where objects are kept.
#[derive(Clone, Copy)]
pub(crate) enum Store {
    /// On disk: what is answered is synced.
    Embedded,
    Memory,
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// It may say more.
    _said: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    pub(crate) directory: Arc<TempDir>,
    /// From the start of the process until it said that it is ready.
    pub(crate) until_ready: Duration,
}

impl Server {
    /// Starts a server that has nothing but what it makes for itself.
    pub(crate) fn start(store: Store) -> Server {
        // In the build directory: a real disk, where the folder for temporary files may be memory.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be made");
        Server::start_in(store, Arc::new(directory))
    }

    /// Starts a server on what another one left.
    pub(crate) fn start_in(store: Store, directory: Arc<TempDir>) -> Server {
        let storage = match store {
            Store::Embedded => "embedded",
            Store::Memory => "memory",
        };
        let mut command = Command::new(program());
        command
            .args(["serve", "--secure-port", "0", "--storage", storage, "--data-dir"])
            .arg(directory.path())
            // Thousands of clients at once are meant.
            .args(["--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0"])
            .stderr(fs::File::create(directory.path().join("log")).expect("the directory is ours"));
        Server::run(command, directory)
    }

    /// Starts a [`bare`] server that has the certificates of this one, and so the same clients.
    pub(crate) fn start_bare(&self) -> Server {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.arg(bare::MODE).arg(self.directory.path());
        Server::run(command, Arc::clone(&self.directory))
    }

    /// Starts a server and waits until it has said where it listens.
    fn run(mut command: Command, directory: Arc<TempDir>) -> Server {
        let began = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("the server tells");
        let until_ready = began.elapsed();
        let address = line.split("https://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let log = fs::read_to_string(directory.path().join("log")).unwrap_or_default();
            panic!("the server did not start: {line}{log}");
        };
        Server { child, _said: said, address, directory, until_ready }
    }

    /// Ends the server as an operator would, and waits for that. Its directory stays for as long as somebody has it.
    pub(crate) fn stop(mut self) -> Arc<TempDir> {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status().expect("there is kill");
        assert!(asked.success());
        self.child.wait().expect("it was started here");
        Arc::clone(&self.directory)
    }

    /// User and system time that all its threads took.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = self.told("stat");
        let after_name = stat.rsplit(')').next().expect("the name ends");
        // In hundredths of a second.
        let times = after_name.split_whitespace().skip(11).take(2);
        Duration::from_millis(times.map(|time| time.parse::<u64>().expect("a number") * 10).sum())
    }

    /// What it has in memory.
    pub(crate) fn resident(&self) -> u64 {
        kilobytes(&self.told("smaps_rollup"), "Rss:")
    }

    /// The part of it that no other process could share: what it asked for itself.
    pub(crate) fn anonymous(&self) -> u64 {
        kilobytes(&self.told("smaps_rollup"), "Anonymous:")
    }

    /// The most it had in memory since [`Server::forget_peak`].
    pub(crate) fn peak(&self) -> u64 {
        kilobytes(&self.told("status"), "VmHWM:")
    }

    pub(crate) fn forget_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("it is our child");
    }

    fn told(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("Linux tells, and it runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of `/proc`, in bytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells");
    line.split_whitespace().next().and_then(|count| count.parse::<u64>().ok()).expect("a number") * 1024
}

/// The program: `KEEPWATCH_BIN`, or the release build beside this one.
pub(crate) fn program() -> PathBuf {
    if let Some(given) = std::env::var_os("KEEPWATCH_BIN") {
        return given.into();
    }
    let own = std::env::current_exe().expect("a program has a path");
    own.parent().and_then(Path::parent).expect("it lies in deps").join("keepwatch")
}
