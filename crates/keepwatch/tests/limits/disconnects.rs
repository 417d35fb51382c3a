//! Clients that disconnect: their requests and watches end, their writes are finished.

use super::*;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_watch_ends_when_its_client_is_gone_or_says_no_more() {
    let server = started().await;
    let (gone, mut half, reset, stays) =
        (watching(&server).await, watching(&server).await, watching(&server).await, watching(&server).await);
    let mut browser = Wire::open(&server).await;
    browser.request("GET", &format!("{CONFIGMAPS}?watch=1"), UPGRADE, b"").await;
    assert_eq!(browser.head().await.unwrap().code, 101);
    until("five watches", || async { watches(&server).await == 5.0 }).await;

    drop(gone);
    until("one is gone", || async { watches(&server).await == 4.0 }).await;
    half.0.io.shutdown().await.unwrap();
    until("one says no more", || async { watches(&server).await == 3.0 }).await;
    half.0.rest().await;
    reset.0.io.set_zero_linger().unwrap();
    drop(reset);
    until("one was reset", || async { watches(&server).await == 2.0 }).await;
    drop(browser);
    until("the browser is gone", || async { watches(&server).await == 1.0 }).await;

    create(&server, "after").await;
    let mut stays = stays;
    assert!(stays.event("after").await, "the others go on");
    is_well(&server).await;
}

#[tokio::test]
async fn a_request_whose_client_says_no_more_is_let_go() {
    let server = started().await;
    make_large(&server).await;
    for shut in [true, false] {
        let mut wire = unread_list(&server).await;
        // The request for this number is one itself.
        until("it is in flight", || async { in_flight(&server, "readOnly").await == 2.0 }).await;
        if shut {
            wire.io.shutdown().await.unwrap();
            wire.rest().await;
        } else {
            drop(wire);
        }
        until("it is let go", || async { in_flight(&server, "readOnly").await == 1.0 }).await;
    }
    let mut wire = stalled_write(&server).await;
    wire.io.shutdown().await.unwrap();
    wire.rest().await;
    create(&server, "a").await;
}

#[tokio::test]
async fn a_write_that_was_begun_is_finished_without_its_client() {
    let server = server().max_mutating_requests_inflight(1).start().await.unwrap();
    let many = 2000;
    let mut wire = Wire::open(&server).await;
    for n in 0..many {
        wire.request("POST", CONFIGMAPS, "", config_map(&format!("m{n}")).as_bytes()).await;
        assert_eq!(wire.answer().await.unwrap().code, 201);
    }
    let mut watch = Wire::open(&server).await;
    watch.request("GET", &format!("{CONFIGMAPS}?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"), "", b"").await;
    assert_eq!(watch.head().await.unwrap().code, 200);

    wire.request("DELETE", CONFIGMAPS, "", b"").await;
    while !watch.line().await.expect("an event").contains("DELETED") {}
    drop(wire);
    let left = || async { get(&server, CONFIGMAPS).await.json()["items"].as_array().map_or(0, Vec::len) };
    // It has its place for as long as it works, or a client could begin any number.
    let meanwhile = post(&server, CONFIGMAPS, &config_map("meanwhile")).await.code;
    assert!(meanwhile == 429 || left().await <= 1, "{meanwhile} while there is work");
    until("all are deleted", || async { left().await <= 1 }).await;
    until("its place is free", || async { in_flight(&server, "mutating").await == 0.0 }).await;
    create(&server, "b").await;
}
