//! Tokens of service accounts: requests, errors, and claims.

use super::world::{World, map, pod, text};
use serde_json::{Value, json};

async fn world_with_service_account() -> World {
    let world = World::new().await;
    world.post("serviceaccounts default", map("robot")).await.ok();
    world
}

const AT: &str = "serviceaccounts default/robot/token";

/// The claims of the token in an answer: the tests' issuer writes them as they are.
fn claims(answer: &Value) -> Value {
    serde_json::from_str(text(answer, "/status/token")).unwrap()
}

#[tokio::test]
async fn a_token_has_a_subject_an_audience_and_an_expiry() {
    let world = world_with_service_account().await;
    let account = world.get("serviceaccounts default/robot").await.ok();
    let before = world.everything().await;
    let given = world.post(AT, json!({"spec": {}})).await;
    assert_eq!(given.line(), "201");
    let given = given.ok();
    assert_eq!(given["kind"], "TokenRequest");
    assert_eq!(given["metadata"]["name"], "robot");
    assert_eq!(given["spec"]["expirationSeconds"], 3600);
    assert_eq!(given["spec"]["audiences"], json!(["https://issuer.example"]));
    let claims = claims(&given);
    assert_eq!(claims["iss"], "https://issuer.example");
    assert_eq!(claims["aud"], json!(["https://issuer.example"]));
    assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
    assert_eq!(claims["kubernetes.io"]["namespace"], "default");
    let own = json!({"name": "robot", "uid": account["metadata"]["uid"]});
    assert_eq!(claims["kubernetes.io"]["serviceaccount"], own);
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
    assert_eq!(world.everything().await, before, "nothing is stored");

    let own = json!({"spec": {"audiences": ["a", "b"], "expirationSeconds": 600}});
    let given = world.post(AT, own).await.ok();
    assert_eq!(given["spec"]["audiences"], json!(["a", "b"]));
    assert_eq!(given["spec"]["expirationSeconds"], 600);
    let expires: jiff::Timestamp = text(&given, "/status/expirationTimestamp").parse().unwrap();
    assert!((595..=601).contains(&(expires.as_second() - jiff::Timestamp::now().as_second())));
}

#[tokio::test]
async fn a_token_lasts_ten_minutes_at_least_and_not_for_ever() {
    let world = world_with_service_account().await;
    for (seconds, why) in [
        (599, "may not specify a duration less than 10 minutes"),
        (0, "may not specify a duration less than 10 minutes"),
        (-5, "may not specify a duration less than 10 minutes"),
        (4_294_967_297, "may not specify a duration larger than 2^32 seconds"),
        (i64::MAX, "may not specify a duration larger than 2^32 seconds"),
    ] {
        let refused = world.post(AT, json!({"spec": {"expirationSeconds": seconds}})).await;
        let start =
            "422 Invalid: TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: ";
        assert_eq!(refused.line(), format!("{start}Invalid value: {seconds}: {why}"));
    }
    assert_eq!(world.post(AT, json!({"spec": {"expirationSeconds": 4_294_967_296_i64}})).await.line(), "201");
    let missing = world.post("serviceaccounts default/zzz/token", json!({"spec": {}})).await;
    assert_eq!(missing.line(), "404 NotFound: serviceaccounts \"zzz\" not found");
}

#[tokio::test]
async fn a_token_can_be_bound_to_an_object_that_exists() {
    let world = world_with_service_account().await;
    let mut sent = pod("p");
    sent["spec"]["serviceAccountName"] = "robot".into();
    let made = world.post("pods default", sent).await.ok();
    let uid = &made["metadata"]["uid"];
    let bound = |kind: &str, name: &str, uid: Value| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}}});
    let given = world.post(AT, bound("Pod", "p", uid.clone())).await;
    assert_eq!(given.line(), "201");
    let given = given.ok();
    assert_eq!(claims(&given)["kubernetes.io"]["pod"], json!({"name": "p", "uid": uid}));
    let unsaid = world.post(AT, bound("Pod", "p", Value::Null)).await.ok();
    assert_eq!(claims(&unsaid)["kubernetes.io"]["pod"]["uid"], *uid, "the uid is looked up");

    let missing = world.post(AT, bound("Pod", "zzz", Value::Null)).await;
    assert_eq!(missing.line(), "404 NotFound: pods \"zzz\" not found");
    let other = world.post(AT, bound("Pod", "p", json!("bad"))).await;
    assert_eq!(other.code, 409, "{}", other.line());
    world.post("pods default", pod("q")).await.ok();
    let foreign = world.post(AT, bound("Pod", "q", Value::Null)).await;
    assert_eq!(foreign.code, 400, "a pod of another account: {}", foreign.line());

    let secret = world.post("secrets default", map("s")).await.ok();
    let given = world.post(AT, bound("Secret", "s", Value::Null)).await.ok();
    assert_eq!(claims(&given)["kubernetes.io"]["secret"]["uid"], secret["metadata"]["uid"]);
    let node = world.post("nodes", map("n")).await.ok();
    let given = world.post(AT, bound("Node", "n", Value::Null)).await.ok();
    assert_eq!(claims(&given)["kubernetes.io"]["node"]["uid"], node["metadata"]["uid"]);
    for (kind, name, why) in [("Secret", "zzz", "secrets"), ("Node", "zzz", "nodes")] {
        let missing = world.post(AT, bound(kind, name, Value::Null)).await;
        assert_eq!(missing.line(), format!("404 NotFound: {why} \"zzz\" not found"));
    }
    assert_eq!(world.post(AT, bound("ConfigMap", "x", Value::Null)).await.code, 400);
}
