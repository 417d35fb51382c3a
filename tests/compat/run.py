#!/usr/bin/env python3
"""Runs real clients against a server of its own, and prepares what they need.

  tests/compat/run.py                          every suite
  tests/compat/run.py kubectl kopf             some of them
  tests/compat/run.py kubectl --only 'apply'   the cases with this in their name

A line for each case, `ok   kubectl: apply merges lists by their keys`; at the end "N passed, N failed", and code 0 only
if nothing failed. Python packages go into a virtual environment and node packages into a folder, both below the target
folder; kubectl comes from KUBECTL_BIN or PATH. The clients in Rust are tests of the keepwatch crate (`kube_rs`).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from typing import Callable, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.dirname(HERE))
import kubectl
import servers
from cases import report

WORK = os.path.join(servers.TARGET, "compat")
PYTHON = os.path.join(WORK, "python", "bin", "python")
NODE = os.path.join(WORK, "node")
SUITE_SECONDS = 300

# The default store, as a user has it; one page on the web may send requests.
FLAGS = ["--cors-allowed-origins=https://console.example.org"]


class Suite(NamedTuple):
    prepare: Callable[[], None]
    command: list


SUITES = {
    "kubectl": Suite(kubectl.program, [sys.executable, os.path.join(HERE, "kubectl.py")]),
    "kubectl-custom": Suite(kubectl.program, [sys.executable, os.path.join(HERE, "kubectl_custom.py")]),
    "python": Suite(lambda: python_packages(), [PYTHON, os.path.join(HERE, "python", "client.py")]),
    "python-custom": Suite(lambda: python_packages(), [PYTHON, os.path.join(HERE, "python", "custom.py")]),
    "kopf": Suite(lambda: python_packages(), [PYTHON, os.path.join(HERE, "python", "kopf_suite.py")]),
    "kopf-custom": Suite(lambda: python_packages(), [PYTHON, os.path.join(HERE, "python", "kopf_custom.py")]),
    "client-node": Suite(lambda: node_packages(), ["node", "informer.js"]),
    "client-node-custom": Suite(lambda: node_packages(), ["node", "custom.js"]),
    "websocket": Suite(lambda: node_packages(), ["node", "websocket.js"]),
    "http2": Suite(lambda: node_packages(), ["node", "http2.js"]),
}


def python_packages() -> None:
    """Installs what requirements.txt asks for, unless it was installed before."""
    wanted = os.path.join(HERE, "python", "requirements.txt")
    have = os.path.join(WORK, "python", "installed.txt")
    if same(wanted, have):
        return
    shutil.rmtree(os.path.dirname(have), ignore_errors=True)
    must([sys.executable, "-m", "venv", os.path.dirname(have)])
    must([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted])
    shutil.copy(wanted, have)


def node_packages() -> None:
    """Copies the suites to where their packages are, and installs those unless they were before."""
    os.makedirs(NODE, exist_ok=True)
    source = os.path.join(HERE, "node")
    have = os.path.join(NODE, "installed.json")
    for name in os.listdir(source):
        shutil.copy(os.path.join(source, name), NODE)
    if same(os.path.join(source, "package-lock.json"), have):
        return
    if not shutil.which("npm"):
        raise SystemExit("there is no npm: install Node.js 20 or newer")
    must(["npm", "ci", "--no-progress", "--loglevel=error"], cwd=NODE)
    shutil.copy(os.path.join(source, "package-lock.json"), have)


def same(one: str, other: str) -> bool:
    if not os.path.exists(other):
        return False
    with open(one) as a, open(other) as b:
        return a.read() == b.read()


def must(command: list, cwd: str = HERE) -> None:
    print("$", *command, flush=True)
    if subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL).returncode != 0:
        raise SystemExit("the clients could not be prepared, see above")


def run(name: str, server: servers.Server, only: str) -> tuple:
    """Runs a suite in a process of its own. Returns how many cases passed and failed."""
    env = {**os.environ, "KEEPWATCH_URL": server.url, "KEEPWATCH_TOKEN": servers.ADMIN_TOKEN, "KEEPWATCH_ONLY": only,
           "KUBECONFIG": server.kubeconfig, "NODE_EXTRA_CA_CERTS": server.ca, "NODE_NO_WARNINGS": "1",
           "KEEPWATCH_DATABASE_YAML": os.path.join(HERE, "database.yaml"),
           "PYTHONPATH": os.pathsep.join([HERE, os.path.dirname(HERE)]), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(SUITES[name].command, cwd=NODE if os.path.isdir(NODE) else HERE, env=env, text=True,
                               errors="replace", start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    watchdog = threading.Timer(SUITE_SECONDS, lambda: os.killpg(process.pid, signal.SIGKILL))
    watchdog.start()
    counts = {"ok": 0, "FAIL": 0}
    for line in process.stdout:
        print(line, end="", flush=True)
        if outcome := re.match(r"(ok|FAIL) ", line):
            counts[outcome[1]] += 1
    code = process.wait()
    watchdog.cancel()
    ran_nothing = not only and not any(counts.values())
    if ran_nothing or code != 0 and not counts["FAIL"]:
        report("FAIL", f"{name}: the suite runs to its end", why=f"it ended with code {code}")
        counts["FAIL"] += 1
    return counts["ok"], counts["FAIL"]


def main(args: list) -> int:
    only = ""
    if "--only" in args:
        at = args.index("--only")
        only = args[at + 1]
        args = args[:at] + args[at + 2:]
    if unknown := [arg for arg in args if arg not in SUITES]:
        raise SystemExit(f"there is no suite {unknown[0]!r}. Suites: {', '.join(SUITES)}")
    names = args or list(SUITES)
    for name in names:
        SUITES[name].prepare()
    with servers.Server(*FLAGS) as server:
        results = [run(name, server, only) for name in names]
        fault = server.stop()
        report("FAIL" if fault else "ok", "server: it survives all this and stops on a signal", why=fault)
    passed, failed = (sum(numbers) for numbers in zip(*results, (0, 1) if fault else (1, 0)))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
