//! Limits of each user, and requests that take long.

use super::*;
use keepwatch_endpoints::auth::StaticTokens;

/// The header of an administrator.
const ROOT: &str = "Authorization: Bearer root\r\n";

async fn code_for(server: &Server, user: &str, path: &str) -> u16 {
    let mut wire = Wire::open(server).await;
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{user}\r\n")).await;
    wire.answer().await.unwrap().code
}

#[tokio::test]
async fn a_user_past_the_limit_is_told_to_come_back_and_the_others_are_not() {
    let tokens = StaticTokens::parse("root,root,u-2,system:masters\nbob,bob,u-3").unwrap();
    let server = server()
        .max_requests_inflight(4)
        .max_mutating_requests_inflight(1)
        .tokens(tokens)
        .start()
        .await
        .unwrap();
    make_large(&server).await;
    // Watches have no part in it.
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(watching(&server).await);
    }
    let lists = [unread_list(&server).await, unread_list(&server).await];
    let refused = get(&server, CONFIGMAPS).await;
    assert_eq!(
        (refused.code, refused.header("retry-after"), refused.text().trim_end()),
        (429, Some("1"), "Too many requests, please try again later.")
    );
    create(&server, "x").await;
    watching(&server).await;
    is_well(&server).await;
    let bob = "Authorization: Bearer bob\r\n";
    assert_eq!(code_for(&server, bob, "/api/v1/namespaces/default").await, 200);
    assert_eq!(code_for(&server, ROOT, CONFIGMAPS).await, 200);
    drop(lists);
    until("a read has a place", || async { get(&server, CONFIGMAPS).await.code == 200 }).await;
    for watch in &mut watches {
        assert!(watch.event("x").await);
    }
}

/// A selector takes many times the memory of its text, for as long as its watch is open.
#[tokio::test]
async fn watches_with_long_selectors_are_limited_for_each_user() {
    let tokens = StaticTokens::parse("bob,bob,u-3").unwrap();
    let server = server().tokens(tokens).start().await.unwrap();
    let terms: Vec<String> = (0..4000).map(|n| format!("!a{n}")).collect();
    let path = format!("{CONFIGMAPS}?watch=1&labelSelector={}", terms.join(","));
    let open = async |user: &str| {
        let mut wire = Wire::open(&server).await;
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{user}\r\n")).await;
        let code = wire.head().await.unwrap().code;
        (wire, code)
    };
    let mut watches = Vec::new();
    let refused = loop {
        let (wire, code) = open(ALICE).await;
        if code != 200 {
            break code;
        }
        watches.push(wire);
        assert!(watches.len() < 500, "there is no limit");
    };
    assert_eq!(refused, 429);
    assert!(watches.len() > 100, "only {} were admitted", watches.len());
    assert_eq!(open("Authorization: Bearer bob\r\n").await.1, 200);
    watching(&server).await;
    drop(watches);
    until("one is admitted", async || open(ALICE).await.1 == 200).await;
}

/// 210 of them once kept every other write out for a minute.
#[tokio::test]
async fn writes_whose_bodies_do_not_come_keep_nobody_out() {
    let server = server().max_mutating_requests_inflight(1).start().await.unwrap();
    let mut stalled = Vec::new();
    for _ in 0..210 {
        stalled.push(stalled_write(&server).await);
    }
    create(&server, "a").await;
}

/// Large documents are processed by threads of their own: no other request waits for them.
#[tokio::test]
async fn slow_patches_delay_no_other_request_and_are_refused_if_they_take_too_long() {
    let server = started().await;
    create(&server, "a").await;
    let numbers = vec!["1"; 380_000].join(",");
    let moves = vec![r#"{"op":"move","from":"/x/0","path":"/x/-"}"#; 9_000].join(",");
    let patch = format!(r#"[{{"op":"add","path":"/x","value":[{numbers}]}},{moves}]"#);
    let path = format!("{CONFIGMAPS}/a?dryRun=All");
    let mut patches = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::open(&server).await;
        wire.request("PATCH", &path, "Content-Type: application/json-patch+json\r\n", patch.as_bytes()).await;
        patches.push(wire);
    }
    for _ in 0..20 {
        assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
    }
    for wire in &mut patches {
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.code, 422, "{}", answer.text());
    }
}

/// Lists of the pods of one node looked at every pod there is.
#[tokio::test]
async fn the_pods_of_a_node_are_found_without_looking_at_the_others() {
    let server = server().start().await.unwrap();
    for number in 0..30 {
        let node = format!("n{}", number % 3);
        let container = serde_json::json!({"name": "c", "image": "i"});
        let pod = serde_json::json!({
            "metadata": {"name": format!("p{number}")}, "spec": {"nodeName": node, "containers": [container]},
        });
        let made = post(&server, "/api/v1/namespaces/default/pods", &pod.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text());
    }
    for path in ["/api/v1/pods", "/api/v1/namespaces/default/pods"] {
        let looked_at =
            async || metric(&server, "apiserver_cache_list_fetched_objects_total", "\"pods\"").await;
        let before = looked_at().await;
        let found = get(&server, &format!("{path}?fieldSelector=spec.nodeName%3Dn1")).await.json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(10));
        assert_eq!(looked_at().await - before, 10.0, "{path}");
    }
}
