"""The Python client: typed calls, watches that go on where they ended, its informer, and the dynamic client."""

import contextlib
import logging
import sys
import threading
import time
from typing import NamedTuple

from kubernetes import client, config, dynamic, informer, utils, watch
from kubernetes.client import ApiException

import servers
from cases import TOKEN, WAIT_SECONDS, Api, Suite, equal, has, until

suite = Suite("python")
case = suite.case


class Given(NamedTuple):
    namespace: str
    api: client.ApiClient
    core: client.CoreV1Api


def config_map(name: str, **data) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def deployment(name: str) -> dict:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}}}


def names(objects) -> list:
    return [each.metadata.name for each in objects]


def refused(status: int, function, *args, **kwargs) -> ApiException:
    try:
        function(*args, **kwargs)
    except ApiException as error:
        equal(error.status, status)
        return error
    raise AssertionError(f"{function.__name__} was not refused")


def api_of(server: servers.Server) -> client.CoreV1Api:
    """A client of a server with flags of its own."""
    settings = client.Configuration()
    settings.host = server.url
    settings.ssl_ca_cert = server.ca
    settings.api_key = {"authorization": TOKEN}
    settings.api_key_prefix = {"authorization": "Bearer"}
    return client.CoreV1Api(client.ApiClient(settings))


@case
def objects_are_created_read_replaced_and_deleted(given):
    made = given.core.create_namespaced_config_map(given.namespace, config_map("a", x="1"))
    equal(made.metadata.creation_timestamp.tzinfo is not None, True)
    made.data["x"] = "2"
    given.core.replace_namespaced_config_map("a", given.namespace, made)
    error = refused(409, given.core.replace_namespaced_config_map, "a", given.namespace, made)
    has(error.body, '"reason":"Conflict"')
    equal(given.core.read_namespaced_config_map("a", given.namespace).data, {"x": "2"})
    given.core.delete_namespaced_config_map("a", given.namespace)
    refused(404, given.core.read_namespaced_config_map, "a", given.namespace)


@case
def a_list_is_read_in_pages_and_by_selectors(given):
    for name in "abcde":
        made = config_map(name)
        made.metadata.labels = {"odd": str(name in "ace")}
        given.core.create_namespaced_config_map(given.namespace, made)
    seen, token = [], None
    while token != "":
        page = given.core.list_namespaced_config_map(given.namespace, limit=2, _continue=token)
        seen += names(page.items)
        token = page.metadata._continue or ""
    equal(seen, list("abcde"))
    equal(names(given.core.list_namespaced_config_map(given.namespace, label_selector="odd=True").items), list("ace"))
    equal(names(given.core.list_namespaced_config_map(given.namespace, field_selector="metadata.name=b").items), ["b"])
    given.core.delete_collection_namespaced_config_map(given.namespace, label_selector="odd=True")
    equal(names(given.core.list_namespaced_config_map(given.namespace).items), ["b", "d"])


@case
def a_patch_is_a_list_of_operations_or_a_part_of_the_object(given):
    apps = client.AppsV1Api(given.api)
    apps.create_namespaced_deployment(given.namespace, deployment("web"))
    patched = apps.patch_namespaced_deployment("web", given.namespace, [{"op": "replace", "path": "/spec/replicas", "value": 4}])
    equal(patched.spec.replicas, 4)
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:1"}]}}}}
    patched = apps.patch_namespaced_deployment("web", given.namespace, sidecar)
    equal(sorted(names_of_containers(patched)), ["a", "b"])
    apps.patch_namespaced_deployment_scale("web", given.namespace, {"spec": {"replicas": 2}})
    equal(apps.read_namespaced_deployment_scale("web", given.namespace).spec.replicas, 2)
    apps.patch_namespaced_deployment_status("web", given.namespace, {"status": {"replicas": 2}})
    equal(apps.read_namespaced_deployment("web", given.namespace).status.replicas, 2)


def names_of_containers(deployed) -> list:
    return [container.name for container in deployed.spec.template.spec.containers]


@case
def files_with_several_objects_are_created(given):
    objects = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}, deployment("web")]
    utils.create_from_yaml(given.api, yaml_objects=objects, namespace=given.namespace)
    equal(names(given.core.list_namespaced_service_account(given.namespace, field_selector="metadata.name=robot").items), ["robot"])


@case
def the_server_says_who_one_is_and_what_one_may(given):
    review = client.AuthorizationV1Api(given.api).create_self_subject_access_review(client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=client.V1ResourceAttributes(verb="list", resource="pods"))))
    equal(review.status.allowed, True)
    reviewed = client.AuthenticationV1Api(given.api).create_token_review(
        client.V1TokenReview(spec=client.V1TokenReviewSpec(token=TOKEN)))
    equal((reviewed.status.authenticated, reviewed.status.user.username), (True, "admin"))
    has(client.VersionApi(given.api).get_code().git_version, "v1.36")


@case
def a_watch_sees_each_change_once_and_in_order(given):
    def change():
        given.core.create_namespaced_config_map(given.namespace, config_map("a"))
        given.core.patch_namespaced_config_map("a", given.namespace, {"data": {"x": "1"}})
        given.core.delete_namespaced_config_map("a", given.namespace)

    changes = threading.Timer(0.5, change)
    changes.start()
    seen = []
    watching = watch.Watch()
    for event in watching.stream(given.core.list_namespaced_config_map, given.namespace, timeout_seconds=WAIT_SECONDS):
        seen.append((event["type"], event["object"].metadata.name, event["object"].data))
        if event["type"] == "DELETED":
            watching.stop()
    equal(seen, [("ADDED", "a", None), ("MODIFIED", "a", {"x": "1"}), ("DELETED", "a", {"x": "1"})])


@case
def a_watch_goes_on_from_the_last_version_seen(given):
    given.core.create_namespaced_config_map(given.namespace, config_map("a"))
    first = watch.Watch()
    equal([event["object"].metadata.name for event in
           first.stream(given.core.list_namespaced_config_map, given.namespace, timeout_seconds=1)], ["a"])
    for name in "bc":
        given.core.create_namespaced_config_map(given.namespace, config_map(name))
    given.core.delete_namespaced_config_map("a", given.namespace)
    second = watch.Watch()
    events = second.stream(given.core.list_namespaced_config_map, given.namespace,
                           resource_version=first.resource_version, timeout_seconds=1)
    equal([(event["type"], event["object"].metadata.name) for event in events], [("ADDED", "b"), ("ADDED", "c"), ("DELETED", "a")])


@case
def a_watch_that_the_server_keeps_ending_loses_and_repeats_nothing(_):
    with servers.Server("--storage=memory", "--min-request-timeout=1") as server:
        core = api_of(server)
        wanted = [f"c{number:02}" for number in range(30)]

        def write():
            for name in wanted:
                core.create_namespaced_config_map("default", config_map(name))
                time.sleep(0.15)

        writing = threading.Thread(target=write)
        begin = core.list_namespaced_config_map("default").metadata.resource_version
        writing.start()
        watching, seen = watch.Watch(), []
        for event in watching.stream(core.list_namespaced_config_map, "default", resource_version=begin):
            seen.append(event["object"].metadata.name)
            if seen[-1] == wanted[-1]:
                watching.stop()
        writing.join()
        equal(seen, wanted)


@case
def a_watch_from_a_version_that_is_gone_is_told_so(_):
    with servers.Server("--storage=memory", "--watch-cache=false", "--history-min-age=1s", "--history-min-events=1") as server:
        core = api_of(server)

        def is_gone():
            core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="c-")))
            try:
                list(watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version="1", timeout_seconds=1))
            except ApiException as error:
                equal(error.status, 410)
                return True

        until("410", is_gone)


@case
def a_bookmark_says_how_far_a_watch_has_come_that_saw_nothing(given):
    begin = given.core.create_namespaced_config_map(given.namespace, config_map("a")).metadata.resource_version
    other = Api().namespace(f"{given.namespace}-other")
    elsewhere = threading.Timer(0.5, lambda: given.core.create_namespaced_config_map(other, config_map("a")))
    elsewhere.start()
    watching = watch.Watch()
    events = list(watching.stream(given.core.list_namespaced_config_map, given.namespace, resource_version=begin,
                                  allow_watch_bookmarks=True, timeout_seconds=4))
    equal({event["type"] for event in events}, {"BOOKMARK"})
    equal(int(watching.resource_version) > int(begin), True)


@case
def a_shared_informer_keeps_a_copy_and_tells_what_changed(given):
    given.core.create_namespaced_config_map(given.namespace, config_map("a"))
    seen = []
    shared = informer.SharedInformer(given.core.list_namespaced_config_map, namespace=given.namespace)
    for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
        shared.add_event_handler(kind, lambda changed, kind=kind: seen.append((kind, changed.metadata.name)))
    shared.start()
    try:
        until("a is seen", lambda: ("ADDED", "a") in seen)
        given.core.create_namespaced_config_map(given.namespace, config_map("b"))
        given.core.patch_namespaced_config_map("b", given.namespace, {"data": {"x": "1"}})
        given.core.delete_namespaced_config_map("a", given.namespace)
        until("the end is seen", lambda: seen[-1] == ("DELETED", "a"))
        equal(seen, [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")])
        equal(names(shared.cache.list()), ["b"])
    finally:
        shared.stop()


@case
def the_dynamic_client_finds_kinds_by_discovery(given):
    found = dynamic.DynamicClient(given.api)
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
    equal((deployments.name, deployments.namespaced, "scale" in deployments.subresources), ("deployments", True, True))
    deployments.create(body=deployment("web"), namespace=given.namespace)
    patched = deployments.patch(name="web", namespace=given.namespace, body={"spec": {"replicas": 3}},
                                content_type="application/merge-patch+json")
    equal(patched.spec.replicas, 3)
    equal(deployments.scale.get(name="web", namespace=given.namespace).spec.replicas, 3)
    equal(names(deployments.get(namespace=given.namespace, label_selector="none=such").items), [])
    equal(names(deployments.get(namespace=given.namespace).items), ["web"])
    deployments.delete(name="web", namespace=given.namespace)
    config_maps = found.resources.get(api_version="v1", kind="ConfigMap")
    config_maps.create(body={"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}, namespace=given.namespace)
    seen = [(event["type"], event["object"].metadata.name) for event in config_maps.watch(namespace=given.namespace, timeout=1)]
    equal(seen, [("ADDED", "a")])


@contextlib.contextmanager
def fixture(number: int):
    with client.ApiClient() as api:
        yield Given(Api().namespace(f"python-{number}"), api, client.CoreV1Api(api))


if __name__ == "__main__":
    logging.getLogger("kubernetes.informer").setLevel(logging.CRITICAL)  # it calls being stopped an error
    config.load_kube_config()
    sys.exit(0 if suite.run(fixture) else 1)
