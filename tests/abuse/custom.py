"""Hostile definitions and custom objects, as the bodies of requests.

Written as text, because some are deeper than Python's JSON goes.
"""

import json

GROUP = "harm.example.org"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(name: str, spec: str) -> str:
    """A definition of a kind whose `spec` has this schema."""
    return (f'{{"metadata":{{"name":"{name}s.{GROUP}"}},"spec":{{"group":"{GROUP}","scope":"Namespaced",'
            f'"names":{{"plural":"{name}s","kind":"{name.capitalize()}"}},"versions":[{{"name":"v1","served":true,"storage":true,'
            f'"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{spec}}}}}}}}}]}}}}')


def nested(depth: int) -> str:
    """A schema of objects in objects."""
    return '{"type":"object","properties":{"a":' * depth + '{"type":"string"}' + "}}" * depth


def negated(depth: int) -> str:
    return '{"type":"string","not":' + '{"not":' * depth + '{"pattern":"a"}' + "}" * (depth + 1)


def ruled(*rules: str, **schema) -> str:
    return json.dumps({**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]})


def names(count: int) -> dict:
    return {"type": "array", "maxItems": count, "items": {"type": "string", "maxLength": 10}}


# Schemas that are rejected, or expensive to check.
HARMFUL_SCHEMAS = {
    "deep": nested(1000),
    "deeper": nested(4900),
    "negated": negated(2000),
    "wide": json.dumps({"type": "object", "properties": {f"f{n}": {"type": "string", "maxLength": 9} for n in range(20_000)}}),
    "enumerated": json.dumps({"type": "string", "enum": [f"e{n}" for n in range(50_000)]}),
    "alternatives": json.dumps({"type": "string", "anyOf": [{"pattern": f"^a{n}$"} for n in range(15_000)]}),
    "defaulted": json.dumps({"type": "object", "default": {"a": "x" * 900_000}, "properties": {"a": {"type": "string"}}}),
    "repeated": json.dumps({"type": "string", "pattern": "((((a{0,30}){0,30}){0,30}){0,30})"}),
    "alternated": json.dumps({"type": "string", "pattern": "|".join(["(a|b|c){900}"] * 200)}),
    "parentheses": json.dumps({"type": "string", "pattern": "(" * 900 + ")" * 900}),
    "cubic": ruled("self.all(x, self.all(y, self.all(z, x == y || y == z)))", **names(1000)),
    "unbounded": ruled("self.all(x, self.all(y, true))", type="array", items={"type": "string"}),
    "bracketed": ruled("(" * 240 + "true" + ")" * 240, type="string"),
    "lists": ruled("[" * 5000 + "]" * 5000 + " == []", type="string"),
    "calls": ruled("true" + ".size()" * 5000 + " == 1", type="string"),
    "many": ruled(*["self == self"] * 2000, type="string"),
    "chained": ruled(" && ".join(["self != 'a'"] * 5000), type="string"),
    "literal": ruled('"' + "x" * 1_000_000 + '" == self', type="string"),
    "messages": json.dumps({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == ''", "messageExpression": "'a'" + " + 'a'" * 2000}] * 100}),
}

# A kind that is served, whose schema makes its objects costly to check.
COSTLY = definition("costly", json.dumps({"type": "object", "properties": {
    "backtracks": {"type": "array", "items": {"type": "string", "pattern": "^((a+)+|(a|aa)+|(.*a){20})$"}},
    "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"], "items": {
        "type": "object", "required": ["k", "l"], "properties": {"k": {"type": "string"}, "l": {"type": "integer"}}}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
    "defaulted": {"type": "array", "items": {"type": "object", "properties": {
        "a": {"type": "object", "default": {}, "properties": {f"f{n}": {"type": "string", "default": "value"} for n in range(20)}}}}},
    "refused": {"type": "array", "items": {"type": "string", "maxLength": 0}},
    "pruned": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "quadratic": {**names(100), "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x.startsWith(y) || !y.endsWith(x)))"}]},
    "matched": {"type": "string", "maxLength": 10_000, "x-kubernetes-validations": [{"rule": "self.matches('^((a+)+|(a|aa)+)$')"}]},
    "nested": {"type": "integer", "x-kubernetes-validations": [
        {"rule": f"{list(range(100))}.all(x, {list(range(70))}.all(y, {list(range(30 + n))}.all(z, self > 0)))"} for n in range(5)]},
    "shared": {"type": "integer", "x-kubernetes-validations": [
        {"rule": "[[1]]" + ".map(a, [a, a])" * 30 + ".all(x, x == x) || self > 0"} for _ in range(5)]},
    "computed": {"type": "array", "maxItems": 2000, "items": {"type": "integer"},
                 "x-kubernetes-validations": [{"rule": "self.map(x, x * 2).filter(x, x > 1).sum() >= 0 && self.isSorted()"}]},
}}))
COSTLY_OBJECTS = f"/apis/{GROUP}/v1/namespaces/default/costlys"


def costly(**spec) -> str:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Costly", "metadata": {"generateName": "c-"}, "spec": spec}
    return json.dumps(body, separators=(",", ":"))


# Objects of it, as large as they may be, and one that is larger.
COSTLY_BODIES = {
    "backtracks": costly(backtracks=["a" * 3000 + "!"] * 100),
    "keyed": costly(keyed=[{"k": "k", "l": n} for n in range(40_000)]),
    "set": costly(set=list(range(380_000))),
    "equal": costly(set=[1] * 550_000),
    "million": costly(set=[1] * 1_000_000),
    "defaulted": costly(defaulted=[{}] * 50_000),
    "refused": costly(refused=["x"] * 550_000),
    "pruned": costly(pruned=[{"b": {"c": 1}}] * 25_000),
    "quadratic": costly(quadratic=[f"n{n}" for n in range(100)], matched="a" * 9_999 + "!", computed=list(range(2000))),
    "nested": costly(nested=1),
    "shared": costly(shared=1),
    "wrong": costly(keyed=[1] * 550_000),
    "unknown": costly(**{f"u{n}": {} for n in range(50_000)}),
}
