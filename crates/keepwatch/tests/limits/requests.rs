//! Request lines, headers, methods, paths, and where a request ends.

use super::*;

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
        // A client that is still sending when it is refused may not read why.
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
async fn invalid_http_is_refused_and_the_connection_closed() {
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

/// A proxy and the server must agree where a request ends, or a client could hide another request in it.
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
    assert_eq!(wire.answer().await.unwrap().code, 401, "a user is refused before the body is sent");
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
