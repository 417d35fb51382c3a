#!/usr/bin/env python3
"""Replays recorded answers of a real API server (README.md) against Keepwatch, once for each storage.

  tests/golden/run.py                     every storage
  tests/golden/run.py embedded etcd       some of them
  tests/golden/run.py memory --only list  the rest goes to replay.py

Prints a line "N passed, N failed" for each storage. Ends with code 0 only if nothing failed.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import servers
from compat.cases import Api, Failed

# Scenarios that are not implemented yet.
NOT_BUILT = ["apply", "rbac"]
# Scenarios for a server that no longer has its first version only.
HISTORY_GONE = ["*.expired", "*.too-old", "*.too-old-*"]
# A cache waits for a version to come, pays no heed to a limit where any version will do, and says where a watch ended.
# A server without one, which the recorded one was not, does none of this.
ONLY_CACHED = ["list-page.rv-zero", "list-rv.too-large", "watch-start.future-rv-initial-events",
               "watch-timeout.bookmark-before-end"]


class Way(NamedTuple):
    about: str
    flags: list
    skip: list = HISTORY_GONE
    only: list = []


WAYS = {
    "memory": Way("in memory", ["--storage=memory"]),
    "embedded": Way("in the embedded store", ["--storage=embedded"]),
    "uncached": Way("in memory, without the watch cache", ["--storage=memory", "--watch-cache=false"],
                    skip=HISTORY_GONE + ONLY_CACHED),
    "etcd": Way("in etcd", ["--storage=etcd"]),
    "forgetful": Way("in an embedded store that has dropped its first versions, opened again",
                     ["--storage=embedded", "--history-min-age=1s", "--history-min-events=1"], skip=[], only=HISTORY_GONE),
}

FORGET_SECONDS = 20


def replay(name: str, options: list) -> bool:
    """Replays the scenarios on one server. Returns whether all responses were as recorded."""
    way = WAYS[name]
    print(f"-- {name}: {way.about}", flush=True)
    flags = list(way.flags)
    with contextlib.ExitStack() as parts:
        if name == "etcd":
            flags.append(f"--etcd-servers={parts.enter_context(servers.etcd())}")
        data = ""
        if name == "forgetful":
            data = parts.enter_context(tempfile.TemporaryDirectory(prefix="keepwatch-test-"))
            forget_first_versions(flags, data)
        # The recorded server had no namespace controller beside it.
        server = parts.enter_context(servers.Server(*flags, "--namespace-deletion=false", data=data))
        chosen = [("--skip", pattern) for pattern in NOT_BUILT + way.skip] + [("--only", pattern) for pattern in way.only]
        command = [sys.executable, os.path.join(HERE, "replay.py"), "--server", server.url, "--token", servers.ADMIN_TOKEN,
                   *(arg for pair in chosen for arg in pair), *options]
        fine = subprocess.run(command).returncode == 0
        if fault := server.stop():
            print(f"FAIL  the server: {fault}\n0 passed, 1 failed", flush=True)
            fine = False
        return fine


def forget_first_versions(flags: list, data: str) -> None:
    with servers.Server(*flags, data=data) as server:
        api = Api(server.url, servers.ADMIN_TOKEN)
        maps = "/api/v1/namespaces/default/configmaps"
        end = time.monotonic() + FORGET_SECONDS
        while time.monotonic() < end:
            api("POST", maps, {"metadata": {"generateName": "written-"}})
            try:
                api("GET", f"{maps}?resourceVersion=1&resourceVersionMatch=Exact")
            except Failed:
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"the store still has its first version after {FORGET_SECONDS} s")
        if fault := server.stop():
            raise RuntimeError(f"the server that was to forget: {fault}")


def main(args: list) -> int:
    ways = [arg for arg in args if arg in WAYS]
    options = [arg for arg in args if arg not in WAYS]
    results = [replay(name, options) for name in ways or WAYS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
