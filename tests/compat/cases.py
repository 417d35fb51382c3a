"""Cases: functions whose names are sentences, each run in a namespace of its own, each reported in one line.

    suite = Suite("kubectl")

    @suite.case
    def a_label_can_be_changed(kubectl): ...

prints `ok   kubectl: a label can be changed`, or `FAIL kubectl: a label can be changed` and why. Standard library only,
because the programs that use this run with any Python.
"""

import concurrent.futures
import json
import os
import re
import ssl
import threading
import time
import traceback
import urllib.error
import urllib.request

# The server under test, which run.py passes to the programs that it starts.
URL = os.environ.get("KEEPWATCH_URL", "")
TOKEN = os.environ.get("KEEPWATCH_TOKEN", "")
ONLY = os.environ.get("KEEPWATCH_ONLY", "")
WAIT_SECONDS = 20
TRACEBACK_LINES_MAX = 8


class Failed(Exception):
    """The error of a case that failed."""


class Suite:
    def __init__(self, name: str):
        self.name = name
        self.cases = []

    def case(self, function):
        self.cases.append(function)
        return function

    def run(self, fixture, jobs: int = 1) -> bool:
        """Runs the cases that are asked for; `fixture(number)` is a context manager with what each gets."""
        chosen = [case for case in self.cases if ONLY in self.sentence(case)]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(lambda numbered: self._run(numbered[1], fixture, numbered[0]), enumerate(chosen)))
        return all(results)

    def sentence(self, case) -> str:
        return f"{self.name}: {case.__name__.replace('_', ' ')}"

    def _run(self, case, fixture, number: int) -> bool:
        began = time.monotonic()
        try:
            with fixture(number) as given:
                case(given)
        except Exception as error:
            why = str(error) if isinstance(error, Failed) else traceback.format_exc(limit=-TRACEBACK_LINES_MAX, chain=False)
            report("FAIL", self.sentence(case), time.monotonic() - began, why)
            return False
        report("ok", self.sentence(case), time.monotonic() - began)
        return True


_printing = threading.Lock()


def report(outcome: str, sentence: str, seconds: float = 0, why: str = "") -> None:
    slow = f"  ({seconds:.1f} s)" if seconds > 5 else ""
    with _printing:
        print(f"{outcome:<4} {sentence}{slow}")
        for line in why.rstrip().splitlines():
            print(f"       {line}")
        print(end="", flush=True)


def equal(got, wanted) -> None:
    if got != wanted:
        raise Failed(f"wanted  {shown(wanted)}\ngot     {shown(got)}")


def has(text: str, *parts: str) -> None:
    """Every part stands in the text, each after the one before it."""
    rest = text
    for part in parts:
        _, found, rest = rest.partition(part)
        if not found:
            raise Failed(f"wanted  {part!r}\nin      {shown(text)}")


def lacks(text: str, part: str) -> None:
    if part in text:
        raise Failed(f"wanted no {part!r}\nin      {shown(text)}")


def matches(text: str, pattern: str) -> None:
    if not re.search(pattern, text, re.M):
        raise Failed(f"wanted  a match of {pattern}\nin      {shown(text)}")


def shown(value) -> str:
    if not isinstance(value, str):
        return repr(value)
    return "\n        ".join(value.splitlines()) or "(nothing)"


def until(what: str, question, seconds: float = WAIT_SECONDS):
    """Asks until the answer is true, and gives it."""
    end = time.monotonic() + seconds
    while True:
        if answer := question():
            return answer
        if time.monotonic() > end:
            raise Failed(f"after {seconds} s still not: {what}")
        time.sleep(0.05)


class Api:
    """Plain requests, for what a case needs before, beside and after what it is about."""

    def __init__(self, url: str = URL, token: str = TOKEN):
        self.url, self.token = url, token
        self.tls = ssl.create_default_context()
        self.tls.check_hostname = False
        self.tls.verify_mode = ssl.CERT_NONE

    def __call__(self, method: str, path: str, body=None, content_type: str = "application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS, context=self.tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failed(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from error

    def namespace(self, name: str) -> str:
        self("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def merge(self, path: str, change: dict) -> dict:
        return self("PATCH", path, change, "application/merge-patch+json")
