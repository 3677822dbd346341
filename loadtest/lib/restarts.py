"""Restarts under load, with listening sockets that a service manager holds: what a client notices.

Four readers ask on a new connection each time, four keep theirs until the service ends it, and one client casts votes.
"""

import sys
import time

from lib import paths, process, votes
from lib.front import Traffic
from lib.service import Service

MANAGER = paths.REPOSITORY / "tests" / "restart" / "util" / "manager.py"
READERS_KEPT = [True] * 4 + [False] * 4
PAUSE_SECONDS = 1
RESTARTS, QUICK_RESTARTS = 100, 2
# On a slow machine a run ends with fewer restarts, and reports it.
RESTARTS_SECONDS_MAX = 240
RECORDED, NEVER = ([(votes.SERVERS[0], ip)] for ip in ("192.0.2.7", "198.51.100.7"))


class Held(Service):
    """A service under a manager that holds its sockets."""

    def start(self):
        self._command = [sys.executable, "-B", MANAGER, *self._command]
        return super().start()

    def restart(self):
        self.process.send_signal(process.signal.SIGHUP)
        self._ports()


def measure(chosen, table):
    for cooldowns in (0, min(chosen.cooldowns, 1_000_000)):
        restart(cooldowns, QUICK_RESTARTS if chosen.quick else RESTARTS, Held(chosen.binary, f"restart-{cooldowns}"), table)


def restart(cooldowns, restarts, service, table):
    for number in votes.SERVERS:
        service.control.put_server(number)
    if cooldowns:
        service.control.batch(votes.past(cooldowns, 0), cooldowns, "?mode=record")
    service.control.vote(*RECORDED[0])
    traffic = Traffic(service, service.key, RECORDED, NEVER, READERS_KEPT)
    began, done = time.monotonic(), 0
    while done < restarts and time.monotonic() - began < RESTARTS_SECONDS_MAX:
        time.sleep(PAUSE_SECONDS)
        service.restart()
        done += 1
    seconds = time.monotonic() - began
    time.sleep(PAUSE_SECONDS)
    traffic.stop()
    what = f"restarts with {cooldowns:,} cooldowns"
    table.add(what, f"{done} in {seconds:.0f} s", str(restarts), done == restarts)
    what = f"{done} {what}"
    said = f"{traffic.reads:,} answers, {traffic.casts:,} votes, longest new connection {traffic.longest * 1e3:.0f} ms"
    table.add(what, said)
    table.expect_none(f"{what}: wrong answers", traffic.wrong)
    table.expect_none(f"{what}: failed reads", traffic.failed)
    table.expect_none(f"{what}: votes that were refused", traffic.refused)
    table.expect_none(f"{what}: votes lost", traffic.forgotten([service]))
    process.stop(service.process)
