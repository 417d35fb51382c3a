"""The Python client on custom resources: CustomObjectsApi, the dynamic client, watches, and the client of definitions."""

import contextlib
import os
import sys
import threading
from typing import NamedTuple

import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client import ApiException

from cases import WAIT_SECONDS, Api, Suite, equal, has, until
from client import refused

suite = Suite("python custom")
case = suite.case

with open(os.environ["KEEPWATCH_DATABASE_YAML"]) as file:
    DEFINITION = file.read()


class Given(NamedTuple):
    namespace: str
    api: client.ApiClient
    definitions: client.ApiextensionsV1Api
    objects: client.CustomObjectsApi

    @property
    def group(self) -> str:
        return f"{self.namespace}.example.org"

    @property
    def name(self) -> str:
        """The definition's."""
        return f"databases.{self.group}"

    @property
    def collection(self) -> tuple:
        return self.group, "v1", self.namespace, "databases"

    def definition(self) -> dict:
        return yaml.safe_load(DEFINITION.replace("NS", self.namespace))

    def define(self) -> None:
        self.definitions.create_custom_resource_definition(self.definition())
        until("the definition is established", lambda: conditions(self).get("Established") == "True")

    def database(self, name: str, **spec) -> dict:
        return {"apiVersion": f"{self.group}/v1", "kind": "Database", "metadata": {"name": name}, "spec": {"engine": "postgres", **spec}}

    def create(self, name: str, **spec) -> dict:
        return self.objects.create_namespaced_custom_object(*self.collection, self.database(name, **spec))


def conditions(given) -> dict:
    found = given.definitions.read_custom_resource_definition(given.name).status
    return {condition.type: condition.status for condition in found and found.conditions or []}


def names(objects: dict) -> list:
    return [each["metadata"]["name"] for each in objects["items"]]


@case
def a_definition_is_created_read_changed_and_deleted(given):
    given.define()
    found = given.definitions.read_custom_resource_definition(given.name)
    equal((found.spec.names.kind, found.status.accepted_names.list_kind, found.status.stored_versions), ("Database", "DatabaseList", ["v1"]))
    properties = found.spec.versions[0].schema.open_apiv3_schema.properties
    users = properties["spec"].properties["users"]
    equal((users.x_kubernetes_list_type, users.x_kubernetes_list_map_keys, users.items["properties"]["name"]["maxLength"]), ("map", ["name"], 20))
    given.create("a", replicas=9)
    changed = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/maximum", "value": 5}]
    given.definitions.patch_custom_resource_definition(given.name, changed)
    until("the new bound is in force", lambda: is_refused(given.create, "b", replicas=6))
    # What was valid before stays, as long as nobody changes it.
    kept = given.objects.patch_namespaced_custom_object(*given.collection, "a", {"metadata": {"labels": {"a": "b"}}})
    equal((kept["spec"]["replicas"], kept["metadata"]["labels"]), (9, {"a": "b"}))
    refused(422, given.objects.patch_namespaced_custom_object, *given.collection, "a", {"spec": {"replicas": 8}})
    given.definitions.delete_custom_resource_definition(given.name)
    until("it is gone", lambda: is_refused(given.definitions.read_custom_resource_definition, given.name))
    until("its objects are gone", lambda: is_refused(given.objects.list_namespaced_custom_object, *given.collection))


def is_refused(function, *args, **kwargs) -> bool:
    try:
        function(*args, **kwargs)
        return False
    except ApiException:
        return True


@case
def objects_are_created_read_replaced_patched_and_deleted(given):
    given.define()
    made = given.create("a", users=[{"name": "ann"}], limits={"memory": "1Gi", "cpus": 2})
    equal((made["spec"]["replicas"], made["metadata"]["generation"]), (1, 1))
    made["spec"]["replicas"] = 2
    given.objects.replace_namespaced_custom_object(*given.collection, "a", made)
    error = refused(409, given.objects.replace_namespaced_custom_object, *given.collection, "a", made)
    has(error.body, '"reason":"Conflict"')
    patched = given.objects.patch_namespaced_custom_object(*given.collection, "a", {"spec": {"limits": {"cpus": None}}})
    equal((patched["spec"]["limits"], patched["metadata"]["generation"]), ({"memory": "1Gi"}, 3))
    patched = given.objects.patch_namespaced_custom_object(*given.collection, "a", {"spec": {"users": None}})
    equal("users" in patched["spec"], False)
    invalid = refused(422, given.create, "b", engine="oracle")
    has(invalid.body, '"reason":"Invalid"', '"reason":"FieldValueNotSupported"', '"field":"spec.engine"')
    given.objects.delete_namespaced_custom_object(*given.collection, "a")
    refused(404, given.objects.get_namespaced_custom_object, *given.collection, "a")


@case
def status_and_scale_are_subresources(given):
    given.define()
    given.create("a")
    status = {"status": {"replicas": 1, "selector": "app=db"}, "spec": {"replicas": 7}}
    given.objects.patch_namespaced_custom_object_status(*given.collection, "a", status)
    found = given.objects.get_namespaced_custom_object_status(*given.collection, "a")
    equal((found["status"], found["spec"]["replicas"]), ({"replicas": 1, "selector": "app=db"}, 1))
    given.objects.patch_namespaced_custom_object_scale(*given.collection, "a", {"spec": {"replicas": 3}})
    scale = given.objects.get_namespaced_custom_object_scale(*given.collection, "a")
    equal((scale["kind"], scale["spec"], scale["status"]), ("Scale", {"replicas": 3}, {"replicas": 1, "selector": "app=db"}))


@case
def a_list_is_read_in_pages_and_by_selectors(given):
    given.define()
    for name in "abcde":
        given.create(name, engine="mysql" if name in "ace" else "postgres")
    seen, token = [], ""
    while True:
        page = given.objects.list_namespaced_custom_object(*given.collection, limit=2, _continue=token)
        equal(page["kind"], "DatabaseList")
        seen += names(page)
        token = page["metadata"].get("continue", "")
        if not token:
            break
    equal(seen, list("abcde"))
    equal(names(given.objects.list_namespaced_custom_object(*given.collection, field_selector="spec.engine=mysql")), list("ace"))
    equal(names(given.objects.list_cluster_custom_object(given.group, "v1", "databases", field_selector="spec.engine!=mysql")), ["b", "d"])
    refused(400, given.objects.list_namespaced_custom_object, *given.collection, field_selector="spec.replicas=1")
    given.objects.delete_collection_namespaced_custom_object(*given.collection, field_selector="spec.engine=mysql")
    equal(names(given.objects.list_namespaced_custom_object(*given.collection)), ["b", "d"])


@case
def a_watch_sees_each_change_once_and_goes_on_where_it_ended(given):
    given.define()
    given.create("a")
    begin = given.objects.list_namespaced_custom_object(*given.collection)["metadata"]["resourceVersion"]

    def change():
        given.objects.patch_namespaced_custom_object(*given.collection, "a", {"spec": {"replicas": 2}})
        given.objects.patch_namespaced_custom_object_status(*given.collection, "a", {"status": {"host": "h"}})
        given.create("b", engine="mysql")
        given.objects.delete_namespaced_custom_object(*given.collection, "a")

    def seen(of: str, **options) -> list:
        watching, events = watch.Watch(), []
        for event in watching.stream(given.objects.list_namespaced_custom_object, *given.collection, timeout_seconds=WAIT_SECONDS, **options):
            events.append((event["type"], event["object"]["metadata"]["name"]))
            if event["type"] == of:
                return events, event["object"]["metadata"]["resourceVersion"]

    changes = threading.Timer(0.5, change)
    changes.start()
    first, version = seen("MODIFIED", resource_version=begin)
    equal(first, [("MODIFIED", "a")])
    changes.join()
    rest, _ = seen("DELETED", resource_version=version)
    equal(rest, [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")])
    # As the watch is filed: an object enters and leaves by its field.
    given.create("c")
    selected = lambda: given.objects.patch_namespaced_custom_object(*given.collection, "c", {"spec": {"engine": "sqlite"}})
    moved = threading.Timer(0.5, selected)
    moved.start()
    entered, _ = seen("DELETED", resource_version=version, field_selector="spec.engine=postgres")
    equal(entered, [("MODIFIED", "a"), ("DELETED", "a")])
    left, _ = seen("ADDED", resource_version=version, field_selector="spec.engine=sqlite")
    equal(left, [("ADDED", "c")])
    moved.join()


@case
def a_watch_ends_when_the_definition_is_deleted(given):
    given.define()
    given.create("a")
    deletion = threading.Timer(0.5, lambda: given.definitions.delete_custom_resource_definition(given.name))
    deletion.start()
    stream = given.objects.list_namespaced_custom_object(*given.collection, watch=True, timeout_seconds=WAIT_SECONDS, _preload_content=False)
    types = [line.split(b'"')[3] for line in stream if line.strip()]
    equal(types[:2], [b"ADDED", b"DELETED"])
    deletion.join()


@case
def the_dynamic_client_finds_custom_kinds_by_discovery(given):
    utils.create_from_yaml(given.api, yaml_objects=[given.definition()])
    until("the definition is established", lambda: conditions(given).get("Established") == "True")
    found = dynamic.DynamicClient(given.api)

    def resource():
        with contextlib.suppress(dynamic.exceptions.ResourceNotFoundError):
            return found.resources.get(api_version=f"{given.group}/v1", kind="Database")
        found.resources.invalidate_cache()

    databases = until("discovery has the kind", resource)
    equal((databases.name, databases.namespaced, databases.short_names, sorted(databases.subresources)),
          ("databases", True, [f"{given.namespace}-db"], ["scale", "status"]))
    databases.create(body=given.database("a"), namespace=given.namespace)
    patched = databases.patch(name="a", namespace=given.namespace, body={"spec": {"replicas": 3}}, content_type="application/merge-patch+json")
    equal((patched.spec.replicas, patched.spec.engine), (3, "postgres"))
    databases.status.patch(name="a", namespace=given.namespace, body={"status": {"host": "h"}}, content_type="application/merge-patch+json")
    equal(databases.scale.get(name="a", namespace=given.namespace).spec.replicas, 3)
    seen = [(event["type"], event["object"].metadata.name) for event in databases.watch(namespace=given.namespace, timeout=1)]
    equal(seen, [("ADDED", "a")])
    databases.delete(name="a", namespace=given.namespace)
    equal(databases.get(namespace=given.namespace).items, [])


@contextlib.contextmanager
def fixture(number: int):
    with client.ApiClient() as api:
        yield Given(Api().namespace(f"python-custom-{number}"), api, client.ApiextensionsV1Api(api), client.CustomObjectsApi(api))


if __name__ == "__main__":
    config.load_kube_config()
    sys.exit(0 if suite.run(fixture) else 1)
