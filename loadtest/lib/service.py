"""vote-status: started, stopped, and started again on the same ports and the same data."""

import os
import secrets
import subprocess
import threading
import time

from lib import paths, process
from lib.control import Control

READY_SECONDS_MAX = 30


class Service:
    """One vote-status with files of its own. `more` are further words for `serve`."""

    def __init__(self, binary, name, more=(), cpus=process.EVERY_CPU, key=None, in_memory=False):
        self.folder, self.key = paths.fresh(name), key or secrets.token_hex(16)
        self.store, self._log, self._cpus = self.folder / "data" / "votes.redb", self.folder / "stderr.log", cpus
        store = ["--in-memory"] if in_memory else ["--data-dir", self.folder / "data"]
        self._command = [binary, "serve", *store, *more]
        self.port = self.control_port = 0
        self.ready_seconds = self.start()

    def start(self):
        """Seconds until it was ready. It keeps its ports over a restart."""
        listen = ["--listen", f"127.0.0.1:{self.port}", "--control", f"127.0.0.1:{self.control_port}"]
        environment = {**os.environ, "VOTE_STATUS_CONTROL_KEY": self.key}
        began = time.monotonic()
        self.process = process.spawn(
            self._command + listen, self._cpus, self._log, stdout=subprocess.PIPE, text=True, env=environment
        )
        ports = self._ports()
        self.port, self.control_port = ports["public"], ports["control"]
        self.control = Control(self.control_port, self.key)
        return time.monotonic() - began

    def _ports(self):
        """Out of the lines `listening on ADDRESS:PORT (public)` and `(control)` on standard output."""
        found = {}
        # Reading a line has no time limit. Killing a service that never prints its listeners ends the read.
        watchdog = threading.Timer(READY_SECONDS_MAX, self.process.kill)
        watchdog.start()
        try:
            while len(found) < 2:
                words = self.process.stdout.readline().split()
                if not words:
                    raise process.Failed(f"did not listen: {process.tail(self._log)}")
                if words[:2] == ["listening", "on"]:
                    found[words[3].strip("()")] = int(words[2].rpartition(":")[2])
        finally:
            watchdog.cancel()
        return found

    def kill(self):
        process.kill(self.process)


def init_store(binary, url):
    """Makes an empty Redis a store."""
    done = process.output([binary, "cluster", "init", "--store", url])
    if done.returncode:
        raise process.Failed(f"cluster init: {done.stderr}")
