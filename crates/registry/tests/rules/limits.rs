//! The limits on the size of a document, in every format. A request of three megabytes once cost a gigabyte of memory.

use super::world::{World, resource};
use keepwatch_apimachinery::status::Status;
use keepwatch_endpoints::to_status;
use keepwatch_registry::{
    Error,
    codec::{self, Body, Expected, Media},
    options::FieldValidation,
    patch,
    schema::{Problems, VALUES_MAX},
};
use serde_json::{Value, json};

const TOO_MANY: &str =
    "too many values: a document may have 600000, and an object counts for 10, a list for 2";

fn decode(name: &str, media: Media, bytes: &[u8]) -> Result<Value, Status> {
    let expected = Expected::of(resource(name));
    let decoded = codec::decode(&Body { bytes, media }, expected, FieldValidation::Ignore);
    decoded.map(|decoded| decoded.document).map_err(to_status)
}

/// An object with a field that its kind does not have, in JSON, which is YAML as well.
fn with_unknown(item: &str, count: usize) -> String {
    let items = vec![item; count].join(",");
    format!(r#"{{"metadata":{{"name":"a"}},"zzz":[{items}]}}"#)
}

#[test]
fn json_and_yaml_have_a_limit_on_their_values_whichever_these_are() {
    let items = [("1", 1), ("[]", 2), (r#"[["",""]]"#, 6), ("{}", 10), (r#"{"a":1}"#, 12)];
    // YAML is read slowly.
    for (media, items) in [(Media::Json, &items[..]), (Media::Yaml, &items[3..])] {
        for (item, values) in items {
            // The rest of the document: two objects, the list, a name and its text, and two names more.
            let fits = (VALUES_MAX - 2 * 10 - 2 - 1 - 3) / values;
            let read = decode("configmaps", media, with_unknown(item, fits).as_bytes());
            assert!(read.is_ok(), "{media:?} {item}: {read:?}");
            let refused = decode("configmaps", media, with_unknown(item, fits + 1).as_bytes()).unwrap_err();
            assert_eq!(refused.code, 413, "{media:?} {item}");
            assert!(refused.message.contains(TOO_MANY), "{media:?} {item}: {}", refused.message);
        }
    }
}

/// A field of a message: its number and the bytes in it.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

fn message(version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let ty = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &ty), field(2, object)].concat()
}

#[test]
fn protobuf_has_the_same_limit_and_so_has_json_within_it() {
    let pod = |containers: usize| {
        let spec = field(2, &[]).repeat(containers);
        decode("pods", Media::Protobuf, &message("v1", "Pod", &field(2, &spec)))
    };
    let revision = |numbers: usize| {
        let data = format!(r#"{{"a":[{}]}}"#, vec!["1"; numbers].join(","));
        let object = field(2, &field(1, data.as_bytes()));
        decode("controllerrevisions", Media::Protobuf, &message("apps/v1", "ControllerRevision", &object))
    };
    let map = |entries: usize| {
        let object = field(2, &[field(1, b"a"), field(2, b"b")].concat()).repeat(entries);
        decode("configmaps", Media::Protobuf, &message("v1", "ConfigMap", &object))
    };
    for (what, fits, refused) in [
        ("containers", pod(50_000), pod(60_000)),
        ("JSON", revision(590_000), revision(600_000)),
        ("entries", map(290_000), map(300_000)),
    ] {
        assert!(fits.is_ok(), "{what}");
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, 413, "{what}");
        assert!(refused.message.contains(TOO_MANY), "{what}: {}", refused.message);
    }
}

#[test]
fn patches_have_the_same_limit() {
    let body = |items: usize| with_unknown("1", items);
    let operation = |items: usize| format!(r#"[{{"op":"add","path":"/data","value":{}}}]"#, body(items));
    let all = |items: usize| {
        let problems = &mut Problems::default();
        [
            patch::merge::parse(body(items).as_bytes(), problems).map(drop),
            patch::strategic::parse(body(items).as_bytes(), problems).map(drop),
            patch::json::Patch::parse(operation(items).as_bytes(), problems).map(drop),
        ]
    };
    assert!(all(VALUES_MAX - 100).iter().all(Result::is_ok));
    for refused in all(VALUES_MAX) {
        let refused = to_status(Error::from(refused.unwrap_err()));
        assert_eq!(refused.code, 413);
        assert!(refused.message.contains(TOO_MANY), "{}", refused.message);
    }
}

#[tokio::test]
async fn a_patched_object_has_the_same_limit() {
    let world = World::new().await;
    let objects = || Value::Array(vec![json!({}); 31_000]);
    let at = "controllerrevisions default/a";
    let sent = json!({"metadata": {"name": "a"}, "revision": 1, "data": {"a": objects()}});
    world.post("controllerrevisions default", sent).await.ok();
    let before = world.get(at).await.ok();
    for refused in [
        world.merge(at, json!({"data": {"b": objects()}})).await,
        world.strategic(at, json!({"data": {"b": objects()}})).await,
        world.json_patch(at, json!([{"op": "add", "path": "/data/b", "value": objects()}])).await,
        world.json_patch(at, json!([{"op": "copy", "from": "/data/a", "path": "/data/b"}])).await,
    ] {
        assert_eq!(
            refused.line(),
            format!("413 RequestEntityTooLarge: Request entity too large: {TOO_MANY}")
        );
    }
    let copies = ["b", "c"].map(|to| json!({"op": "copy", "from": "/data/a", "path": format!("/data/{to}")}));
    let copies = world.json_patch(at, json!(copies)).await;
    assert_eq!(copies.code, 422, "copies end before they have made more");
    assert_eq!(world.get(at).await.ok(), before);
    assert_eq!(world.merge(at, json!({"revision": 2})).await.line(), "200");
}
