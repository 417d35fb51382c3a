//! Clients that send too much, too slowly, too often or invalid bytes: each receives a response or its connection is closed,
//! soon, and the server keeps nothing of it.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

#[path = "../common/mod.rs"]
mod common;
mod requests;
mod bodies;
mod deadlines;
mod disconnects;
mod load;
mod http2;

use common::*;
use keepwatch::Server;
use keepwatch_endpoints::serve::Limits;
use serde_json::json;
use std::time::Duration;
use tokio::net::TcpStream;

const BODY_MAX: usize = 3 << 20;

async fn started() -> Server {
    server().start().await.unwrap()
}

/// A server with short deadlines, so that tests need not wait for a minute.
async fn impatient() -> Server {
    let wait = Duration::from_millis(300);
    let limits = Limits { tls_handshake: wait, head_wait: wait, ..Limits::default() };
    server().limits(limits).start().await.unwrap()
}

/// A server still works.
async fn is_well(server: &Server) {
    assert_eq!(get(server, "/readyz").await.text(), "ok");
}

/// A write whose body does not come.
async fn stalled_write(server: &Server) -> Wire<TcpStream> {
    let mut wire = Wire::open(server).await;
    wire.send(format!("POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Content-Length: 100\r\n\r\n{{")).await;
    wire
}

/// Makes ConfigMaps of 12 MB.
async fn make_large(server: &Server) {
    let megabyte = "x".repeat(1_000_000);
    for n in 0..12 {
        let body = json!({"metadata": {"name": format!("m{n}")}, "data": {"text": megabyte}});
        assert_eq!(post(server, CONFIGMAPS, &body.to_string()).await.code, 201);
    }
}

/// A list of which only the beginning is read.
async fn unread_list(server: &Server) -> Wire<TcpStream> {
    let mut wire = Wire::open(server).await;
    wire.request("GET", CONFIGMAPS, "", b"").await;
    assert_eq!(wire.head().await.unwrap().code, 200);
    wire
}

async fn in_flight(server: &Server, kind: &str) -> f64 {
    metric(server, "apiserver_current_inflight_requests", &format!("{kind}\"")).await
}

/// A watch of ConfigMaps.
struct Watching(Wire<TcpStream>);

impl Watching {
    /// Whether an event about an object comes.
    async fn event(&mut self, name: &str) -> bool {
        while let Some(line) = self.0.line().await {
            if line.contains(&format!(r#""name":"{name}""#)) {
                return true;
            }
        }
        false
    }
}

async fn watching(server: &Server) -> Watching {
    let mut wire = Wire::open(server).await;
    wire.request("GET", &format!("{CONFIGMAPS}?watch=1"), "", b"").await;
    assert_eq!(wire.head().await.unwrap().code, 200);
    Watching(wire)
}
