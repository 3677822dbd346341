"""vote-status itself, as a competitor: both engines, each with one worker."""

import os
import re
import secrets
import subprocess
import threading

from lib import paths, process
from lib.competitor import Competitor, Missing, Running
from lib.control import Control
from lib.peers import run

READY_SECONDS_MAX = 30


class Service(Competitor):
    name = "vote-status"
    title = "vote-status"
    stateful = True
    durable = True
    engine = None

    def __init__(self):
        self.binary = paths.SERVICE_TARGET / "release" / "vote-status"
        # A binary named on the command line is taken as it is.
        self.given = False

    def use(self, binary):
        self.binary, self.given = binary, True

    def build(self, log):
        if not self.given:
            command = ["cargo", "build", "--release", "--locked"]
            run(command, log, cwd=paths.REPOSITORY)
        if not self.binary.exists():
            raise Missing(f"there is no {self.binary}")

    def start(self, label, setup, cpu):
        folder = paths.fresh(label)
        log = folder / "stderr.log"
        key = secrets.token_hex(16)
        started = process.spawn(
            self._command(folder, setup),
            cpu,
            log,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "VOTE_STATUS_CONTROL_KEY": key},
        )
        port, control_port = ports(started, log)
        running = Running(label, port, [started], votes=("control", control_port, key))
        self._fill(running, Control(control_port, key), setup.cooldowns)
        return running

    def _command(self, folder, setup):
        command = [
            self.binary,
            "serve",
            "--workers",
            "1",
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
        ]
        command += ["--data-dir", folder / "data"] if setup.durable else ["--in-memory"]
        return command + (["--engine", self.engine] if self.engine else [])

    def _fill(self, running, control, cooldowns):
        control.put_server(28)
        control.vote(28, "203.0.113.9")
        running.memory_before = running.memory()
        if cooldowns:
            control.load(cooldowns)
        running.memory_after = running.memory()


class SecondEngine(Service):
    name = "may_minihttp"
    title = "vote-status on may_minihttp"
    engine = "may_minihttp"

    def build(self, log):
        super().build(log)
        said = subprocess.run([self.binary, "serve", "--help"], capture_output=True, text=True, check=False)
        if not re.search("possible values:.*may_minihttp", said.stdout):
            raise Missing("this vote-status was built without the second engine")


def ports(started, log):
    """The public and the control port, from the two lines on standard output."""
    ports = {}
    # A reader that blocks is ended by ending the process it reads from.
    watchdog = threading.Timer(READY_SECONDS_MAX, started.kill)
    watchdog.start()
    try:
        while len(ports) < 2:
            line = started.stdout.readline()
            if not line:
                raise process.Failed(f"did not listen: {process.tail(log)}")
            words = line.split()
            if words[:2] == ["listening", "on"]:
                ports[words[3].strip("()")] = int(words[2].rpartition(":")[2])
    finally:
        watchdog.cancel()
    return ports["public"], ports["control"]
