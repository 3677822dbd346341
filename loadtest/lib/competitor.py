"""The interface of a competitor to the rest of the run, and that of a started one."""

from dataclasses import dataclass
from functools import cached_property

from lib import process, usage

PATH = "/api/vote/28/status/203.0.113.7"
# Registered in every competitor that keeps state, and in cooldown from the start.
COOLDOWN_PATH = "/api/vote/28/status/203.0.113.9"


@dataclass(frozen=True)
class Setup:
    """The state that a competitor starts with."""

    cooldowns: int = 0
    durable: bool = False


@dataclass
class Running:
    """A started competitor."""

    port: int
    processes: list
    # Opens a connection for votes: returns a function that casts one for an address of server 28.
    open_caster: callable = None
    # Where it is vote-status: opens a connection to its control listener.
    open_control: callable = None
    # Its memory before and after the cooldowns were loaded.
    memory_before: usage.Memory = None
    memory_loaded: usage.Memory = None
    # Given by the fleet: the label in this group, and the Competitor that it is.
    label: str = ""
    competitor: object = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def pids(self):
        """All its processes; looked up once, since no competitor forks while it is timed."""
        return [pid for started in self.processes for pid in process.descendants(started.pid)]

    def cpu_time(self):
        return usage.cpu_time(self.pids)

    def memory(self):
        return usage.memory(self.pids)

    def alive(self):
        return all(started.poll() is None for started in self.processes)

    def stop(self):
        for started in self.processes:
            process.stop(started)


class Competitor:
    """One thing to measure. `name` is for options and results, `title` for people."""

    name = ""
    title = ""
    # Answers out of a state of its own (`spread`); keeps votes over a restart (`votes-beside`).
    stateful = False
    durable = False
    # Several times slower than the rest: a quick run gives it one round.
    slow = False

    def build(self, log):
        """Makes it ready to start, or raises Missing."""

    def start(self, label, setup, cpu):
        """Starts it on that CPU and returns a Running that listens, or raises Failed."""
        raise NotImplementedError
