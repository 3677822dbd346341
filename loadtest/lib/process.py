"""Processes of competitors: started on the server's CPU, stopped by their own ids, nothing else touched."""

import os
import resource
import socket
import subprocess
import time
from pathlib import Path

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10
# Every process started by this run, so that none outlives it.
_STARTED = []


class Failed(Exception):
    """A competitor did not start, answered wrong, or died; the text is for the report."""


def raise_descriptor_limit():
    """Every process inherits as many descriptors as this one may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def cpus():
    """(the server's CPU, the load generator's CPU): the first two that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[1 if len(allowed) > 1 else 0]


def free_port():
    """A port that was free a moment ago, for servers that cannot say which one they took."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def spawn(command, cpu, log, **more):
    """Starts `command` on one CPU; what it prints goes to the file `log`, unless `stdout` is given."""
    pinned = ["taskset", "-c", str(cpu), *map(str, command)]
    with open(log, "ab") as output:
        more.setdefault("stdout", output)
        started = subprocess.Popen(pinned, stdin=subprocess.DEVNULL, stderr=output, **more)
    _STARTED.append(started)
    return started


def tail(log, lines=3):
    """The last lines of a log, on one line, for an error message."""
    text = Path(log).read_text(errors="replace") if Path(log).exists() else ""
    return " | ".join(text.strip().splitlines()[-lines:])


def wait_until(process, ready, log):
    """Returns once `ready()` is true."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not ready():
        if process.poll() is not None:
            raise Failed(f"ended with status {process.returncode}: {tail(log)}")
        if time.monotonic() > deadline:
            raise Failed(f"did not listen within {START_SECONDS_MAX} s: {tail(log)}")
        time.sleep(0.02)


def accepts(port):
    """Does anything accept connections on the port?"""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def started_count():
    return len(_STARTED)


def stop_since(count):
    """Stops what was started after `started_count()` gave that count; 0 stops everything."""
    for started in _STARTED[count:]:
        stop(started)


def stop(process):
    """SIGTERM, then SIGKILL after a while; children of a master go with their master."""
    children = descendants(process.pid)[1:]
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            for pid in children:
                _kill(pid)


def descendants(root):
    """The process and all its living children and grandchildren, itself first."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended between the listing and the reading
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def _kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass  # it went with its master
