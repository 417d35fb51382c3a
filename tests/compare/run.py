#!/usr/bin/env python3
"""Tests benches/compare, with a program in Keepwatch's place that serves nothing and measures nothing.

Ends with one line, "N passed, N failed", and with exit code 0 only if nothing failed.
"""

import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARE = os.path.join(ROOT, "benches", "compare")
# The time in which anything that must happen has to.
SOON = 60

# A shell that runs the tests in the background sets SIGINT to be ignored, nohup does the same with SIGHUP, and the programs
# started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("compare", COMPARE)
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)

# Writes down its arguments, and the signals that it receives. MODE says how it behaves.
PROGRAM = f"""#!{sys.executable}
import json, os, signal, sys, time

def after(flag):
    return sys.argv[sys.argv.index(flag) + 1]

def note(text):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(text + "\\n")

def received(number, _):
    note(f"{{sys.argv[1]}} received {{signal.Signals(number).name}}")
    if sys.argv[1] == "bench":
        time.sleep(1)  # it deletes what it created
        note("bench cleaned up")
    sys.exit(1)

def wait():
    # Not signal.pause(), which waits for the next signal if one arrives just before it.
    while True:
        time.sleep(0.05)

signal.signal(signal.SIGINT, received)
signal.signal(signal.SIGTERM, received)
mode = os.environ.get("MODE")
if sys.argv[1] == "serve":
    note(f"serve {{os.getpid()}}")
    if mode == "broken":
        sys.exit("\\n".join(f"line {{number}}" for number in range(50)))
    print("is ready", flush=True)
    wait()
if "--compare" in sys.argv:
    note("compared " + " ".join(os.path.basename(word) for word in sys.argv if word.endswith(".json")))
    sys.exit()
note(f"bench {{os.getpid()}} {{after('--name')}}")
if mode == "endless":
    wait()
with open(after("--json"), "w") as results:
    json.dump({{"title": after("--name"), "scenarios": [], "timeline": []}}, results)
"""


class Session:
    """A folder with the program, and what benches/compare does there."""

    def __init__(self, test: unittest.TestCase, mode: str = ""):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        test.addCleanup(self.end)
        self.path = lambda name: os.path.join(folder.name, name)
        self.env = {**os.environ, "KEEPWATCH_BIN": self.path("program"), "NOTES": self.path("notes"), "MODE": mode,
                    "CARGO_TARGET_DIR": self.path("target")}
        open(self.path("notes"), "w").close()
        with open(self.path("program"), "w") as program:
            program.write(PROGRAM)
        os.chmod(self.path("program"), 0o755)

    def start(self, *arguments: str) -> subprocess.Popen:
        # As from a terminal: child processes belong to the same group, unless they are given one of their own.
        return subprocess.Popen([COMPARE, *arguments], env=self.env, text=True, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *arguments: str) -> tuple:
        started = self.start(*arguments)
        said, _ = started.communicate(timeout=SOON)
        return started.returncode, said

    def notes(self) -> list:
        with open(self.path("notes")) as notes:
            return notes.read().splitlines()

    def pids(self) -> list:
        return [int(note.split()[1]) for note in self.notes() if note.split()[1].isdigit()]


    def end(self) -> None:
        """Ends what a failed test left behind."""
        for pid in filter(is_running, self.pids()):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Turns(unittest.TestCase):
    def test_in_each_round_another_server_is_first(self):
        self.assertEqual(compare.turns(3, 4), [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]])
        session = Session(self)
        code, said = session.run("--stores", "memory,embedded", "--rounds", "3", "list")
        self.assertEqual(code, 0, said)
        order = [note.split()[-1] for note in session.notes() if note.startswith("bench")]
        self.assertEqual(order, ["memory", "embedded", "embedded", "memory", "memory", "embedded"])
        self.assertEqual(session.notes()[-1], "compared median-1.json median-2.json")
        self.assertFalse(any(map(is_running, session.pids())))

    def test_the_results_of_a_single_server_are_where_it_says(self):
        session = Session(self)
        _, said = session.run("--stores", "memory", "--rounds", "1")
        file = said.split()[-1]
        with open(file) as results:
            self.assertEqual(json.load(results)["title"], "keepwatch, memory", said)

    def test_servers_of_one_name_are_refused(self):
        session = Session(self)
        for arguments in (["--stores", "memory,memory"],
                          ["--stores", "", "--other", f"a={COMPARE}", "--other", f"a={COMPARE}:1"],
                          ["--stores", "memory", "--other", f"keepwatch, memory={COMPARE}"]):
            code, said = session.run(*arguments)
            self.assertEqual(code, 2, said)
            self.assertRegex(said, "there are 2 servers called '.*'; give each a name of its own")
        self.assertEqual(session.notes(), [])

    def test_other_servers_have_a_kubeconfig_and_perhaps_processes(self):
        config = ["--kubeconfig", COMPARE]
        self.assertEqual(compare.other(f"a={COMPARE}"), ("a", config))
        self.assertEqual(compare.other(f"a b={COMPARE}:1,2"), ("a b", [*config, "--pid", "1,2"]))
        for wrong in ("a", f"={COMPARE}", "a=/nowhere", f"a={COMPARE}:x"):
            self.assertRaises(Exception, compare.other, wrong)


class Endings(unittest.TestCase):
    def test_a_server_that_does_not_start_leaves_its_log(self):
        session = Session(self, "broken")
        code, said = session.run("--stores", "memory")
        self.assertEqual(code, 1)
        self.assertIn("keepwatch, memory ended before it was ready", said)
        self.assertIn("\n  line 30\n", said)
        self.assertTrue(said.endswith("\n  line 49\n") and "line 29" not in said, said)
        self.assertEqual(os.listdir(session.path("target")), ["compare"])
        with open(session.path("target/compare/keepwatch-memory.log")) as log:
            self.assertEqual(len(log.readlines()), 50)

    def interrupted(self, interrupt, nohup=False) -> int:
        session = Session(self, "endless")
        if nohup:
            before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self.addCleanup(signal.signal, signal.SIGHUP, before)
        started = session.start("--stores", "memory", "list")
        began = time.monotonic()
        while len(session.notes()) < 2:
            self.assertLess(time.monotonic() - began, SOON)
            time.sleep(0.05)
        interrupt(started.pid)
        said, _ = started.communicate(timeout=SOON)
        # The server receives its signal only when the bench is done with it.
        self.assertEqual(session.notes()[2:], ["bench received SIGINT", "bench cleaned up", "serve received SIGTERM"], said)
        self.assertFalse(any(map(is_running, session.pids())))
        self.assertEqual(os.listdir(session.path("target")), ["compare"])
        self.assertNotIn("Traceback", said)
        return started.returncode

    def test_ctrl_c_on_a_terminal_ends_all_in_order(self):
        self.assertEqual(self.interrupted(lambda pid: os.killpg(pid, signal.SIGINT)), 130)

    def test_a_signal_to_it_alone_ends_all_in_order(self):
        self.assertEqual(self.interrupted(lambda pid: os.kill(pid, signal.SIGTERM)), 143)

    def test_who_was_told_not_to_mind_goes_on_without_a_terminal(self):
        def interrupt(pid):
            os.kill(pid, signal.SIGHUP)
            time.sleep(0.5)
            os.kill(pid, signal.SIGTERM)

        self.assertEqual(self.interrupted(lambda pid: os.kill(pid, signal.SIGHUP)), 129)
        self.assertEqual(self.interrupted(interrupt, nohup=True), 143)


def result(row: dict, faults: int = 0) -> dict:
    row = {"name": "list", "count": 1, "failed": 0, "latency": None, "figures": [], **row}
    check = {"claim": "all is well", "checked": 5, "faults": faults, "first_fault": "so it was" if faults else None}
    scenario = {"name": "list", "began_ms": 1, "ended_ms": 9, "rows": [row], "checks": [check]}
    return {"title": "a", "scenarios": [scenario], "timeline": [{"at_ms": 1}]}


def combined_row(*rows: dict) -> dict:
    return compare.combined([result(row) for row in rows])["scenarios"][0]["rows"][0]


class Medians(unittest.TestCase):
    def test_numbers_become_medians(self):
        row = combined_row({"count": 1, "seconds": 1.0}, {"count": 9, "seconds": 3.0}, {"count": 4, "seconds": 8.0})
        self.assertEqual((row["count"], row["seconds"]), (4, 3.0))

    def test_values_that_a_round_lacks_come_from_the_others(self):
        row = combined_row({"cpu_micros_each": None}, {"cpu_micros_each": 2.0}, {"cpu_micros_each": 6.0})
        self.assertEqual(row["cpu_micros_each"], 4.0)
        row = combined_row({"memory": None}, {"memory": {"after_bytes": 7}}, {"memory": None})
        self.assertEqual(row["memory"], {"after_bytes": 7})
        self.assertIsNone(combined_row({"memory": None}, {"memory": None})["memory"])

    def test_figures_are_known_by_their_names(self):
        row = combined_row({"figures": [{"name": "b", "value": 1.0}]},
                           {"figures": [{"name": "a", "value": 5.0}, {"name": "b", "value": 3.0}]})
        self.assertEqual(row["figures"], [{"name": "b", "value": 2.0}, {"name": "a", "value": 5.0}])

    def test_curves_are_medians_too_wherever_their_points_are(self):
        curves = [[[0.5, 10], [1.0, 40]], [[0.4, 1], [0.6, 20], [1.0, 60]], [[0.5, 30], [0.9, 40], [1.0, 50]]]
        row = combined_row(*({"latency": {"curve": curve}} for curve in curves))
        self.assertEqual(row["latency"]["curve"], [[0.5, 20], [1.0, 50]])

    def test_faults_of_all_rounds_count(self):
        whole = compare.combined([result({"failed": 1}), result({"failed": 2}, faults=3), result({})])
        scenario = whole["scenarios"][0]
        self.assertEqual(scenario["rows"][0]["failed"], 3)
        self.assertEqual(scenario["checks"][0],
                         {"claim": "all is well", "checked": 15, "faults": 3, "first_fault": "so it was"})

    def test_rounds_that_did_other_things_are_not_mixed(self):
        short = result({})
        short["scenarios"][0]["rows"] = []
        with self.assertRaisesRegex(SystemExit, "a was not measured to the end in every round"):
            compare.combined([result({}), short])


if __name__ == "__main__":
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    found = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    bad = len(found.failures) + len(found.errors)
    print(f"{found.testsRun - bad} passed, {bad} failed", flush=True)
    sys.exit(1 if bad else 0)
