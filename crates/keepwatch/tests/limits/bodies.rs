//! Bodies that are large, deep, or expand to much more than their size.

use super::*;
use std::time::Instant;

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
            let is_explained = why.iter().all(|part| said.contains(part));
            assert_eq!(is_explained, code == 400, "{levels} levels, {headers}: {said}");
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
