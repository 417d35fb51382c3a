//! The program itself: how it stops on a signal, and its message when it cannot start.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

#[path = "../../keepwatch/tests/common/mod.rs"]
mod common;

use common::*;
use std::{
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

/// The close frame of a WebSocket that ends normally.
const NORMAL_CLOSE: &[u8] = b"\x88\x02\x03\xe8";

/// A running program, which ends with the test.
struct Program {
    child: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts it on a free port for plain HTTP and waits until it is ready.
    fn start() -> Program {
        Program::start_by(Command::new(env!("CARGO_BIN_EXE_keepwatch")))
    }

    /// The same, with limits that `ulimit` sets first.
    fn start_with(limits: &str) -> Program {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!(r#"{limits}; exec "$0" "$@""#), env!("CARGO_BIN_EXE_keepwatch")]);
        Program::start_by(shell)
    }

    fn start_by(mut command: Command) -> Program {
        let directory = tempfile::tempdir().unwrap();
        let tokens = directory.path().join("tokens.csv");
        std::fs::write(&tokens, "s3cret,alice,u-1").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = command
            .args([
                "serve",
                "--storage",
                "memory",
                "--secure-port",
                "0",
                "--http-port",
                &port.to_string(),
                "--data-dir",
            ])
            .arg(directory.path())
            .arg("--token-auth-file")
            .arg(&tokens)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("keepwatch is ready at"), "{line}");
        Program { child, address: ([127, 0, 0, 1], port).into(), _directory: directory }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < SOON, "it does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until new connections are refused.
    async fn refuses(&self) {
        until("no new connection is taken", || async { TcpStream::connect(self.address).await.is_err() })
            .await;
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

async fn watching(program: &Program, headers: &str) -> Wire<TcpStream> {
    let mut wire = Wire::to(program.address).await;
    wire.request("GET", &format!("{CONFIGMAPS}?watch=1"), headers, b"").await;
    let code = wire.head().await.unwrap().code;
    assert!(matches!(code, 200 | 101));
    wire
}

/// A write of which the server has the beginning.
async fn slow_write(program: &Program, body: &str) -> Wire<TcpStream> {
    let mut wire = Wire::to(program.address).await;
    let head = format!(
        "POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    wire.send(head).await;
    assert_eq!(wire.answer().await.unwrap().code, 100, "it reads the body");
    wire
}

#[tokio::test]
async fn on_a_signal_it_finishes_its_requests_and_takes_no_new_ones() {
    for signal in ["TERM", "INT"] {
        let mut program = Program::start();
        let mut watch = watching(&program, "").await;
        let mut browser = watching(&program, UPGRADE).await;
        let mut idle = Wire::to(program.address).await;
        let mut silent = Wire::to(program.address).await;
        idle.request("GET", "/version", "", b"").await;
        assert_eq!(idle.answer().await.unwrap().code, 200);
        let body = config_map("slow");
        let mut write = slow_write(&program, &body).await;

        program.signal(signal);
        program.refuses().await;
        let end = watch.rest().await;
        assert!(
            end.ends_with(b"0\r\n\r\n"),
            "the stream ends as a stream does: {:?}",
            String::from_utf8_lossy(&end)
        );
        assert!(browser.rest().await.ends_with(NORMAL_CLOSE), "a browser receives the end of its watch");
        idle.rest().await;
        silent.rest().await;
        assert!(program.child.try_wait().unwrap().is_none(), "a write is under way");
        write.send(&body).await;
        let answer = write.answer().await.expect("its answer");
        assert_eq!((answer.code, answer.json()["metadata"]["name"].as_str()), (201, Some("slow")));
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(program.ended().await.code(), Some(0), "{signal}");
        assert!(program.said().ends_with("stopping: finishing requests, ending watches\n"));
    }
}

/// Each of these once delayed the end by most of a minute.
#[tokio::test]
async fn clients_that_do_not_read_or_write_do_not_delay_the_end() {
    let mut program = Program::start();
    let mut maps = Wire::to(program.address).await;
    let large =
        format!(r#"{{"metadata":{{"generateName":"m"}},"data":{{"text":"{}"}}}}"#, "x".repeat(1_000_000));
    for _ in 0..12 {
        maps.request("POST", CONFIGMAPS, "", large.as_bytes()).await;
        assert_eq!(maps.answer().await.unwrap().code, 201);
    }
    let mut unread = Wire::to(program.address).await;
    unread.request("GET", CONFIGMAPS, "", b"").await;
    assert_eq!(unread.head().await.unwrap().code, 200);
    let _stalled = slow_write(&program, &config_map("never")).await;
    // It speaks HTTP/2 but answers no PING.
    let mut deaf = Wire::to(program.address).await;
    deaf.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    assert!(deaf.bytes(9).await.is_some());
    let began = Instant::now();
    program.signal("TERM");
    assert_eq!(program.ended().await.code(), Some(0));
    // About two seconds; on a busy machine more, but not the forty and more that it once was.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A thousand connections once kept every other client out for a minute.
#[tokio::test]
async fn as_many_files_may_be_open_as_the_system_allows() {
    let program = Program::start_with("ulimit -Sn 100; ulimit -Hn 1000");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.child.id())).unwrap();
    let open_files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(open_files.split_whitespace().nth(3), Some("1000"), "{open_files}");
}

/// The connections are not authenticated.
#[tokio::test]
async fn silent_connections_do_not_keep_others_out() {
    let program = Program::start_with("ulimit -n 200");
    let mut known = watching(&program, "").await;
    let mut silent = Vec::new();
    // More than there may be files.
    for _ in 0..400 {
        silent.push(TcpStream::connect(program.address).await.unwrap());
    }
    for n in 0..3 {
        let mut wire = Wire::to(program.address).await;
        wire.request("POST", CONFIGMAPS, "", config_map(&format!("n{n}")).as_bytes()).await;
        assert_eq!(wire.answer().await.unwrap().code, 201);
        while !known.line().await.unwrap().contains(&format!(r#""name":"n{n}""#)) {}
    }
}

/// The HTTP library does not wait for a connection that has become a WebSocket, so the server must.
#[tokio::test]
async fn a_websocket_is_closed_even_if_no_request_is_in_flight() {
    for _ in 0..5 {
        let mut program = Program::start();
        let mut browser = watching(&program, UPGRADE).await;
        program.signal("TERM");
        let end = browser.rest().await;
        assert!(end.ends_with(NORMAL_CLOSE), "{:?}, {}", end, program.ended().await);
        assert_eq!(program.ended().await.code(), Some(0));
    }
}

#[tokio::test]
async fn on_a_second_signal_it_stops_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT")] {
        let mut program = Program::start();
        let mut write = slow_write(&program, &config_map("never")).await;
        program.signal(first);
        program.refuses().await;
        program.signal(second);
        assert_eq!(program.ended().await.code(), Some(1), "{first}, {second}");
        write.rest().await;
        assert!(program.said().ends_with("stopping: finishing requests, ending watches\nstopping at once\n"));
    }
}

#[test]
fn errors_in_its_flags_are_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (missing, bad, folder) = (at("missing"), at("bad"), at("folder"));
    std::fs::write(&bad, "\0 this is none of it\n\"").unwrap();
    std::fs::create_dir(&folder).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    for flags in [
        &[][..],
        &["sevre"],
        &["serve", "extra"],
        &["serve", "--no-such-flag"],
        &["serve", "--secure-port", "65536"],
        &["serve", "--secure-port=-1"],
        &["serve", "--secure-port", ""],
        &["serve", "--secure-port"],
        &["serve", "--secure-port", &taken, "--storage", "memory"],
        &["serve", "--bind-address", "nowhere"],
        &["serve", "--bind-address", "192.0.2.1", "--storage", "memory"],
        &["serve", "--storage", "paper"],
        &["serve", "--storage", "etcd"],
        &["serve", "--storage", "etcd", "--etcd-servers", "nonsense"],
        &["serve", "--request-timeout", "soon"],
        &["serve", "--max-requests-inflight", "many"],
        &["serve", "--service-cluster-ip-range", "10.0.0.0"],
        &["serve", "--token-auth-file", &missing],
        &["serve", "--token-auth-file", &folder],
        &["serve", "--token-auth-file", &bad],
        &["serve", "--client-ca-file", &missing],
        &["serve", "--client-ca-file", &bad],
        &["serve", "--tls-cert-file", &missing],
        &["serve", "--tls-cert-file", &missing, "--tls-private-key-file", &missing],
        &["serve", "--tls-cert-file", &bad, "--tls-private-key-file", &bad],
        &["serve", "--cors-allowed-origins", "("],
        &["serve", "--data-dir", &bad],
        &["serve", "--log-format", "loud"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keepwatch"));
        command.args(flags).current_dir(&directory);
        if flags.first() == Some(&"serve") && !flags.contains(&"--data-dir") {
            command.args(["--data-dir", &folder]);
            if !flags.contains(&"--secure-port") {
                command.args(["--secure-port", "0"]);
            }
        }
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > SOON {
                child.kill().unwrap();
                panic!("{flags:?}: it runs");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.starts_with("keepwatch: ") && said.lines().count() == 1, "{flags:?}: {said}");
        assert!(output.stdout.is_empty(), "{flags:?}");
        if let Some(flag) = flags.iter().find(|flag| flag.starts_with("--")) {
            let flag = flag.split('=').next().unwrap_or_default();
            assert!(said.contains(flag) || said.contains("--etcd-servers"), "{flags:?}: {said}");
        }
    }
}
