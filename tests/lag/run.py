#!/usr/bin/env python3
"""Watchers that lag: stalled ones, slow ones, and clients that are away, while objects change and servers are killed.

  tests/lag/run.py                                     a short run on every store
  tests/lag/run.py embedded --seconds 300 --stall 240  one store, minutes of lag
  tests/lag/run.py --seconds 1800 --kill 120           half an hour, the server killed every two minutes

One writer changes objects, one after another, and numbers the changes. Every watcher must see every change once and in
order, however late it reads; ERROR 410 is a fault unless the watcher was further behind than the store promises to keep.
Needs KEEPWATCH_BIN (or a debug build) and, for etcd, ETCD_BIN. Ends with one line, "N passed, N failed".
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import servers

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 20
# Every fifth object is large.
OBJECT_BYTES = [2000, 2000, 2000, 2000, 20000]
# The number of a change, in every encoding of objects.
NUMBER = re.compile(rb"s(\d{9})e")
# The time in which a watcher must receive the rest after the last write, and in which a request must be answered.
PATIENCE_SECONDS = 120
REQUEST_SECONDS = 30
# The time for which every store keeps a change with its default flags; twice as long for a connected watcher.
PROMISED_SECONDS = 300
# More than this is not kept in any case: when the limit is reached, a sixteenth of it is let go of, and sizes are estimates.
KEPT_BYTES_MAX = {"memory": (256 << 20) * 7 / 8, "embedded": (1 << 30) * 7 / 8, "etcd": float("inf")}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf;stream=watch"


class Cluster:
    """A server that may be killed, and is started again on the same port and store."""

    def __init__(self, store: str, flags: list, parts: contextlib.ExitStack):
        self.store, self.parts = store, parts
        self.flags = [f"--storage={store}", f"--secure-port={servers.free_ports(1)[0]}", *flags]
        if store == "etcd":
            self.flags.append(f"--etcd-servers={parts.enter_context(servers.etcd())}")
        self.data = parts.enter_context(tempfile.TemporaryDirectory(prefix="keepwatch-lag-"))
        self.kills = 0
        self.start()

    def start(self) -> None:
        self.server = self.parts.enter_context(servers.Server(*self.flags, data=self.data))
        self.address = urllib.parse.urlsplit(self.server.url).netloc
        self.tls = ssl.create_default_context(cafile=self.server.ca)

    def kill(self) -> None:
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self.kills += 1
        self.start()

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.address, timeout=REQUEST_SECONDS, context=self.tls)

    def ask(self, connection, method: str, path: str, body=None) -> dict:
        headers = {"Authorization": f"Bearer {servers.ADMIN_TOKEN}", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise OSError(f"{method} {path}: {answer.status} {text[:200]}")
        return json.loads(text)

    def metric(self, name: str) -> float:
        connection = self.connect()
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {servers.ADMIN_TOKEN}"})
        lines = connection.getresponse().read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


class Changes:
    """The writes, in order. A change's number is its place."""

    def __init__(self, version: int):
        self.first_version = version
        self.versions, self.names, self.bands, self.times = [], [], [], []
        self.grown = threading.Condition()
        self.is_over = False

    def add(self, version: int, name: str, band: str) -> None:
        with self.grown:
            self.versions.append(version)
            self.names.append(name)
            self.bands.append(band)
            self.times.append(time.monotonic())
            self.grown.notify_all()

    def await_number(self, number: int) -> None:
        """Waits until the writer knows of a change that a watcher has seen already."""
        with self.grown:
            if not self.grown.wait_for(lambda: len(self.versions) > number, PATIENCE_SECONDS):
                raise AssertionError(f"change {number} was never written")

    def version_after(self, number: int) -> int:
        return self.versions[number] if number >= 0 else self.first_version

    def behind_bytes(self, number: int) -> float:
        """The size of the changes after this one."""
        return (len(self.versions) - number - 1) * sum(OBJECT_BYTES) / len(OBJECT_BYTES)

    def behind_seconds(self, number: int) -> float:
        """The age of the first change after this one."""
        return time.monotonic() - self.times[number + 1] if number + 1 < len(self.times) else 0.0


class Writer(threading.Thread):
    """Changes one object after another, so often a second, until the time is over and a watcher was late enough.

    Writes that were in flight when a server was killed are looked up.
    """

    def __init__(self, cluster: Cluster, changes: Changes, rate: float, seconds: float):
        super().__init__(daemon=True)
        self.cluster, self.changes, self.rate, self.seconds = cluster, changes, rate, seconds
        self.fault = ""
        # On a busy machine there are fewer changes, and watchers fall behind more slowly.
        self.is_late_enough = threading.Event()

    def run(self) -> None:
        try:
            self.write()
        except Exception as error:  # noqa: BLE001: reported at the end
            self.fault = repr(error)
        self.changes.is_over = True

    def write(self) -> None:
        began, connection = time.monotonic(), self.cluster.connect()
        number = 0
        while (now := time.monotonic() - began) < self.seconds + (0 if self.is_late_enough.is_set() else PATIENCE_SECONDS):
            if (early := number / self.rate - now) > 0:
                time.sleep(early)
            name, band, mark = f"lag-{number % OBJECTS}", "ab"[number * 7 // 3 % 2], f"s{number:09d}e"
            patch = {"metadata": {"annotations": {"number": mark}, "labels": {"band": band}}}
            while True:
                try:
                    written = self.cluster.ask(connection, "PATCH", f"{MAPS}/{name}", patch)
                    break
                except (OSError, http.client.HTTPException):
                    time.sleep(0.2)
                    connection = self.cluster.connect()
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        written = self.cluster.ask(connection, "GET", f"{MAPS}/{name}")
                        if written["metadata"].get("annotations", {}).get("number") == mark:
                            break
                if time.monotonic() - began > self.seconds + 2 * PATIENCE_SECONDS:
                    raise AssertionError(f"change {number} cannot be written")
            self.changes.add(int(written["metadata"]["resourceVersion"]), name, band)
            number += 1


class Expired(Exception):
    pass


class Watcher(threading.Thread):
    """Reads a watch in some manner. `at` is the number of the last change that it saw."""

    manner = "reads all the time"
    accept = "application/json"
    query = ""

    def __init__(self, cluster: Cluster, changes: Changes, options):
        super().__init__(daemon=True)
        self.cluster, self.changes, self.options = cluster, changes, options
        self.at, self.tail = -1, b""
        self.resumed = self.expired = 0
        self.furthest_behind, self.fault = 0, ""
        self.rested = self.connected = time.monotonic()

    def run(self) -> None:
        deadline = None
        try:
            while not self.is_done():
                if self.changes.is_over:
                    deadline = deadline or time.monotonic() + PATIENCE_SECONDS
                    if time.monotonic() > deadline:
                        raise AssertionError(f"it never heard of change {self.at + 1}")
                try:
                    self.follow()
                except Expired:
                    self.miss()
                except (OSError, http.client.HTTPException):
                    time.sleep(0.2)
                self.resumed += 1
        except AssertionError as fault:
            self.fault = str(fault)

    def is_done(self) -> bool:
        return self.changes.is_over and self.at >= len(self.changes.versions) - 1

    def position(self) -> int:
        return self.changes.version_after(self.at)

    def follow(self) -> None:
        connection = self.cluster.connect()
        path = f"{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={self.position()}{self.query}"
        self.tail = b""
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {servers.ADMIN_TOKEN}",
                                                     "Accept": self.accept})
            answer = connection.getresponse()
            self.connected = time.monotonic()
            if answer.status == 410:
                raise Expired()
            if answer.status != 200:
                raise OSError(f"{answer.status}")
            while not self.is_done() and self.rest():
                connection.sock.settimeout(2)
                try:
                    data = answer.read1(1 << 16)
                except TimeoutError:
                    # http.client does not read on after a timeout.
                    return
                if not data:
                    return
                self.take(data)
        finally:
            connection.close()

    def rest(self) -> bool:
        """Does what it does between reads. Whether the connection is still wanted."""
        return True

    def lag(self) -> None:
        self.furthest_behind = max(self.furthest_behind, len(self.changes.versions) - 1 - self.at)

    def take(self, data: bytes) -> None:
        data = self.tail + data
        if b'"type":"ERROR"' in data or b"\n\x05ERROR" in data:
            if b'"code":410' not in data and b"too old resource version" not in data:
                raise AssertionError(f"it got an error: {data[-500:]}")
            raise Expired()
        end = 0
        for match in NUMBER.finditer(data):
            number, end = int(match[1]), match.end()
            if number != self.at + 1:
                raise AssertionError(f"after change {self.at} it heard of {number}")
            self.at = number
        self.changes.await_number(self.at)
        self.tail = data[end:][-16:]

    def miss(self) -> None:
        behind = self.changes.behind_seconds(self.at)
        is_served = time.monotonic() - self.connected > behind
        is_kept = self.changes.behind_bytes(self.at) < KEPT_BYTES_MAX[self.cluster.store]
        if is_kept and behind < PROMISED_SECONDS * (2 if is_served else 1):
            raise AssertionError(f"it was {behind:.0f} s behind after change {self.at}, and heard that this is too old")
        self.expired += 1
        self.at = len(self.changes.versions) - 1


class Stalled(Watcher):
    manner = "does not read for a while, again and again"

    def rest(self) -> bool:
        if not self.changes.is_over and time.monotonic() - self.rested > 2:
            time.sleep(self.options.stall)
            self.lag()
            self.rested = time.monotonic()
        return True


class StalledTable(Stalled):
    manner, accept = "the same, as a table", TABLE


class StalledMetadata(Stalled):
    manner, accept = "the same, metadata only", METADATA


class StalledProtobuf(Stalled):
    manner, accept = "the same, as Protobuf", PROTOBUF


class Away(Watcher):
    manner = "leaves, and comes back after a while"

    def rest(self) -> bool:
        if not self.changes.is_over and time.monotonic() - self.rested > 2:
            return False
        return True

    def follow(self) -> None:
        if not self.changes.is_over and time.monotonic() - self.rested > 2:
            time.sleep(self.options.stall)
            self.lag()
            self.rested = time.monotonic()
        super().follow()


class Slow(Watcher):
    manner = "reads a tenth of what is written"

    def take(self, data: bytes) -> None:
        super().take(data)
        self.lag()
        if not self.changes.is_over:
            mean = sum(OBJECT_BYTES) / len(OBJECT_BYTES)
            time.sleep(len(data) / (mean * self.options.rate / 10))


class Selective(Away):
    """Sees the objects of one band come, change and go."""

    manner = "the same, with a label selector"
    query = "&labelSelector=band%3Da"

    def __init__(self, *args):
        super().__init__(*args)
        self.band_of, self.version = {}, self.changes.first_version

    def position(self) -> int:
        return self.version

    def is_done(self) -> bool:
        if not self.changes.is_over:
            return False
        # The later changes are not for it.
        return next(self.due(), None) is None

    def due(self):
        """The changes that it has yet to receive: the number and the type of the event."""
        band_of = dict(self.band_of)
        for number in range(self.at + 1, len(self.changes.versions)):
            name, new = self.changes.names[number], self.changes.bands[number]
            old = band_of.get(name)
            band_of[name] = new
            kind = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get((old == "a", new == "a"))
            if kind:
                yield number, kind

    def take(self, data: bytes) -> None:
        *lines, self.tail = (self.tail + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["type"] == "ERROR":
                if event["object"]["code"] != 410:
                    raise AssertionError(f"it got an error: {event}")
                raise Expired()
            self.version = version = int(event["object"]["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                self.receive(event["type"], version)

    def receive(self, kind: str, version: int) -> None:
        with self.changes.grown:
            self.changes.grown.wait_for(lambda: self.changes.versions and self.changes.versions[-1] >= version,
                                        PATIENCE_SECONDS)
        number, expected = next(self.due(), (None, None))
        found = (kind, version)
        if number is None or found != (expected, self.changes.versions[number]):
            raise AssertionError(f"{found} where change {number} was due as {expected}")
        self.advance(number)

    def advance(self, number: int) -> None:
        for passed in range(self.at + 1, number + 1):
            self.band_of[self.changes.names[passed]] = self.changes.bands[passed]
        self.at = number

    def miss(self) -> None:
        super().miss()
        self.band_of = {}
        self.advance(self.at)
        self.band_of = dict(zip(self.changes.names, self.changes.bands))
        self.version = self.changes.version_after(self.at)


KINDS = [Watcher, Stalled, StalledTable, StalledMetadata, StalledProtobuf, Away, Selective, Slow]


def lag(store: str, options) -> list:
    """Runs on one store. Returns a line for everything that went wrong."""
    with contextlib.ExitStack() as parts:
        cluster = Cluster(store, options.flag, parts)
        connection = cluster.connect()
        for number in range(OBJECTS):
            padding = "x" * (OBJECT_BYTES[number % len(OBJECT_BYTES)] - 300)
            body = {"metadata": {"name": f"lag-{number}"}, "data": {"padding": padding}}
            cluster.ask(connection, "POST", MAPS, body)
        version = int(cluster.ask(connection, "GET", f"{MAPS}?limit=1")["metadata"]["resourceVersion"])
        changes = Changes(version)
        writer = Writer(cluster, changes, options.rate, options.seconds)
        watchers = [kind(cluster, changes, options) for kind in KINDS]
        writer.start()
        for watcher in watchers:
            watcher.start()
        reads = 0.0
        killed = time.monotonic()
        while writer.is_alive():
            writer.join(1)
            if reads + cluster.metric("keepwatch_watch_cache_history_reads_total") > 0:
                writer.is_late_enough.set()
            if options.kill and store != "memory" and time.monotonic() - killed > options.kill:
                reads += cluster.metric("keepwatch_watch_cache_history_reads_total")
                cluster.kill()
                killed = time.monotonic()
        for watcher in watchers:
            watcher.join(2 * PATIENCE_SECONDS + options.stall)
        reads += cluster.metric("keepwatch_watch_cache_history_reads_total")
        print(f"-- {store}: {len(changes.versions)} changes, {cluster.kills} kills, {reads:.0f} pages of old history read")
        faults = [f"the writer: {writer.fault}"] if writer.fault else []
        for watcher in watchers:
            fault = watcher.fault or ("it does not end" if watcher.is_alive() else "")
            print(f"  {'FAIL' if fault else 'ok  '} {watcher.manner}: up to {watcher.furthest_behind} changes behind, "
                  f"resumed {watcher.resumed} times, too late {watcher.expired} times {fault}", flush=True)
            if fault:
                faults.append(f"{watcher.manner}: {fault}")
        if reads == 0:
            faults.append("no watcher was so late that the watch cache could not serve it: the run shows nothing")
        if fault := cluster.server.stop():
            faults.append(f"the server: {fault}")
        for fault in faults:
            print(f"FAIL  {store}: {fault}", flush=True)
        return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="*", help="memory, embedded or etcd; all without it")
    parser.add_argument("--seconds", type=float, default=20, help="for how long objects change")
    parser.add_argument("--stall", type=float, default=8, help="for how long watchers stall or are away")
    parser.add_argument("--rate", type=float, default=300, help="how many changes there are in a second")
    parser.add_argument("--kill", type=float, default=8, help="how often the server is killed; 0 for never")
    parser.add_argument("--flag", action="append", help="a flag of the server; a small watch cache without it")
    options = parser.parse_args()
    options.flag = ["--watch-cache-history-bytes=1Mi"] if options.flag is None else options.flag
    stores = options.store or ["memory", "embedded", "etcd"]
    threads, faults = [], {}
    for store in stores:
        threads.append(threading.Thread(target=lambda store=store: faults.update({store: run(store, options)})))
        threads[-1].start()
    for thread in threads:
        thread.join()
    failed = sum(len(faults.get(store, ["lost"])) for store in stores)
    print(f"{max(len(stores) * (len(KINDS) + 2) - failed, 0)} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def run(store: str, options) -> list:
    try:
        return lag(store, options)
    except Exception as error:  # noqa: BLE001: one store's failure is reported with the others' results
        print(f"FAIL  {store}: {error!r}", flush=True)
        return [repr(error)]


if __name__ == "__main__":
    sys.exit(main())
