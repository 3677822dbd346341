"""Starts and stops the programs of a run: pinned to CPUs, logged to files, stopped by their own ids."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from lib import paths

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10
# The CPUs at the start, as a scenario may take some from this process.
_CPUS = sorted(os.sched_getaffinity(0))
EVERY_CPU = ",".join(map(str, _CPUS))
# Every process that this run has started, so that none outlives it.
_STARTED = []
# The next port in the search for a free one. These ports are below those that the kernel gives to outgoing
# connections, so a server that was killed finds its own port free when it is started again.
_next_port = 12_000 + os.getpid() % 1_000 * 20


class Failed(Exception):
    """A program did not start, answered wrong, or died; the text is for the report."""


class Missing(Exception):
    """A competitor cannot take part on this machine; the text is the reason for the report."""


def run_command(main):
    """Runs `main`, and stops all programs that it started, even if a signal ends it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        stop_since(0)
        paths.sweep()


def raise_descriptor_limit():
    """Takes as many descriptors as the system allows; every program started from here inherits them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptors():
    """How many this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def cpus():
    """(the server's CPU, the load generator's CPU): the first two that this process may use."""
    return _CPUS[0], _CPUS[1 if len(_CPUS) > 1 else 0]


@contextlib.contextmanager
def only_cpu(cpu):
    """Inside, this process has one CPU."""
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, _CPUS)


def free_port():
    """A port that was free a moment ago, for servers that cannot say which one they took."""
    global _next_port
    while True:
        _next_port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", _next_port))
                return _next_port
            except OSError:
                continue


def spawn(command, cpus, log, **more):
    """Starts `command` on these CPUs; what it prints goes to the file `log`, unless `stdout` is given."""
    with open(log, "ab") as output:
        more = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **more}
        started = subprocess.Popen(["taskset", "-c", str(cpus), *map(str, command)], **more)
    _STARTED.append(started)
    return started


def build(command, log, **more):
    """Runs a build command into the log, or raises Missing with its last lines."""
    with open(log, "ab") as output:
        done = subprocess.run(list(map(str, command)), stdout=output, stderr=output, check=False, **more)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command[:3]))} failed: {tail(log)}")


def output(command, **more):
    """A finished program: its status, and what it printed as text."""
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)


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


def wait_for_port(process, port, log):
    """Returns once the process accepts connections there."""

    def accepts():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    wait_until(process, accepts, log)


def started_count():
    return len(_STARTED)


def stop_since(count):
    """Stops what was started after `started_count()` gave that count; 0 stops everything."""
    for started in _STARTED[count:]:
        stop(started)


def stop(process):
    """SIGTERM, then SIGKILL after a while. A killed master cannot end its children, so they are killed as well."""
    if process.poll() is not None:
        return
    children = descendants(process.pid)[1:]
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        kill(process)
        for pid in children:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass  # it went with its master


def kill(process):
    process.kill()
    process.wait()


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
