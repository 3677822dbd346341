"""Votes as NDJSON, each for an address of its own; and a process that casts them at a steady rate:

    python3 -m lib.votes CONTROL_PORT KEY VOTES_A_SECOND FIRST
"""

import itertools
import sys
import time

from lib import paths, process
from lib.control import Control

SERVERS = range(28, 78)
LINES_PER_BLOCK = 2_000
STEP_SECONDS = 0.01
RECORDED = 'vote_status_votes_total{outcome="recorded"}'


def line(nth, more=""):
    ip = f"{11 + nth // 16777216 % 90}.{nth // 65536 % 256}.{nth // 256 % 256}.{nth % 256}"
    return f'{{"server_id":{SERVERS[nth % len(SERVERS)]},"ip":"{ip}"{more}}}\n'


def past(count, first, voted_at=None):
    """Blocks of so many votes that were cast then, or all over the last hour."""
    now = int(time.time())
    lines = (line(nth, f',"voted_at":{voted_at or now - nth * 7919 % 3600}') for nth in range(first, first + count))
    while block := "".join(itertools.islice(lines, LINES_PER_BLOCK)):
        yield block.encode()


def cast_at_rate(service, rate, first, cpus):
    """A process that casts at that rate until it is stopped; returned once its votes come in."""
    command = [sys.executable, "-B", "-m", "lib.votes", service.control_port, service.key, rate, first]
    log = paths.RUN / "votes.log"
    before = service.control.metric(RECORDED)
    started = process.spawn(command, cpus, log, cwd=paths.LOADTEST)
    process.wait_until(started, lambda: service.control.metric(RECORDED) > before + rate / 10, log)
    return started


def _endless(rate, first):
    """Blocks of the votes that are due, in steps of 10 ms."""
    began, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        if due > sent:
            yield "".join(map(line, range(first + sent, first + due))).encode()
        sent = due
        time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    PORT, KEY, RATE, FIRST = sys.argv[1:]
    Control(int(PORT), KEY).batch(_endless(int(RATE), int(FIRST)), count=0, mode="?mode=cast")
