#!/usr/bin/env python3
"""Sends definitions of custom resources, and objects of them, to two API servers and prints where their answers differ.

  custom_schemas.py --reference URL --reference-token T                 against a Keepwatch that it starts
  custom_schemas.py … --server URL --token T                            against a server that runs
  custom_schemas.py … --module BINARY                                   against the module of schemas alone, in the program of the
                                                                        registry's unit tests
  custom_schemas.py … --seed 7 --fields 200 --only define --only write
  custom_schemas.py … --record FILE                                     asks the reference alone, and writes what it answers to the cases
                                                                        of custom_schema_cases.py, which unit tests read

The reference can also be named by MATRIX_REFERENCE and MATRIX_REFERENCE_TOKEN; without one nothing is compared, and the
run is skipped. Schemas and objects are random; the same seed makes the same ones. Four things are compared:

  define   the errors in a schema, most often one that is nearly valid
  write    the stored form of an object of a kind with a valid schema, and the errors in it
  update   the same after the schema became stricter, where unchanged values are not validated again
  publish  the schema in OpenAPI v3 and v2

Reference servers take fields in no order, so faults are compared as sets. Only the standard library is used.

Reading order: Chance (schemas and values), Http and Module (which answer), the four comparisons, record, main.
"""

import argparse
import concurrent.futures
import contextlib
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import custom_schema_cases as cases
import servers
from replay import Client

GROUP = "t.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# The number of fields in one definition.
FIELDS_PER_DEFINITION = 25
VALUES_PER_FIELD = 6
SERVED_SECONDS = 15
NOTHING = object()


# ---------------------------------------------------------------------------------------------
# Schemas and values by chance.

FORMATS = {
    "date": ["2024-02-29", "2023-02-29", "2024-2-1", "", "2024-01-01 "],
    "date-time": ["2024-01-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01t00:00:00z", "2024-01-01T00:00:00", "2024-01-01T00:00:00.5+01:00",
                  "2024-01-01T00:00:00x5z", "2024-01-01T00:00:00ZtX", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00.z"],
    "datetime": ["2024-01-01T00:00:00Z", "x"],
    "duration": ["1h", "1h30m", "-1.5h", "1", "", "0", "5 days", "3 weeks 2d", "1x", "1.5", "9223372036854775807ns", "9223372036854775808ns",
                 "-9223372036854775808ns", "1µs", "+1m", ".5s", "1.s", "x 7 seconds", "99999999999999999999s"],
    "byte": ["YQ==", "YQ", "", "!", "YWJj", "YW==Jj", "_w==", "YQ=="],
    "email": ["a@b.c", "A <a@b.c>", "a", "a@b", "", "<a@b.c>", "\"a b\"@c.d", "a.@b.c", "a@b.c (x)", "a b <a@b.c>", "a@[127.0.0.1]", "é@b.c", "a@b.c,d@e.f", "a@@b"],
    "hostname": ["a", "a.b", "a.bc", "-a.bc", "a-.bc", "a_b.cd", "a.b.cc", "é.fr", "1.2.3.4", "a" * 64, "", "a.bc.", "A.BC", "x--y.zz"],
    "ipv4": ["1.2.3.4", "01.2.3.4", "1.2.3", "256.1.1.1", "::1", "::ffff:1.2.3.4", ""],
    "ipv6": ["::1", "::ffff:1.2.3.4", "1.2.3.4", "fe80::1%eth0", "1::2::3", "2001:DB8::", ""],
    "cidr": ["10.0.0.0/8", "10.0.0.1/33", "::/0", "10.0.0.0", "10.0.0.0/08", "01.0.0.0/8", "::/129", "1.2.3.4/"],
    "mac": ["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "00:11:22", "00:11:22:33:44:55:66:77", "00:11-22:33:44:55", ""],
    "uri": ["http://a.b/c", "/a", "a", "", "a:b", "http://[::1]:80/", "http://[::1", "http://a:x/", "//a/b", "http://a b/", "http://a/%zz", "*", "http://u:p@h/?q#f",
            "1a:b", ":a", "http://a%41/", "http://é/", "mailto:x@y", "http://[fe80::1%25en0]/", "http://a:80:90/", "http://a/b c", "\u007f"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000", "123e4567", "", "123e4567-e89b-12d3-a456-42661417400g"],
    "uuid3": ["123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    "uuid5": ["123e4567-e89b-52d3-B456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    "isbn": ["0321751043", "978-0321751041", "978 0321751041", "0321751044", "x", "080442957X"],
    "isbn10": ["0321751043", "978-0321751041", "080442957X", "080442957x"],
    "isbn13": ["0321751043", "978-0321751041", "978-0321751042"],
    "creditcard": ["4111 1111 1111 1111", "4111111111111112", "5500-0000-0000-0004", "340000000000009", "x", "6011000000000004", "30000000000004"],
    "ssn": ["123-45-6789", "123 45 6789", "123456789", "123-456-789", "12-345-6789"],
    "hexcolor": ["#fff", "fff", "#FFFFFF", "#ffff", "ggg", ""],
    "rgbcolor": ["rgb(1,2,3)", "rgb( 1 , 2 , 3 )", "rgb(256,0,0)", "rgb(01,0,0)", "rgb (1,2,3)", "rgb(1,2)"],
    "password": ["x", ""],
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g"],
    "k8s-short-name": ["a", "-a", "a.b", "A", "a" * 64, ""],
    "k8s-long-name": ["a.b", "a..b", "a" * 254, "A.b", ""],
    "unknown": ["x", ""],
    "int32": ["x"],
    "int64": ["x"],
    "float": ["x"],
}
PATTERNS = [r"^a+$", r"\d{2}", r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", r"^(a|b)*$", r"(?i)^AB$", r"^\S+$", r"^[^\s/]{1,5}$", r"^\p{L}+$", r"[\]x]"]
BAD_PATTERNS = ["(", "a)", "[a", "*a", "a**", "(?=a)", r"\y", "[z-a]", "a{2,1}"]
STRINGS = ["", "a", "aa", "abc", "ab", "x1", "12", "é", "a b", "AB", "zzzzzzzzzz", "a\n", "\u2028<&>", "1", "]"]
NUMBERS = [0, 1, -1, 2, 3, 5, 10, 100, 1.5, 2.0, -0.5, 0.1, 0.3, 1e6, 1e7, 123456789, 2**31, -2**31 - 1, 2**53, 2**63 - 1, 2**63, 1e19, 1e21, 1.0000000001, 1e-7]
TYPES = ["string", "integer", "number", "boolean", "object", "array"]


class Chance:
    """Makes schemas and values from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def sometimes(self, share):
        return self.random.random() < share

    def pick(self, choices):
        return self.random.choice(choices)

    def value(self, depth=0):
        """Anything."""
        kind = self.random.randrange(8 if depth < 2 else 5)
        if kind == 0:
            return None
        if kind == 1:
            return self.pick([True, False])
        if kind in (2, 3):
            return self.pick(STRINGS)
        if kind == 4:
            return self.pick(NUMBERS)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.pick(["a", "b", "c", "x.y", "kind"]): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def schema(self, depth=0):
        """A schema that is most often structural."""
        kind = self.random.random()
        if kind < 0.08:
            return self.int_or_string()
        if kind < 0.13:
            return {"x-kubernetes-preserve-unknown-fields": True, **self.pick([{}, {"type": "object"}, {"type": "object", "properties": {"a": {"type": "string"}}}])}
        if kind < 0.18 and depth < 2:
            return self.embedded(depth)
        ty = self.pick(TYPES if depth < 3 else TYPES[:4])
        schema = {"type": ty, **getattr(self, "of_" + ty)(depth)}
        if self.sometimes(0.12):
            schema["nullable"] = True
        if self.sometimes(0.12):
            schema["enum"] = [self.fitting(schema) for _ in range(self.random.randrange(1, 4))]
        if self.sometimes(0.15):
            self.junctions(schema)
        if self.sometimes(0.15):
            schema["default"] = self.fitting(schema)
        if self.sometimes(0.1):
            schema.update(self.pick([{"description": "about <it>"}, {"title": "t"}, {"example": 1}, {"externalDocs": {"url": "http://x"}}]))
        return schema

    def int_or_string(self):
        schema = {"x-kubernetes-int-or-string": True}
        if self.sometimes(0.4):
            schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        elif self.sometimes(0.2):
            schema["allOf"] = [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]
        if self.sometimes(0.3):
            schema.update(self.pick([{"maximum": 5}, {"pattern": "^a"}, {"minLength": 2}, {"format": "int32"}, {"format": "ipv4"}, {"anyOf": [{"maximum": 3}, {"maxLength": 1}]}]))
        if self.sometimes(0.2):
            schema["default"] = self.pick([1, "a", 1.5, True])
        return schema

    def embedded(self, depth):
        schema = {"type": "object", "x-kubernetes-embedded-resource": True}
        if self.sometimes(0.6):
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if self.sometimes(0.7) or len(schema) == 2:
            schema["properties"] = {"spec": self.schema(depth + 1)}
            if self.sometimes(0.3):
                schema["properties"]["metadata"] = {"type": "object", **self.pick([{}, {"properties": {"name": {"type": "string", "pattern": "^a", "default": self.pick(["ab", "A/B"])}}}])}
            if self.sometimes(0.2):
                schema["properties"]["kind"] = {"type": "string", "enum": ["Pod", "Service"]}
        return schema

    def of_string(self, depth):
        out = {}
        if self.sometimes(0.35):
            out["format"] = self.pick(list(FORMATS))
        if self.sometimes(0.2):
            out["pattern"] = self.pick(PATTERNS)
        if self.sometimes(0.2):
            out["maxLength"] = self.pick([0, 1, 2, 5])
        if self.sometimes(0.2):
            out["minLength"] = self.pick([0, 1, 3])
        return out

    def of_number(self, depth):
        out = {}
        for name in ("minimum", "maximum"):
            if self.sometimes(0.25):
                out[name] = self.pick([0, 1, 2, 10, -3, 1.5, 1e6, 1e20])
                if self.sometimes(0.4):
                    out["exclusive" + name.capitalize()] = True
        if self.sometimes(0.2):
            out["multipleOf"] = self.pick([2, 0.1, 5, 2.5, 0, -1])
        if self.sometimes(0.25):
            out["format"] = self.pick(["int32", "int64", "float", "double", "unknown", "ipv4"])
        return out

    of_integer = of_number

    def of_boolean(self, depth):
        return {}

    def of_object(self, depth):
        out = {}
        kind = self.random.random()
        if kind < 0.55:
            names = self.random.sample(["a", "b", "c", "d", "metadata", "x.y"], self.random.randrange(1, 4))
            out["properties"] = {name: self.schema(depth + 1) for name in names}
            if self.sometimes(0.4):
                out["required"] = self.random.sample(names, 1) + (["zz"] if self.sometimes(0.1) else [])
            if self.sometimes(0.1):
                out["x-kubernetes-preserve-unknown-fields"] = True
        elif kind < 0.9:
            out["additionalProperties"] = self.pick([True, False]) if self.sometimes(0.2) else self.schema(depth + 1)
        for name in ("maxProperties", "minProperties"):
            if self.sometimes(0.12):
                out[name] = self.pick([0, 1, 2])
        if self.sometimes(0.15):
            out["x-kubernetes-map-type"] = self.pick(["atomic", "granular"])
        return out

    def of_array(self, depth):
        out = {"items": self.schema(depth + 1)}
        for name in ("maxItems", "minItems"):
            if self.sometimes(0.15):
                out[name] = self.pick([0, 1, 2])
        kind = self.random.random()
        if kind < 0.2:
            out["x-kubernetes-list-type"] = "set"
            if self.sometimes(0.7):
                out["items"] = {"type": self.pick(["string", "integer", "number"])}
        elif kind < 0.5:
            keys = self.pick([["k"], ["k", "l"]])
            types = {key: {"type": self.pick(["string", "integer"])} for key in ("k", "l")}
            if self.sometimes(0.3):
                types["k"]["default"] = "d" if types["k"]["type"] == "string" else 1
            out["x-kubernetes-list-type"] = "map"
            out["x-kubernetes-list-map-keys"] = keys
            required = [key for key in keys if "default" not in types[key]]
            out["items"] = {"type": "object", "required": required, "properties": {**types, "v": self.schema(depth + 1)}}
            if not required:
                del out["items"]["required"]
        elif kind < 0.6:
            out["x-kubernetes-list-type"] = "atomic"
        return out

    def condition(self, schema):
        """Something to say of a value in allOf and the like."""
        ty = schema.get("type")
        out = {}
        if ty == "string":
            out = self.pick([{"maxLength": 2}, {"minLength": 2}, {"pattern": "^a"}, {"enum": ["a", "ab"]}, {"format": "ipv4"}, {"not": {"pattern": "b"}}])
        elif ty in ("integer", "number"):
            out = self.pick([{"maximum": 2}, {"minimum": 1}, {"enum": [1, 2]}, {"multipleOf": 2}, {"format": "int32"}, {"format": "ipv6"}])
        elif ty == "array":
            items = schema.get("items")
            out = self.pick([{"maxItems": 1}, {"minItems": 1}, {"items": self.condition(items if isinstance(items, dict) else {})}])
        elif ty == "object" and schema.get("properties"):
            name = self.pick(list(schema["properties"]))
            out = self.pick([{"required": [name]}, {"properties": {name: self.condition(schema["properties"][name])}}, {"maxProperties": 1},
                             {"properties": {name: {}}, "required": [name]}])
        return copy.deepcopy(out)

    def junctions(self, schema):
        for name in ("allOf", "anyOf", "oneOf"):
            if self.sometimes(0.4):
                schema[name] = [self.condition(schema) for _ in range(self.random.randrange(1, 4))]
        if self.sometimes(0.3):
            schema["not"] = self.condition(schema)

    def fitting(self, schema, wrong=0.0):
        """A value that the schema may allow; with this share of what it does not expect."""
        if self.sometimes(wrong):
            return self.value()
        if schema.get("enum") and self.sometimes(0.7):
            return copy.deepcopy(self.pick(schema["enum"]))
        if schema.get("nullable") and self.sometimes(0.15):
            return None
        ty = schema.get("type")
        if schema.get("x-kubernetes-int-or-string"):
            return self.pick([1, 9, "a", "abc", "50%", 2**40])
        if schema.get("x-kubernetes-embedded-resource"):
            return self.resource(schema, wrong)
        if ty == "string":
            return self.pick(FORMATS.get(schema.get("format"), STRINGS)) if self.sometimes(0.8) else self.pick(STRINGS)
        if ty == "integer":
            return self.pick([number for number in NUMBERS if isinstance(number, int)] + [2.0])
        if ty == "number":
            return self.pick(NUMBERS)
        if ty == "boolean":
            return self.pick([True, False])
        if ty == "array":
            return [self.fitting(schema.get("items", {}), wrong) for _ in range(self.random.randrange(4))]
        if ty == "object":
            return self.object(schema, wrong)
        return self.value()

    def object(self, schema, wrong):
        out = {}
        for name, property in schema.get("properties", {}).items():
            if name in schema.get("required", []) and not self.sometimes(wrong) or self.sometimes(0.6):
                out[name] = self.fitting(property, wrong)
        if "additionalProperties" in schema:
            inner = schema["additionalProperties"]
            for name in self.random.sample(["a", "b.c", "d", "metadata"], self.random.randrange(3)):
                out[name] = self.fitting(inner, wrong) if isinstance(inner, dict) else self.value(1)
        if self.sometimes(wrong + 0.02):
            out["unknown"] = self.value(1)
        return out

    def resource(self, schema, wrong):
        out = self.object(schema, wrong)
        out.update({"apiVersion": self.pick(["v1", "apps/v1"]), "kind": self.pick(["Pod", "Service"])})
        if self.sometimes(0.7):
            out["metadata"] = {"name": self.pick(["ab", "x"]), **self.pick([{}, {"labels": {"a": "b"}}, {"namespace": "n"}])}
        if self.sometimes(0.4):
            out["metadata"] = self.pick([
                {}, None, {"name": "A/b"}, {"labels": {"a b": "c"}}, {"labels": {"a": 1}}, {"foo": 1}, {"name": 5}, 5, {"namespace": "A_B"}, {"creationTimestamp": None},
                {"creationTimestamp": "2024-01-01T00:00:00Z"}, {"ownerReferences": [{"kind": "x", "bar": 1}]}, {"finalizers": ["x"]}, {"annotations": {"a": None}},
                {"generateName": "x-"}, {"labels": {}},
            ])
        if self.sometimes(0.25):
            name = self.pick(["apiVersion", "kind"])
            out[name] = self.pick(["", "a/b/c", "A_B", 5, None])
            if self.sometimes(0.3):
                del out[name]
        return out

    def broken(self, schema):
        """The schema with one thing done to it that may be wrong."""
        schema = copy.deepcopy(schema)
        spots = [schema]
        for spot in spots:
            for name in ("items", "additionalProperties", "not"):
                if isinstance(spot.get(name), dict):
                    spots.append(spot[name])
            for name in ("properties",):
                spots += [inner for inner in spot.get(name, {}).values() if isinstance(inner, dict)]
            for name in ("allOf", "anyOf", "oneOf"):
                spots += [inner for inner in spot.get(name) or [] if isinstance(inner, dict)]
        spot = self.pick(spots)
        what = self.random.randrange(26)
        if what == 0:
            spot.pop("type", None)
        elif what == 1:
            spot["type"] = self.pick(["foo", "null", "string", "object", "array", "integer"])
            if spot["type"] in ("foo", "null"):
                spot.pop("default", None)
        elif what == 2:
            spot.pop("items", None)
        elif what == 3:
            spot["items"] = [{"type": "string"}]
        elif what == 4:
            spot.update(self.pick([{"$ref": "#/x"}, {"id": "x"}, {"$schema": "x"}, {"definitions": {"a": {"type": "string"}}}, {"patternProperties": {"a": {"type": "string"}}},
                                   {"dependencies": {"a": ["b"]}}, {"dependencies": {"a": {"type": "string"}}}, {"additionalItems": False}]))
        elif what == 5:
            spot["uniqueItems"] = True
        elif what == 6:
            spot["pattern"] = self.pick(BAD_PATTERNS)
        elif what == 7:
            spot["x-kubernetes-list-type"] = self.pick(["set", "map", "atomic", "foo", ""])
        elif what == 8:
            spot["x-kubernetes-list-map-keys"] = self.pick([["a"], ["a", "a"], ["k", "zz"]])
        elif what == 9:
            spot["x-kubernetes-map-type"] = self.pick(["atomic", "granular", "foo"])
        elif what == 10:
            spot["x-kubernetes-preserve-unknown-fields"] = self.pick([True, False])
        elif what == 11:
            spot["x-kubernetes-embedded-resource"] = True
        elif what == 12:
            spot["x-kubernetes-int-or-string"] = True
        elif what == 13:
            spot["default"] = self.value()
        elif what == 14:
            spot[self.pick(["allOf", "anyOf", "oneOf"])] = [self.schema(2), self.condition(spot)]
        elif what == 15:
            spot["not"] = self.schema(2)
        elif what == 16:
            spot["nullable"] = True
        elif what == 17:
            spot["additionalProperties"] = self.pick([True, False, {"type": "string"}, {}])
        elif what == 18:
            spot.setdefault("properties", {})["metadata"] = self.pick([{"type": "object"}, {"type": "string"}, {"type": "object", "default": {"a": 1}},
                                                                       {"type": "object", "properties": {"name": {"type": "string", "default": "A/B"}}},
                                                                       {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}}}}])
        elif what == 19:
            spot["x-kubernetes-validations"] = [self.pick([
                {"rule": " "}, {"rule": "true", "message": " "}, {"rule": "true", "message": "a\nb"}, {"rule": "true\n||true"}, {"rule": "true", "messageExpression": " "},
                {"rule": "true", "fieldPath": " "}, {"rule": "true", "fieldPath": ".a\n"}, {"rule": "true", "fieldPath": ".zz"}, {"rule": "true", "fieldPath": "['a']"},
                {"rule": "true", "fieldPath": ".a.b"}, {"rule": "true", "reason": "Foo"}, {"rule": "true", "fieldPath": "a"}, {"rule": "true", "fieldPath": "[0]"}])]
        elif what == 20:
            spot["required"] = self.pick([["a"], ["zz"]])
        elif what == 21:
            spot["enum"] = [self.value() for _ in range(2)]
        elif what == 22:
            spot.setdefault("properties", {})["kind"] = self.pick([{"type": "string"}, {"type": "integer"}, {"type": "string", "default": ""}])
        elif what == 23:
            spot["anyOf"] = [{"properties": {"q": {"type": "string"}}}, {"items": {"maxLength": 1}}]
        elif what == 24:
            spot["allOf"] = [{"additionalProperties": True}, {"externalDocs": {"url": "x"}, "description": "d", "title": "t", "example": 1, "default": 1}]
        else:
            spot["format"] = self.pick(list(FORMATS))
        return schema

    def changed(self, value):
        """The value with something done to it."""
        value = copy.deepcopy(value)
        spots = []

        def find(at):
            items = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else []
            for key, inner in list(items):
                spots.append((at, key))
                find(inner)

        find(value)
        if isinstance(value, list) and self.sometimes(0.3):
            self.random.shuffle(value)
        elif spots:
            at, key = self.pick(spots)
            at[key] = self.value(1) if self.sometimes(0.5) else copy.deepcopy(self.pick(spots)[0])
        return value

    def stricter(self, schema):
        """The schema with something that an object that it allowed may not keep."""
        schema = copy.deepcopy(schema)
        spots = [schema]
        for spot in spots:
            spots += [spot[name] for name in ("items", "additionalProperties") if isinstance(spot.get(name), dict)]
            spots += list(spot.get("properties", {}).values())
        for spot in self.random.sample(spots, min(len(spots), 3)):
            ty = spot.get("type")
            limits = {"string": {"maxLength": 1, "pattern": "^q"}, "integer": {"minimum": 1000}, "number": {"minimum": 1000}, "array": {"maxItems": 0},
                      "object": {"required": ["zz"]}, "boolean": {"enum": [True]}}.get(ty)
            if limits:
                spot.update(limits)
            if self.sometimes(0.2):
                spot["oneOf"] = [{}, {}]
        return schema


def root(fields):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


# ---------------------------------------------------------------------------------------------
# The servers and the module that answer.

def causes(body):
    return sorted({(c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in ((body.get("details") or {}).get("causes") or [])})


def definition(plural, schema, status=False):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    kind = plural.capitalize()
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Cluster", "names": {"plural": plural, "kind": kind}, "versions": [version]}}


class Http:
    """A server, asked as clients ask it."""

    def __init__(self, url, token):
        self.client = Client(url, token)

    def send(self, method, path, body=None, content_type="application/json"):
        data = None if body is None else json.dumps(body).encode()
        return self.client.request(method, path, {"Content-Type": content_type}, data)

    def define(self, plural, schema, status=False):
        """The errors in a schema."""
        body = self.send("POST", CRDS + "?dryRun=All", definition(plural, schema, status)).body
        return {"causes": causes(body)} if isinstance(body, dict) and body.get("code", 422) == 422 else {"error": body.get("message")}

    def serve(self, plural, schema, marks=True):
        """Serves a kind, or an existing one with another schema, and waits until that shows."""
        path = f"{CRDS}/{plural}.{GROUP}"
        marked = copy.deepcopy(schema)
        mark = f"m{time.monotonic_ns()}"
        if marks:
            marked["properties"]["mark"] = {"type": "string", "enum": [mark]}
        body = definition(plural, marked)
        found = self.send("GET", path).body
        if found.get("kind") == "CustomResourceDefinition":
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            answer = self.send("PUT", path, body)
        else:
            answer = self.send("POST", CRDS, body)
        if answer.status >= 300:
            raise SystemExit(f"{plural} is not taken: {answer.body}")
        if not marks:
            return
        probe = {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": "probe"}, "mark": ""}
        until = time.monotonic() + SERVED_SECONDS
        while mark not in str(self.send("POST", f"/apis/{GROUP}/v1/{plural}?dryRun=All", probe).body):
            if time.monotonic() > until:
                raise SystemExit(f"{plural} is not served")
            time.sleep(0.05)

    def end(self, plural):
        self.send("DELETE", f"{CRDS}/{plural}.{GROUP}")

    @staticmethod
    def view(answer):
        """Of an answer to a write, what is compared."""
        body = answer.body
        warnings = sorted(re.findall(r'unknown field \\?"([^"\\]*)', answer.headers.get("Warning") or answer.headers.get("warning") or ""))
        if answer.status in (200, 201):
            return {"unknown": warnings, "causes": [], "spec": body.get("spec")}
        if (body.get("details") or {}).get("causes"):
            return {"causes": causes(body)}
        return {"error": body.get("message", "")}

    def write(self, plural, schema, name, spec):
        thing = {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": name}, "spec": spec}
        return self.view(self.send("POST", f"/apis/{GROUP}/v1/{plural}?dryRun=All&fieldValidation=Warn", thing))

    def store(self, plural, name, spec):
        thing = {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": name}, "spec": spec}
        return self.send("POST", f"/apis/{GROUP}/v1/{plural}", thing)

    def update(self, plural, schema, name, spec, old):
        path = f"/apis/{GROUP}/v1/{plural}/{name}"
        stored = self.send("GET", path).body
        stored["spec"] = spec
        return self.view(self.send("PUT", path + "?dryRun=All&fieldValidation=Warn", stored))

    def publish(self, plural, schema):
        name = f"{'.'.join(reversed(GROUP.split('.')))}.v1.{plural.capitalize()}"
        v3 = v2 = None
        until = time.monotonic() + SERVED_SECONDS
        while (v3 is None or v2 is None) and time.monotonic() < until:
            body = self.send("GET", f"/openapi/v3/apis/{GROUP}/v1").body
            v3 = ((body.get("components") or {}).get("schemas") or {}).get(name) if isinstance(body, dict) else None
            if v3 is not None and v2 is None:
                v2 = (self.send("GET", "/openapi/v2").body.get("definitions") or {}).get(name)
            time.sleep(0.2)
        return {"v3": v3, "v2": v2}


class Module:
    """The module of schemas, asked by files, all at once."""

    def __init__(self, binary):
        self.binary, self.questions = binary, []

    def ask(self, question):
        self.questions.append(question)
        return len(self.questions) - 1

    def answers(self):
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = os.path.join(folder, "asked"), os.path.join(folder, "answered")
            with open(asked, "w") as file:
                file.writelines(json.dumps(question) + "\n" for question in self.questions)
            command = [self.binary, "--exact", "custom::schema::tests::answers::questions_of_the_script_are_answered_line_by_line"]
            ran = subprocess.run(command, env={**os.environ, "QUESTIONS": asked, "ANSWERS": answered}, capture_output=True, text=True)
            if ran.returncode:
                raise SystemExit(ran.stdout[-3000:] + ran.stderr[-2000:])
            with open(answered) as file:
                found = [json.loads(line) for line in file]
        self.questions = []
        return found


# ---------------------------------------------------------------------------------------------
# The comparisons. Each yields (title, question, answer of the reference, a way to get the other's).

class Comparison:
    def __init__(self, reference, server, module, options):
        self.reference, self.server, self.module, self.options = reference, server, module, options
        self.chance = Chance(options.seed)
        self.run = self.run_id()
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        self.cases = []

    @staticmethod
    def run_id():
        return f"k{os.getpid() % 0xFFFF:04x}"

    def add(self, title, question, expected, got):
        """`expected` and `got` make answers when they are called; `question` is for the module."""
        self.cases.append((title, question, self.pool.submit(expected), None if self.module else self.pool.submit(got)))

    def finish(self):
        """Pairs of a title and two answers, where they differ; and how many were compared."""
        if self.module:
            numbers = [self.module.ask(question) for _, question, _, _ in self.cases]
            answers = self.module.answers()
        differences = []
        for number, (title, question, expected, got) in enumerate(self.cases):
            expected = expected.result()
            got = self.plain(answers[numbers[number]], question) if self.module else got.result()
            if expected.get("error") and got.get("error"):
                continue
            if expected != got:
                differences.append((title, question, expected, got))
        count, self.cases = len(self.cases), []
        return count, differences

    @staticmethod
    def plain(answer, question):
        """The module's answer as a server's."""
        if "v3" in answer or answer.get("error"):
            return answer
        found = sorted({(c["field"], c["reason"], c["message"]) for c in answer["causes"]})
        if question["do"] == "define":
            return {"causes": found}
        return {"causes": found} if found else {"unknown": sorted(answer["unknown"]), "causes": [], "spec": answer["object"].get("spec")}

    def define(self):
        for number in range(self.options.fields):
            schema, status = self.chance.schema(), self.chance.sometimes(0.3)
            for variant in range(4):
                tried = root({"f": self.chance.broken(schema) if variant else schema})
                if variant == 3:
                    tried = self.chance.broken(tried)
                self.add(f"define {number}.{variant}", {"do": "define", "schema": tried, "status": status},
                         lambda tried=tried, status=status: self.reference.define(f"{self.run}d", tried, status),
                         lambda tried=tried, status=status: self.server.define(f"{self.run}d", tried, status))
        return self.finish()

    def good_fields(self, count):
        """Fields whose schemas the reference takes."""
        fields, number = {}, 0
        while len(fields) < count:
            schema = self.chance.schema()
            number += 1
            if not self.reference.define(f"{self.run}g", root({"f": schema})).get("causes"):
                fields[f"f{number}"] = schema
        return fields

    def definitions(self):
        for number in range((self.options.fields + FIELDS_PER_DEFINITION - 1) // FIELDS_PER_DEFINITION):
            plural = f"{self.run}w{number}"
            yield plural, self.good_fields(FIELDS_PER_DEFINITION)

    def everybody(self):
        return [one for one in (self.reference, self.server) if one]

    def write(self):
        total, found = 0, []
        for plural, fields in self.definitions():
            for one in self.everybody():
                one.serve(plural, root(fields))
            for name, schema in fields.items():
                for number in range(VALUES_PER_FIELD):
                    spec = {name: self.chance.fitting(schema, self.chance.pick([0, 0.05, 0.3]))}
                    question = {"do": "write", "schema": root(fields), "object": {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": "a"}, "spec": spec}}
                    self.add(f"write {json.dumps(schema)} {json.dumps(spec)}", question,
                             lambda plural=plural, spec=spec: self.reference.write(plural, None, "a", spec),
                             lambda plural=plural, spec=spec: self.server.write(plural, None, "a", spec))
            count, differ = self.finish()
            total, found = total + count, found + differ
            for one in self.everybody():
                one.end(plural)
        return total, found

    def update(self):
        total, found = 0, []
        for plural, fields in self.definitions():
            for one in self.everybody():
                one.serve(plural, root(fields))
            stored = {}
            for name, schema in fields.items():
                for number in range(3):
                    spec = {name: self.chance.fitting(schema)}
                    answers = [one.store(plural, f"{name}-{number}", spec).status for one in self.everybody()]
                    if answers[0] == 201:
                        stored[f"{name}-{number}"] = (name, spec)
            strict = {name: self.chance.stricter(schema) for name, schema in fields.items()}
            strict = {name: schema if not self.reference.define(f"{self.run}g", root({"f": schema})).get("causes") else fields[name] for name, schema in strict.items()}
            for one in self.everybody():
                one.serve(plural, root(strict))
            for key, (name, old) in stored.items():
                for number in range(3):
                    spec = self.chance.changed(old) if number else {**copy.deepcopy(old), "other": 1}
                    def thing(spec):
                        return {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": key}, "spec": spec}
                    question = {"do": "write", "schema": root(strict), "object": thing(spec), "old": thing(old)}
                    self.add(f"update {json.dumps(strict[name])} from {json.dumps(old)} to {json.dumps(spec)}", question,
                             lambda plural=plural, key=key, spec=spec: self.reference.update(plural, None, key, spec, None),
                             lambda plural=plural, key=key, spec=spec: self.server.update(plural, None, key, spec, None))
            count, differ = self.finish()
            total, found = total + count, found + differ
            for one in self.everybody():
                one.end(plural)
        return total, found

    def publish(self):
        total, found = 0, []
        for plural, fields in self.definitions():
            for one in self.everybody():
                one.serve(plural, root(fields))
            question = {"do": "publish", "schema": root(fields), "kind": plural.capitalize()}
            expected = self.reference.publish(plural, None)
            got = None if self.module else self.server.publish(plural, None)
            if self.module:
                self.module.ask(question)
                got = self.module.answers()[0]
            for version in ("v3", "v2"):
                for answer in (expected, got):
                    ((answer[version] or {}).get("properties") or {}).pop("mark", None)
                total += 1
                found += [(f"publish {version} {path}", question, a, b) for path, a, b in differing(expected[version], got[version])]
            for one in self.everybody():
                one.end(plural)
        return total, found


def differing(a, b, path=""):
    """The paths at which two documents differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from differing(a.get(key, NOTHING), b.get(key, NOTHING), f"{path}.{key}")
    elif a != b:
        yield path, "absent" if a is NOTHING else a, "absent" if b is NOTHING else b


# ---------------------------------------------------------------------------------------------
# Cases that were chosen by hand.

def whole(schema):
    return schema["root"] if "root" in schema else root({"f": schema})


def record(reference, path):
    """Writes what the reference answers."""
    plural = f"{Comparison.run_id()}c"
    out = {"definitions": [], "formats": [], "writes": [], "updates": [], "published": []}
    for name, schema, *status in cases.DEFINITIONS:
        answer = reference.define(plural, whole(schema), bool(status))
        out["definitions"].append({"name": name, "schema": whole(schema), "status": bool(status), **answer})
    formats = {"format-" + name: {"type": "string", "format": name} for name in FORMATS}
    reference.serve(plural, root(formats))
    for name, texts in FORMATS.items():
        fits = {text: not reference.write(plural, None, "a", {"format-" + name: text})["causes"] for text in texts}
        out["formats"].append({"name": name, "fits": [text for text in texts if fits[text]], "does_not_fit": [text for text in texts if not fits[text]]})
    for name, schema, values in cases.WRITES:
        reference.serve(plural, whole(schema))
        out["writes"].append({"name": name, "schema": whole(schema), "values": [
            {"value": value, **reference.write(plural, None, "a", {"f": value})} for value in values]})
    for name, lax, strict, pairs in cases.UPDATES:
        reference.serve(plural, whole(lax))
        key = re.sub("[^a-z]+", "-", name.lower())
        for number, (old, _) in enumerate(pairs):
            reference.store(plural, f"{key}-{number}", {"f": old})
        reference.serve(plural, whole(strict))
        out["updates"].append({"name": name, "schema": whole(strict), "pairs": [
            {"old": old, "new": new, **reference.update(plural, None, f"{key}-{number}", {"f": new}, None)} for number, (old, new) in enumerate(pairs)]})
    for number, (name, schema) in enumerate(cases.PUBLISHED):
        published = f"{plural}{number}"
        reference.serve(published, schema, marks=False)
        answer = reference.publish(published, None)
        out["published"].append({"name": name, "kind": published.capitalize(), "schema": schema, **answer})
        reference.end(published)
    reference.end(plural)
    with open(path, "w") as file:
        sections = []
        for name, found in out.items():
            lines = ",\n".join(json.dumps(case, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for case in found)
            sections.append(f"{json.dumps(name)}:[\n{lines}\n]")
        file.write("{" + ",\n".join(sections) + "}\n")


def main():
    parser = argparse.ArgumentParser(description="Compare what two API servers make of definitions and custom resources.")
    parser.add_argument("--reference", default=os.environ.get("MATRIX_REFERENCE", ""), help="URL of the server that is right")
    parser.add_argument("--reference-token", default=os.environ.get("MATRIX_REFERENCE_TOKEN", ""))
    parser.add_argument("--server", default="", help="URL of the server to judge; a Keepwatch is started without it")
    parser.add_argument("--token", default="")
    parser.add_argument("--module", default="", metavar="BINARY", help="judge the module of schemas, in the program of the registry's unit tests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fields", type=int, default=100, help="how many schemas of fields are tried")
    parser.add_argument("--only", action="append", choices=["define", "write", "update", "publish"])
    parser.add_argument("--jobs", type=int, default=4, help="requests at a time (default 4)")
    parser.add_argument("--record", default="", metavar="FILE", help="write what the reference answers to cases that were chosen by hand")
    parser.add_argument("--show", type=int, default=20, help="how many differences are printed")
    options = parser.parse_args()
    if not options.reference:
        print("skipped: there is no reference; name one by --reference or MATRIX_REFERENCE")
        return 0
    if options.record:
        record(Http(options.reference, options.reference_token), options.record)
        return 0
    with contextlib.ExitStack() as parts:
        server = module = None
        if options.module:
            module = Module(options.module)
        elif options.server:
            server = Http(options.server, options.token)
        else:
            started = parts.enter_context(servers.Server("--storage=memory"))
            server = Http(started.url, servers.ADMIN_TOKEN)
        comparison = Comparison(Http(options.reference, options.reference_token), server, module, options)
        failed = 0
        for name in options.only or ["define", "write", "update", "publish"]:
            total, found = getattr(comparison, name)()
            print(f"{name}: {total} compared, {len(found)} differ", flush=True)
            for title, question, expected, got in found[:options.show]:
                show(title, question, expected, got)
            failed += len(found)
        return 1 if failed else 0


def show(title, question, expected, got):
    print("---", title[:1500])
    if question["do"] == "define":
        print("   schema", json.dumps(question["schema"]["properties"]), "status" if question["status"] else "")
    if isinstance(expected, dict) and "causes" in expected and "causes" in got:
        for cause in expected["causes"]:
            if cause not in got["causes"]:
                print("   missing", *cause)
        for cause in got["causes"]:
            if cause not in expected["causes"]:
                print("   wrong  ", *cause)
        for name in ("unknown", "spec"):
            if expected.get(name) != got.get(name):
                print(f"   {name}: expected", json.dumps(expected.get(name)), "got", json.dumps(got.get(name)))
    else:
        print("   expected", json.dumps(expected)[:600])
        print("   got     ", json.dumps(got)[:600])


if __name__ == "__main__":
    sys.exit(main())
