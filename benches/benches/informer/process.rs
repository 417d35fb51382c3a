//! The server that the clients follow: a process of its own, so that only the clients' time and memory are measured.
//!
//! Kept true: the server ends when it is dropped, and its directory is gone then.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// A running server that keeps its objects in memory.
pub(crate) struct Server {
    child: Child,
    /// It may print more.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    pub(crate) directory: TempDir,
}

impl Server {
    /// Starts a server and waits until it has printed its address.
    pub(crate) fn start() -> Server {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let log = fs::File::create(directory.path().join("log")).expect("the directory is ours");
        let mut command = Command::new(program());
        command
            .args(["serve", "--secure-port", "0", "--storage", "memory", "--data-dir"])
            .arg(directory.path())
            .args(["--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0"])
            .stderr(log);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the output can be read");
        let address = line.split("https://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let log = fs::read_to_string(directory.path().join("log")).unwrap_or_default();
            panic!("the server did not start: {line}{log}");
        };
        Server { child, _output: output, address, directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of a file in `/proc`, in bytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("Linux has this line");
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
