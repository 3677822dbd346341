"""Starts with many live cooldowns: the time until votes are taken, and the memory at its peak. After a kill in the midst of
commits, and after a stop; where an earlier version is given, both in turn.
"""

import statistics
import time
from pathlib import Path

from lib import process, usage, votes
from lib.service import Service

RATE = 2_000
# How long votes come in before the kill.
CASTING_SECONDS = 0.5
SECONDS_MAX, RESIDENT_MIB_MAX, PEAK_MAX, RATIO_MAX = 3, 300, 1.15, 1.1


class Started:
    """One version with a store of its own, filled once."""

    def __init__(self, name, binary, count):
        self.name, self.service = name, Service(binary, f"starts-{name}-{count}")
        for number in votes.SERVERS:
            self.service.control.put_server(number)
        self.service.control.batch(votes.past(count, 0), count, "?mode=record")
        self.cast, self.peaks = 0, []
        self.seconds, self.resident = {"kill": [], "stop": []}, {"kill": [], "stop": []}

    def again(self, how):
        """Ends it, and starts it again."""
        if how == "kill":
            caster = votes.cast_at_rate(self.service, RATE, 100_000_000 + self.cast, process.EVERY_CPU)
            time.sleep(CASTING_SECONDS)
            peak = _peak(self.service)
            self.service.kill()
            process.kill(caster)
            self.cast += 10_000_000
        else:
            process.stop(self.service.process)
        began = time.monotonic()
        self.service.start()
        while not self.service.control.takes_votes():
            time.sleep(0.005)
        self.seconds[how].append(time.monotonic() - began)
        self.resident[how].append(usage.memory([self.service.process.pid]).rss / 2**20)
        if how == "kill":
            # Memory for a store that is written anew after a start counts too.
            time.sleep(1)
            self.peaks.append(_peak(self.service) / peak)


def _peak(service):
    """Bytes of memory that the process has had at most."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def measure(chosen, table):
    for count in sorted({min(count, chosen.cooldowns) for count in (1_000_000, 3_000_000, 10_000_000)}):
        versions = [Started("this", chosen.binary, count)]
        if chosen.baseline:
            versions.append(Started("earlier", chosen.baseline, count))
        for _ in range(chosen.pairs):
            for version in versions:
                for how in ("kill", "stop"):
                    version.again(how)
        _tell(f"{count:,} cooldowns", versions, table, count == chosen.cooldowns)
        for version in versions:
            process.stop(version.service.process)


def _tell(what, versions, table, is_most):
    this, medians = versions[0], {}
    for version in versions:
        for how, seconds in version.seconds.items():
            medians[version.name, how] = took = statistics.median(seconds)
            resident, file = max(version.resident[how]), version.service.store.stat().st_size / 2**20
            said = (f"{took:.2f} s, {min(seconds):.2f} to {max(seconds):.2f}, {resident:,.0f} MiB resident, "
                    f"file {file:,.0f} MiB")
            asked = (f"{SECONDS_MAX} s, {RESIDENT_MIB_MAX} MiB", took <= SECONDS_MAX and resident < RESIDENT_MIB_MAX)
            table.add(f"{what}: start after a {how}, {version.name} version", said,
                      *(asked if is_most and version is this else ()))
    if len(versions) > 1:
        for how in this.seconds:
            ratio = medians["this", how] / medians["earlier", how]
            table.add(f"{what}: start after a {how}, this to the earlier version", f"{ratio:.2f} ×",
                      f"at most {RATIO_MAX} ×", ratio <= RATIO_MAX)
    for version in versions:
        asked = (f"at most {PEAK_MAX} ×", max(version.peaks) <= PEAK_MAX) if version is this else ()
        said = f"{statistics.median(version.peaks):.2f} ×, at most {max(version.peaks):.2f} ×"
        table.add(f"{what}: peak of memory of a start after a kill to that of the run before, {version.name} version", said, *asked)
