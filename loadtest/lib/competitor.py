"""What every competitor is to the rest of the run, and what a started one can be asked."""

from dataclasses import dataclass, field

from lib import process, usage

PATH = "/api/vote/28/status/203.0.113.7"
# Registered in every competitor that keeps state, and in cooldown from the start.
COOLDOWN_PATH = "/api/vote/28/status/203.0.113.9"


class Missing(Exception):
    """This competitor cannot take part on this machine; the text is the reason for the report."""


@dataclass(frozen=True)
class Setup:
    """The state that a competitor starts with."""

    cooldowns: int = 0
    durable: bool = False


@dataclass
class Running:
    """A started competitor."""

    label: str
    port: int
    processes: list
    # ("control", port, key) or ("redis", port): where the writer of scenario 6 casts votes.
    votes: tuple = ()
    # Bytes of memory before and after the cooldowns were loaded, where they were loaded from outside.
    memory_before: usage.Memory = None
    memory_after: usage.Memory = None
    _pids: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def pids(self):
        """All its processes; the tree is looked up once, since no competitor forks while it is timed."""
        if not self._pids:
            for started in self.processes:
                self._pids.extend(process.descendants(started.pid))
        return self._pids

    def cpu_time(self):
        return usage.cpu_time(self.pids())

    def memory(self):
        return usage.memory(self.pids())

    def alive(self):
        return all(started.poll() is None for started in self.processes)

    def stop(self):
        for started in self.processes:
            process.stop(started)


class Competitor:
    """One thing to measure. `name` is for options and results, `title` for people."""

    name = ""
    title = ""
    # Answers out of a state of its own (scenario 4); keeps votes over a restart (scenario 6).
    stateful = False
    durable = False
    # Several times slower than the rest: a quick run gives it one round.
    slow = False
    # Seconds of load that it gets before it is timed, for compilers that learn while they run.
    warm_up_seconds = 0

    def build(self, log):
        """Makes it ready to start, or raises Missing."""

    def start(self, label, setup, cpu):
        """Starts it on that CPU and returns a Running that listens, or raises Failed."""
        raise NotImplementedError
