#!/usr/bin/env python3
"""Sends thousands of nearly valid requests to two API servers and prints where their answers differ.

  matrix.py --reference URL --reference-token T                    against a Keepwatch that it starts
  matrix.py … --server URL --token T                               against a server that runs
  matrix.py … --kind pods --kind '*.apps' --verb create            some kinds, some verbs
  matrix.py … --scenarios DIR                                      also writes the cases that differ as scenarios to record

The reference can also be named by MATRIX_REFERENCE and MATRIX_REFERENCE_TOKEN; without one nothing is compared, and the
run is skipped. README.md says more. Only the standard library is used.

Reading order: Schemas, mutations of a value, Kind and the requests of a kind (cases), the compared part of an answer
(view, differences), main.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import copy
import fnmatch
import hashlib
import json
import os
import re
import sys
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import servers
from matrix_objects import KINDS
from replay import IP, MARK, Client, Recorder

NAMESPACE = "fields"
VERBS = ["create", "update", "status", "merge", "strategic", "json", "delete"]
# Of the fields of a pod template this share is tried in kinds other than pods.
TEMPLATE_SHARE = 0.04
# Fields of metadata that all kinds treat alike: this share is tried in kinds other than configmaps.
METADATA_SHARE = 0.06
# The depth up to which a sample has required fields.
DEPTH = 14
# The time that controllers of the reference may take.
CONTROLLERS_SECONDS = 1.0
# Keepwatch's warnings of its own limits.
OWN_WARNING = re.compile(r'(, )?299 - "[^"]*not (passed on to other API servers|enforced|called) yet[^"]*"')
VERSION_IN_RECORD = re.compile(r"in record \((\d+|\{rv\})\)")
# An object in an error message, as the reference holds it in memory: its fields have other names or are shown though unset.
SHOWN = re.compile(r"Invalid value: (?:[\[{]|<any>).*?(?=: [a-z`])")
# Types of Go that are texts have names of their own.
GO_TYPE = re.compile(r"(?<=cannot convert int64 to )\w+\.\w+")
IN_MEMORY = re.compile(r'<any>|:null|"[A-Z]')
ABSENT = object()


# ---------------------------------------------------------------------------------------------
# Schemas.

class Schemas:
    """The schemas of a server's OpenAPI v3 documents, by name."""

    def __init__(self, client):
        self.client, self.known, self.by_kind = client, {}, {}

    def load(self, group_version):
        path = ("api/" if "/" not in group_version else "apis/") + group_version
        found = self.client.request("GET", f"/openapi/v3/{path}").body["components"]["schemas"]
        for name, schema in found.items():
            self.known[name] = schema
            for gvk in schema.get("x-kubernetes-group-version-kind", []):
                own = "/".join(part for part in (gvk["group"], gvk["version"]) if part)
                self.by_kind[own, gvk["kind"]] = schema

    def resolve(self, schema):
        """The schema behind a reference, and its name."""
        for part in [schema, *schema.get("allOf", [])]:
            if "$ref" in part:
                name = part["$ref"].rsplit("/", 1)[1]
                return self.known[name], name
        return schema, ""

    def sample(self, schema, field="", depth=0):
        """A small value that the schema allows, with what it requires."""
        schema, name = self.resolve(schema)
        if schema.get("enum"):
            return next(word for word in schema["enum"] if word)
        if name.endswith(".Quantity"):
            return "1"
        if name.endswith(".IntOrString"):
            return 1
        form = schema.get("format")
        kind = schema.get("type", "")
        if kind == "object" or "properties" in schema:
            if "additionalProperties" in schema:
                return {"k": self.sample(schema["additionalProperties"], field, depth + 1)}
            required = schema.get("required", []) if depth < DEPTH else []
            return {key: self.sample(schema["properties"][key], key, depth + 1) for key in required}
        if kind == "array":
            return [self.sample(schema["items"], field, depth + 1)]
        if kind == "string":
            words = {"date-time": "2024-01-01T00:00:00Z", "byte": "YQ=="}
            return words.get(form) or ("2024-01-01T00:00:00.000000Z" if name.endswith("MicroTime") else "a")
        return {"integer": 1, "number": 1, "boolean": True}.get(kind, {})


# ---------------------------------------------------------------------------------------------
# Mutations of a value.

STRINGS = ["", "Bad_Value!", "a", "a.example.com", "x" * 260, 7, {}, []]
BYTES = ["", "YQ==", "!", 7]
TIMES = ["", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456Z", "yesterday", 7]
QUANTITIES = ["", "0", "-1", "1Gi", "1.5", "100m", "1 Gi", 2, 0.5, "9999999999999999999", {}]
NUMBERS_OR_STRINGS = [0, -1, 65536, "", "http", "50%", "150%", "-1%", 1.5, {}, "x" * 64]
INTEGERS = [-1, 0, 1, 100, 65536, 2147483648, 9223372036854775807, 1.5, "1"]
BOOLEANS = [True, False, "true", 1]


def mutations(schemas, schema, value, path=(), within=(), chosen=lambda path: True):
    """Pairs of a path with a word for the mutation, and the whole value with the mutation."""
    given = schema
    schema, name = schemas.resolve(schema)
    field, depth = path[-1] if path else "", len(path)

    def here(word, new):
        return (".".join(map(str, path)), word), new

    if value is not ABSENT:
        if path and chosen(path):
            yield here("absent", ABSENT)
            yield here("null", None)
    present = value if value is not ABSENT and value is not None else schemas.sample(given, field, depth)
    if path and chosen(path) and present != value:
        yield here("sample", present)
    leaves = None
    if name.endswith(".Quantity"):
        leaves = QUANTITIES
    elif name.endswith(".IntOrString"):
        leaves = NUMBERS_OR_STRINGS
    elif schema.get("enum"):
        leaves = [*schema["enum"], "Unknown", 7]
    elif schema.get("type") == "string":
        leaves = {"byte": BYTES, "date-time": TIMES}.get(schema.get("format"), STRINGS)
    elif schema.get("type") in ("integer", "number"):
        leaves = INTEGERS
    elif schema.get("type") == "boolean":
        leaves = BOOLEANS
    if leaves is not None:
        if chosen(path):
            for new in leaves:
                if new != value or isinstance(new, bool) != isinstance(value, bool):
                    yield here("=" + json.dumps(new)[:24], new)
        return
    if name and name in within:     # a schema that contains itself is followed once
        return
    within = (*within, name)
    if schema.get("type") == "array":
        if chosen(path):
            for new in ([], [None], [*present, *present], "x", {}):
                if new != value:
                    yield here("=twice" if new == [*present, *present] and new else "=" + json.dumps(new), new)
        for at in range(len(present) or 1):
            item = present[at] if present else schemas.sample(schema["items"], field, depth)
            for label, new in mutations(schemas, schema["items"], item, (*path, at), within, chosen):
                if new is not ABSENT:
                    yield label, [*present[:at], new, *present[at + 1:]]
        return
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        one = next(iter(present.values()), None) if present else None
        one = schemas.sample(inner, field, depth) if one is None else one
        if chosen(path):
            for key in ("", "Bad_Key!", "a/b/c", "example.com/k", "x" * 260):
                # Alone: among others its turn would be random.
                yield here(f"key {key[:12]!r}", {key: one})
            for new in ({}, [], "x", {"k": None}):
                if new != value:
                    yield here("=" + json.dumps(new), new)
        key = next(iter(present), "k")
        for label, new in mutations(schemas, inner, present.get(key, one), (*path, key), within, chosen):
            yield label, {k: v for k, v in {**present, key: new}.items() if v is not ABSENT}
        return
    properties = schema.get("properties")
    if properties is None:      # free form
        return
    if chosen(path):
        yield here("unknown field", {**present, "zzz": 1})
        if path:
            for new in ({}, [], "x"):
                if new != value:
                    yield here("=" + json.dumps(new), new)
    for key, inner in properties.items():
        if not path and key in ("apiVersion", "kind"):
            continue
        for label, new in mutations(schemas, inner, present.get(key, ABSENT), (*path, key), within, chosen):
            yield label, {k: v for k, v in {**present, key: new}.items() if v is not ABSENT}


def merge_patch(old, new):
    """The patch that turns old into new, with objects merged and lists replaced."""
    patch = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old or old[key] != value or isinstance(old[key], bool) != isinstance(value, bool):
            both = isinstance(old.get(key), dict) and isinstance(value, dict)
            patch[key] = merge_patch(old[key], value) if both else value
    return patch


def json_patch(old, new, path=""):
    """The operations that turn old into new."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            pointer = path + "/" + key.replace("~", "~0").replace("/", "~1")
            if key not in new:
                yield {"op": "remove", "path": pointer}
            elif key not in old:
                yield {"op": "add", "path": pointer, "value": new[key]}
            else:
                yield from json_patch(old[key], new[key], pointer)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (before, after) in enumerate(zip(old, new)):
            yield from json_patch(before, after, f"{path}/{at}")
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield {"op": "replace", "path": path, "value": new}


# ---------------------------------------------------------------------------------------------
# Kinds and their requests.

class Kind(NamedTuple):
    key: str
    group_version: str
    name: str
    plural: str
    namespaced: bool
    verbs: list
    has_status: bool
    schema: dict

    def collection(self):
        root = "/api/" if "/" not in self.group_version else "/apis/"
        return root + self.group_version + ("/namespaces/{ns}/" if self.namespaced else "/") + self.plural

    def object(self, body):
        """A whole object with the given fields."""
        metadata = {"name": "matrix-{id}", **body.get("metadata", {})}
        return {"apiVersion": self.group_version, "kind": self.name, **body, "metadata": metadata}


class Case(NamedTuple):
    kind: Kind
    verb: str
    start: str              # the object it starts from
    field: str
    word: str               # the mutation of the field
    do: str                 # method and target
    headers: dict
    text: str               # the body

    def title(self):
        return f"{self.kind.key} {self.verb} ({self.start}) {self.field} {self.word}"


def discover(client):
    """The resources that a server lists: those with a name of their own, by key of KINDS."""
    found = {}
    groups = [("api/v1", "v1")]
    for group in client.request("GET", "/apis").body["groups"]:
        groups += [("apis/" + version["groupVersion"], version["groupVersion"]) for version in group["versions"]]
    for path, group_version in groups:
        resources = client.request("GET", "/" + path).body["resources"]
        names = {resource["name"] for resource in resources}
        group, _, version = group_version.rpartition("/")
        for resource in resources:
            plural = resource["name"]
            if "/" in plural:
                continue
            keys = [".".join(part for part in parts if part) for parts in ((plural, group), (plural, version, group))]
            key = next((key for key in keys if key in KINDS), keys[0])
            found[key] = (group_version, resource, plural + "/status" in names)
    return found


def another(document):
    """An object like it, which does not stand in the way of it."""
    text = json.dumps(document)
    return json.loads(text.replace("{id}", "{other}").replace("{octet}", "{other-octet}"))


class Generator:
    """Makes the cases of a kind. Random values follow the seed."""

    def __init__(self, schemas, seed, share):
        self.schemas, self.seed, self.share = schemas, seed, share

    def lot(self, *what):
        """A number below one that is always the same for the same words."""
        digest = hashlib.sha256("\0".join(map(str, (self.seed, *what))).encode()).digest()
        return int.from_bytes(digest[:6], "big") / (1 << 48)

    def chosen(self, kind, start, share):
        """Which fields are tried."""
        def choose(path):
            odds = share
            if path[:1] == ("metadata",):
                odds *= 1 if kind.key == "configmaps" and start == "plain" else METADATA_SHARE
            if "template" in path and kind.key != "pods":
                odds *= TEMPLATE_SHARE
            if path[:1] == ("status",):
                odds *= 0.1
            return odds >= 1 or self.lot(kind.key, start, *path) < odds
        return choose

    def creates(self, kind):
        for start, body in KINDS[kind.key].items():
            whole = another(kind.object(body))
            first = start == next(iter(KINDS[kind.key]))
            share = self.share * (1 if first or kind.key not in ("pods",) else 0.4)
            for (field, word), new in self.mutate(kind, kind.schema, whole, self.chosen(kind, start, share)):
                yield self.case(kind, "create", start, field, word, f"POST {kind.collection()}", new)

    def mutate(self, kind, schema, whole, chosen):
        yield ("", "unchanged"), whole
        yield from mutations(self.schemas, schema, whole, chosen=chosen)

    def changes(self, kind, start, stored):
        """Changes of an object that is stored, with {rv}, {uid} and {created} in it."""
        one = f"{kind.collection()}/{stored['metadata']['name']}"
        share = self.share * (0.5 if kind.key == "pods" else 1)
        ways = [way for way in ("update", "merge", "strategic", "json") if ("update" if way == "update" else "patch") in kind.verbs]
        for (field, word), new in self.mutate(kind, kind.schema, stored, self.chosen(kind, start + " change", share)):
            for way in ways:
                # An update shows most, and each field is patched in some way.
                if way == "update" or not field or self.lot(kind.key, field, word, way) < 0.34:
                    yield self.change(kind, way, start, field, word, one, stored, new)
        if kind.has_status:
            def choose(path):
                return path[:1] == ("status",) and self.lot("status", kind.key, *path) < self.share \
                    or path[:1] != ("status",) and self.lot("status", kind.key, *path) < 0.02
            for (field, word), new in mutations(self.schemas, kind.schema, stored, chosen=choose):
                for way in ways:
                    if way == "update" or self.lot("status", kind.key, field, word, way) < 0.2:
                        case = self.change(kind, way, start, field, word, one + "/status", stored, new)
                        yield case._replace(verb="status")

    def change(self, kind, way, start, field, word, target, stored, new):
        if way == "update":
            return self.case(kind, way, start, field, word, f"PUT {target}", new)
        if way == "json":
            body = list(json_patch(stored, new))
        else:
            body = merge_patch(stored, new)
        content = {"merge": "merge-patch", "strategic": "strategic-merge-patch", "json": "json-patch"}[way]
        return self.case(kind, way, start, field, word, f"PATCH {target}", body, {"Content-Type": f"application/{content}+json"})

    def deletions(self, kind, start, stored):
        options = self.schemas.by_kind["v1", "DeleteOptions"]
        whole = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
        target = f"DELETE {kind.collection()}/{stored['metadata']['name']}"
        share = 1 if kind.key in ("pods", "configmaps", "deployments.apps", "namespaces") else 0.3
        choose = self.chosen(kind, start + " deletion", share)
        for (field, word), new in self.mutate(kind, options, whole, choose):
            # Without a dry run the object of the following cases would be deleted.
            yield self.case(kind, "delete", start, field, word, target, new)

    def case(self, kind, verb, start, field, word, do, body, headers=None):
        strict = self.lot("strict", kind.key, verb, field, word) < 0.1
        query = "?dryRun=All" + ("&fieldValidation=Strict" if strict else "")
        return Case(kind, verb, start, field, word + (" (strict)" if strict else ""), do + query, headers or {}, json.dumps(body))


# ---------------------------------------------------------------------------------------------
# Sending, and what of an answer is compared.

class Server:
    """One of the two servers, with what it chose for the objects that both have."""

    def __init__(self, client, run):
        self.client, self.run = client, run

    def render(self, text, chosen=None):
        for name, value in {**self.run, **(chosen or {})}.items():
            text = text.replace("{%s}" % name, value)
        return text

    def send(self, do, text=None, headers=None, chosen=None):
        method, target = self.render(do, chosen).split(" ", 1)
        body = None if text is None else self.render(text, chosen).encode()
        return self.client.request(method, target, headers, body)


def view(server, case, answer, chosen):
    """The answer without what differs by nature."""
    body = answer.body
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "managedFields"}}
    expressions = [(value, "{%s}" % name) for name, value in {**server.run, **chosen}.items() if value and name != "user" and "octet" not in name]
    source = server.render(case.text, chosen)
    if case.verb == "create" and isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        # The object that it starts from may have been created in the same second.
        body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "creationTimestamp"}}
    if isinstance(body, dict) and chosen.get("user") and (body.get("spec") or {}).get("uid") == chosen["user"]:
        body = {**body, "spec": {**body["spec"], "uid": "{user}"}}
    body = Recorder(source, "no-such-id").record(body, expressions)
    body = json.loads(VERSION_IN_RECORD.sub("in record (<rv>)", MARK.sub("<rv>", json.dumps(body, ensure_ascii=False)))
                      .replace("Key: /registry/", "Key: /"))     # a dry run does not get as far as the prefix
    warnings = OWN_WARNING.sub("", answer.headers.get("warning", ""))
    return {"status": answer.status, "warnings": Recorder(source, "no-such-id").record(warnings, expressions) if warnings else "",
            "body": body}


def differences(expected, got, path=""):
    """Paths at which two values differ, with both."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in {**expected, **got}:
            yield from differences(expected.get(key, "(absent)"), got.get(key, "(absent)"), f"{path}.{key}" if path else key)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for at, (before, after) in enumerate(zip(expected, got)):
            yield from differences(before, after, f"{path}[{at}]")
    elif isinstance(expected, str) and isinstance(got, str):
        # The parts that only a Go program would write are not compared.
        expected = GO_TYPE.sub("<any>", expected)
        if any(IN_MEMORY.search(shown) for shown in SHOWN.findall(expected)):
            expected, got = (SHOWN.sub("Invalid value: <any>", text) for text in (expected, got))
        if expected != got and not re.fullmatch(re.escape(expected).replace("<any>", ".*"), got, re.S):
            yield path, expected, got
    elif expected != got or isinstance(expected, bool) != isinstance(got, bool):
        yield path, expected, got


class Difference(NamedTuple):
    case: Case
    cause: str
    expected: str
    got: str


def compare(case, expected, got):
    """The one difference that says most, or None."""
    found = next(differences(expected, got), None)
    if found is None:
        return None

    def message(seen):
        if seen["status"] < 400:
            return f"{seen['status']}"
        return f"{seen['status']} {seen['body'].get('message', '') if isinstance(seen['body'], dict) else seen['body']}"
    path, before, after = found
    if expected["status"] != got["status"]:
        return Difference(case, f"{expected['status']}, not {got['status']}", message(expected), message(got))
    if expected["status"] >= 400 and path.startswith("body"):
        return Difference(case, f"{got['status']}, in other words", message(expected), message(got))
    return Difference(case, re.sub(r"\[\d+\]", "[]", path), json.dumps(before), json.dumps(after))


def stored(server, kind, start):
    """The object of a kind that changes start from, made on a server; and what the server chose for it."""
    body = kind.object(KINDS[kind.key][start])
    answer = server.send(f"POST {kind.collection()}", json.dumps(body))
    if answer.status == 409:
        answer = server.send(f"GET {kind.collection()}/{body['metadata']['name']}")
    if answer.status >= 300:
        return None, f"{answer.status} {at_message(answer)}"
    metadata = answer.body["metadata"]
    # A signing request contains the uid of its user.
    user = (answer.body.get("spec") or {}).get("uid", "")
    address = (answer.body.get("spec") or {}).get("clusterIP", "")
    return answer.body, {"rv": metadata.get("resourceVersion", ""), "uid": metadata["uid"], "created": metadata["creationTimestamp"],
                         "user": user, "address": address if IP.fullmatch(address) else ""}


def at_message(answer):
    return answer.body.get("message", "") if isinstance(answer.body, dict) else str(answer.body)[:200]


def marked(document, chosen):
    """A stored object with the names of what the server chose."""
    document = copy.deepcopy(document)
    document["metadata"].pop("managedFields", None)
    for field, name in (("resourceVersion", "rv"), ("uid", "uid"), ("creationTimestamp", "created")):
        if field in document["metadata"]:
            document["metadata"][field] = "{%s}" % name
    text = json.dumps(document).replace(chosen["uid"], "{uid}")
    if chosen["address"]:
        text = text.replace(chosen["address"], "{address}")
    document = json.loads(text)
    if "uid" in (document.get("spec") or {}):
        document["spec"]["uid"] = "{user}"
    return document


class Matrix:
    def __init__(self, reference, server, run, options):
        self.reference, self.server = Server(reference, run), Server(server, run)
        self.options = options
        self.schemas = Schemas(reference)
        self.sent = collections.Counter()
        self.found = []

    def kinds(self):
        theirs, ours = discover(self.reference.client), discover(self.server.client)
        for key in sorted(theirs):
            if self.options.kind and not any(fnmatch.fnmatch(key, pattern) for pattern in self.options.kind):
                continue
            group_version, resource, has_status = theirs[key]
            if key not in KINDS or key not in ours:
                if "create" in resource["verbs"] and "get" in resource["verbs"]:
                    print(f"not tried: {key}" + ("" if key in ours else ", which the server does not list"))
                continue
            self.schemas.load(group_version)
            yield Kind(key, group_version, resource["kind"], resource["name"], resource["namespaced"], resource["verbs"], has_status,
                       self.schemas.by_kind[group_version, resource["kind"]])

    def try_kind(self, kind, pool):
        """Returns the number of cases, and the differences."""
        options, generator = self.options, Generator(self.schemas, self.options.seed, self.options.share)
        cases, chosen = [], ({}, {})
        start = next(iter(KINDS[kind.key]))
        theirs, their_choice = stored(self.reference, kind, start)
        ours, our_choice = stored(self.server, kind, start)
        if theirs and ours and kind.has_status:
            ours, our_choice = self.same_status(kind, theirs, ours)
            theirs, their_choice = stored(self.reference, kind, start)
        if theirs is None or ours is None:
            print(f"{kind.key}: no object could be made: {their_choice if theirs is None else our_choice}")
        else:
            if "create" in options.verb:
                cases += generator.creates(kind)
            chosen = their_choice, our_choice
            document = self.render_back(marked(theirs, their_choice))
            cases += [case for case in generator.changes(kind, start, document) if case.verb in options.verb]
            if "delete" in options.verb and "delete" in kind.verbs:
                # One that lost its dryRun would really delete: those are left out.
                cases += [case for case in generator.deletions(kind, start, document) if '"dryRun": ["All"]' in case.text]
        differ = [found for found in pool.map(lambda case: self.try_case(case, chosen), cases) if found]
        self.remove(kind, theirs)
        return len(cases), differ

    def same_status(self, kind, theirs, ours):
        """Gives our object the status that the reference's own controllers have written."""
        time.sleep(CONTROLLERS_SECONDS)
        start = next(iter(KINDS[kind.key]))
        theirs, _ = stored(self.reference, kind, start)
        if theirs.get("status") != ours.get("status"):
            one = f"{kind.collection()}/{theirs['metadata']['name']}/status"
            patch = [{"op": "add", "path": "/status", "value": theirs.get("status", {})}]
            self.server.send(f"PATCH {one}", json.dumps(patch), {"Content-Type": "application/json-patch+json"})
        return stored(self.server, kind, start)

    def render_back(self, document):
        """A document with this run's namespace and id named again."""
        text = json.dumps(document)
        for name in ("id", "ns"):
            text = text.replace(self.reference.run[name], "{%s}" % name)
        return json.loads(text)

    def try_case(self, case, chosen):
        seen = []
        for server, choice in zip((self.reference, self.server), chosen):
            try:
                seen.append(view(server, case, server.send(case.do, case.text, case.headers, choice), choice))
            except OSError as error:
                seen.append({"status": 0, "warnings": "", "body": f"no answer: {type(error).__name__}"})
        return compare(case, *seen)

    def remove(self, kind, document):
        if document is None:
            return
        one = f"{kind.collection()}/{document['metadata']['name']}"
        for server in (self.reference, self.server):
            server.send(f"DELETE {one}", json.dumps({"gracePeriodSeconds": 0}))
            server.send(f"PATCH {one}", json.dumps({"metadata": {"finalizers": None}}), {"Content-Type": "application/merge-patch+json"})


# ---------------------------------------------------------------------------------------------
# Output.

def group(found):
    """Differences by kind, verb and cause, the field's list positions left out."""
    groups = collections.defaultdict(list)
    for difference in found:
        field = re.sub(r"\.\d+(?=\.|$)", "[]", difference.case.field)
        groups[difference.case.kind.key, difference.cause, field].append(difference)
    return sorted(groups.items(), key=lambda entry: (entry[0][0], -len(entry[1])))


def show(found, limit):
    for (_, cause, field), group_of in group(found):
        first = group_of[0]
        verbs = ",".join(sorted({difference.case.verb for difference in group_of}))
        print(f"  {len(group_of):4}  {field or '(whole)'}: {cause} [{verbs}]")
        print(f"          {first.case.title()}\n            expected {first.expected[:limit]}\n            got      {first.got[:limit]}")


def scenarios(found, folder):
    """Writes one case of each group as steps without answers, a file for each kind."""
    by_kind = collections.defaultdict(list)
    for (key, _, _), group_of in group(found):
        by_kind[key].append(group_of[0].case)
    for key, cases in by_kind.items():
        kind = cases[0].kind
        steps = []
        if any(case.verb != "create" for case in cases):
            body = kind.object(next(iter(KINDS[key].values())))
            steps.append({"do": f"POST {kind.collection()}", "body": body,
                          "save": {"rv": "metadata.resourceVersion", "uid": "metadata.uid", "created": "metadata.creationTimestamp"}})
        for case in cases:
            step = {"do": case.do, "body": json.loads(case.text)}
            if case.headers:
                step["headers"] = case.headers
            steps.append(step)
        with open(os.path.join(folder, f"matrix.{key}.json"), "w") as file:
            json.dump({"about": f"Changes of {key} that the matrix found to be answered otherwise.", "steps": steps}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description="Compare two API servers' answers to thousands of nearly valid requests.")
    parser.add_argument("--reference", default=os.environ.get("MATRIX_REFERENCE", ""), help="URL of the server that is right")
    parser.add_argument("--reference-token", default=os.environ.get("MATRIX_REFERENCE_TOKEN", ""))
    parser.add_argument("--server", default="", help="URL of the server to judge; a Keepwatch is started without it")
    parser.add_argument("--token", default="")
    parser.add_argument("--kind", action="append", metavar="PATTERN", help="of these kinds only, such as pods or '*.apps'")
    parser.add_argument("--verb", action="append", choices=VERBS, help="these only")
    parser.add_argument("--seed", type=int, default=1, help="which fields and patches are tried where not all are")
    parser.add_argument("--share", type=float, default=1.0, help="how many of the fields are tried, at most 1")
    parser.add_argument("--jobs", type=int, default=4, help="requests at a time (default 4)")
    parser.add_argument("--width", type=int, default=300, help="how much of an answer is printed")
    parser.add_argument("--scenarios", metavar="DIR", help="write what differs as scenarios into this folder")
    parser.add_argument("--json", metavar="FILE", help="write all differences into this file, a line each")
    options = parser.parse_args()
    options.verb = options.verb or VERBS
    if not options.reference:
        print("skipped: there is no reference; name one by --reference or MATRIX_REFERENCE")
        return 0
    run_id = f"{os.getpid() % 0xFFFF:04x}{int(time.time()) % 0xFFF:03x}x"
    octet = os.getpid() % 200 + 20
    run = {"id": run_id, "other": f"{run_id}y", "ns": f"{NAMESPACE}-{run_id}", "octet": str(octet), "other-octet": str(octet + 1)}
    with contextlib.ExitStack() as parts:
        if options.server:
            client = Client(options.server, options.token)
        else:
            started = parts.enter_context(servers.Server("--storage=memory", "--namespace-deletion=false"))
            client = Client(started.url, servers.ADMIN_TOKEN)
        return judge(Matrix(Client(options.reference, options.reference_token), client, run, options), options)


def judge(matrix, options):
    total, found = 0, []
    for server in (matrix.reference, matrix.server):
        server.send("POST /api/v1/namespaces", json.dumps({"metadata": {"name": "{ns}"}}))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for kind in matrix.kinds():
            began = time.monotonic()
            count, differ = matrix.try_kind(kind, pool)
            total += count
            found += differ
            print(f"{kind.key}: {count} requests, {len(differ)} differ ({time.monotonic() - began:.0f} s)", flush=True)
            show(differ, options.width)
    for server in (matrix.reference, matrix.server):
        server.send("DELETE /api/v1/namespaces/{ns}")
    if options.scenarios:
        scenarios(found, options.scenarios)
    if options.json:
        with open(options.json, "w") as file:
            for difference in found:
                case = difference.case
                file.write(json.dumps({"kind": case.kind.key, "title": case.title(), "do": case.do, "cause": difference.cause,
                                       "expected": difference.expected, "got": difference.got, "text": case.text}) + "\n")
    print(f"{total} requests, {len(found)} answers differ, in {len(group(found))} groups")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
