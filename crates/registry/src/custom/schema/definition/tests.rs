use serde_json::{Value, json};

use super::{
    super::{Node, Schema},
    Cause, Definition, RuleChecker, RuleSite, Tolerated, not_structural, resolve_field_path, rule_shown,
    tolerated, validate,
};

/// Records every call, and reports every rule but `true` as invalid.
#[derive(Default)]
struct Noting(Vec<String>);

impl RuleChecker for Noting {
    fn check(&mut self, site: &RuleSite<'_>) -> Vec<Cause> {
        let node = site.way.last().unwrap();
        let path = site.path.replace("openAPIV3Schema", "");
        self.0.push(format!(
            "{path} of {}{}",
            site.way.len(),
            site.uncorrelatable.map_or(String::new(), |path| format!(" below {path}"))
        ));
        let wrong = node.rules.iter().filter(|rule| &*rule.rule != "true");
        wrong.map(|rule| Cause::invalid(path.clone(), &Value::Null, &rule.rule)).collect()
    }
    fn check_default(&mut self, path: &str, _: &Node, default: &Value) -> Vec<Cause> {
        self.0.push(format!("default {path} {default}"));
        Vec::new()
    }
    fn finish(&mut self, path: &str) -> Vec<Cause> {
        self.0.push(format!("all of {path}"));
        Vec::new()
    }
}

fn check(schema: &Value) -> (Vec<String>, Vec<String>) {
    let mut noting = Noting::default();
    let definition =
        Definition { schema, path: "openAPIV3Schema", has_status: false, tolerated: tolerated(schema) };
    let faults = validate(&definition, &mut noting);
    (noting.0, faults.iter().map(ToString::to_string).collect())
}

#[test]
fn rules_are_looked_at_from_below_and_told_behind_other_faults() {
    let rule = |text: &str| json!([{"rule": text}]);
    let (asked, faults) = check(
        &json!({"type": "object", "x-kubernetes-validations": rule("root"), "properties": {
            "a": {"type": "string", "default": "x", "x-kubernetes-validations": rule("true")},
            "b": {"type": "array", "x-kubernetes-validations": rule("list"), "items": {"type": "string", "x-kubernetes-validations": rule("item")}},
            "c": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": rule("entry")}},
        }}),
    );
    assert_eq!(
        asked,
        [
            "default openAPIV3Schema.properties[a].default \"x\"",
            ".properties[a] of 2",
            ".properties[b].items of 3 below openAPIV3Schema.properties[b]",
            ".properties[b] of 2",
            ".properties[c].additionalProperties of 3",
            " of 1",
            "all of openAPIV3Schema"
        ]
    );
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn rules_are_not_looked_at_where_something_else_is_wrong() {
    let (asked, faults) =
        check(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "root"}], "properties": {
            "a": {"type": "string", "x-kubernetes-validations": [{"rule": " "}]},
            "b": {"type": "string", "x-kubernetes-validations": [{"rule": "true"}]},
        }}));
    assert_eq!(asked, [".properties[b] of 2", "all of openAPIV3Schema"]);
    assert_eq!(
        faults,
        [
            "openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"
        ]
    );

    let (asked, faults) = check(
        &json!({"type": "object", "properties": {"a": {"x-kubernetes-validations": [{"rule": "true"}]}}}),
    );
    assert_eq!(asked, [""; 0]);
    assert_eq!(
        faults,
        ["openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields"]
    );
}

#[test]
fn faults_of_a_stored_definition_are_forgiven_its_successor() {
    for (property, wanted) in [
        (json!({"type": "foo"}), Tolerated { unknown_types: true, ..Tolerated::default() }),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}),
            Tolerated { unpruned_defaults: true, ..Tolerated::default() },
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            Tolerated { sets_of_granular: true, ..Tolerated::default() },
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                   "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            Tolerated { loose_map_keys: true, ..Tolerated::default() },
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"a": property}});
        assert_eq!(tolerated(&schema), wanted);
        assert_eq!(check(&schema).1, [""; 0]);
        let strict =
            Definition { schema: &schema, path: "p", has_status: false, tolerated: Tolerated::default() };
        assert_eq!(validate(&strict, &mut Noting::default()).len(), 1);
    }
}

#[test]
fn what_is_not_structural_is_told_by_its_path() {
    let schema = json!({"type": "object", "properties": {"a": {}}});
    let faults = not_structural(&schema, "spec.versions[0].schema.openAPIV3Schema").unwrap();
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields"
        ]
    );
    assert_eq!(not_structural(&json!({"id": "x"}), "").unwrap_err(), "OpenAPIV3Schema 'id' is not supported");
}

#[test]
fn rules_report_failures_at_fields_that_the_schema_has() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"b.c": {"type": "string"}, "it's": {"type": "string"}}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
        "n": {"type": "object", "additionalProperties": true},
    }}))
    .unwrap();
    for (path, resolved) in [
        (".a", Some("a")),
        (".a['b.c']", Some("a.b.c")),
        ("['a']['it\\'s']", Some("a.it's")),
        (".m.key.x", Some("m[key].x")),
        (".m['k.l'].x", Some("m[k.l].x")),
        (".n.key", Some("n[key]")),
        (".n.key.x", None),
        (".zz", None),
        ("a", None),
        (".a[0]", None),
        (".a['b.c", None),
        (".", None),
        (".a['\\q']", None),
    ] {
        assert_eq!(resolve_field_path(schema.root(), path).as_deref(), resolved, "{path}");
    }
}

#[test]
fn a_rule_is_shown_with_all_that_it_could_have() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "1 < 'a'", "reason": "FieldValueInvalid"}]});
    let schema = Schema::parse(&schema).unwrap();
    assert_eq!(
        rule_shown(&schema.root().rules[0]),
        r#"{"Rule":"1 \u003c 'a'","Message":"","MessageExpression":"","Reason":"FieldValueInvalid","FieldPath":"","OptionalOldSelf":null}"#
    );
}
