"""kopf on custom resources: database_operator.py runs as a process of its own and does its work."""

import contextlib
import os
import sys
from typing import NamedTuple

import yaml

from cases import Api, Suite, equal, until
from kopf_suite import FINALIZER, Operator

suite = Suite("kopf custom")
case = suite.case

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATOR = os.path.join(HERE, "database_operator.py")
GROUP = "kopf.example.org"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Given(NamedTuple):
    api: Api
    namespace: str
    operator: Operator

    @property
    def databases(self) -> str:
        return f"/apis/{GROUP}/v1/namespaces/{self.namespace}/databases"

    def create(self, name: str, labels: dict = {}, **spec) -> None:
        self.api("POST", self.databases, {"apiVersion": f"{GROUP}/v1", "kind": "Database",
                                          "metadata": {"name": name, "labels": labels}, "spec": {"engine": "postgres", **spec}})

    def get(self, name: str, collection: str = "") -> dict:
        """The object, or nothing where there is none."""
        found = self.api("GET", f"{collection or self.databases}?fieldSelector=metadata.name={name}")["items"]
        return found[0] if found else {}

    def config_map(self, name: str) -> dict:
        return self.get(name, f"/api/v1/namespaces/{self.namespace}/configmaps")

    def until_status(self, name: str, **wanted) -> dict:
        def has_status():
            found = self.get(name)
            status = found.get("status", {})
            return found if all(status.get(field) == value for field, value in wanted.items()) else None

        return self.operator.until(f"{name} has the status {wanted}", has_status)


def define(api: Api) -> None:
    """Kopf also wants to keep its own notes in the status, and counts in it."""
    with open(os.environ["KEEPWATCH_DATABASE_YAML"]) as file:
        definition = yaml.safe_load(file.read().replace("NS.example.org", GROUP).replace("NS", "kopf"))
    status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    status["x-kubernetes-preserve-unknown-fields"] = True
    api("POST", DEFINITIONS, definition)
    until("the definition is established", lambda: any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in api("GET", f"{DEFINITIONS}/databases.{GROUP}")["status"].get("conditions") or []))


@case
def it_reconciles_an_object_from_its_creation_to_its_deletion(given):
    given.create("a", replicas=2)
    made = given.until_status("a", host="a.example.org", replicas=2, conditions=[{"type": "Ready", "status": "True"}])
    equal((made["metadata"]["finalizers"], made["metadata"]["generation"]), ([FINALIZER], 1))
    config_map = given.config_map("a")
    owner = config_map["metadata"]["ownerReferences"][0]
    equal((config_map["data"], owner["kind"], owner["uid"]), ({"engine": "postgres", "replicas": "2"}, "Database", made["metadata"]["uid"]))
    given.api.merge(f"{given.databases}/a", {"spec": {"replicas": 5}})
    given.until_status("a", replicas=5)
    equal(given.config_map("a")["data"]["replicas"], "5")
    given.api("DELETE", f"{given.databases}/a")
    given.operator.until("a is gone", lambda: not given.get("a"))
    equal(bool(given.config_map("a-backup")), True)


@case
def it_reconciles_what_happened_while_it_was_away(given):
    given.create("a")
    given.create("b")
    given.until_status("a", replicas=1)
    given.until_status("b", replicas=1)
    given.operator.stop()
    given.api.merge(f"{given.databases}/a", {"spec": {"replicas": 3}})
    given.api("DELETE", f"{given.databases}/b")
    equal(bool(given.get("b")["metadata"].get("deletionTimestamp")), True)
    given.create("c", replicas=4)
    given.operator.start()
    given.until_status("a", replicas=3)
    given.until_status("c", replicas=4)
    given.operator.until("b is gone", lambda: not given.get("b"))


@case
def it_gives_up_where_it_cannot_succeed_and_posts_an_event(given):
    given.create("a", engine="mysql")
    events = f"/api/v1/namespaces/{given.namespace}/events?fieldSelector=involvedObject.name=a,type=Error"
    event = given.operator.until("there is an event", lambda: given.api("GET", events)["items"])[0]
    equal((event["involvedObject"]["kind"], event["involvedObject"]["apiVersion"]), ("Database", f"{GROUP}/v1"))
    equal("host" in given.get("a").get("status", {}), False)


@case
def its_timer_writes_the_status_again_and_again(given):
    given.create("a", labels={"timed": "yes"})
    given.until_status("a", replicas=1, ticks=1)
    ticks = given.operator.until("there are more ticks", lambda: given.get("a")["status"].get("ticks", 0) > 2)
    equal((ticks, given.get("a")["metadata"]["generation"]), (True, 1))


@contextlib.contextmanager
def fixture(number: int):
    api = Api()
    namespace = api.namespace(f"kopf-custom-{number}")
    operator = Operator(namespace, OPERATOR)
    operator.start()
    try:
        yield Given(api, namespace, operator)
    finally:
        operator.stop()


if __name__ == "__main__":
    define(Api())
    sys.exit(0 if suite.run(fixture, jobs=2) else 1)
