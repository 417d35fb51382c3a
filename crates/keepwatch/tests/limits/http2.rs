//! Limits of HTTP/2 connections.

use super::*;
use std::time::Instant;

/// Frames of HTTP/2, as few as these tests need.
pub(super) mod frames {
    pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RESET: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const GOAWAY: u8 = 7;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut out = length[1..].to_vec();
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(payload);
        out
    }

    pub(crate) fn settings() -> Vec<u8> {
        frame(SETTINGS, 0, 0, &[])
    }

    pub(crate) fn reset(stream: u32) -> Vec<u8> {
        frame(RESET, 0, stream, &8_u32.to_be_bytes())
    }

    pub(crate) fn request(
        stream: u32,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        ends: bool,
    ) -> Vec<u8> {
        let alice = [("authorization", "Bearer s3cret")];
        let alice = if more.iter().any(|(name, _)| *name == "authorization") { &[][..] } else { &alice };
        let fixed = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "h")];
        let mut block = Vec::new();
        for (name, value) in fixed.iter().chain(alice).chain(more) {
            block.push(0);
            for text in [name, value] {
                length(&mut block, text.len());
                block.extend_from_slice(text.as_bytes());
            }
        }
        frame(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, &block)
    }

    /// A number with seven bits in its first byte (RFC 7541).
    fn length(out: &mut Vec<u8>, number: usize) {
        if number < 127 {
            return out.push(number as u8);
        }
        out.push(127);
        let mut rest = number - 127;
        while rest >= 128 {
            out.push(rest as u8 | 128);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

/// A client that sends a body that is not wanted, as curl does, must be able to read why. HTTP/2 is cut off in the middle if
/// the body is not read.
#[tokio::test]
async fn early_refusals_are_read_over_http2_too() {
    let server = started().await;
    for (method, path, token) in [("POST", CONFIGMAPS, "wrong"), ("POST", "/nowhere", "s3cret")] {
        let mut wire = open_http2(&server).await;
        let head = frames::request(1, method, path, &[("authorization", &format!("Bearer {token}"))], false);
        wire.send(head).await;
        for part in 0..4 {
            let ends = u8::from(part == 3);
            wire.send(frames::frame(frames::DATA, ends, 1, &[b' '; 15_000])).await;
        }
        let mut ended = false;
        while !ended {
            let (kind, flags, stream) = next_frame(&mut wire).await.expect("an answer");
            assert!(stream != 1 || kind != frames::RESET, "{path}: the answer is cut off");
            ended = stream == 1 && flags & 1 == 1;
        }
    }
}

/// A client that reads one stream of a connection and not another is not seen to stall by TCP.
#[tokio::test]
async fn lists_that_are_not_read_over_http2_are_let_go_of() {
    let server = started().await;
    make_large(&server).await;
    let mut wire = Wire::open(&server).await;
    let window_of_one = frames::frame(frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    wire.send([frames::PREFACE, &window_of_one].concat()).await;
    for n in 0..20 {
        wire.send(frames::request(2 * n + 1, "GET", CONFIGMAPS, &[], true)).await;
    }
    until("they have places", || async { in_flight(&server, "readOnly").await == 21.0 }).await;
    until("they have none any more", || async { in_flight(&server, "readOnly").await == 1.0 }).await;
    wire.rest().await;
}

/// Reads a frame: its kind, flags and stream.
async fn next_frame(wire: &mut Wire<TcpStream>) -> Option<(u8, u8, u32)> {
    let head = wire.bytes(9).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    wire.bytes(length).await?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

/// Reads frames until one of a kind is there for a stream; none if the connection ends first.
pub(super) async fn frame_of(wire: &mut Wire<TcpStream>, kind: u8, stream: u32) -> Option<Vec<u8>> {
    loop {
        let head = wire.bytes(9).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = wire.bytes(length).await?;
        if head[3] == frames::GOAWAY && kind != frames::GOAWAY {
            return None;
        }
        if head[3] == kind && u32::from_be_bytes(head[5..9].try_into().unwrap()) == stream {
            return Some(payload);
        }
    }
}

pub(super) async fn open_http2(server: &Server) -> Wire<TcpStream> {
    let mut wire = Wire::open(server).await;
    wire.send([frames::PREFACE, &frames::settings()].concat()).await;
    wire
}

#[tokio::test]
async fn requests_that_are_taken_back_at_once_do_not_wear_the_server_out() {
    let server = started().await;
    create(&server, "a").await;
    let began = Instant::now();
    for (method, path) in [
        ("GET", CONFIGMAPS),
        ("DELETE", "/api/v1/namespaces/default/secrets"),
        ("GET", "/api/v1/configmaps?watch=1"),
    ] {
        for _ in 0..5 {
            let mut wire = open_http2(&server).await;
            for stream in (1..4000).step_by(2) {
                let both = [frames::request(stream, method, path, &[], true), frames::reset(stream)].concat();
                if !wire.send(both).await {
                    break;
                }
            }
        }
    }
    until("nothing is left of them", || async {
        in_flight(&server, "").await <= 1.0 && watches(&server).await == 0.0
    })
    .await;
    assert!(began.elapsed() < SOON, "took {:?}", began.elapsed());
    is_well(&server).await;
}

#[tokio::test]
async fn a_connection_has_only_so_many_requests_at_a_time() {
    let limits = Limits { streams: 10, ..Limits::default() };
    let server = server().limits(limits).start().await.unwrap();
    let mut wire = open_http2(&server).await;
    let watch = format!("{CONFIGMAPS}?watch=1");
    for n in 0..12 {
        wire.send(frames::request(2 * n + 1, "GET", &watch, &[], true)).await;
    }
    assert!(frame_of(&mut wire, frames::RESET, 21).await.is_some());
    until("ten are open", || async { watches(&server).await == 10.0 }).await;
    drop(wire);
    until("none is open", || async { watches(&server).await == 0.0 }).await;
}

#[tokio::test]
async fn large_headers_are_refused_over_http2_too() {
    let server = started().await;
    let mut wire = open_http2(&server).await;
    let large = "y".repeat(15 << 10);
    wire.send(frames::request(1, "GET", "/version", &[("x-large", &large)], true)).await;
    let headers = frame_of(&mut wire, frames::HEADERS, 1).await.expect("an answer");
    assert_eq!(headers[0], 0x88, "200, as RFC 7541 writes it");

    // A head that never ends.
    let mut wire = open_http2(&server).await;
    let block = frames::request(1, "GET", "/version", &[("x-large", &large)], true);
    let mut begin = block.clone();
    begin[4] = 1; // not the end of the headers
    wire.send(begin).await;
    for _ in 0..200 {
        if !wire.send(frames::frame(9, 0, 1, &block[9 + 60..])).await {
            break;
        }
    }
    assert!(frame_of(&mut wire, frames::HEADERS, 1).await.is_none_or(|headers| headers[0] != 0x88));
    is_well(&server).await;
}
