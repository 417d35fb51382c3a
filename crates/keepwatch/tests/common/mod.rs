//! A client that sends exactly the given bytes, and helpers for servers that several tests need.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

use keepwatch::{Builder, Server, auth::StaticTokens};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// The header of somebody who may do everything.
pub(crate) const ALICE: &str = "Authorization: Bearer s3cret\r\n";
/// The headers with which a browser asks for a WebSocket.
pub(crate) const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: http://h\r\n";
/// How long something may take that ought to happen at once. Machines that run tests are slow at times.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A server in memory that also serves plain HTTP and knows Alice.
pub(crate) fn server() -> Builder {
    Server::builder().http_port(0).tokens(StaticTokens::parse("s3cret,alice,u-1").unwrap())
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let found = timeout(SOON, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(found.await.is_ok(), "{what}: not so after {SOON:?}");
}

/// An answer as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One connection.
pub(crate) struct Wire<S> {
    pub(crate) io: S,
    unread: Vec<u8>,
}

impl Wire<TcpStream> {
    /// Connects to the server's plain port.
    pub(crate) async fn open(server: &Server) -> Self {
        Self::to(server.http_address().unwrap()).await
    }

    pub(crate) async fn to(address: SocketAddr) -> Self {
        Wire::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn over(io: S) -> Self {
        Wire { io, unread: Vec::new() }
    }

    /// Sends bytes; that the other side no longer reads them does not matter.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        timeout(SOON, self.io.write_all(bytes.as_ref())).await.expect("it is read").is_ok()
    }

    /// Sends a request as Alice, with a body if there is one.
    pub(crate) async fn request(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let length = match (method, body.len()) {
            ("GET" | "HEAD" | "OPTIONS", 0) => String::new(),
            (_, length) => format!("Content-Length: {length}\r\n"),
        };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{ALICE}{headers}{length}\r\n");
        self.send([head.as_bytes(), body].concat()).await;
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let read = timeout(SOON, self.io.read(&mut buffer)).await.expect("an answer, or the end");
        let read = read.unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Reads that many bytes; none if the connection ends first.
    pub(crate) async fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            if !self.more().await {
                return None;
            }
        }
        Some(self.unread.drain(..count).collect())
    }

    async fn through(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|own| own == end) {
                return Some(self.unread.drain(..at + end.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads the next line, as of a watch.
    pub(crate) async fn line(&mut self) -> Option<String> {
        Some(String::from_utf8(self.through(b"\n").await?).unwrap())
    }

    /// Reads the head of the next answer; none if the connection ends first.
    pub(crate) async fn head(&mut self) -> Option<Answer> {
        let head = String::from_utf8_lossy(&self.through(b"\r\n\r\n").await?).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Some(Answer { code, head, body: Vec::new() })
    }

    /// Reads the next answer whole; none if the connection ends first.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head().await?;
        if answer.code < 200 || matches!(answer.code, 204 | 304) {
            return Some(answer);
        }
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().unwrap();
            answer.body = self.bytes(length).await?;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = String::from_utf8(self.through(b"\r\n").await?).unwrap();
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let piece = self.bytes(size + 2).await?;
                if size == 0 {
                    break;
                }
                answer.body.extend_from_slice(&piece[..size]);
            }
        } else {
            while self.more().await {}
            answer.body = std::mem::take(&mut self.unread);
        }
        Some(answer)
    }

    /// Reads to the end, which has to come.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.unread)
    }
}

/// What a request of Alice's on a connection of its own is answered with.
pub(crate) async fn ask(server: &Server, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut wire = Wire::open(server).await;
    wire.request(method, path, headers, body).await;
    if method == "HEAD" {
        return wire.head().await.expect("an answer");
    }
    wire.answer().await.unwrap_or_else(|| panic!("no answer to {method} {path}"))
}

pub(crate) async fn get(server: &Server, path: &str) -> Answer {
    ask(server, "GET", path, "", b"").await
}

pub(crate) async fn post(server: &Server, path: &str, body: &str) -> Answer {
    ask(server, "POST", path, "", body.as_bytes()).await
}

/// Makes a ConfigMap in the namespace `default`.
pub(crate) async fn create(server: &Server, name: &str) {
    let made = post(server, CONFIGMAPS, &config_map(name)).await;
    assert_eq!(made.code, 201, "{made:?}");
}

pub(crate) const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn config_map(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)
}

/// The sum of a metric's values whose labels contain a text.
pub(crate) async fn metric(server: &Server, name: &str, label: &str) -> f64 {
    let text = get(server, "/metrics").await.text();
    let own = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
    own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// How many watches of ConfigMaps are open.
pub(crate) async fn watches(server: &Server) -> f64 {
    metric(server, "apiserver_longrunning_requests", r#"resource="configmaps""#).await
}
