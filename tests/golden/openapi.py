#!/usr/bin/env python3
"""Compares the OpenAPI documents of two servers and prints the differences by class.

  openapi.py --server URL --token T --reference URL --reference-token T      compares; exit 0 only if nothing differs
  openapi.py ... --only v2 --only apis/apps     only documents whose name contains one of the words
  openapi.py ... -v                             every difference instead of a few of each class
  openapi.py ... --words                        descriptions, too

A class is the keyword that differs and how: `schema default: missing`. The documents are those that the index at
/openapi/v3 names, and /openapi/v2, each as JSON and as protobuf. Parameters are distinguished by their names, and every
reference to a parameter is followed first. TLS is not verified.
"""

import argparse
import collections
import json
import re
import ssl
import struct
import sys
import urllib.request

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V3_PROTOBUF = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
METHODS = {"get", "put", "post", "delete", "options", "head", "patch"}
EXAMPLES = 4


class Server:
    def __init__(self, url, token):
        self.url, self.token = url, token
        self.tls = ssl._create_unverified_context()

    def get(self, path, accept="application/json"):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}", "Accept": accept})
        with urllib.request.urlopen(request, context=self.tls) as answer:
            return answer.read()

    def documents(self):
        """Every document by a name that begins with the version and the form."""
        index = json.loads(self.get("/openapi/v3"))["paths"]
        found = {}
        for path, at in index.items():
            found[f"v3-json {path}"] = json.loads(self.get(at["serverRelativeURL"]))
            found[f"v3-protobuf {path}"] = read_message(self.get(at["serverRelativeURL"], V3_PROTOBUF), "document3")
        found["v2-json"] = json.loads(self.get("/openapi/v2"))
        found["v2-protobuf"] = read_message(self.get("/openapi/v2", V2_PROTOBUF), "document")
        return found


# The messages of the protobuf form, as gnostic defines them: field number -> name and form. A form is a message's name or one of the
# words that `read_value` knows; `*` before it means that it is repeated, `<` that the message stands in place of its parent.
MESSAGES = {
    "document": {1: ("swagger", "text"), 2: ("info", "info"), 8: ("paths", "paths"), 9: ("definitions", "schemas"),
                 10: ("parameters", "parameters"), 12: ("security", "*requirement"), 13: ("securityDefinitions", "securities"),
                 16: ("x", "extension")},
    "info": {1: ("title", "text"), 2: ("version", "text"), 7: ("x", "extension")},
    "paths": {2: ("", "entry path")}, "schemas": {1: ("", "entry schema")}, "parameters": {1: ("", "entry parameter")},
    "requirement": {1: ("", "entry scopes")}, "scopes": {1: ("", "<*text")},
    "securities": {1: ("", "entry security")}, "security": {2: ("", "<key")},
    "key": {1: ("type", "text"), 2: ("name", "text"), 3: ("in", "text"), 4: ("description", "text")},
    "path": {2: ("get", "operation"), 3: ("put", "operation"), 4: ("post", "operation"), 5: ("delete", "operation"),
             6: ("options", "operation"), 7: ("head", "operation"), 8: ("patch", "operation"), 9: ("parameters", "*parameter item"),
             10: ("x", "extension")},
    "operation": {1: ("tags", "*text"), 2: ("summary", "text"), 3: ("description", "text"), 5: ("operationId", "text"),
                  6: ("produces", "*text"), 7: ("consumes", "*text"), 8: ("parameters", "*parameter item"),
                  9: ("responses", "responses"), 10: ("schemes", "*text"), 11: ("deprecated", "flag"), 13: ("x", "extension")},
    "parameter item": {1: ("", "<parameter"), 2: ("", "<reference")}, "reference": {1: ("$ref", "text"), 2: ("description", "text")},
    "parameter": {1: ("", "<body"), 2: ("", "<plain")},
    "plain": {1: ("", "<path parameter"), 3: ("", "<query"), 4: ("", "<path parameter")},
    "body": {1: ("description", "text"), 2: ("name", "text"), 3: ("in", "text"), 4: ("required", "flag"), 5: ("schema", "schema"),
             6: ("x", "extension")},
    "query": {1: ("required", "flag"), 2: ("in", "text"), 3: ("description", "text"), 4: ("name", "text"), 6: ("type", "text"),
              7: ("format", "text"), 20: ("uniqueItems", "flag"), 23: ("x", "extension")},
    "path parameter": {1: ("required", "flag"), 2: ("in", "text"), 3: ("description", "text"), 4: ("name", "text"), 5: ("type", "text"),
                       6: ("format", "text"), 19: ("uniqueItems", "flag"), 22: ("x", "extension")},
    "responses": {1: ("", "entry response")}, "response": {1: ("", "<answer")},
    "answer": {1: ("description", "text"), 2: ("schema", "schema item"), 5: ("x", "extension")}, "schema item": {1: ("", "<schema")},
    "schema": {1: ("$ref", "text"), 2: ("format", "text"), 3: ("title", "text"), 4: ("description", "text"), 5: ("default", "yaml"),
               6: ("multipleOf", "number"), 7: ("maximum", "number"), 8: ("exclusiveMaximum", "flag"), 9: ("minimum", "number"),
               10: ("exclusiveMinimum", "flag"), 11: ("maxLength", "whole"), 12: ("minLength", "whole"), 13: ("pattern", "text"),
               14: ("maxItems", "whole"), 15: ("minItems", "whole"), 16: ("uniqueItems", "flag"), 17: ("maxProperties", "whole"),
               18: ("minProperties", "whole"), 19: ("required", "*text"), 20: ("enum", "*yaml"),
               21: ("additionalProperties", "additional"), 22: ("type", "type"), 23: ("items", "items"), 24: ("allOf", "*schema"),
               25: ("properties", "schemas"), 26: ("discriminator", "text"), 27: ("readOnly", "flag"), 30: ("example", "yaml"),
               31: ("x", "extension")},
    "additional": {1: ("", "<schema"), 2: ("", "<flag")}, "type": {1: ("", "<text")}, "items": {1: ("", "<schema")},
    # From here on those of OpenAPI 3.
    "document3": {1: ("openapi", "text"), 2: ("info", "info3"), 4: ("paths", "paths3"), 5: ("components", "components"),
                  9: ("x", "extension")},
    "info3": {1: ("title", "text"), 2: ("description", "text"), 6: ("version", "text")},
    "paths3": {1: ("", "entry path3")},
    "path3": {1: ("$ref", "text"), 2: ("summary", "text"), 3: ("description", "text"), 4: ("get", "operation3"), 5: ("put", "operation3"),
              6: ("post", "operation3"), 7: ("delete", "operation3"), 8: ("options", "operation3"), 9: ("head", "operation3"),
              10: ("patch", "operation3"), 13: ("parameters", "*parameter3 item"), 14: ("x", "extension")},
    "operation3": {1: ("tags", "*text"), 2: ("summary", "text"), 3: ("description", "text"), 5: ("operationId", "text"),
                   6: ("parameters", "*parameter3 item"), 7: ("requestBody", "body3 item"), 8: ("responses", "responses3"),
                   10: ("deprecated", "flag"), 13: ("x", "extension")},
    "parameter3 item": {1: ("", "<parameter3")},
    "parameter3": {1: ("name", "text"), 2: ("in", "text"), 3: ("description", "text"), 4: ("required", "flag"),
                   10: ("schema", "schema3 item"), 14: ("x", "extension")},
    "body3 item": {1: ("", "<body3")},
    "body3": {1: ("description", "text"), 2: ("content", "content"), 3: ("required", "flag"), 4: ("x", "extension")},
    "content": {1: ("", "entry media type")}, "media type": {1: ("schema", "schema3 item"), 5: ("x", "extension")},
    "responses3": {1: ("default", "response3 item"), 2: ("", "entry response3 item")}, "response3 item": {1: ("", "<response3")},
    "response3": {1: ("description", "text"), 3: ("content", "content"), 5: ("x", "extension")},
    "components": {1: ("schemas", "schemas3"), 7: ("securitySchemes", "securities3")},
    "schemas3": {1: ("", "entry schema3 item")}, "schema3 item": {1: ("", "<schema3"), 2: ("", "<reference3")},
    "reference3": {1: ("$ref", "text"), 2: ("summary", "text"), 3: ("description", "text")},
    "securities3": {1: ("", "entry security3 item")}, "security3 item": {1: ("", "<security3")},
    "security3": {1: ("type", "text"), 2: ("description", "text"), 3: ("name", "text"), 4: ("in", "text")},
    "schema3": {1: ("nullable", "flag"), 7: ("example", "yaml"), 9: ("title", "text"), 11: ("maximum", "number"), 13: ("minimum", "number"),
                15: ("maxLength", "whole"), 16: ("minLength", "whole"), 17: ("pattern", "text"), 18: ("maxItems", "whole"),
                19: ("minItems", "whole"), 20: ("uniqueItems", "flag"), 23: ("required", "*text"), 24: ("enum", "*yaml"),
                25: ("type", "text"), 26: ("allOf", "*schema3 item"), 27: ("oneOf", "*schema3 item"), 28: ("anyOf", "*schema3 item"),
                29: ("not", "schema3"), 30: ("items", "items3"), 31: ("properties", "schemas3"),
                32: ("additionalProperties", "additional3"), 33: ("default", "default3"), 34: ("description", "text"),
                35: ("format", "text"), 36: ("x", "extension")},
    "items3": {1: ("", "<schema3 item")}, "additional3": {1: ("", "<schema3 item"), 2: ("", "<flag")},
    "default3": {1: ("", "<number"), 2: ("", "<flag"), 3: ("", "<text")},
}


def read_fields(data):
    """The fields of a message: number and value, which is bytes, an integer, or eight bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(tag & 7) or varint()
        yield tag >> 3, data[at:at + length]
        at += length


def read_message(data, kind):
    out = [] if any(form.startswith("<*") for _, form in MESSAGES[kind].values()) else {}
    for number, value in read_fields(data):
        if number not in MESSAGES[kind]:
            raise ValueError(f"the message {kind!r} has no field {number}")
        name, form = MESSAGES[kind][number]
        if form.startswith("<*"):
            out = [*out, read_value(value, form[2:])]
        elif form.startswith("<"):
            out = read_value(value, form[1:])
        elif form.startswith("*"):
            out.setdefault(name, []).append(read_value(value, form[1:]))
        elif form.startswith("entry "):
            key, entry = read_entry(value)
            out[key] = read_value(entry, form.removeprefix("entry "))
        elif form == "extension":
            key, entry = read_entry(value)
            out[key] = read_value(entry, "yaml")
        else:
            out[name] = read_value(value, form)
    return out


def read_entry(data):
    fields = dict(read_fields(data))
    return fields[1].decode(), fields.get(2, b"")


def read_value(value, form):
    match form:
        case "text":
            return value.decode()
        case "flag":
            return bool(value)
        case "whole":
            return value
        case "number":
            return struct.unpack("<d", value)[0]
        case "yaml":
            return read_yaml(dict(read_fields(value)).get(2, b"").decode())
        case _:
            return read_message(value, form)


def read_yaml(text):
    """The YAML that extensions are written in: JSON, or lists and maps of plain texts."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    lines = [line for line in text.splitlines() if line.strip()]
    # Indented lines belong to the line before them.
    parts = []
    for line in lines:
        if line.startswith(" ") and parts:
            parts[-1] += "\n" + line[2:]
        else:
            parts.append(line)
    if parts and all(part.startswith("- ") for part in parts):
        return [read_yaml(part.removeprefix("- ")) for part in parts]
    pairs = [re.fullmatch(r"([\w-]+):\s(.*)", part, re.S) for part in parts]
    if pairs and all(pairs):
        return {pair[1]: read_yaml(pair[2]) for pair in pairs}
    return text.strip().strip("\"'")


def followed(document):
    """The document with the parameters in place of the references to them, and each parameter under its name."""
    shared = document.get("parameters", {})

    def named(parameters):
        whole = [shared[ref.rsplit("/", 1)[1]] if (ref := parameter.get("$ref")) else parameter for parameter in parameters]
        return {f"{parameter['in']} {parameter['name']}": parameter for parameter in whole}

    for path in document.get("paths", {}).values():
        above = named(path.pop("parameters", []))
        for method in METHODS & set(path):
            path[method]["parameters"] = above | named(path[method].get("parameters", []))
    document.pop("parameters", None)
    return document


def differences(expected, found, at=()):
    """Pairs of a place and the difference there: (`missing`, `extra` or `different`, expected, found)."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(set(expected) | set(found)):
            if key not in found:
                yield (*at, key), ("missing", expected[key], None)
            elif key not in expected:
                yield (*at, key), ("extra", None, found[key])
            else:
                yield from differences(expected[key], found[key], (*at, key))
    elif at[-1] == "required" and isinstance(expected, list) and isinstance(found, list) and sorted(expected) == sorted(found):
        return
    elif isinstance(expected, bool) is not isinstance(found, bool) or expected != found:
        yield at, ("different", expected, found)


def class_of(at):
    """The part of a document that a place is in, and the keyword there."""
    if at[0] == "paths":
        if len(at) <= 2:
            return "path"
        if len(at) == 3:
            return "operation" if at[2] in METHODS else f"path {at[2]}"
        if at[3] == "parameters":
            return "parameter" if len(at) == 5 else f"parameter {at[-1]}"
        return f"operation {at[3]}" + "".join(f" {part}" for part in at[4:] if part in ("content", "required", "schema"))
    if at[0] == "definitions" or at[:2] == ("components", "schemas"):
        rest = at[1:] if at[0] == "definitions" else at[2:]
        if len(rest) == 1:
            return "schema"
        return "property" if len(rest) > 1 and rest[-2] == "properties" else f"schema {rest[-1]}"
    return " ".join(at)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("server", "token", "reference", "reference-token"):
        options.add_argument(f"--{name}", required=True)
    options.add_argument("--only", action="append", metavar="WORD")
    options.add_argument("--words", action="store_true")
    options.add_argument("-v", "--verbose", action="store_true")
    options = options.parse_args()

    expected = Server(options.reference, options.reference_token).documents()
    found = Server(options.server, options.token).documents()
    classes = collections.defaultdict(list)
    for name in sorted(set(expected) | set(found)):
        form = name.split(" ")[0]
        if options.only and not any(word in name for word in options.only):
            continue
        if name not in expected or name not in found:
            classes[form, "document", "missing" if name in expected else "extra"].append((name, (), None, None))
            continue
        for at, (how, old, new) in differences(followed(expected[name]), followed(found[name])):
            is_words = at[-1] == "description" and at[-2] != "properties"
            if options.words or not is_words:
                classes[form, class_of(at), how].append((name, at, old, new))

    for (form, what, how), cases in sorted(classes.items()):
        print(f"{len(cases):6}  {form}  {what}: {how}")
        for name, at, old, new in cases if options.verbose else cases[:EXAMPLES]:
            print(f"            {name}  {' > '.join(at)}")
            if how != "missing" and at:
                print(f"              found     {json.dumps(new)[:300]}")
            if how != "extra" and at:
                print(f"              expected  {json.dumps(old)[:300]}")
    total = sum(map(len, classes.values()))
    print(f"{total} differences in {len(classes)} classes")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
