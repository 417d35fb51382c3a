//! Clients that send nothing, or do not read, are cut off.

use super::{
    http2::{frame_of, frames, open_http2},
    *,
};
use std::time::Instant;

#[tokio::test]
async fn clients_that_send_nothing_or_too_slowly_are_cut_off() {
    let server = impatient().await;
    for begin in
        ["", "G", "PRI * HT", "GET /version HTTP/1.1\r\nHost: h\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut wire = Wire::open(&server).await;
        wire.send(begin).await;
        let began = Instant::now();
        wire.rest().await;
        assert!(began.elapsed() < SOON / 2, "{begin:?}");
    }
    // A byte now and then does not help.
    let mut wire = Wire::open(&server).await;
    let began = Instant::now();
    for byte in "GET /version HTTP/1.1\r\nHost: h\r\nX: ".bytes().chain(std::iter::repeat(b'y')) {
        if !wire.send([byte]).await || began.elapsed() > SOON / 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() < SOON / 2);
    // Nor does one good request before.
    let mut wire = Wire::open(&server).await;
    wire.request("GET", "/version", "", b"").await;
    assert_eq!(wire.answer().await.unwrap().code, 200);
    wire.rest().await;
    is_well(&server).await;
}

/// Over HTTP/2 too, where a connection is kept for the next request.
#[tokio::test]
async fn idle_http2_connections_receive_a_goaway() {
    let limits = Limits {
        head_wait: Duration::from_millis(300),
        idle: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = server().limits(limits).start().await.unwrap();
    let mut wire = open_http2(&server).await;
    wire.send(frames::request(1, "GET", "/version", &[], true)).await;
    assert!(frame_of(&mut wire, frames::GOAWAY, 0).await.is_some());

    let mut wire = open_http2(&server).await;
    wire.send(frames::request(1, "GET", &format!("{CONFIGMAPS}?watch=1"), &[], true)).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    create(&server, "late").await;
    assert!(frame_of(&mut wire, frames::DATA, 1).await.is_some());
}

/// What is waited for is a request, not an answer: a watch may be silent.
#[tokio::test]
async fn idle_watches_are_not_cut_off() {
    let server = impatient().await;
    let mut wire = watching(&server).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    create(&server, "late").await;
    assert!(wire.event("late").await);
}

#[tokio::test]
async fn a_handshake_that_is_not_finished_is_cut_off() {
    let server = impatient().await;
    for begin in [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let mut wire = Wire::to(server.address()).await;
        wire.send(begin).await;
        let began = Instant::now();
        wire.rest().await;
        assert!(began.elapsed() < SOON / 2);
    }
    is_well(&server).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let server = server().request_timeout(Duration::from_secs(1)).start().await.unwrap();
    let mut wire = Wire::open(&server).await;
    wire.send(format!("POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Content-Length: 100\r\n\r\n{{")).await;
    let answer = wire.answer().await.unwrap();
    assert_eq!((answer.code, answer.json()["reason"].as_str()), (504, Some("Timeout")));
    wire.rest().await;
}

/// A list that is not read would hold its objects and a permit for ever.
#[tokio::test]
async fn a_list_that_is_not_read_is_let_go_of() {
    let server = server().request_timeout(Duration::from_secs(2)).start().await.unwrap();
    make_large(&server).await;
    let mut wire = unread_list(&server).await;
    // The request for this number is one itself.
    until("it has its place", || async { in_flight(&server, "readOnly").await == 2.0 }).await;
    until("it has lost its place", || async { in_flight(&server, "readOnly").await == 1.0 }).await;
    assert!(wire.rest().await.len() < 12_000_000);
    assert!(get(&server, CONFIGMAPS).await.body.len() > 12_000_000);
}
