"""The CPU time and the memory of a competitor's processes, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTime:
    """Seconds of one CPU, of all the processes together."""

    user: float
    system: float

    def __sub__(self, earlier):
        return CpuTime(self.user - earlier.user, self.system - earlier.system)


@dataclass(frozen=True)
class Memory:
    """Bytes of all the processes together: RSS counts shared pages once a process, PSS once in all."""

    rss: int
    pss: int


def cpu_time(pids, threads=""):
    """CPU time of the threads whose names begin so. It is read thread by thread: the kernel splits a process's total in
    user and system time by all that the process ever did, and loading its state would count for the answers as well.
    """
    user = system = 0
    for pid in pids:
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            name, _, fields = stat.read_text().rpartition(")")
            if name.partition("(")[2].startswith(threads):
                user += int(fields.split()[11])
                system += int(fields.split()[12])
    return CpuTime(user / _TICKS_PER_SECOND, system / _TICKS_PER_SECOND)


def run_seconds(pids, threads=""):
    """As `cpu_time`, to the nanosecond and in one: for what takes a few ticks."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    chosen = [task for task in tasks if (task / "comm").read_text().startswith(threads)]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in chosen) / 1e9


def waits(pid, threads):
    """The kernel's counts of these threads: seconds in which they were ready and had no CPU, and how often they got
    one."""
    tasks = [task for task in Path(f"/proc/{pid}/task").iterdir() if (task / "comm").read_text().startswith(threads)]
    counted = [(task / "schedstat").read_text().split() for task in tasks]
    return sum(int(waited) for _, waited, _ in counted) / 1e9, sum(int(times) for _, _, times in counted)


def memory(pids):
    rss = pss = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Rss:"):
                rss += int(line.split()[1]) * 1024
            elif line.startswith("Pss:"):
                pss += int(line.split()[1]) * 1024
    return Memory(rss, pss)
