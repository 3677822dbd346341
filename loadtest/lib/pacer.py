"""pacer.c: answers timed from the instants at which their requests were due."""

import json
import subprocess

from lib import paths, process

CONNECTIONS = 128
_PROGRAM, _LOG = paths.WORK / "pacer", paths.WORK / "pacer.log"


def build():
    paths.WORK.mkdir(parents=True, exist_ok=True)
    process.build(["cc", "-O2", "-Wall", "-Wextra", "-o", _PROGRAM, paths.LOADTEST / "pacer.c"], _LOG)


def priority():
    """The words before a command that give it priority over all else on its CPU; empty if that is not allowed."""
    real_time = ["chrt", "-f", "1"]
    return real_time if process.output([*real_time, "true"]).returncode == 0 else []


def start(port, rate, seconds, cpu, key=None, first=0, prefix=(), connections=CONNECTIONS):
    """Reads at that rate from now on, at 0 as many as are answered; with a key, single votes numbered from `first`."""
    command = [*prefix, _PROGRAM, port, rate, seconds, connections, *([key, first] if key else [])]
    return process.spawn(command, cpu, _LOG, stdout=subprocess.PIPE, text=True)


def finish(started):
    """The figures of what was started: counts, percentiles in µs, and the share of time in which it did not run (`lost`)."""
    said, _ = started.communicate(timeout=120)
    if started.returncode:
        raise process.Failed(f"pacer: {process.tail(_LOG)}")
    found = json.loads(said)
    if found["failed"]:
        raise process.Failed(f"pacer: {found['failed']} of {found['requests']} were not answered 200 or 201")
    return found
