use super::*;
use crate::schema;
use serde_json::json;

fn patched(ty: &str, live: &Value, patch: &Value) -> Result<Value, PatchError> {
    apply(live.clone(), patch.clone(), schema::lookup(ty).unwrap())
}

fn check(ty: &str, cases: impl IntoIterator<Item = (Value, Value, Value)>) {
    for (live, patch, result) in cases {
        assert_eq!(patched(ty, &live, &patch), Ok(result), "{live} + {patch}");
    }
}

fn check_refused<'a>(ty: &str, live: &Value, cases: impl IntoIterator<Item = (Value, u16, &'a str)>) {
    for (patch, code, message) in cases {
        let refused = patched(ty, live, &patch).expect_err(&patch.to_string());
        let is_wanted = match (code, &refused) {
            (400, PatchError::Malformed(why)) | (500, PatchError::Unforeseen(why)) => why == message,
            // The message to the client is always the same.
            (422, PatchError::DoesNotFit(_)) => true,
            _ => false,
        };
        assert!(is_wanted, "{patch}: {refused:?}");
    }
}

/// Containers named by one letter each.
fn containers(names: &str) -> Value {
    names.chars().map(|name| json!({"name": name})).collect()
}

fn names(of: &Value) -> String {
    of.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// The recorded scenario `patch.strategic-order`, and what follows from the rule.
#[test]
fn items_land_where_patch_and_live_list_have_them() {
    for (live, patch, order, result) in [
        ("abc", "bd", None, "abdc"),
        ("abc", "de", None, "deabc"),
        ("abc", "ca", None, "bca"),
        ("abcd", "e", Some("aebd"), "aebcd"),
        ("abcd", "x", Some("xba"), "xbacd"),
        ("abc", "", None, "abc"),
        ("", "ba", None, "ba"),
        ("abc", "", Some("cba"), "cba"),
        ("abc", "", Some("ca"), "bca"),
        ("abc", "", Some(""), "abc"),
        ("abc", "b", Some("zb"), "abc"),
    ] {
        let mut patch = json!({"containers": containers(patch)});
        if let Some(order) = order {
            patch["$setElementOrder/containers"] = containers(order);
        }
        let merged = patched("core.v1.PodSpec", &json!({"containers": containers(live)}), &patch).unwrap();
        assert_eq!(names(&merged["containers"]), result, "{live} + {patch}");
    }
}

/// The recorded scenario `patch.strategic`, one step after the other.
#[test]
fn a_deployment_changes_as_it_did_upstream() {
    let spec = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
    let mut live = spec(json!({"containers": [{"name": "c", "image": "app:1"}]}));
    live["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
    let c = |env: Value| json!({"name": "c", "image": "app:1", "env": env});
    let side = json!({"name": "side", "image": "side:1"});
    for (patch, containers, strategy) in [
        (
            spec(json!({"containers": [side, {"name": "c", "env": [{"name": "A", "value": "1"}]}]})),
            json!([side, c(json!([{"name": "A", "value": "1"}]))]),
            "RollingUpdate",
        ),
        (
            spec(json!({"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]})),
            json!([side, c(json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]))]),
            "RollingUpdate",
        ),
        (
            spec(json!({"containers": [{"name": "side", "$patch": "delete"}]})),
            json!([c(json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]))]),
            "RollingUpdate",
        ),
        (
            spec(
                json!({"containers": [{"name": "c", "env": [{"$patch": "replace"}, {"name": "Z", "value": "9"}]}]}),
            ),
            json!([c(json!([{"name": "Z", "value": "9"}]))]),
            "RollingUpdate",
        ),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!([c(json!([{"name": "Z", "value": "9"}]))]),
            "Recreate",
        ),
        (
            spec(
                json!({"$setElementOrder/containers": [{"name": "x"}, {"name": "c"}], "containers": [{"name": "x", "image": "x:1"}]}),
            ),
            json!([{"name": "x", "image": "x:1"}, c(json!([{"name": "Z", "value": "9"}]))]),
            "Recreate",
        ),
    ] {
        live = patched("apps.v1.Deployment", &live, &patch).unwrap();
        assert_eq!(live["spec"]["template"]["spec"]["containers"], containers);
        assert_eq!(live["spec"]["strategy"]["type"], strategy);
    }
    assert_eq!(live["spec"]["strategy"], json!({"type": "Recreate"}));
}

/// The recorded scenario `patch.strategic-primitive`.
#[test]
fn plain_values_merge_as_a_set_and_a_directive_alone_adds_nothing() {
    let with = |finalizers: Value| json!({"metadata": {"name": "a", "finalizers": finalizers}});
    check(
        "core.v1.ConfigMap",
        [
            (with(json!(["a"])), json!({"metadata": {"finalizers": ["b"]}}), with(json!(["b", "a"]))),
            (
                with(json!(["b", "a"])),
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "zzz"]}}),
                with(json!(["b"])),
            ),
            (with(json!(["b"])), json!({"data": {"$patch": "replace", "k": "1"}}), with(json!(["b"]))),
            (with(json!(["b"])), json!({"$patch": "delete"}), json!({})),
        ],
    );
}

#[test]
fn objects_merge_null_removes_and_scalars_replace() {
    check(
        "core.v1.ConfigMap",
        [
            (
                json!({"data": {"a": "1", "b": "2"}, "immutable": false}),
                json!({"data": {"a": null, "c": "3"}, "immutable": true}),
                json!({"data": {"b": "2", "c": "3"}, "immutable": true}),
            ),
            (
                json!({"metadata": null}),
                json!({"metadata": {"labels": {"a": null}}}),
                json!({"metadata": {"labels": {}}}),
            ),
            (json!({"data": {"a": "1"}}), json!({"data": "text"}), json!({"data": "text"})),
            (json!({}), json!({"extra": {"a": [1]}}), json!({"extra": {"a": [1]}})),
            (
                json!({"extra": {"a": {"b": [1], "c": 2}}}),
                json!({"extra": {"a": {"b": [3]}}}),
                json!({"extra": {"a": {"b": [3], "c": 2}}}),
            ),
        ],
    );
}

#[test]
fn an_object_is_replaced_or_emptied_where_the_patch_or_the_type_says_so() {
    check(
        "core.v1.ConfigMap",
        [
            (
                json!({"data": {"a": "1"}}),
                json!({"data": {"$patch": "replace", "b": "2"}}),
                json!({"data": {"b": "2"}}),
            ),
            (json!({"data": {"a": "1"}}), json!({"data": {"$patch": "delete"}}), json!({"data": {}})),
            (json!({"data": {"a": "1"}}), json!({"$patch": "replace", "kind": "x"}), json!({"kind": "x"})),
        ],
    );
    check(
        "policy.v1.PodDisruptionBudgetSpec",
        [(
            json!({"selector": {"matchLabels": {"a": "1"}}}),
            json!({"selector": {"matchLabels": {"b": "2"}}}),
            json!({"selector": {"matchLabels": {"b": "2"}}}),
        )],
    );
}

#[test]
fn lists_merge_by_their_key_or_are_replaced() {
    check(
        "core.v1.PodSpec",
        [
            (
                json!({"tolerations": [{"key": "a"}]}),
                json!({"tolerations": [{"key": "b"}]}),
                json!({"tolerations": [{"key": "b"}]}),
            ),
            (
                json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]}]}),
                json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "web"}]}]}),
                json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}, {"containerPort": 80, "protocol": "UDP"}]}]}),
            ),
            (
                json!({"containers": [{"name": "c", "args": ["a"], "image": "i"}]}),
                json!({"containers": [{"name": "c", "args": ["b"], "image": null}]}),
                json!({"containers": [{"name": "c", "args": ["b"]}]}),
            ),
            (
                json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}]}),
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}),
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w"}]}),
            ),
            // Two patch items with one key are one item.
            (
                json!({"containers": [{"name": "a"}]}),
                json!({"containers": [{"name": "b", "image": "i"}, {"name": "b", "tty": true}]}),
                json!({"containers": [{"name": "b", "image": "i", "tty": true}, {"name": "a"}]}),
            ),
            // All of that name go, and one that is not there is fine.
            (
                json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
                json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "z", "$patch": "delete"}]}),
                json!({"containers": [{"name": "b"}]}),
            ),
            (
                json!({"containers": [{"name": "a"}]}),
                json!({"containers": [{"name": "b"}, {"$patch": "replace"}, {"name": "a", "$patch": "delete"}]}),
                json!({"containers": [{"name": "b"}]}),
            ),
            // Nothing to merge with.
            (
                json!({"containers": null}),
                json!({"containers": [{"name": "a", "image": null}, {"name": "b", "$patch": "delete"}]}),
                json!({"containers": [{"name": "a"}]}),
            ),
            (json!({"containers": []}), json!({"containers": []}), json!({"containers": []})),
        ],
    );
}

#[test]
fn an_order_alone_moves_what_is_there_and_creates_nothing() {
    check(
        "core.v1.PodSpec",
        [
            (json!({}), json!({"$setElementOrder/volumes": [{"name": "a"}]}), json!({})),
            (
                json!({"containers": null}),
                json!({"containers": [{"name": "b"}, {"name": "a"}, {"$patch": "delete", "name": "c"}], "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
                json!({"containers": [{"name": "b"}, {"name": "a"}]}),
            ),
        ],
    );
    check(
        "meta.v1.ObjectMeta",
        [(
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"finalizers": ["d"], "$setElementOrder/finalizers": ["d", "c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}),
            json!({"finalizers": ["d", "c", "a"]}),
        )],
    );
}

#[test]
fn values_that_cannot_be_merged_are_rejected_as_in_kubernetes() {
    let live = json!({
        "containers": [{"name": "c"}],
        "imagePullSecrets": [{}],
        "nodeSelector": {"a": "1"},
        "tolerations": [{"key": "a"}],
        "nodeName": "n",
    });
    check_refused(
        "core.v1.PodSpec",
        &live,
        [
            (
                json!({"containers": [{"image": "z"}]}),
                500,
                "map: map[image:z] does not contain declared merge key: name",
            ),
            (
                json!({"containers": [{"$patch": "delete"}]}),
                500,
                "map: map[$patch:delete] does not contain declared merge key: name",
            ),
            (
                json!({"imagePullSecrets": [{"name": "s"}]}),
                500,
                "map: map[] does not contain declared merge key: name",
            ),
            (
                json!({"nodeSelector": {"$patch": "foo"}}),
                500,
                "unknown patch type: foo in map: map[$patch:foo]",
            ),
            (
                json!({"nodeSelector": {"$patch": "merge"}}),
                500,
                "unknown patch type: merge in map: map[$patch:merge]",
            ),
            (
                json!({"containers": [{"name": "c", "$patch": "foo"}]}),
                500,
                "unknown patch type: foo in map: map[$patch:foo name:c]",
            ),
            (
                json!({"containers": [{"name": "c", "$patch": "merge"}]}),
                500,
                "merging lists cannot yet be specified in the patch",
            ),
            (json!({"containers": ["c"]}), 500, "list element types are not identical: [[map[name:c]] [c]]"),
            (json!({"nodeSelector": {"$retainKeys": "a"}}), 400, "invalid patch format of retainKeys"),
            (
                json!({"nodeSelector": {"$retainKeys": ["a"], "b": "1"}}),
                400,
                "invalid patch format of retainKeys",
            ),
            (json!({"$deleteFromPrimitiveList": ["a"]}), 400, "invalid patch format of primitive list"),
            (
                json!({"$setElementOrderX/containers": []}),
                400,
                "invalid patch format of setElementOrder list",
            ),
            (
                json!({"$setElementOrder/containers": "a"}),
                500,
                "expected a []interface {}, but received a string",
            ),
            (
                json!({"$setElementOrder/nodeName": []}),
                500,
                "expected a []interface {}, but received a string",
            ),
            (
                json!({"$setElementOrder/containers": [], "containers": null}),
                500,
                "expected a []interface {}, but received a %!s(<nil>)",
            ),
            (
                json!({"$setElementOrder/zzz": []}),
                500,
                "unable to find api field in struct PodSpec for the json field \"zzz\"",
            ),
            (
                json!({"$setElementOrder/hostNetwork": []}),
                500,
                "expected slice or array type, but got: struct",
            ),
            (
                json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
                500,
                "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
            ),
            (
                json!({"$setElementOrder/volumes": [], "volumes": []}),
                500,
                "no elements in any of the given slices",
            ),
            (
                json!({"$setElementOrder/containers": ["c"], "containers": [{"name": "c"}]}),
                500,
                "expected a map[string]interface {}, but received a string",
            ),
            (
                json!({"containers": [[1]]}),
                500,
                "list element types are not identical: [[map[name:c]] [[1]]]",
            ),
        ],
    );
    let finalizers = json!({"finalizers": []});
    check_refused(
        "meta.v1.ObjectMeta",
        &finalizers,
        [
            (
                json!({"finalizers": [["a"]]}),
                422,
                "the server rejected our request due to an error in our request",
            ),
            (json!({"finalizers": [{"a": 1}]}), 500, "cannot merge lists without merge key for string"),
        ],
    );
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    let parse = |body: &str| parse(body.as_bytes(), &mut Problems::default());
    assert_eq!(parse("null"), Ok(json!({})));
    let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(parse("[]"), Err(PatchError::Malformed(message.to_owned())));
    assert!(matches!(parse("{not json"), Err(PatchError::Malformed(_))));
}

#[test]
fn long_lists_merge_in_little_time() {
    let items =
        |from: usize| -> Value { (from..from + 20_000).map(|at| json!({"name": at.to_string()})).collect() };
    let (live, patch) = (json!({"containers": items(0)}), json!({"containers": items(10_000)}));
    let merged = patched("core.v1.PodSpec", &live, &patch).unwrap();
    assert_eq!(merged["containers"].as_array().map(Vec::len), Some(30_000));
}
