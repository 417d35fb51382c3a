//! Clients that send too much, too slowly, too often or nonsense: each gets an answer or its connection is closed, soon, and
//! nothing of it stays behind.

#![allow(clippy::unwrap_used, reason = "a test says by panicking that something is wrong")]

mod common;

use common::*;
use keepwatch::Server;
use keepwatch_endpoints::{auth::StaticTokens, serve::Limits};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::{io::AsyncWriteExt, net::TcpStream};

const BODY_MAX: usize = 3 << 20;

async fn started() -> Server {
    server().start().await.unwrap()
}

/// A server that waits for little: what takes a minute elsewhere takes a moment here.
async fn impatient() -> Server {
    let wait = Duration::from_millis(300);
    let limits = Limits { tls_handshake: wait, head_wait: wait, ..Limits::default() };
    server().limits(limits).start().await.unwrap()
}

/// A server still does what it is there for.
async fn is_well(server: &Server) {
    assert_eq!(get(server, "/readyz").await.text(), "ok");
}

// Request lines

#[tokio::test]
async fn a_request_has_exactly_one_host() {
    let server = started().await;
    for (host, reason) in [
        ("", "400 Bad Request: missing required Host header"),
        ("Host: a\r\nHost: a\r\n", "400 Bad Request"),
        ("Host: a b\r\n", "400 Bad Request: malformed Host header"),
    ] {
        let mut wire = Wire::open(&server).await;
        wire.send(format!("GET /livez HTTP/1.1\r\n{host}\r\n")).await;
        let answer = String::from_utf8(wire.rest().await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {reason}\r\n")), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{reason}")), "{answer}");
    }
    let mut wire = Wire::open(&server).await;
    wire.send("GET /livez HTTP/1.0\r\n\r\n").await;
    assert_eq!(wire.answer().await.unwrap().code, 200);
}

#[tokio::test]
async fn a_target_may_have_characters_that_are_usually_encoded() {
    let server = started().await;
    let mut wire = Wire::open(&server).await;
    for _ in 0..2 {
        wire.request(
            "POST",
            CONFIGMAPS,
            ALICE,
            br#"{"metadata":{"generateName":"<>","x":"GET /<> HTTP/1.1"}}"#,
        )
        .await;
        assert_eq!(wire.answer().await.unwrap().code, 422);
        wire.request("GET", &format!("{CONFIGMAPS}?labelSelector=a>1,b<2"), ALICE, b"").await;
        assert_eq!(wire.answer().await.unwrap().json()["items"], json!([]));
    }
}

#[tokio::test]
async fn a_watch_without_time_does_not_send_the_state() {
    let server = started().await;
    create(&server, "a").await;
    let watch = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for version in ["", "&resourceVersion=0"] {
        let answer = get(&server, &format!("{CONFIGMAPS}?{watch}{version}&timeoutSeconds=-1")).await;
        assert_eq!((answer.code, answer.text().as_str()), (200, ""));
    }
}

// Bodies

#[tokio::test]
async fn a_body_above_the_limit_is_refused_whether_its_length_is_said_or_not() {
    let server = started().await;
    let refused = |answer: &common::Answer| {
        assert_eq!(
            (answer.code, answer.json()["message"].as_str()),
            (413, Some("Request entity too large: limit is 3145728"))
        );
    };

    let mut wire = Wire::open(&server).await;
    let length = BODY_MAX + 1;
    wire.send(format!("POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Content-Length: {length}\r\n\r\n"))
        .await;
    refused(&wire.answer().await.unwrap());

    let mut wire = Wire::open(&server).await;
    wire.send(format!("POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Transfer-Encoding: chunked\r\n\r\n"))
        .await;
    let piece = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    for _ in 0..3 {
        wire.send(&piece).await;
    }
    wire.send("1\r\n \r\n").await;
    refused(&wire.answer().await.unwrap());

    let mut body = config_map("just-fits");
    body.push_str(&" ".repeat(BODY_MAX - body.len()));
    assert_eq!(post(&server, CONFIGMAPS, &body).await.code, 201);
}

#[tokio::test]
async fn nesting_is_read_to_some_depth_and_refused_beyond() {
    let server = started().await;
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(r#"{{"metadata":{{"generateName":"n-"}},"unknown":{open}{close}}}"#)
    };
    let flow = |levels: usize| {
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!("metadata: {{generateName: n-}}\nunknown: {open}{close}\n")
    };
    let twice = |levels: usize| flow(levels) + "metadata: {generateName: n-}\n";
    let block =
        |levels: usize| format!("metadata: {{generateName: n-}}\nunknown:\n  {}a", "- ".repeat(levels - 1));
    let yaml = "Content-Type: application/yaml\r\n";
    for (headers, most, text) in [
        ("", 127, &nested as &dyn Fn(usize) -> String),
        (yaml, 64, &flow),
        (yaml, 64, &twice),
        (yaml, 64, &block),
    ] {
        for (levels, code) in [(most, 201), (most + 1, 400), (1000, 400), (500_000, 400)] {
            let began = Instant::now();
            let answer = ask(&server, "POST", CONFIGMAPS, headers, text(levels).as_bytes()).await;
            let said = answer.text().chars().take(400).collect::<String>();
            assert_eq!(answer.code, code, "{levels} levels, {headers}: {said}");
            let why = if headers.is_empty() {
                ["json parse error: ", "invalid character '[' exceeded max depth ({"]
            } else {
                ["ConfigMap): yaml: line ", ": exceeded max depth of 64 (6d65746164617461"]
            };
            let is_told = why.iter().all(|part| said.contains(part));
            assert_eq!(is_told, code == 400, "{levels} levels, {headers}: {said}");
            assert!(began.elapsed() < Duration::from_secs(10), "{levels} levels took {:?}", began.elapsed());
        }
    }
}

#[tokio::test]
async fn aliases_of_yaml_do_not_make_much_of_little() {
    let server = started().await;
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        laughs.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 9].join(", ")));
    }
    // A text of a megabyte, a hundred thousand times.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 100_000].join(", "));
    let known = format!("metadata: {{name: y}}\ndata:\n  a: &a {}\n", "x".repeat(1 << 20))
        + &(0..100_000).map(|n| format!("  k{n}: *a\n")).collect::<String>();
    for text in [laughs, long, known] {
        let began = Instant::now();
        let answer =
            ask(&server, "POST", CONFIGMAPS, "Content-Type: application/yaml\r\n", text.as_bytes()).await;
        assert_eq!(answer.code, 400, "{}", answer.text());
        assert!(began.elapsed() < Duration::from_secs(10), "took {:?}", began.elapsed());
    }
    let modest = "metadata: {name: m, labels: &l {a: b}, annotations: *l}\ndata: *l\n";
    let answer =
        ask(&server, "POST", CONFIGMAPS, "Content-Type: application/yaml\r\n", modest.as_bytes()).await;
    assert_eq!(answer.json()["data"], json!({"a": "b"}));
}

#[tokio::test]
async fn a_small_body_does_not_make_a_large_object() {
    let server = started().await;
    let pods = "/api/v1/namespaces/default/pods";
    let containers = 100_000;
    let json = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{}]}}}}"#,
        vec!["{}"; containers].join(",")
    );
    // The same in Protobuf: a spec of which every two bytes are a container.
    let mut spec = Vec::new();
    for _ in 0..containers {
        spec.extend_from_slice(&[0x12, 0]);
    }
    let message = [framed(1, &framed(1, b"p")), framed(2, &spec)].concat();
    let kind = [framed(1, b"v1"), framed(2, b"Pod")].concat();
    let protobuf = [b"k8s\0".to_vec(), framed(1, &kind), framed(2, &message)].concat();
    for (headers, body) in [
        ("Content-Type: application/json\r\n", json.into_bytes()),
        ("Content-Type: application/vnd.kubernetes.protobuf\r\n", protobuf),
    ] {
        let answer = ask(&server, "POST", pods, headers, &body).await;
        assert!(
            matches!(answer.code, 413 | 422),
            "{headers}: {} {}",
            answer.code,
            &answer.text()[..100.min(answer.body.len())]
        );
    }
    is_well(&server).await;
}

/// A field of Protobuf that has a length.
fn framed(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

/// Each patch is within the limits; without one for the object, it could grow until memory ends.
#[tokio::test]
async fn an_object_does_not_grow_beyond_what_a_client_can_send_back() {
    let server = started().await;
    let nodes = "/api/v1/nodes";
    assert_eq!(post(&server, nodes, r#"{"metadata":{"name":"n"}}"#).await.code, 201);
    let image = |n: usize| json!({"names": [format!("i{n}/{}", "x".repeat(1 << 20))], "sizeBytes": 1});
    let mut codes = Vec::new();
    for n in 0..4 {
        let op = if n == 0 { json!([image(n)]) } else { image(n) };
        let path = if n == 0 { "/status/images" } else { "/status/images/-" };
        let patch = json!([{"op": "add", "path": path, "value": op}]).to_string();
        let headers = "Content-Type: application/json-patch+json\r\n";
        codes.push(ask(&server, "PATCH", "/api/v1/nodes/n/status", headers, patch.as_bytes()).await.code);
    }
    assert_eq!(codes, [200, 200, 413, 413]);
    assert_eq!(ask(&server, "DELETE", "/api/v1/nodes/n", "", b"").await.code, 200);
}

#[tokio::test]
async fn a_patch_has_at_most_ten_thousand_operations() {
    let server = started().await;
    create(&server, "a").await;
    let patch = |count: usize| {
        let operation = r#"{"op":"test","path":"/metadata/name","value":"a"}"#;
        format!("[{}]", vec![operation; count].join(","))
    };
    for (count, code) in [(10_000, 200), (10_001, 413)] {
        let headers = "Content-Type: application/json-patch+json\r\n";
        let answer =
            ask(&server, "PATCH", &format!("{CONFIGMAPS}/a"), headers, patch(count).as_bytes()).await;
        assert_eq!(answer.code, code);
        if code == 413 {
            let message = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
            assert_eq!(answer.json()["message"], message);
        }
    }
}

// Heads

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let server = started().await;
    let path = |bytes: usize| format!("/version?{}", "x".repeat(bytes - "/version?".len()));
    let headers = |count: usize| (0..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    let large = |bytes: usize| format!("X-Large: {}\r\n", "y".repeat(bytes));
    for (path, headers, code) in [
        (path(32 << 10), String::new(), 200),
        (path((32 << 10) + 1), String::new(), 414),
        (path(70_000), String::new(), 414),
        (path(10 << 20), String::new(), 414),
        ("/version".to_owned(), headers(100), 200),
        ("/version".to_owned(), headers(128), 431),
        ("/version".to_owned(), headers(5000), 431),
        ("/version".to_owned(), large(60 << 10), 200),
        ("/version".to_owned(), large(200 << 10), 431),
        ("/version".to_owned(), large(10 << 20), 431),
    ] {
        let (path_bytes, headers_bytes) = (path.len(), headers.len());
        let mut wire = Wire::open(&server).await;
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n")).await;
        // Whoever is still sending when it is refused may not hear why.
        let answer = wire.answer().await.map(|answer| answer.code);
        let is_huge = path_bytes + headers_bytes > 128 << 10;
        assert!(
            answer == Some(code) || (answer.is_none() || answer == Some(431)) && is_huge,
            "{answer:?} for a path of {path_bytes} and headers of {headers_bytes} bytes"
        );
    }
    is_well(&server).await;
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_connection_closed() {
    let server = started().await;
    for bytes in [
        &b"nonsense\r\n\r\n"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /version\r\n\r\n",
        b"GET /version HTTP/9.9\r\n\r\n",
        b"GET /ver\0sion HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /ver sion HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: h\r\nX\0: y\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
        b"POST /version HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /version HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST /version HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /version HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame of HTTP/2 at all",
    ] {
        let mut wire = Wire::open(&server).await;
        wire.send(bytes).await;
        let rest = wire.rest().await;
        let said = String::from_utf8_lossy(&rest).into_owned();
        let is_http2 = bytes.starts_with(b"PRI");
        assert!(
            rest.is_empty() || is_http2 || said.starts_with("HTTP/1.1 400"),
            "{:?}: {said}",
            String::from_utf8_lossy(bytes)
        );
    }
    is_well(&server).await;
}

/// Two who read one connection must agree where a request ends, or one could hide another in it.
#[tokio::test]
async fn a_request_ends_where_its_chunks_do() {
    let server = started().await;
    let mut wire = Wire::open(&server).await;
    let hidden = format!("DELETE {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}\r\n");
    wire.send(format!(
        "POST /version HTTP/1.1\r\nHost: h\r\n{ALICE}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        5 + hidden.len()
    ))
    .await;
    let first = wire.answer().await.unwrap();
    assert!(matches!(first.code, 400 | 405), "{first:?}");
    // What comes behind the chunks is the next request, if the connection is not closed.
    let next = wire.answer().await.map(|answer| answer.code);
    assert!(matches!(next, None | Some(200)), "{next:?}");
}

#[tokio::test]
async fn of_headers_that_come_twice_the_first_counts_and_the_host_must_not() {
    let server = started().await;
    for (headers, code) in [
        ("Authorization: Bearer s3cret\r\nAuthorization: Bearer wrong\r\n", 200),
        ("Authorization: Bearer wrong\r\nAuthorization: Bearer s3cret\r\n", 401),
        ("Authorization: Bearer s3cret\r\nAccept: text/html\r\nAccept: application/json\r\n", 200),
        ("Authorization: Bearer s3cret\r\nHost: other\r\n", 400),
        ("Authorization: Bearer s3cret\r\nContent-Length: 0\r\nContent-Length: 0\r\n", 200),
    ] {
        let mut wire = Wire::open(&server).await;
        wire.send(format!("GET {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{headers}\r\n")).await;
        assert_eq!(wire.answer().await.map(|answer| answer.code), Some(code), "{headers}");
    }
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on_or_not() {
    let server = started().await;
    let body = config_map("expected");
    let head = |length: usize| {
        format!(
            "POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut wire = Wire::open(&server).await;
    wire.send(head(body.len())).await;
    assert_eq!(wire.answer().await.unwrap().code, 100);
    wire.send(&body).await;
    assert_eq!(wire.answer().await.unwrap().code, 201);

    let mut wire = Wire::open(&server).await;
    wire.send(head(BODY_MAX + 1)).await;
    assert_eq!(wire.answer().await.unwrap().code, 413);

    let mut wire = Wire::open(&server).await;
    wire.send(head(body.len()).replace("s3cret", "wrong")).await;
    assert_eq!(wire.answer().await.unwrap().code, 401, "who may not is told before the body is sent");
}

#[tokio::test]
async fn other_methods_are_not_allowed_and_change_nothing() {
    let server = started().await;
    create(&server, "a").await;
    let object = format!("{CONFIGMAPS}/a");
    for (method, path, code) in [
        ("HEAD", CONFIGMAPS, 405),
        ("HEAD", &object, 405),
        ("HEAD", "/api/v1/namespaces/default/pods/p/status", 405),
        ("HEAD", "/version", 405),
        ("OPTIONS", CONFIGMAPS, 405),
        ("OPTIONS", &object, 405),
        ("BREW", CONFIGMAPS, 405),
        ("BREW", &object, 405),
        ("TRACE", &object, 405),
        ("POST", &object, 405),
        ("PUT", CONFIGMAPS, 405),
        ("PATCH", CONFIGMAPS, 405),
        ("POST", "/version", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps", 405),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps/a", 405),
        ("POST", "/api/v1/watch/namespaces/default/configmaps", 405),
        ("PUT", "/api/v1/watch/namespaces/default/configmaps/a", 405),
    ] {
        let answer = ask(&server, method, path, "", b"").await;
        assert_eq!(answer.code, code, "{method} {path}: {answer:?}");
    }
    let left = get(&server, CONFIGMAPS).await.json();
    let names: Vec<_> =
        left["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect();
    assert!(names.contains(&json!("a")), "{names:?}");
}

/// What kube-apiserver answers outside of its API takes any method; what is part of it only GET.
#[tokio::test]
async fn paths_that_are_no_resources_take_the_methods_that_kubernetes_takes() {
    let server = started().await;
    let any = ["/", "/index.html", "/healthz", "/livez", "/readyz/ping", "/apis", "/apis/apps"];
    let any = any.into_iter().chain(["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/node.k8s.io/v1"]);
    let any = any.flat_map(|path| ["GET", "POST", "DELETE", "HEAD"].map(|method| (method, path, 200)));
    let read = ["/version", "/api", "/api/v1", "/apis/apps/v1"];
    let read = read.into_iter().flat_map(|path| ["POST", "DELETE", "HEAD"].map(|method| (method, path, 405)));
    let metrics = [("POST", "/metrics", 200), ("DELETE", "/metrics", 405), ("DELETE", "/nothing", 404)];
    for (method, path, code) in any.chain(read).chain(metrics) {
        let answer = ask(&server, method, path, "", b"").await;
        assert_eq!(answer.code, code, "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn odd_paths_lead_nowhere() {
    let server = started().await;
    create(&server, "a").await;
    for (path, codes) in [
        ("/api/v1/namespaces/default/configmaps/%61", &[200][..]),
        ("/%61pi/v1/namespaces/default/configmaps/a", &[200]),
        ("/api/v1/namespaces/default%2Fconfigmaps%2Fa", &[200]),
        ("/api/v1/namespaces/default/configmaps/%FF%FE", &[404]),
        ("/api/v1/namespaces/%ff/configmaps", &[200, 404]),
        ("/api/v1/namespaces/default/configmaps/a%00", &[404]),
        ("/api/v1/namespaces/default/configmaps/%00", &[404]),
        ("/api/v1/namespaces/default/configmaps/..", &[400, 404]),
        ("/api/v1/namespaces/default/configmaps/%2e%2e", &[400, 404]),
        ("/api/v1/namespaces/default/configmaps/.", &[400, 404]),
        ("/api/v1/namespaces/../configmaps/a", &[400, 404]),
        ("/api/v1/namespaces/%2e%2e/configmaps", &[400, 404]),
        ("/api/v1/namespaces/default/configmaps/../configmaps/a", &[404]),
        ("/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets%2fdefault%2fs", &[404]),
        ("/api/v1/namespaces/default/../default/configmaps/a", &[404]),
        ("/api/v1/namespaces/default//configmaps/a", &[404]),
        ("/api/v1/namespaces/default/configmaps//status", &[404]),
        ("/api/v1/namespaces/default/pods//status", &[404]),
        ("/api/v1/namespaces/default/configmaps/a/", &[200]),
        ("/api/v1/namespaces/default/configmaps/a//", &[200]),
        ("/api/v1/namespaces/default/configmaps/a/status", &[404]),
        ("/api/v1/namespaces/default/configmaps/a/b/c/d", &[404]),
        ("//api/v1/namespaces/default/configmaps/a", &[404]),
        ("/../api", &[404]),
        ("/api/../api", &[404]),
        ("/version/../metrics", &[404]),
        ("/openapi/v3/../../metrics", &[404]),
        ("/openapi/v3/api/v1/../../../etc/passwd", &[404]),
        ("/healthz/../metrics", &[404]),
        ("/%", &[400]),
        ("/api/v1/%", &[400]),
        ("/api/v1/namespaces/default/configmaps/%zz", &[400]),
        ("http://elsewhere/api/v1/namespaces/default/configmaps/a", &[200]),
        ("*", &[404, 400]),
    ] {
        let answer = get(&server, path).await;
        assert!(codes.contains(&answer.code), "{path}: {} {}", answer.code, answer.text());
        assert!(answer.code == 200 || !answer.text().contains("creationTimestamp"), "{path}: {answer:?}");
    }
    // Without an answer in UTF-8 there is none: the path is not one.
    let mut wire = Wire::open(&server).await;
    wire.send(b"GET /api/v1/namespaces/default/configmaps/\xff\xfe HTTP/1.1\r\nHost: h\r\n").await;
    wire.send(format!("{ALICE}\r\n")).await;
    let answer = wire.answer().await.unwrap();
    assert!(matches!(answer.code, 400 | 404), "{answer:?}");

    for (method, path) in [
        ("PUT", "/api/v1/namespaces/default/pods//status"),
        ("PATCH", "/api/v1/namespaces/default/pods//status"),
        ("PUT", "/api/v1/namespaces/default/configmaps/.."),
        ("PUT", "/api/v1/namespaces/default/configmaps/%2e%2e%2fsecrets"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/.."),
        ("DELETE", "/api/v1/namespaces/../configmaps"),
        ("DELETE", "/api/v1/namespaces//configmaps"),
        ("POST", "/api/v1/namespaces/../configmaps"),
    ] {
        let headers = "Content-Type: application/json\r\n";
        let answer = ask(&server, method, path, headers, config_map("z").as_bytes()).await;
        assert!((400..500).contains(&answer.code), "{method} {path}: {answer:?}");
    }
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.code, 200);
    is_well(&server).await;
}

#[tokio::test]
async fn requests_sent_all_at_once_are_answered_in_order() {
    let server = started().await;
    let mut wire = Wire::open(&server).await;
    let mut all = String::new();
    for n in 0..100 {
        let body = config_map(&format!("p{n}"));
        all.push_str(&format!(
            "POST {CONFIGMAPS} HTTP/1.1\r\nHost: h\r\n{ALICE}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        all.push_str(&format!("GET {CONFIGMAPS}/p{n} HTTP/1.1\r\nHost: h\r\n{ALICE}\r\n"));
    }
    wire.send(all).await;
    for n in 0..100 {
        for code in [201, 200] {
            let answer = wire.answer().await.unwrap();
            assert_eq!(
                (answer.code, answer.json()["metadata"]["name"].as_str()),
                (code, Some(&*format!("p{n}")))
            );
        }
    }
}

// Time

#[tokio::test]
async fn who_sends_nothing_or_too_slowly_is_cut_off() {
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
async fn who_asks_for_nothing_more_is_told_so() {
    let limits = Limits {
        head_wait: Duration::from_millis(300),
        idle: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = server().limits(limits).start().await.unwrap();
    let mut wire = http2(&server).await;
    wire.send(http2::request(1, "GET", "/version", &[], true)).await;
    assert!(frame_of(&mut wire, http2::GOAWAY, 0).await.is_some());

    let mut wire = http2(&server).await;
    wire.send(http2::request(1, "GET", &format!("{CONFIGMAPS}?watch=1"), &[], true)).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    create(&server, "late").await;
    assert!(frame_of(&mut wire, http2::DATA, 1).await.is_some());
}

/// What is waited for is a request, not an answer: a watch may be silent.
#[tokio::test]
async fn who_waits_for_events_is_not_cut_off() {
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

/// A list that nobody fetches would hold what it is made from, and a place, for ever.
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

// Clients that go

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

// Load

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

/// Large documents are worked on by threads of their own: nobody else waits for them.
#[tokio::test]
async fn what_takes_long_to_patch_delays_nobody_and_is_refused_if_it_takes_too_long() {
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

// HTTP/2

/// Frames of HTTP/2, as few as these tests need.
mod http2 {
    pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RESET: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const GOAWAY: u8 = 7;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut out = length[1..].to_vec();
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(payload);
        out
    }

    pub(super) fn settings() -> Vec<u8> {
        frame(SETTINGS, 0, 0, &[])
    }

    pub(super) fn reset(stream: u32) -> Vec<u8> {
        frame(RESET, 0, stream, &8_u32.to_be_bytes())
    }

    pub(super) fn request(
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

/// Whoever sends a body that nobody wants, as curl does, has to be able to read why. HTTP/2 is cut off in the middle if the
/// body is not read.
#[tokio::test]
async fn early_refusals_are_read_over_http2_too() {
    let server = started().await;
    for (method, path, token) in [("POST", CONFIGMAPS, "wrong"), ("POST", "/nowhere", "s3cret")] {
        let mut wire = http2(&server).await;
        let head = http2::request(1, method, path, &[("authorization", &format!("Bearer {token}"))], false);
        wire.send(head).await;
        for part in 0..4 {
            let ends = u8::from(part == 3);
            wire.send(http2::frame(http2::DATA, ends, 1, &[b' '; 15_000])).await;
        }
        let mut ended = false;
        while !ended {
            let (kind, flags, stream) = next_frame(&mut wire).await.expect("an answer");
            assert!(stream != 1 || kind != http2::RESET, "{path}: the answer is cut off");
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
    let window_of_one = http2::frame(http2::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]);
    wire.send([http2::PREFACE, &window_of_one].concat()).await;
    for n in 0..20 {
        wire.send(http2::request(2 * n + 1, "GET", CONFIGMAPS, &[], true)).await;
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
async fn frame_of(wire: &mut Wire<TcpStream>, kind: u8, stream: u32) -> Option<Vec<u8>> {
    loop {
        let head = wire.bytes(9).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = wire.bytes(length).await?;
        if head[3] == http2::GOAWAY && kind != http2::GOAWAY {
            return None;
        }
        if head[3] == kind && u32::from_be_bytes(head[5..9].try_into().unwrap()) == stream {
            return Some(payload);
        }
    }
}

async fn http2(server: &Server) -> Wire<TcpStream> {
    let mut wire = Wire::open(server).await;
    wire.send([http2::PREFACE, &http2::settings()].concat()).await;
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
            let mut wire = http2(&server).await;
            for stream in (1..4000).step_by(2) {
                let both = [http2::request(stream, method, path, &[], true), http2::reset(stream)].concat();
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
    let mut wire = http2(&server).await;
    let watch = format!("{CONFIGMAPS}?watch=1");
    for n in 0..12 {
        wire.send(http2::request(2 * n + 1, "GET", &watch, &[], true)).await;
    }
    assert!(frame_of(&mut wire, http2::RESET, 21).await.is_some());
    until("ten are open", || async { watches(&server).await == 10.0 }).await;
    drop(wire);
    until("none is open", || async { watches(&server).await == 0.0 }).await;
}

#[tokio::test]
async fn large_headers_are_refused_over_http2_too() {
    let server = started().await;
    let mut wire = http2(&server).await;
    let large = "y".repeat(15 << 10);
    wire.send(http2::request(1, "GET", "/version", &[("x-large", &large)], true)).await;
    let headers = frame_of(&mut wire, http2::HEADERS, 1).await.expect("an answer");
    assert_eq!(headers[0], 0x88, "200, as RFC 7541 writes it");

    // A head that never ends.
    let mut wire = http2(&server).await;
    let block = http2::request(1, "GET", "/version", &[("x-large", &large)], true);
    let mut begin = block.clone();
    begin[4] = 1; // not the end of the headers
    wire.send(begin).await;
    for _ in 0..200 {
        if !wire.send(http2::frame(9, 0, 1, &block[9 + 60..])).await {
            break;
        }
    }
    assert!(frame_of(&mut wire, http2::HEADERS, 1).await.is_none_or(|headers| headers[0] != 0x88));
    is_well(&server).await;
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
