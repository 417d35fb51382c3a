"""kopf, the framework for operators in Python: configmap_operator.py runs as a process of its own and does its work."""

import contextlib
import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

from cases import Api, Failed, Suite, equal, until

suite = Suite("kopf")
case = suite.case

OPERATOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configmap_operator.py")
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


class Given(NamedTuple):
    api: Api
    namespace: str
    operator: "Operator"

    @property
    def maps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def create(self, name: str, **data) -> None:
        self.api("POST", self.maps, {"metadata": {"name": name, "labels": {"operated": "yes"}}, "data": data})

    def get(self, name: str) -> dict:
        """The config map, or nothing where there is none."""
        found = self.api("GET", f"{self.maps}?fieldSelector=metadata.name={name}")["items"]
        return found[0] if found else {}

    def until_annotated(self, name: str, value: str) -> dict:
        def annotated():
            found = self.get(name)
            return found if found.get("metadata", {}).get("annotations", {}).get("example.org/handled") == value else None

        return self.operator.until(f"{name} is annotated with {value!r}", annotated)


class Operator:
    """The operator's process, which can be ended and started again."""

    def __init__(self, namespace: str, program: str = OPERATOR):
        self.namespace, self.program = namespace, program
        self.log = tempfile.NamedTemporaryFile("w+", prefix="keepwatch-kopf-")
        self.process = None

    def start(self) -> None:
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", self.namespace, self.program]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def until(self, what: str, question):
        try:
            return until(what, question)
        except Failed as failed:
            self.log.seek(0)
            raise Failed(f"{failed}\nthe operator said\n{self.log.read()[-4000:]}") from None


@case
def it_handles_a_creation_an_update_and_a_deletion(given):
    given.create("a", colour="blue")
    handled = given.until_annotated("a", "created blue")
    equal(handled["metadata"]["finalizers"], [FINALIZER])
    given.api.merge(f"{given.maps}/a", {"data": {"colour": "red"}})
    given.until_annotated("a", "changed blue to red")
    given.api("DELETE", f"{given.maps}/a")
    given.operator.until("a is gone", lambda: not given.get("a"))
    equal(given.get("a-was")["data"], {"colour": "red"})


@case
def it_handles_what_happened_while_it_was_away(given):
    given.create("a", colour="blue")
    given.create("b", colour="green")
    given.until_annotated("a", "created blue")
    given.until_annotated("b", "created green")
    given.operator.stop()
    given.api.merge(f"{given.maps}/a", {"data": {"colour": "red"}})
    given.api("DELETE", f"{given.maps}/b")
    equal(bool(given.get("b")["metadata"].get("deletionTimestamp")), True)
    given.operator.start()
    given.until_annotated("a", "changed blue to red")
    given.operator.until("b is gone", lambda: not given.get("b"))


@case
def it_posts_events_about_what_it_does(given):
    given.create("a", colour="blue")
    given.until_annotated("a", "created blue")
    events = lambda: given.api("GET", f"/api/v1/namespaces/{given.namespace}/events?fieldSelector=involvedObject.name=a")["items"]
    event = given.operator.until("there are events", events)[0]
    equal((event["reason"], event["involvedObject"]["kind"], event["source"]["component"]), ("Handled", "ConfigMap", "kopf"))


@case
def it_tries_again_when_a_handler_fails(given):
    given.create("a", colour="blue", failures="2")
    given.until_annotated("a", "created blue at the third attempt")


@contextlib.contextmanager
def fixture(number: int):
    api = Api()
    namespace = api.namespace(f"kopf-{number}")
    operator = Operator(namespace)
    operator.start()
    try:
        yield Given(api, namespace, operator)
    finally:
        operator.stop()


if __name__ == "__main__":
    sys.exit(0 if suite.run(fixture, jobs=2) else 1)
