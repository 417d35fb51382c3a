mod k8s_pb;
mod sample;

use super::{decode::LEVELS_MAX, *};
use crate::schema::{self, Field, Problems, normalize};
use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};
use sample::Sampler;
use serde_json::json;

fn ty(name: &str) -> TypeRef {
    schema::lookup(name).unwrap()
}

/// A document of a type as the server has one.
fn sample(ty: TypeRef, seed: u64, known: &dyn Fn(TypeRef, &Field) -> bool) -> Value {
    normal(Sampler { rng: StdRng::seed_from_u64(seed), known }.document(ty), ty)
}

fn normal(document: Value, ty: TypeRef) -> Value {
    normalize(document, ty, &mut Problems::default()).unwrap()
}

fn encoded(document: &Value, ty: TypeRef) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, document, ty);
    out
}

/// Bytes, of which some are spelled as text: `12 00 'cc'`.
fn bytes(text: &str) -> Vec<u8> {
    let hex = |text: &str| {
        let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    };
    let parts = text.split('\'').enumerate();
    parts.flat_map(|(at, part)| if at % 2 == 1 { part.as_bytes().to_vec() } else { hex(part) }).collect()
}

#[test]
fn a_config_map_as_go_writes_it_is_read() {
    let body = bytes(
        "6b387300 0a0f 0a02'v1' 1209'ConfigMap' 121c 0a12 0a02'cc' 1200 1a00 2200 2a00 3200 3800 4200
           1206 0a01'a' 1201'b' 1a00 2200",
    );
    let envelope = open(&body).unwrap();
    let (kind, content) =
        ((envelope.api_version, envelope.kind), (envelope.content_encoding, envelope.content_type));
    assert_eq!((kind, content), (("v1", "ConfigMap"), ("", "")));
    assert_eq!(
        decode(envelope.raw, ty("core.v1.ConfigMap")),
        Ok(json!({"metadata": {"name": "cc"}, "data": {"a": "b"}}))
    );
}

#[test]
fn an_envelope_returns_its_object() {
    let status = json!({
        "metadata": {}, "status": "Failure", "message": "pods \"a\" not found", "reason": "NotFound",
        "details": {"name": "a", "kind": "pods"}, "code": 404,
    });
    let mut out = Vec::new();
    wrap(&mut out, "v1", "Status", |out| encode(out, &status, ty("meta.v1.Status")));
    let envelope = open(&out).unwrap();
    assert_eq!((envelope.api_version, envelope.kind), ("v1", "Status"));
    assert_eq!(decode(envelope.raw, ty("meta.v1.Status")), Ok(status));
}

#[test]
fn malformed_envelopes_are_rejected() {
    for (body, error) in [
        ("", ProtobufError::NotProtobuf),
        ("'{}'", ProtobufError::NotProtobuf),
        ("6b3873", ProtobufError::NotProtobuf),
        ("6b387300 0a0f 0a02'v1'", ProtobufError::Truncated),
        ("6b387300 1000", ProtobufError::WireType { field: "raw" }),
        (
            "6b387300 1a01ff",
            ProtobufError::Value { field: "contentEncoding", problem: "the text is not UTF-8".into() },
        ),
    ] {
        assert_eq!(open(&bytes(body)).unwrap_err(), error, "{body}");
    }
    assert_eq!(open(&MAGIC), Ok(Envelope::default()));
}

#[test]
fn a_message_is_the_document_that_json_would_have_been() {
    for (name, message, document) in [
        // Fields that are always written are in the document though the message lacks them.
        ("core.v1.Pod", "", json!({"metadata": {}, "spec": {"containers": null}, "status": {}})),
        // Zero is kept in a field that is a pointer in Go, and dropped in others.
        (
            "apps.v1.DeploymentSpec",
            "0800 2800",
            json!({
                "replicas": 0, "selector": null, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}},
            }),
        ),
        // Fields of an inline message are the owner's.
        (
            "core.v1.Volume",
            "0a01'v' 1206 1204 0a00 1200",
            json!({"name": "v", "emptyDir": {"sizeLimit": "0"}}),
        ),
        (
            "core.v1.ConfigMapKeySelector",
            "0a03 0a01'm' 1201'k' 1801",
            json!({"name": "m", "key": "k", "optional": true}),
        ),
        // Times; one that is not set is an empty message.
        ("meta.v1.ObjectMeta", "4200 4a04 0805 1007", json!({"deletionTimestamp": "1970-01-01T00:00:05Z"})),
        ("meta.v1.ObjectMeta", "4a00", json!({})),
        (
            "coordination.v1.LeaseSpec",
            "2206 0800 10e8eb66",
            json!({"renewTime": "1970-01-01T00:00:00.001684Z"}),
        ),
        (
            "coordination.v1.LeaseSpec",
            "220e 08ffffffffffffffffff01 10e807",
            json!({"renewTime": "1969-12-31T23:59:59.000001Z"}),
        ),
        (
            "policy.v1.PodDisruptionBudgetStatus",
            "1205 0a01'a' 1200 1804",
            json!({
                "disruptedPods": {"a": null}, "disruptionsAllowed": 4,
                "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            }),
        ),
        // Quantities are spelled as usual.
        (
            "core.v1.ResourceRequirements",
            "0a0e 0a03'cpu' 1207 0a05'1000m' 0a03 0a01'x'",
            json!({"limits": {"cpu": "1", "x": "0"}}),
        ),
        ("core.v1.HTTPGetAction", "1206 0801 1005 1a00 0a00", json!({"port": ""})),
        ("core.v1.HTTPGetAction", "1207 0800 1050 1a01'x'", json!({"port": 80})),
        ("core.v1.HTTPGetAction", "", json!({"port": 0})),
        (
            "core.v1.Secret",
            "1205 1203 000102 1203 0a01 61",
            json!({"metadata": {}, "data": {"": "AAEC", "a": ""}}),
        ),
        // JSON within a message.
        (
            "apps.v1.ControllerRevision",
            r#"120a 0a08'{"a":[]}' 1803"#,
            json!({"metadata": {}, "data": {"a": []}, "revision": 3}),
        ),
        ("meta.v1.ManagedFieldsEntry", "3a04 0a02'{}' 3a00", json!({})),
        (
            "authentication.v1.UserInfo",
            "2209 0a01'k' 1204 0a00 0a00 2203 0a01'l'",
            json!({"extra": {"k": ["", ""], "l": null}}),
        ),
        // Lists of numbers may come one by one or together.
        (
            "core.v1.PodSecurityContext",
            "2001 2203 020304 2200 2005",
            json!({"supplementalGroups": [1, 2, 3, 4, 5]}),
        ),
        ("core.v1.PodSecurityContext", "2200", json!({})),
        // Schemas and what may be in their place.
        ("apiextensions.v1.JSONSchemaProps", "f20102 0800", json!({"additionalProperties": false})),
        ("apiextensions.v1.JSONSchemaProps", "f20104 0801 1200", json!({"additionalProperties": {}})),
        ("apiextensions.v1.JSONSchemaProps", "c20104 1200 1200", json!({"items": [{}, {}]})),
        (
            "apiextensions.v1.JSONSchemaProps",
            "820208 0a01'a' 1203 1201'b'",
            json!({"dependencies": {"a": ["b"]}}),
        ),
        (
            "apiextensions.v1.JSONSchemaProps",
            "a20104 0a02'42' a20100 49000000000000f03f",
            json!({"enum": [42, null], "maximum": 1}),
        ),
        // Unknown fields are ignored, whatever their form.
        (
            "core.v1.LocalObjectReference",
            "f83f01 f93f0000000000000000 fa3f01ff fd3f00000000 0a01'n'",
            json!({"name": "n"}),
        ),
        // Of two values the last counts, and pieces of a message are put together.
        ("core.v1.LocalObjectReference", "0a01'a' 0a00", json!({})),
        (
            "core.v1.PodTemplate",
            "0a03 0a01'n' 1200 0a03 1a01's'",
            json!({
                "metadata": {"name": "n", "namespace": "s"},
                "template": {"metadata": {}, "spec": {"containers": null}},
            }),
        ),
        (
            "core.v1.Binding",
            "1203 0a01'a' 1203 1a01'n'",
            json!({"metadata": {}, "target": {"kind": "a", "name": "n"}}),
        ),
    ] {
        let decoded = decode(&bytes(message), ty(name));
        assert_eq!(decoded, Ok(document.clone()), "{name} {message}");
        assert_eq!(
            decode(&encoded(&document, ty(name)), ty(name)),
            Ok(document),
            "{name} {message}, encoded again"
        );
    }
}

#[test]
fn values_of_another_type_are_rejected() {
    let value = |field, problem: &str| ProtobufError::Value { field, problem: problem.to_owned() };
    for (name, message, error) in [
        ("core.v1.LocalObjectReference", "0801", ProtobufError::WireType { field: "name" }),
        ("core.v1.LocalObjectReference", "0a01ff", value("name", "the text is not UTF-8")),
        ("core.v1.LocalObjectReference", "0a05ff", ProtobufError::Truncated),
        ("core.v1.LocalObjectReference", "0b0c", ProtobufError::IllegalTag(0x0b)),
        ("core.v1.LocalObjectReference", "fb3ffc3f", ProtobufError::IllegalTag(0x1ffb)),
        ("core.v1.PodSecurityContext", "2201ff", ProtobufError::Truncated),
        ("core.v1.Volume", "1001", ProtobufError::WireType { field: "core.v1.VolumeSource" }),
        ("core.v1.HTTPGetAction", "1202 0802", value("port", "neither a number nor a text")),
        (
            "meta.v1.ObjectMeta",
            "420a 08ffffffffffffffff7f",
            value("creationTimestamp", "the year is outside of 0 to 9999"),
        ),
        ("apps.v1.ControllerRevision", "1204 0a02'[]'", value("data", "not a JSON object")),
        ("apiextensions.v1.JSONSchemaProps", "49000000000000f07f", value("maximum", "not a number")),
    ] {
        assert_eq!(decode(&bytes(message), ty(name)), Err(error), "{name} {message}");
    }
    let quantity =
        decode(&bytes("0a07 0a03'cpu' 1200 0a09 0a01'x' 1204 0a02'1x'"), ty("core.v1.ResourceRequirements"));
    assert!(matches!(quantity, Err(ProtobufError::Value { field: "limits", .. })), "{quantity:?}");
}

/// A schema of schemas, each of which is the negation of the next, `depth` in all.
fn nested_schema(depth: usize) -> Vec<u8> {
    (1..depth).fold(Vec::new(), |inner, _| {
        let mut outer = Vec::new();
        put_bytes(&mut outer, 28, &inner);
        outer
    })
}

#[test]
fn an_object_is_nested_as_deeply_as_json_may_be() {
    let schema = ty("apiextensions.v1.JSONSchemaProps");
    let deepest = decode(&nested_schema(LEVELS_MAX), schema).unwrap();
    let mut text = Vec::new();
    schema::write(&mut text, &deepest, schema);
    assert_eq!(schema::read(&text, &mut Problems::default()), Ok(deepest));
    for depth in [LEVELS_MAX + 1, 1000] {
        assert_eq!(decode(&nested_schema(depth), schema), Err(ProtobufError::TooDeep));
    }

    let revision = |depth: usize| {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        let mut message = Vec::new();
        put_nested(&mut message, 2, |out| put_bytes(out, 1, format!("{{\"a\":{text}}}").as_bytes()));
        decode(&message, ty("apps.v1.ControllerRevision"))
    };
    // The object and its data are two levels.
    assert!(revision(LEVELS_MAX - 2).is_ok());
    assert_eq!(revision(LEVELS_MAX - 1), Err(ProtobufError::TooDeep));
}

#[test]
fn a_length_beyond_the_end_is_an_error() {
    let mut claims = vec![0x0a];
    put_varint(&mut claims, u64::MAX / 2);
    assert_eq!(decode(&claims, ty("core.v1.Pod")), Err(ProtobufError::Truncated));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_document_of_any_kind_is_the_same_after_protobuf(seed: u64) {
        for ty in schema::all().filter(|ty| ty.typed) {
            let document = sample(ty, seed, &|_, _| true);
            let again = decode(&encoded(&document, ty), ty);
            prop_assert_eq!(again, Ok(document), "{}", ty.name);
        }
    }

    #[test]
    fn a_damaged_message_decodes_to_a_document_of_its_type_if_it_decodes(
        seed: u64,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        for ty in schema::all().filter(|ty| ty.typed) {
            let mut message = encoded(&sample(ty, seed, &|_, _| true), ty);
            for (at, byte, how) in &damage {
                damage_at(&mut message, at, *byte, *how);
            }
            check_whatever(&message, ty);
        }
    }

    #[test]
    fn arbitrary_bytes_are_decoded_or_rejected(message in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = open(&message);
        let _ = open(&[&MAGIC[..], &message].concat());
        // Not those that have no Protobuf, such as `version.Info`: their fields have no numbers.
        for ty in schema::all().filter(|ty| ty.fields.iter().all(|field| field.number > 0)) {
            check_whatever(&message, ty);
        }
    }
}

fn damage_at(message: &mut Vec<u8>, at: &prop::sample::Index, byte: u8, how: u8) {
    if message.is_empty() {
        return message.push(byte);
    }
    let at = at.index(message.len());
    match how {
        0 => message[at] = byte,
        1 => message[at] ^= 1 << (byte % 8),
        2 => message.insert(at, byte),
        _ => drop(message.remove(at)),
    }
}

/// Everything that is accepted decodes to a normalised document, and can be encoded again.
fn check_whatever(message: &[u8], ty: TypeRef) {
    if let Ok(document) = decode(message, ty) {
        assert_eq!(decode(&encoded(&document, ty), ty).as_ref(), Ok(&document), "{}", ty.name);
        assert_eq!(normal(document.clone(), ty), document, "{}", ty.name);
    }
}
