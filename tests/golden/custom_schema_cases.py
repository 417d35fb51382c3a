"""The cases of custom_schemas.py that were chosen by hand: a title, a schema, and the requests of each.

`custom_schemas.py --record FILE` writes the answers of the reference, which the unit tests of the module of schemas read.
A schema is that of the field `spec.f`, unless it has `root`.
"""

S, I, N, B, O = ({"type": name} for name in ("string", "integer", "number", "boolean", "object"))


def array(items, **more):
    return {"type": "array", "items": items, **more}


def obj(properties, **more):
    return {"type": "object", "properties": properties, **more}


def keyed(properties, *keys, **more):
    return array(obj(properties, required=list(keys)), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys), **more})


IOS = {"x-kubernetes-int-or-string": True}
EITHER = [{"type": "integer"}, {"type": "string"}]
KEEP = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, **KEEP}


def nested(deep, schema):
    for _ in range(deep):
        schema = obj({"a": schema})
    return schema


# (what it is about, schema[, whether the status is a subresource])
DEFINITIONS = [
    ("every field has a type", obj({"a": {}, "b": array({}), "c": {"type": "object", "additionalProperties": {}}})),
    ("the root is an object", {"root": {"type": "string"}}),
    ("the root has a type", {"root": {"properties": {"spec": O}}}),
    ("types are those of OpenAPI", obj({"a": {"type": "foo"}, "b": {"type": "null"}})),
    ("an array has items", {"type": "array"}),
    ("items are one schema", array([S, I])),
    ("items of a map are one schema", {"type": "array", "items": [S], "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
    ("references and the like are not supported", obj({"a": {"$ref": "#/x"}, "b": {"type": "string", "id": "x"}, "c": {"type": "object", "definitions": {"x": S}},
                                                       "d": {"type": "object", "patternProperties": {"x": S}}, "e": {"type": "object", "dependencies": {"x": ["y"]}},
                                                       "g": {"type": "array", "items": S, "additionalItems": True}})),
    ("items are never unique", array(S, uniqueItems=True)),
    ("properties exclude additional ones", obj({"a": S}, additionalProperties=S)),
    ("properties go with additional ones that are merely allowed", obj({"a": S}, additionalProperties=True)),
    ("there are no additional properties at the root", {"root": {"type": "object", "additionalProperties": S}}),
    ("nothing is null at the root", {"root": {"type": "object", "nullable": True}}),
    ("junctions add no structure", {**I, "allOf": [{**I, "title": "t", "description": "d", "default": 1, "nullable": True, "externalDocs": {"url": "u"}, "example": 1,
                                                     "x-kubernetes-validations": [{"rule": "true"}], **KEEP, **IOS, "x-kubernetes-embedded-resource": True,
                                                     "x-kubernetes-list-type": "set", "x-kubernetes-map-type": "atomic", "x-kubernetes-list-map-keys": ["a"], "additionalProperties": True}]}),
    ("junctions may say that nothing is additional", {**O, "anyOf": [{"additionalProperties": False}]}),
    ("what junctions name has to be there", {**O, "not": {"properties": {"a": {"items": {"maxLength": 1}}}}, "oneOf": [{"anyOf": [{"properties": {"b": {}}}]}], "allOf": [{"items": {}}]}),
    ("junctions say nothing of metadata", obj({"metadata": O}, allOf=[{"properties": {"metadata": {}}}])),
    ("an integer or a string may be said twice", {**IOS, "anyOf": EITHER}),
    ("an integer or a string may be said first among others", {**IOS, "allOf": [{"anyOf": EITHER}, {"maximum": 5}]}),
    ("an integer or a string may be said in no other way", {**IOS, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
    ("an integer or a string has no unknown fields", {**IOS, **KEEP, "x-kubernetes-embedded-resource": True}),
    ("unknown fields are kept or not spoken of", {**O, "x-kubernetes-preserve-unknown-fields": False}),
    ("what keeps unknown fields needs no type", KEEP),
    ("an embedded resource is an object", obj({"a": {**EMBEDDED, "type": "string"}, "b": {"x-kubernetes-embedded-resource": True, **KEEP}})),
    ("an embedded resource has properties or keeps unknown fields", {"type": "object", "x-kubernetes-embedded-resource": True}),
    ("an embedded resource has nothing additional", {**EMBEDDED, "additionalProperties": S}),
    ("there are no resources in metadata", {**EMBEDDED, "properties": {"metadata": obj({"labels": EMBEDDED})}}),
    ("kinds and versions are strings", {**EMBEDDED, "properties": {"kind": I, "apiVersion": O, "metadata": S}}),
    ("metadata of the root restricts names alone", {"root": obj({"metadata": obj({"name": {**S, "pattern": "a"}, "labels": O})})}),
    ("metadata of the root restricts names", {"root": obj({"metadata": obj({"name": {**S, "pattern": "a"}, "generateName": S})})}),
    ("metadata of the root has no description", {"root": obj({"metadata": {**O, "description": "x"}})}),
    ("metadata of the root has no defaults", {"root": obj({"metadata": {**O, "default": {"name": "a"}}, "kind": {**S, "default": "X"}, "apiVersion": {**S, "default": "v1"}})}),
    ("metadata anywhere else is a field", obj({"metadata": I})),
    ("patterns are regular expressions", obj({"a": {**S, "pattern": "("}, "b": {**S, "not": {"pattern": "[z-a]"}}})),
    ("lists are sets, maps or atomic", obj({"a": array(S, **{"x-kubernetes-list-type": "foo"}), "b": {**S, "x-kubernetes-list-type": "atomic"},
                                            "c": {**KEEP, "x-kubernetes-list-type": "set"}})),
    ("maps are granular or atomic", obj({"a": {**O, "x-kubernetes-map-type": "foo"}, "b": {**S, "x-kubernetes-map-type": "atomic"}, "c": {**KEEP, "x-kubernetes-map-type": "granular"}})),
    ("items of sets are atomic", obj({"a": array(O, **{"x-kubernetes-list-type": "set"}), "b": array(array(S, **{"x-kubernetes-list-type": "set"}), **{"x-kubernetes-list-type": "set"}),
                                      "c": array({**O, "x-kubernetes-map-type": "atomic"}, **{"x-kubernetes-list-type": "set"}), "d": array({**S, "nullable": True}, **{"x-kubernetes-list-type": "set"})})),
    ("a map has keys", array(O, **{"x-kubernetes-list-type": "map"})),
    ("only a map has keys", obj({"a": array(S, **{"x-kubernetes-list-map-keys": ["a"]}), "b": array(S, **{"x-kubernetes-list-map-keys": ["a"], "x-kubernetes-list-type": "set"})})),
    ("keys are fields, each named once", keyed({"a": S}, "a", "b", "a")),
    ("keys are scalars", keyed({"a": O}, "a")),
    ("keys are required or have a default", {**keyed({"a": S}, "a"), "items": obj({"a": S})}),
    ("keys may have a default", {**keyed({"a": S}, "a"), "items": obj({"a": {**S, "default": "x"}})}),
    ("keys and items of maps are never null", {**keyed({"a": S}, "a"), "items": {**obj({"a": {**S, "nullable": True}}, required=["a"]), "nullable": True}}),
    ("items of maps are objects", {**keyed({}, "a"), "items": S}),
    ("defaults have the type of the field", obj({"a": {**S, "default": 1}, "b": {**O, "default": []}, "c": array(I, default=["x"]), "d": {**B, "default": "true"}})),
    ("defaults keep the rules of the field", obj({"a": {**S, "default": "abc", "maxLength": 2}, "b": {**I, "default": 5, "maximum": 2, "multipleOf": 2}, "c": {**S, "default": "x", "enum": ["a"]},
                                                 "d": {**O, "additionalProperties": I, "default": {"x": "y"}}, "e": {**O, "default": {}, "minProperties": 1}})),
    ("defaults have no unknown fields", obj({"a": S}, default={"a": "x", "b": 1})),
    ("defaults keep nulls", obj({"a": S}, default={"a": None})),
    ("defaults of formats that are not known have their type", obj({"a": {**S, "format": "foo", "default": "x"}, "b": {**I, "format": "ipv4", "default": "x"}, "c": {**S, "format": "date", "default": "x"}})),
    ("defaults of integers or strings are anything", {**IOS, "default": True}),
    ("defaults of resources are resources", {**EMBEDDED, "default": {"metadata": {"name": "a", "labels": {"a": "b"}}}}),
    ("defaults of resources have kinds that are kinds", {**EMBEDDED, "default": {"kind": "A_B", "apiVersion": "a/b/c"}}),
    ("defaults in metadata make metadata", {**EMBEDDED, "properties": {"metadata": obj({"name": {**S, "default": "a/b"}, "labels": {**O, "additionalProperties": S, "default": {"a b": "c"}},
                                                                                          "generation": {**S, "default": "x"}})}}),
    ("additional properties in metadata have no defaults", {**EMBEDDED, "properties": {"metadata": obj({"labels": {**O, "additionalProperties": {**S, "default": "x"}}})}}),
    ("the root has no junctions beside a status", {"root": obj({"spec": O}, oneOf=[{"required": ["spec"]}], description="<x>")}, True),
    ("the root is an object beside a status", {"root": {"type": "array", "items": S}}, True),
    ("the root has properties beside a status", {"root": obj({"spec": O, "status": O}, required=["spec"], title="t")}, True),
    ("rules are more than blanks", {**S, "x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "message": " "}, {"rule": "true", "message": "a\nb"}, {"rule": "true\n", "messageExpression": " "},
                                                                       {"rule": "true\n&& true"}]}),
    ("rules have known reasons and fields", obj({"a": O, "b.c": S}, **{"x-kubernetes-validations": [
        {"rule": "true", "reason": "Foo"}, {"rule": "true", "fieldPath": ".x"}, {"rule": "true", "fieldPath": "a"}, {"rule": "true", "fieldPath": ".a.b"},
        {"rule": "true", "fieldPath": " "}, {"rule": "true", "fieldPath": ".a\n"}, {"rule": "true", "fieldPath": "[0]"}, {"rule": "true", "fieldPath": "['b.c']"}, {"rule": "true", "fieldPath": ".a"}]})),
    ("schemas may be deep", nested(20, {"type": "foo"})),
]

# (what it is about, schema, values)
WRITES = [
    ("a value has its type", obj({"s": S, "i": I, "n": N, "b": B, "o": O, "a": array(S)}), [
        {"s": 1, "i": "x", "n": True, "b": 1.5, "o": [], "a": {}}, {"s": [], "i": 1.5, "n": {}, "b": "true", "o": "x", "a": [1, None]}, {"i": 2.0, "n": 3}]),
    ("null is no value unless it is allowed", obj({"a": S, "b": {**S, "nullable": True}, "c": {**S, "default": "x"}, "d": {**S, "nullable": True, "default": "x"}, "e": array(S), "g": KEEP}), [
        {"a": None, "b": None, "c": None, "d": None, "e": [None], "g": None}]),
    ("null is never one of a choice", {**S, "nullable": True, "enum": ["a"]}, [None]),
    ("numbers keep their limits", obj({"a": {**N, "minimum": 1, "maximum": 3, "exclusiveMaximum": True}, "b": {**I, "minimum": 1000000}, "c": {**N, "multipleOf": 0.1}, "d": {**I, "multipleOf": 5},
                                       "e": {**N, "minimum": 1e6, "exclusiveMinimum": True}}), [
        {"a": 0, "b": 5, "c": 0.25, "d": 7, "e": 1e6}, {"a": 3, "b": 1000000, "c": 0.3, "d": 10, "e": 12.5}, {"a": 0.5}]),
    ("limits that are no integers are cut for integers", obj({"a": {**N, "maximum": 1.5}, "b": {**I, "maximum": 1.5}, "c": {**I, "multipleOf": 2.5}, "d": {**I, "multipleOf": 0}}), [
        {"a": 2}, {"b": 2}, {"c": 3}, {"d": 1}]),
    ("numbers have room in their format", obj({"a": {**I, "format": "int32"}, "b": {**I, "format": "int64"}, "c": {**N, "format": "float"}, "d": I}), [
        {"a": 2**31}, {"b": 2**63}, {"c": 1e300}, {"d": 1e19}, {"a": 2.0, "c": 1.5}]),
    ("numbers that are not quite whole are whole", I, [1.0000000001, 1.00001, -1.0000000001]),
    ("strings keep their lengths, and then their pattern", {**S, "minLength": 2, "maxLength": 3, "pattern": "^a"}, ["", "b", "bbbb", "bb", "ab", "éé", "aéé"]),
    ("choices", obj({"a": {**S, "enum": ["x", "y\n"]}, "b": {**I, "enum": [1, 2]}, "c": {**N, "enum": [1]}, "d": {**O, **KEEP, "enum": [{"a": [1, "<"]}]}, "e": {**I, "enum": ["A"]}}), [
        {"a": "z"}, {"b": 3}, {"c": 1.5}, {"d": {"b": "<"}}, {"d": {"a": [1, "<"]}}, {"e": 65}, {"e": 66}]),
    ("lists keep their lengths", array(S, minItems=1, maxItems=2), [[], ["a"], ["a", "b", "c"]]),
    ("a list of one item at most", array(S, maxItems=1), [["a", "b"]]),
    ("objects keep their sizes", {**O, "additionalProperties": S, "minProperties": 1, "maxProperties": 1}, [{}, {"a": "b"}, {"a": "b", "c": "d"}]),
    ("fields are required", obj({"a": S, "b": obj({"c": S}, required=["c"])}, required=["a", "zz"]), [{}, {"b": {}}, {"b": {"c": None}}]),
    ("entries of maps are named with dots", {**O, "additionalProperties": I}, [{"a.b": "x", "c": 1}]),
    ("nothing additional", {**O, "additionalProperties": False}, [{"a": 1}, {}]),
    ("anything additional", {**O, "additionalProperties": True}, [{"a": {"b": 1}, "c": [{"d": 1}], "e": 1}]),
    ("a list where a string of some format is wanted", {**S, "format": "date"}, [[1], {}, 5, "x", True]),
    ("formats say nothing of other types", obj({"a": {**I, "format": "ipv4"}, "b": {**S, "format": "int32"}, "c": {**S, "format": "foo"}, "d": {**B, "format": "date"}}), [{"a": 1, "b": "x", "c": "y", "d": True}]),
    ("all of several", {**I, "allOf": [{"minimum": 2}, {"maximum": 4}]}, [1, 3, 5, "x"]),
    ("none of all of several", {**I, "allOf": [{"minimum": 2}, {"multipleOf": 7}]}, [1]),
    ("any of several tells of the closest", obj({"a": S, "b": S}, anyOf=[{"required": ["a", "b"]}, {"required": ["a"], "properties": {"b": {"maxLength": 1}}}]), [{}, {"b": "xx"}, {"a": "x"}]),
    ("one of several", obj({"a": S, "b": S}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]), [{}, {"a": "x"}, {"a": "x", "b": "y"}]),
    ("not", {**S, "not": {"enum": ["a"]}}, ["a", "b"]),
    ("conditions with formats say what integers are", {**I, "anyOf": [{"format": "ipv4"}, {"minimum": 5}]}, [1, 7]),
    ("an integer or a string", {**IOS, "maximum": 5, "maxLength": 2}, [1, "a", 9, "abc", 1.5, True, None, {}]),
    ("an integer or a string that is said twice", {**IOS, "anyOf": EITHER}, [1, "a", True]),
    ("unknown fields are dropped and told", obj({"a": obj({"b": S}), "l": array(obj({"x": S})), "m": {**O, "additionalProperties": obj({"y": S})}}), [
        {"a": {"b": "x", "c": 1}, "z": {"q": 1}, "l": [{"x": "a"}, {"w": 1}], "m": {"k.l": {"y": "a", "n": 1}}}]),
    ("unknown fields are kept where the schema says so", {**KEEP, "type": "object", "properties": {"a": obj({"b": S}), "l": array(obj({"x": S}))}}, [
        {"a": {"c": 1}, "z": {"q": 1}, "l": [{"w": 1}]}]),
    ("defaults are set, also in defaults", obj({"a": {**S, "default": "x"}, "b": obj({"c": {**I, "default": 5}}, default={}), "d": obj({"e": {**S, "default": "y"}}), "g": array(obj({"h": {**B, "default": True}})),
                                                "m": {**O, "additionalProperties": obj({"n": {**S, "default": "z"}})}}), [{}, {"d": {}, "g": [{}, {"h": False}], "m": {"k": {}}}]),
    ("sets have each item once", array(N, **{"x-kubernetes-list-type": "set"}), [[1, 2, 1, 1, 2.5, 2.5], [1, 1.0]]),
    ("sets of lists", array(array(S), **{"x-kubernetes-list-type": "set"}), [[["a"], ["b"], ["a"]]]),
    ("long sets", array(I, **{"x-kubernetes-list-type": "set"}), [list(range(30)) + [7, 3, 7]]),
    ("maps have each key once", keyed({"k": S, "v": I}, "k"), [[{"k": "a"}, {"k": "b"}, {"k": "a", "v": 1}], [{"v": 1}, {"v": 2}]]),
    ("maps have each combination of keys once", keyed({"k": S, "l": I}, "k", "l"), [[{"k": "a", "l": 1}, {"k": "a", "l": 2}, {"k": "a", "l": 1}]]),
    ("items of maps are objects", keyed({"k": S}, "k"), [["x", {"k": "a"}]]),
    ("lists in maps in lists", array({**O, "additionalProperties": array(S, **{"x-kubernetes-list-type": "set"})}), [[{"a.b": ["x", "x"]}]]),
    ("a resource has a kind and a version", EMBEDDED, [{}, {"kind": "", "apiVersion": ""}, {"kind": "A_B", "apiVersion": "a/b/c"}, {"kind": "Pod", "apiVersion": "v1"}]),
    ("a resource has metadata", EMBEDDED, [{"kind": "Pod", "apiVersion": "v1", "metadata": meta} for meta in (
        {}, None, {"name": "a/b"}, {"labels": {"a b": "c"}}, {"foo": 1, "name": "x"}, {"namespace": "A"}, {"generateName": "x-"}, {"creationTimestamp": None, "finalizers": []},
        {"ownerReferences": [{"kind": "x", "zz": 1}]})]),
    ("resources in lists", array({**EMBEDDED, "properties": {"spec": O}}), [[{"kind": "Pod", "spec": {"a": 1}, "metadata": {"labels": {"a": "b/c"}}}]]),
    ("rules wait for values of the right type", {**I, "x-kubernetes-validations": [{"rule": "self > 0"}]}, ["x"]),
    ("patterns mean what they mean in Go", obj({name: {**S, "pattern": pattern} for name, pattern in {
        "a": r"^\d$", "b": r"^\w+$", "c": r"^[[a]$", "d": r"(?i)^ß$", "e": r"^.$", "g": r"^\pL$", "h": r"\bx"}.items()}), [
        {"a": "٣", "b": "é", "c": "[", "d": "ẞ", "e": "\n", "g": "١", "h": "éx"}, {"a": "3", "b": "e", "c": "b", "d": "ß", "e": "é", "g": "é", "h": "x"}]),
]

# (what it is about, schema when the old object was stored, schema now, pairs of the old and the new value)
UPDATES = [
    ("what did not change is not blamed", obj({"a": S, "b": S}), obj({"a": {**S, "maxLength": 1}, "b": S}), [
        ({"a": "xx", "b": "y"}, {"a": "xx", "b": "z"}), ({"a": "xx"}, {"a": "xxx"})]),
    ("a new requirement is not blamed on what did not change", obj({"a": obj({"x": S}), "b": S}), obj({"a": obj({"x": S, "y": S}, required=["y"]), "b": S}), [
        ({"a": {"x": "1"}, "b": "2"}, {"a": {"x": "1"}, "b": "3"}), ({"a": {"x": "1"}}, {"a": {"x": "2"}})]),
    ("items of maps are told apart by their keys", keyed({"k": S, "v": S}, "k"), keyed({"k": S, "v": {**S, "maxLength": 1}}, "k"), [
        ([{"k": "a", "v": "xx"}, {"k": "b", "v": "yy"}], [{"k": "b", "v": "yy"}, {"k": "c", "v": "z"}, {"k": "a", "v": "xx"}]),
        ([{"k": "a", "v": "xx"}], [{"k": "a", "v": "xxx"}]), ([{"k": "a", "v": "xx"}], [{"k": "b", "v": "xx"}])]),
    ("a map that was merely reordered did not change", keyed({"k": S}, "k"), keyed({"k": S}, "k", maxItems=1), [([{"k": "a"}, {"k": "b"}], [{"k": "b"}, {"k": "a"}])]),
    ("other lists change as a whole", array(S), array({**S, "maxLength": 1}), [(["xx", "y"], ["xx", "z"]), (["xx"], ["xx"])]),
    ("duplicates are not blamed if there were some", array(S), array(S, **{"x-kubernetes-list-type": "set"}), [(["a", "a"], ["a", "a", "b", "b"]), (["a"], ["b", "b"])]),
    ("junctions look at all of what changed", obj({"a": S, "b": S}), obj({"a": S, "b": S}, allOf=[{"properties": {"a": {"maxLength": 1}}}]), [
        ({"a": "xx", "b": "y"}, {"a": "xx", "b": "z"}), ({"a": "xx"}, {"a": "xx"})]),
    ("entries of maps are told apart by their names", {**O, "additionalProperties": S}, {**O, "additionalProperties": {**S, "maxLength": 1}}, [({"a": "xx"}, {"a": "xx", "b": "yy"})]),
    ("null stays null", {**S, "nullable": True}, {**S, "nullable": True, "enum": ["a"]}, [(None, None), (None, "b"), ("c", None)]),
    ("what has no schema always changed", {**KEEP, "type": "object"}, {**KEEP, "type": "object", "required": ["zz"]}, [({"q": 1}, {"q": 1}), ({}, {})]),
]

# Whole schemas.
PUBLISHED = [
    ("what version 2 understands", obj({
        "metadata": obj({"name": {**S, "maxLength": 5}}),
        "status": {**O, **KEEP},
        "spec": obj({
            "n": {**S, "nullable": True, "format": "foo", "default": "x"}, "l": array(S, nullable=True), "x": {**IOS, "maximum": 5.5}, "y": {**IOS, "anyOf": EITHER},
            "z": {**IOS, "anyOf": [{"maximum": 5}], "allOf": [{"minimum": 1}]}, "e": EMBEDDED, "r": {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"], "properties": {"spec": O}},
            "m": {**O, "additionalProperties": {**I, "nullable": True}, "required": ["a"]}, "b": {**O, "additionalProperties": True}, "pa": array({**O, **KEEP}), "lm": keyed({"k": S}, "k"),
            "v": {**I, "x-kubernetes-validations": [{"rule": "self>0", "message": "m", "reason": "FieldValueRequired"}], "enum": [1, 2], "example": {"a": 1}, "externalDocs": {"url": "u"}, "title": "t"},
            "an": obj({"a": S}, oneOf=[{"required": ["a"]}], **{"not": {"required": ["b"]}}),
        }, required=["n", "m"]),
    }, description="root <x>", required=["spec"])),
    ("the root keeps unknown fields", {"type": "object", **KEEP, "properties": {"spec": O}}),
]
