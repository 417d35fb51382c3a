"""The server under test, and an etcd for it: started on free ports with fresh folders, and ended again.

Kept true: a `Server` can be used at once; when its `with` ends, the process and its folder are gone. Its log is shown if it
did not start, panicked, or did not stop on a signal.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR") or "target")
ADMIN_TOKEN = "the-admins-token"
# The groups of ordinary users.
ALICE_TOKEN, MALLORY_TOKEN = "alices-token", "mallorys-token"
# Tokens of two hundred more ordinary users.
MORE_TOKENS = [f"token-of-user-{n}" for n in range(200)]

START_SECONDS = 30
STOP_SECONDS = 30


def keepwatch() -> str:
    """The program: KEEPWATCH_BIN, or else what cargo built last without optimisation."""
    path = os.environ.get("KEEPWATCH_BIN") or os.path.join(TARGET, "debug", "keepwatch")
    if not os.path.exists(path):
        raise SystemExit(f"there is no {path}: build it with `cargo build`, or set KEEPWATCH_BIN")
    return path


class Server:
    """A running `keepwatch serve`, with the given flags added to those that every test needs.

    Its folder is a fresh one, and its own to remove, unless it is given one.
    """

    def __init__(self, *flags: str, data: str = ""):
        self.own_data = not data
        self.data = data or tempfile.mkdtemp(prefix="keepwatch-test-")
        self.kubeconfig = os.path.join(self.data, "admin.kubeconfig")
        self.ca = os.path.join(self.data, "pki", "ca.crt")
        self.log = os.path.join(self.data, "log")
        tokens = os.path.join(self.data, "tokens.csv")
        with open(tokens, "w") as file:
            file.write(f'{ADMIN_TOKEN},admin,1,"system:masters"\n{ALICE_TOKEN},alice,2\n{MALLORY_TOKEN},mallory,3\n')
            file.writelines(f"{token},user-{n},more-{n}\n" for n, token in enumerate(MORE_TOKENS))
        command = [keepwatch(), "serve", "--secure-port=0", f"--data-dir={self.data}", f"--token-auth-file={tokens}", *flags]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.url = self._until_ready()
        except BaseException:
            self._show_log()
            self._remove()
            raise

    def _until_ready(self) -> str:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if ready := re.search(r"^keepwatch is ready at (\S+)", self._log_text(), re.M):
                return ready[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"keepwatch did not start within {START_SECONDS} s")

    def _log_text(self) -> str:
        with open(self.log, errors="replace") as file:
            return file.read()

    def _show_log(self) -> None:
        lines = self._log_text().splitlines()
        # Of a panic, the place and the reason stand first; what follows is its stack.
        shown = [line for n, line in enumerate(lines) if any("panicked at" in near for near in lines[max(n - 1, 0):n + 1])]
        print("the server's log ends with")
        for line in [*shown[:10], *lines[-40:]]:
            print(f"  | {line}", flush=True)

    def stop(self) -> str:
        """Ends it as an administrator would. Returns its fault, or an empty text."""
        fault = ""
        if self.process.poll() is not None:
            fault = f"it ended by itself, with code {self.process.returncode}"
        else:
            self.process.send_signal(signal.SIGTERM)
            try:
                if code := self.process.wait(STOP_SECONDS):
                    fault = f"on SIGTERM it ended with code {code}"
            except subprocess.TimeoutExpired:
                fault = f"on SIGTERM it still ran after {STOP_SECONDS} s"
        if "panicked at" in self._log_text():
            fault = fault or "something in it panicked"
        if fault:
            self._show_log()
        return fault

    def _remove(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self._remove()


@contextlib.contextmanager
def etcd():
    """A running etcd with nothing in it; gives its URL."""
    program = os.environ.get("ETCD_BIN") or shutil.which("etcd")
    if not program:
        raise SystemExit('there is no etcd: eval "$(scripts/fetch-tools)", or set ETCD_BIN')
    data = tempfile.mkdtemp(prefix="keepwatch-test-etcd-")
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    command = [program, f"--data-dir={data}/etcd", "--unsafe-no-fsync", "--log-level=error",
               f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
               f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until_healthy(client, process)
        yield client
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(data, ignore_errors=True)


def until_healthy(url: str, process: subprocess.Popen) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"etcd did not start within {START_SECONDS} s")


def free_ports(count: int) -> list:
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as sockets:
        chosen = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in chosen:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in chosen]
